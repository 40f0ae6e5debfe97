import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { loadApplication } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { init } from "../../parts/development/init/init.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import { installFile } from "../../parts/development/new-files.ts";
import { PROJECT } from "../support/command.ts";

const MANIFEST = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "init-"));
});
afterAll(() => rm(folder, { recursive: true }));

const run = (...args: string[]) => outcomeOf(init(args));
const readJson = async (file: string) => JSON.parse(await readFile(file, "utf8"));

test("makes an application, and says how to start it", async () => {
  const target = join(folder, "My Notes' app");
  const { exitCode, stdout } = await run(target);
  expect(exitCode).toBe(0);
  const files = (await readdir(target, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
  expect(await readFile(join(target, "db/migrations/fixtures/schema.sql"), "utf8")).toContain("notes/table.sql");
  const names = files.map(({ name, parentPath }) => join(parentPath, name).slice(target.length + 1)).sort();
  expect(names).toEqual(
    expect.arrayContaining([".gitignore", ".npmrc", "README.md", "content-service.config.ts", "package.json"]),
  );
  expect(
    stdout
      .split("\n")
      .flatMap((line) => /^ {2}(\S+)$/.exec(line)?.[1] ?? [])
      .sort(),
  ).toEqual(names);
  // As the reader's shell does.
  const [, command] = /^ {2}(cd .*) && npm install .\/content-service-\S+\.tgz\n {2}npm run dev\n$/m.exec(stdout)!;
  expect(execFileSync("sh", ["-c", `${command} && pwd`], { encoding: "utf8" })).toBe(`${target}\n`);
});

test("a package that is a file is copied into the application", () => {
  expect(installFile("/home/my files/a-1.0.0.tgz", "/home/app")).toBe(
    "cp '/home/my files/a-1.0.0.tgz' . && npm install ./a-1.0.0.tgz",
  );
  expect(installFile("/home/app/a-1.0.0.tgz", "/home/app")).toBe("npm install ./a-1.0.0.tgz");
});

test("--bare makes only configuration, packages and an empty database, whose migrations agree", async () => {
  const target = join(folder, "bare");
  const { exitCode, stdout } = await run("--bare", target);
  expect([exitCode, stdout.match(/^ {2}\S+$/gm)!.map((line) => line.trim())]).toEqual([
    0,
    [
      "content-service.config.ts",
      "db/migrations/committed/000001-public.sql",
      "db/migrations/current.sql",
      "db/schema/schema.sql",
      "vitest.config.ts",
      "db/schema/public.sql",
      ".gitignore",
      ".npmrc",
      "package.json",
      "pnpm-workspace.yaml",
      "tsconfig.json",
    ],
  ]);
  await mkdir(join(target, "node_modules"));
  await symlink(PROJECT, join(target, "node_modules/content-service"));
  expect(Object.keys((await loadApplication(target)).config)).toEqual([]);
  expect(await migrationCommand(["check"], { environment: { APPLICATION: target } })).toMatch(
    /^schema\/ and migrations\/ create the same database/m,
  );
});

test("its packages are those with which this version is tested", async () => {
  await run(join(folder, "packages"));
  const made = await readJson(join(folder, "packages/package.json"));
  expect(made).toMatchObject({ name: "packages", dependencies: { "content-service": MANIFEST.version } });
  const tested = { ...MANIFEST.dependencies, ...MANIFEST.devDependencies };
  for (const [name, version] of Object.entries(made.devDependencies))
    expect([name, version]).toEqual([name, tested[name]]);
  const pnpm = parse(await readFile(join(folder, "packages/pnpm-workspace.yaml"), "utf8"));
  expect(Object.keys(made.allowScripts).sort()).toEqual(Object.keys(MANIFEST.allowScripts).sort());
  expect(pnpm.allowBuilds).toEqual(made.allowScripts);
  expect(Object.keys(pnpm.overrides)).toEqual(["grafserv>ruru"]);
});

test.each([
  ["My Notes", "my-notes"],
  [".hidden", "hidden"],
  ["Ünïcode", "n-code"],
  ["日本", "application"],
])("the folder %s is the package %s", async (name, expected) => {
  await run(join(folder, name));
  expect((await readJson(join(folder, name, "package.json"))).name).toBe(expected);
});

test("overwrites nothing, and says what is in the way", async () => {
  const target = join(folder, "existing");
  await mkdir(join(target, "routes"), { recursive: true });
  await writeFile(join(target, "notes.md"), "mine");
  await writeFile(join(target, "README.md"), "mine");
  expect(await run(target)).toMatchObject({
    exitCode: 1,
    stderr: `${target} has these files already, and nothing was written: README.md\n`,
  });
  expect((await readdir(target)).sort()).toEqual(["README.md", "notes.md", "routes"]);
  await rm(join(target, "README.md"));
  expect((await run(target)).exitCode).toBe(0);
  expect(await readFile(join(target, "notes.md"), "utf8")).toBe("mine");
});

test("what a failed command has made is removed, so that it can be repeated", async () => {
  const target = join(folder, "interrupted");
  await mkdir(target);
  await writeFile(join(target, "plugins"), "a file in place of a folder");
  const { exitCode, stderr } = await run(target);
  expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/^cannot write .*interrupted\/plugins\/index.ts: /)]);
  await rm(join(target, "plugins"));
  expect((await run(target)).exitCode).toBe(0);
});

test("a package.json keeps what it has, such as what npm install has written", async () => {
  const target = join(folder, "installed");
  const written = {
    dependencies: { "content-service": "file:../content-service.tgz", left: "1.0.0" },
    scripts: { dev: "mine" },
  };
  await mkdir(target);
  await writeFile(join(target, "package.json"), `\ufeff${JSON.stringify(written)}`);
  expect((await run(target)).exitCode).toBe(0);
  const [made, other] = await Promise.all(
    ["installed", "packages"].map((name) => readJson(join(folder, name, "package.json"))),
  );
  expect(made).toEqual({
    ...other,
    name: "installed",
    dependencies: written.dependencies,
    scripts: { ...other.scripts, dev: "mine" },
  });
});

test.each([
  ['{ "type": "commonjs" }', 'has "type": "commonjs": applications are modules, so set it to "module"'],
  ["null", "is not a JSON object"],
  ["[]", "is not a JSON object"],
])("a package.json with %s is refused, and nothing is written", async (text, reason) => {
  const target = await mkdtemp(join(folder, "refused-"));
  await writeFile(join(target, "package.json"), text);
  expect(await run(target)).toMatchObject({ exitCode: 1, stderr: `${target}/package.json ${reason}\n` });
  expect(await readdir(target)).toEqual(["package.json"]);
});

test("each file of TypeScript and SQL of the template has at most 25 lines, and its configuration loads", async () => {
  const files = (await readdir(join(PROJECT, "template"), { recursive: true })).filter((file) =>
    /^(?!db\/migrations\/).*\.(ts|sql)$/.test(file),
  );
  for (const file of files)
    expect((await readFile(join(PROJECT, "template", file), "utf8")).split("\n").length).toBeLessThanOrEqual(26);
  const { config } = await loadApplication(join(PROJECT, "template"));
  expect(config.routes).toMatchObject([{ path: "/hello" }]);
});
