import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PROJECT } from "../support/command.ts";

const FILE = join(PROJECT, "cli/content-service.ts");

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content service "));
});
afterAll(() => rm(folder, { recursive: true }));

type Outcome = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** A program of Node in an empty folder, without a setting. There, Node would have to compile the sources for each. */
const node = (args: readonly string[], environment = {}, cwd = folder): Promise<Outcome> =>
  promisify(execFile)(process.execPath, args, {
    cwd,
    env: { NODE_COMPILE_CACHE: resolve(PROJECT, process.env.NODE_COMPILE_CACHE!), ...environment },
  }).then(
    (output) => ({ code: 0, ...output }),
    (error) => error,
  );

/** The command as a process. */
const run = (...args: string[]) => node([FILE, ...args]);

/** The command for each list of arguments, all in one process: most of the time of a command is its start. */
async function runAll(lists: readonly (readonly string[])[]): Promise<readonly Outcome[]> {
  const { stdout } = await node([
    "--input-type=module",
    "--eval",
    `const [write, outcomes] = [process.stdout.write.bind(process.stdout), []];
    for (const [i, args] of ${JSON.stringify(lists)}.entries()) {
      const outcome = { stdout: "", stderr: "" };
      for (const name of ["stdout", "stderr"]) process[name].write = (text) => { outcome[name] += text; return true; };
      process.argv = [process.execPath, "content-service", ...args];
      process.exitCode = 0;
      await import(${JSON.stringify(FILE)} + "?" + i);
      outcomes.push({ ...outcome, code: process.exitCode });
    }
    process.exitCode = 0;
    write(JSON.stringify(outcomes));`,
  ]);
  return JSON.parse(stdout);
}

const namesIn = (help: string) => [...help.matchAll(/^ {2}npx content-service (\w+) {2}/gm)].map(([, name]) => name!);

test("--help lists the commands, each of them describes itself and refuses unknown options, and an unknown one is refused with the list", async () => {
  const [help, ...unknown] = await runAll([["--help"], [], ["strat"], ["upgrde"], ["constructor"], ["--port=80"]]);
  expect(help!.code).toBe(0);
  const names = namesIn(help!.stdout);
  expect(names).toEqual(expect.arrayContaining(["start", "migrate", "types", "user", "ready"]));
  const { scripts } = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));
  const used = Object.values<string>(scripts).flatMap((text) => /content-service\.ts (\w+)/.exec(text)?.[1] ?? []);
  expect(used).toContain("start");
  expect(names).toEqual(expect.arrayContaining(used));

  expect(unknown.map(({ code, stdout, stderr }) => [code, stdout, stderr.split("\n")[0]])).toEqual([
    [2, "", "no command was given"],
    [2, "", "unknown command: strat; did you mean start?"],
    [2, "", "unknown command: upgrde; did you mean upgrade?"],
    [2, "", "unknown command: constructor"],
    [2, "", "unknown command: --port=80"],
  ]);
  for (const { stderr } of unknown) expect(namesIn(stderr)).toEqual(names);

  // The start has replaced the process: test/start.all.test.ts shows its help.
  const others = names.filter((name) => name !== "start");
  const helps = others.flatMap((name) => [[name, "--help"] as const, [name, "-h"] as const]);
  expect(await runAll(helps)).toEqual(
    helps.map(([name]) => ({
      ...{ code: 0, stderr: "" },
      stdout: expect.stringMatching(new RegExp(`^[A-Z][a-z]+s [^]+?\\.\\s[^]*npx content-service ${name}\\b`)),
    })),
  );

  // dev hands its arguments on to the service, test to vitest, and migrate to a command of its own.
  const lists = others
    .filter((name) => !["dev", "test", "migrate"].includes(name))
    .map((name) => [name, "--no-such-option"]);
  lists.push(
    ...["apply", "commit", "uncommit", "check", "status"].map((name) => ["migrate", name, "--no-such-option"]),
  );
  const refused = (name: string) =>
    new RegExp(`^Unknown option '--no-such-option'.*; see npx content-service ${name} --help\\n$`);
  expect(await runAll(lists)).toEqual(
    lists.map(([name]) => ({ code: 2, stdout: "", stderr: expect.stringMatching(refused(name!)) })),
  );
});

test.each(["start", "dev"])(
  "%s is refused from node --eval, with which it would begin again and again",
  async (name) => {
    const refused = { code: 2, stderr: `the service does not start from node --eval: run ${FILE}\n` };
    expect(await node(["--eval", `import(${JSON.stringify(FILE)})`, "eval", name])).toMatchObject(refused);
  },
);

test("a process has the exit code and the output of its command", async () => {
  const { version } = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));
  for (const flag of ["--version", "-v"])
    expect(await run(flag)).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
  expect(await run("url")).toMatchObject({
    ...{ code: 1, stdout: "" },
    stderr: expect.stringMatching(/^no embedded database is running in \.data \(DATA_DIR\); /),
  });
  expect(await run("user", "remove", "ada")).toMatchObject({
    ...{ code: 2, stdout: "" },
    stderr: "unknown action remove; see npx content-service user --help\n",
  });
  expect(await run("strat")).toMatchObject({ code: 2, stdout: "" });
});

test.each([
  ["a reader that has left", "--help | true", 0, ""],
  ["a reader that has left", "migrate --help | true", 0, ""],
  ["a full disk", "--help > /dev/full", 1, "cannot write the output: ENOSPC: no space left on device, write\n"],
  [
    "a disk that is full after a part",
    "migrate --help > part",
    1,
    "cannot write the output: EFBIG: file too large, write\n",
  ],
])("for %s, the output of %s has no stack trace, and the exit code is right", async (_output, text, code, stderr) => {
  const [args, target] = text.split(/(?=[|>])/);
  // A file has at most 512 bytes. The reader of a pipe does not wait for the command, whose errors stay on stderr.
  const script = `ulimit -f 1; { "$0" "${FILE}" ${args}; echo $? >&3; } 3>&2 ${target}`;
  const { stdout, stderr: printed } = await promisify(execFile)("sh", ["-c", script, process.execPath], {
    cwd: folder,
    env: {},
  });
  expect([stdout, printed]).toEqual(["", `${stderr}${code}\n`]);
});

test("a command of an application reads its .env, after the environment, and not with SETTINGS_FILE", async () => {
  const below = join(folder, "application/db");
  await mkdir(below, { recursive: true });
  await writeFile(join(folder, "application/content-service.config.ts"), "export default {};\n");
  await writeFile(
    join(folder, "application/.env"),
    "DATABASE_URL=postgres://of-dot-env/shop\nOWN=1\nEMAIL_CONFRIM=off\n",
  );
  await writeFile(join(folder, "production.env"), "DATABASE_URL=postgres://of-settings-file/shop\n");
  const url = async (environment: Record<string, string>) =>
    (await node([FILE, "url"], environment, below)).stdout.replace(/^postgres:\/\/|\/shop\n$/g, "");
  expect([
    await url({}),
    await url({ DATABASE_URL: "postgres://of-the-shell/shop" }),
    await url({ SETTINGS_FILE: join(folder, "production.env") }),
  ]).toEqual(["of-dot-env", "of-the-shell", "of-settings-file"]);
  expect((await node([FILE, "url"], {}, below)).stderr).toBe(
    ".env: EMAIL_CONFRIM is not a setting. Did you mean EMAIL_CONFIRM?\n",
  );
});
