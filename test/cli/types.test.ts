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
/** What `npm start` is given for a database of one's own. */
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

/** `npm run types` without its process. */
const run = (given: Settings, ...args: string[]) => outcomeOf(types(args, { DATA_DIR: dataDir, ...given }));

async function runProcess(command: Command): Promise<Outcome> {
  const exitCode = (await command.exited()) as Outcome["exitCode"];
  return { exitCode, stdout: command.stdout, stderr: command.stderr };
}

test("npm run types prints the types of DATABASE_URL, and nothing else", async () => {
  const outcome = await runProcess(npmTypes({ dataDir, settings }));
  expect(outcome).toEqual({ exitCode: 0, stdout: await contentTypes(), stderr: "" });
});

test("--schema chooses among all schemas of the database", async () => {
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

test("--help tells how to use it", async () => {
  const { exitCode, stdout } = await run({}, "--help");
  expect(exitCode).toBe(0);
  expect(stdout).toContain("npm run -s types > database.types.ts");
});

test.each([
  ["an unknown option", ["--schemas", "public"], {}, /^Unknown option '--schemas'.*--help tells how$/],
  ["an argument", ["public"], {}, /^Unexpected argument 'public'.*--help tells how$/],
  ["an empty name", ["--schema", "public,"], {}, /^--schema takes names with commas in between; .*--help tells how$/],
  ["a setting that is wrong", [], { DB_POOL: "many" }, /^DB_POOL must be a whole number.*$/],
])("%s is one line on stderr and exit code 2", async (_, args, given, line) => {
  const { exitCode, stdout, stderr } = await run(given, ...args);
  expect([exitCode, stdout]).toEqual([2, ""]);
  expect(stderr.trimEnd()).toMatch(line);
});

test("an embedded database that does not run is one line that says what to do, and exit code 1", async () => {
  expect(await run({})).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: `no embedded database is running on ${dataDir}; start it with npm start, or set DATABASE_URL\n`,
  });
});

test("a schema that does not exist is one line, and exit code 1", async () => {
  expect(await run(settings, "--schema", "public,sales")).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: "there is no schema to serve that is named sales\n",
  });
});

test("a database that is down is one line without its password, and exit code 1", async () => {
  const url = `postgres://owner:canary@127.0.0.1:${await findFreePort()}/content`;
  const { exitCode, stdout, stderr } = await run({ ...settings, DATABASE_URL: url });
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^the database can not be read: connect ECONNREFUSED 127\.0\.0\.1:\d+\n$/);
});

test.each([
  [1, []],
  [2, ["public"]],
])("its process ends with %d for %j, with the same line", async (exitCode, args) => {
  expect(await runProcess(nodeRun("types", { dataDir, args }))).toEqual({ ...(await run({}, ...args)), exitCode });
});
