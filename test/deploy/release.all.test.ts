import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";

describe("npm version", () => {
  const CHART = "deploy/helm/content-service/Chart.yaml";
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "version-"));
    for (const file of ["package.json", "package-lock.json", ".npmrc", "CHANGELOG.md", CHART, "build/version.ts"])
      cpSync(file, join(folder, file));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const read = (file: string) => readFileSync(join(folder, file), "utf8");
  const setVersion = (version: string) =>
    spawnSync("npm", ["version", version], {
      cwd: folder,
      encoding: "utf8",
      env: { ...process.env, PATH: `${join(process.cwd(), "node_modules/.bin")}:${process.env.PATH}` },
    });

  test("writes the number and the date everywhere", () => {
    writeFileSync(join(folder, "CHANGELOG.md"), "# Changelog\n\n## 1.2.0 (unreleased)\n\n## 1.1.0 (2026-01-01)\n");
    expect(setVersion("1.2.0")).toMatchObject({ status: 0 });
    expect(JSON.parse(read("package.json")).version).toBe("1.2.0");
    expect(JSON.parse(read("package-lock.json")).packages[""].version).toBe("1.2.0");
    expect(read(CHART)).toMatch(/^version: 1\.2\.0\nappVersion: "1\.2\.0"$/m);
    const today = new Date().toISOString().slice(0, 10);
    expect(read("CHANGELOG.md")).toBe(`# Changelog\n\n## 1.2.0 (${today})\n\n## 1.1.0 (2026-01-01)\n`);
  });

  test("says what the changelog lacks", () => {
    writeFileSync(join(folder, "CHANGELOG.md"), "# Changelog\n");
    const { status, stderr } = setVersion("1.2.0");
    expect(status).not.toBe(0);
    expect(stderr).toContain("CHANGELOG.md has no line ## 1.2.0 (unreleased). Write it");
  });
});

describe("the workflows", () => {
  const workflows = globSync(".github/workflows/*.yml").map(
    (file) => [file, parse(readFileSync(file, "utf8"))] as const,
  );

  test("run only files that exist, with the least rights", () => {
    expect(workflows).toHaveLength(2);
    for (const [file, { permissions, jobs }] of workflows) {
      expect(permissions, file).toEqual({ contents: "read" });
      const commands = Object.values<any>(jobs).flatMap(({ steps }) => steps.flatMap(({ run = "" }) => run as string));
      const named = commands.flatMap((command) => command.match(/(?<=^|\s)(\.ci|build|deploy)\/[\w./-]+/g) ?? []);
      expect(named.length, file).toBeGreaterThan(0);
      for (const each of named) expect(existsSync(each), `${file}: ${each}`).toBe(true);
      for (const command of commands.filter(Boolean)) execFileSync("bash", ["-n", "-c", command]);
    }
  });

  test("the forms for issues ask for something", () => {
    const forms = globSync(".github/ISSUE_TEMPLATE/{bug,wish}.yml").map((file) => parse(readFileSync(file, "utf8")));
    expect(forms).toHaveLength(2);
    for (const { name, body } of forms) {
      expect(name).toBeTruthy();
      expect(body.some(({ validations }: any) => validations?.required)).toBe(true);
    }
  });
});
