import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { npmStart, npmTypes, type Settings } from "../support/command.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { JWT_SECRET } from "../support/service.ts";

let database: TestDatabase;
let dataDir: string;
/** What `npm start` is given for a database of one's own. */
let settings: Settings;
beforeAll(async () => {
  database = await createTestDatabase();
  dataDir = await mkdtemp(join(tmpdir(), "content-service-types-"));
  // The system user of PostgreSQL must get through.
  await chmod(dataDir, 0o711);
  settings = { DATABASE_URL: database.url, JWT_SECRET };
});
afterAll(async () => {
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
  await database.drop();
});

async function run(given: Settings, ...args: string[]) {
  const command = npmTypes({ dataDir, settings: given, args });
  const exitCode = await command.exited();
  return { exitCode, stdout: command.stdout, stderr: command.stderr };
}

/** The committed types of the content schema, without the line that is for the formatter. */
async function contentTypes(): Promise<string> {
  const file = await readFile(new URL("types/content.ts", import.meta.url), "utf8");
  return file.slice(file.indexOf("\n") + 1);
}

test("npm run types prints the types of DATABASE_URL, and nothing else", async () => {
  expect(await run(settings)).toEqual({ exitCode: 0, stdout: await contentTypes(), stderr: "" });
});

test("npm run types prints those of the embedded database while npm start runs", { timeout: 60_000 }, async () => {
  const service = npmStart({ dataDir });
  await service.ready();
  expect(await run({})).toEqual({ exitCode: 0, stdout: await contentTypes(), stderr: "" });
  service.interrupt();
  expect(await service.exited()).toBe(0);
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
