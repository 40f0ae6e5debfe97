import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PROJECT } from "../support/command.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content service "));
});
afterAll(() => rm(folder, { recursive: true }));

/** The command, in an empty folder and with no setting. There, Node would have to compile the sources for each command. */
const run = (...args: string[]) => runIn(folder, {}, ...args);

const runIn = (
  cwd: string,
  environment: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<{ code: number; stdout: string; stderr: string }> =>
  promisify(execFile)(process.execPath, [join(PROJECT, "cli/content-service.ts"), ...args], {
    cwd,
    env: { NODE_COMPILE_CACHE: resolve(PROJECT, process.env.NODE_COMPILE_CACHE!), ...environment },
  }).then(
    (output) => ({ code: 0, ...output }),
    (error) => error,
  );

const namesIn = (help: string) => [...help.matchAll(/^ {2}npx content-service (\w+) {2}/gm)].map(([, name]) => name!);

test("--help lists the commands, and each of them describes itself", async () => {
  const { code, stdout } = await run("--help");
  expect(code).toBe(0);
  const names = namesIn(stdout);
  expect(names).toEqual(expect.arrayContaining(["start", "migrate", "types", "user", "ready"]));
  const described = { code: 0, stderr: "", stdout: expect.any(String) };
  for (const name of names) {
    const help = await run(name, "--help");
    expect([name, help]).toMatchObject([name, described]);
    expect(help.stdout).toContain(`npx content-service ${name}`);
  }
});

test.each(["start", "dev"])(
  "%s is refused from node --eval, with which it would begin again and again",
  async (name) => {
    const file = join(PROJECT, "cli/content-service.ts");
    const code = `import(${JSON.stringify(file)})`;
    const failure = await promisify(execFile)(process.execPath, ["--eval", code, "eval", name]).catch((error) => error);
    expect(failure).toMatchObject({
      code: 2,
      stderr: `the service does not start from node --eval: run ${file}\n`,
    });
  },
);

test("the scripts of package.json are commands", async () => {
  const { scripts } = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));
  const used = Object.values<string>(scripts).flatMap((text) => /content-service\.ts (\w+)/.exec(text)?.[1] ?? []);
  expect(used).toContain("start");
  expect(namesIn((await run("--help")).stdout)).toEqual(expect.arrayContaining(used));
});

test.each([
  [[], "no command was given"],
  [["strat"], "unknown command: strat; did you mean start?"],
  [["upgrde"], "unknown command: upgrde; did you mean upgrade?"],
  [["constructor"], "unknown command: constructor"],
  [["--port=80"], "unknown command: --port=80"],
])("%j is refused with the list of commands and exit code 2", async (args, message) => {
  const { code, stdout, stderr } = await run(...args);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr.split("\n")[0]).toBe(message);
  expect(namesIn(stderr)).toEqual(namesIn((await run("--help")).stdout));
});

test.each([
  [["migrate"], 2, /^expected apply, commit, uncommit, check, status; see npx content-service migrate --help\n$/],
  [["migrate", "aply"], 2, /^expected apply, /],
  [["url", "now"], 2, /^url has no arguments; see npx content-service url --help\n$/],
  [["url"], 1, /^no embedded database is running in \.data \(DATA_DIR\); /],
  [["reset"], 2, /^to delete the database in \.data with all its data, run npx content-service reset --yes\n$/],
  [["reset", "--yes", "now"], 2, /^to delete the database /],
  [["start", "--port=80"], 2, /^--port=80 is not an option /],
  [["types", "--schemas"], 2, /^Unknown option '--schemas'/],
])("%j ends with exit code %i and the reason", async (args, exitCode, reason) => {
  const { code, stdout, stderr } = await run(...args);
  expect([code, stdout, stderr]).toEqual([exitCode, "", expect.stringMatching(reason)]);
});

test("a command of an application reads its .env, after the environment, and not with SETTINGS_FILE", async () => {
  const below = join(folder, "application/db");
  await mkdir(below, { recursive: true });
  await writeFile(join(folder, "application/content-service.config.ts"), "export default {};\n");
  await writeFile(join(folder, "application/.env"), "DATABASE_URL=postgres://of-dot-env/shop\nOWN=1\n");
  await writeFile(join(folder, "production.env"), "DATABASE_URL=postgres://of-settings-file/shop\n");
  const url = async (environment: Record<string, string>) =>
    (await runIn(below, environment, "url")).stdout.replace(/^postgres:\/\/|\/shop\n$/g, "");
  expect([
    await url({}),
    await url({ DATABASE_URL: "postgres://of-the-shell/shop" }),
    await url({ SETTINGS_FILE: join(folder, "production.env") }),
  ]).toEqual(["of-dot-env", "of-the-shell", "of-settings-file"]);
});

test("--version is that of package.json", async () => {
  const { version } = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));
  for (const flag of ["--version", "-v"]) expect(await run(flag)).toMatchObject({ code: 0, stdout: `${version}\n` });
});
