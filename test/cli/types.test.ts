import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Outcome, outcomeOf } from "../../cli/command.ts";
import { types } from "../../cli/types.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { type Command, nodeRun, npmTypes, type Settings } from "../support/command.ts";
import { contentTypes } from "../support/content-types.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { JWT_SECRET } from "../support/service.ts";

let database: TestDatabase;
let dataDir: string;
/** The settings of `npm start` for DATABASE_URL. */
let settings: Settings;
beforeAll(async () => {
  database = await createTestDatabase();
  dataDir = await mkdtemp(join(tmpdir(), "content-service-types-"));
  settings = { DATABASE_URL: database.url, JWT_SECRET };
});
afterAll(async () => {
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
  await database.drop();
});

/** `npx content-service types` without its process. */
const run = (given: Settings, ...args: string[]) => outcomeOf(types(args, { DATA_DIR: dataDir, ...given }));

async function runProcess(command: Command): Promise<Outcome> {
  const exitCode = (await command.exited()) as Outcome["exitCode"];
  return { exitCode, stdout: command.stdout, stderr: command.stderr };
}

test("npx content-service types prints only the types of DATABASE_URL", async () => {
  const outcome = await runProcess(npmTypes({ dataDir, settings }));
  expect(outcome).toEqual({ exitCode: 0, stdout: await contentTypes(), stderr: "" });
});

test("--schema selects any schemas of the database", async () => {
  const { exitCode, stdout } = await run(settings, "--schema", "auth_api, auth");
  expect(exitCode).toBe(0);
  expect([...stdout.matchAll(/^ {2}(\w+): \{$/gm)].map(([, name]) => name)).toEqual([
    "__InternalSupabase",
    "auth",
    "auth_api",
    "auth",
    "auth_api",
  ]);
});

test("--help prints the usage", async () => {
  const { exitCode, stdout } = await run({}, "--help");
  expect(exitCode).toBe(0);
  expect(stdout).toContain("npx content-service types > database.types.ts");
});

test.each([
  [
    "an unknown option",
    ["--schemas", "public"],
    {},
    /^Unknown option '--schemas'.*see npx content-service types --help$/,
  ],
  ["an argument", ["public"], {}, /^Unexpected argument 'public'.*see npx content-service types --help$/],
  [
    "an empty name",
    ["--schema", "public,"],
    {},
    /^--schema must be names separated by commas; .*see npx content-service types --help$/,
  ],
  ["an invalid setting", [], { DB_POOL: "many" }, /^DB_POOL must be a whole number.*$/],
])("%s prints one line on stderr and exits with 2", async (_, args, given, line) => {
  const { exitCode, stdout, stderr } = await run(given, ...args);
  expect([exitCode, stdout]).toEqual([2, ""]);
  expect(stderr.trimEnd()).toMatch(line);
});

test("without a running embedded database the command prints what to do and exits with 1", async () => {
  expect(await run({})).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: `no embedded database is running in ${dataDir} (DATA_DIR); start it with npx content-service start, or set DATABASE_URL\n`,
  });
});

test("an unknown schema prints one line and exits with 1", async () => {
  expect(await run(settings, "--schema", "public,sales")).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: "no such schema: sales\n",
  });
});

test("an unreachable database prints one line without its password and exits with 1", async () => {
  const url = `postgres://owner:secret-password@127.0.0.1:${await findFreePort()}/content`;
  const { exitCode, stdout, stderr } = await run({ ...settings, DATABASE_URL: url });
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^cannot use the database: connect ECONNREFUSED 127\.0\.0\.1:\d+\n$/);
});

test.each([
  [1, []],
  [2, ["public"]],
])("the process exits with %d for the arguments %j and prints the same line", async (exitCode, args) => {
  expect(await runProcess(nodeRun("types", { dataDir, args }))).toEqual({ ...(await run({}, ...args)), exitCode });
});
