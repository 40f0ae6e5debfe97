import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { build } from "vite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { example } from "../../parts/development/example.ts";

const run = promisify(execFile);
const readJson = (file: string) => JSON.parse(readFileSync(file, "utf8"));
const NAMES = globSync("*/package.template.json", { cwd: "demo/pages" }).map(dirname).sort();

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "example-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("without a name it lists the examples, each with what it shows", async () => {
  const help = await example([]);
  expect(NAMES.length).toBeGreaterThan(3);
  for (const name of NAMES)
    expect(help).toMatch(
      new RegExp(`^  ${name} +${readJson(`demo/pages/${name}/package.template.json`).description}$`, "m"),
    );
});

test.each(NAMES)("%s is copied with all that it needs: its types are right, and Vite builds it", async (name) => {
  const output = await example([name, folder]);
  expect(output).toContain(`  ${name}/index.html\n`);
  await symlink(resolve("demo/pages/node_modules"), join(folder, "node_modules"));
  await run(process.execPath, [resolve("node_modules/typescript/bin/tsc"), "--noEmit"], { cwd: folder });
  await build({ root: folder, logLevel: "error" });
  expect(existsSync(join(folder, "dist", name, "index.html"))).toBe(true);
});

test.each(NAMES)("%s has the versions of its packages with which it is tested", (name) => {
  const manifest = readJson(`demo/pages/${name}/package.template.json`);
  const named = { ...manifest.dependencies, ...manifest.devDependencies };
  const tested = {
    ...readJson("package.json").devDependencies,
    ...readJson("demo/pages/package.json").devDependencies,
  };
  expect(named).toEqual(Object.fromEntries(Object.keys(named).map((each) => [each, tested[each]])));
});

test.each(NAMES)(
  "%s names the versions of Node that Vite accepts, and its settings work in all of them",
  async (name) => {
    await example([name, folder]);
    const { engines } = readJson(join(folder, "package.json"));
    expect(engines).toEqual(readJson("node_modules/vite/package.json").engines);
    const settings = readFileSync(join(folder, "vite.config.ts"), "utf8");
    // What Node 20 has: globSync, for example, is of Node 22.
    expect([...settings.matchAll(/^import (.*) from "node:(.*)"/gm)].map(([, names, of]) => [names, of])).toEqual([
      ["{ existsSync, readdirSync }", "fs"],
    ]);
  },
);

test("a file that exists is refused, and nothing is written", async () => {
  await writeFile(join(folder, "tsconfig.json"), "{}");
  await expect(example(["plain", folder])).rejects.toThrow(
    /has these files already, and nothing was written: tsconfig.json/,
  );
  expect(globSync("*", { cwd: folder })).toEqual(["tsconfig.json"]);
});
