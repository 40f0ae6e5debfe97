import jwt from "jsonwebtoken";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { moduleCommand } from "../../cli/module.ts";
import { describeDatabase } from "../../parts/development/migrations/describe.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import type { TestDatabase } from "../support/database.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { EMBEDDED, type ForeignServer, startForeignServer } from "./foreign-server.ts";
import { ADA, BOB, SUPABASE } from "./supabase.ts";

const definition = NO_APPLICATION;
const SETTINGS = {
  MIGRATE: "modules",
  MODULES: "tasks",
  GRAPHQL_DOCUMENTS: "any",
  API_KEY_REQUIRED: "off",
  TASK_CONCURRENCY: "1",
};

describe("beside the schema auth of Supabase", () => {
  let server: ForeignServer;
  beforeAll(async () => {
    server = await startForeignServer(undefined, EMBEDDED);
  });
  afterAll(() => server?.cluster.remove());

  const start = (database: TestDatabase, settings: Readonly<Record<string, string>>) =>
    startTestService({ ...SETTINGS, ...settings }, { ...database, drop: async () => {} }, undefined, undefined, {
      definition,
    });
  const schemaAuth = async ({ owner }: TestDatabase) =>
    (await describeDatabase(owner)).filter(
      (line) => /^[^:]*\bauth\./.test(line) || /^(schema|grants on schema) auth\b/.test(line),
    );
  const environmentOf = ({ url }: TestDatabase) => ({ ...SETTINGS, DATABASE_URL: url, JWT_SECRET });

  test("the other modules work, and the schema auth and the tables stay as they are", async () => {
    const database = await server.makeDatabase("supabase", SUPABASE);
    onTestFinished(database.drop);
    const before = [await schemaAuth(database), await server.dump(database.name)];
    const { url, gql, stop } = await start(database, {});
    expect([await schemaAuth(database), await server.dump(database.name)]).toEqual(before);

    const token = (sub: string) =>
      jwt.sign({ sub, role: "authenticated", aud: "authenticated" }, JWT_SECRET, { expiresIn: 60 });
    const headersOf = (sub: string) => ({ authorization: `Bearer ${token(sub)}` });
    const query = "{ todos { edges { node { text } } } }";
    expect((await gql(query, { headers: headersOf(ADA) })).data).toEqual({
      todos: { edges: [{ node: { text: "of Ada" } }] },
    });
    const rows = `${url}/rest/v1/todos?select=text`;
    expect(await (await fetch(rows, { headers: headersOf(BOB) })).json()).toEqual([{ text: "of Bob" }]);
    const task = await fetch(`${url}/rest/v1/rpc/add_todo`, {
      method: "POST",
      headers: { ...headersOf(BOB), prefer: "respond-async", "content-type": "application/json" },
      body: JSON.stringify({ text: "later" }),
    });
    expect(task.status).toBe(202);
    const location = new URL(task.headers.get("location")!, url);
    const read = async (sub: string) => (await fetch(location, { headers: headersOf(sub) })).status;
    expect([await read(ADA), await read(BOB)]).toEqual([404, 200]);
    const { rows: owners } = await database.owner.query("select distinct owner from tasks.tasks");
    expect(owners).toEqual([{ owner: BOB }]);
    await expect
      .poll(async () => (await database.owner.query("select user_id, text from public.todos where id = 3")).rows)
      .toEqual([{ user_id: BOB, text: "later" }]);
    await stop();

    const checked = await start(database, { MIGRATE: "check" });
    expect((await checked.gql(query, { headers: headersOf(ADA) })).data).toEqual({
      todos: { edges: [{ node: { text: "of Ada" } }] },
    });
    await checked.stop();
    const environment = environmentOf(database);
    const drift = await outcomeOf(migrationCommand(["check", "--database"], { environment }));
    expect(drift).toMatchObject({ exitCode: 0, stderr: "" });
    const removed = await outcomeOf(moduleCommand(["remove", "caller", "tasks"], environment));
    expect(removed.stdout).toMatch(/ drops tasks, graphile_worker with all data\.$/m);
    await moduleCommand(["remove", "caller", "tasks", "--yes"], environment);
    await database.owner.query("delete from public.todos where id = 3");
    expect([await schemaAuth(database), await server.dump(database.name)]).toEqual(before);
  });

  test("modules that need names of schemas that exist are refused, and nothing is installed", async () => {
    const database = await server.makeDatabase("refused", SUPABASE);
    onTestFinished(database.drop);
    const reason =
      "this database has schemas that are not of this service, with names that its modules need: " +
      "auth (module auth), realtime (module channels). To use the other modules, set MODULES=tasks. " +
      "Users then sign in where they do now. To serve the database unchanged, with the tokens of your own issuer, set MIGRATE=off.";
    const settings = { MODULES: "auth,tasks,channels" };
    await expect(start(database, settings)).rejects.toThrow(reason);
    await expect(start(database, { ...settings, MIGRATE: "check" })).rejects.toThrow(reason);
    expect(
      await outcomeOf(migrationCommand(["status"], { environment: { ...environmentOf(database), ...settings } })),
    ).toEqual({
      exitCode: 1,
      stdout: "",
      stderr: `${reason}\n`,
    });
    await expect(start(database, { MIGRATE: "check" })).rejects.toThrow(
      /^MIGRATE=check changes nothing, and the database is not up to date: the module caller: a start installs it; the module tasks: a start installs it; /,
    );
    await expect(start(database, { AUTH_USER_ID: "bigint" })).rejects.toThrow(
      "AUTH_USER_ID is bigint, but the ids of users in this database are uuid",
    );
    const { rows } = await database.owner.query(
      "select nspname from pg_namespace where nspname in ('content_service', 'tasks', 'auth_private')",
    );
    expect(rows).toEqual([]);
  });

  test.each([
    ["without auth.uid()", "", "a function auth.uid() that returns uuid, bigint, integer, text"],
    [
      "whose auth.uid() has another type",
      "create function auth.uid() returns numeric language sql return 1",
      "a function auth.uid() that returns uuid, bigint, integer, text",
    ],
    [
      "whose auth.uid() reads something else",
      "create function auth.uid() returns uuid language sql return null::uuid",
      "a function auth.uid() that returns the subject of the setting request.jwt.claims",
    ],
    [
      "whose auth.uid() fails",
      "create function auth.uid() returns uuid language sql return (1 / 0)::text::uuid",
      "a function auth.uid() that the owner may call: division by zero",
    ],
  ])("a schema auth %s is refused: policies would not know the caller", async (name, sql, missing) => {
    const database = await server.makeDatabase(`no_caller_${name.length}`, `create schema auth; ${sql}`);
    onTestFinished(database.drop);
    await expect(start(database, {})).rejects.toThrow(
      `this database has a schema auth that is not of this service. The modules can be used beside it if it has ${missing}`,
    );
  });

  test("a first migration that fails takes the modules away again, and leaves the schema auth", async () => {
    const database = await server.makeDatabase("undone", SUPABASE);
    onTestFinished(database.drop);
    const before = await schemaAuth(database);
    const { migrate } = await import("../../db/cluster/migrate.ts");
    const folder = "demo/db/migrations";
    await expect(migrate(database.url, () => {}, { folder, modules: ["tasks"], userId: "" })).rejects.toThrow();
    expect(await schemaAuth(database)).toEqual(before);
    const { rows } = await database.owner.query(
      "select from pg_namespace where nspname in ('content_service', 'tasks')",
    );
    expect(rows).toEqual([]);
  });
});
