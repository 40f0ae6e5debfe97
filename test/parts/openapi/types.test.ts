import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../../cli/command.ts";
import { types } from "../../../parts/openapi/types.ts";
import { nodeRun, type Settings } from "../../support/command.ts";
import { contentTypes } from "../../support/content-types.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { JWT_SECRET } from "../../support/service.ts";

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
const run = (...args: string[]) => outcomeOf(types(args, { DATA_DIR: dataDir, ...settings }));

test("npx content-service types prints only the types of DATABASE_URL", async () => {
  const command = nodeRun("types", { dataDir, settings });
  expect([await command.exited(), command.stdout, command.stderr]).toEqual([0, await contentTypes(), ""]);
});

test("--schema selects any schemas of the database", async () => {
  const { exitCode, stdout } = await run("--schema", "auth_api, auth");
  expect(exitCode).toBe(0);
  expect([...stdout.matchAll(/^ {2}(\w+): \{$/gm)].map(([, name]) => name)).toEqual([
    "__InternalSupabase",
    "auth",
    "auth_api",
    "auth",
    "auth_api",
  ]);
});

test("an unknown schema prints one line and exits with 1", async () => {
  expect(await run("--schema", "public,sales")).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: "no such schema: sales\n",
  });
});
