import { afterAll, beforeAll, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { connected, EMBEDDED, type ForeignServer, startForeignServer } from "../modules/foreign-server.ts";
import type { TestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";

let server: ForeignServer;
let database: TestDatabase;
beforeAll(async () => {
  server = await startForeignServer(undefined, EMBEDDED);
  database = await server.makeDatabase("shop", "create table notes (id int primary key)");
});
afterAll(async () => {
  await database?.drop();
  await server?.cluster.remove();
});

const start = () =>
  startTestService({ MODULES: "auth", AUTH_USER_ID: "uuid" }, database, undefined, undefined, {
    definition: NO_APPLICATION,
  });

test.each([
  ["a superuser", "alter role admin superuser", "alter role admin nosuperuser", "admin is a superuser"],
  [
    "a superuser",
    "alter role authenticated superuser",
    "alter role authenticated nosuperuser",
    "authenticated is a superuser",
  ],
  [
    "the owner of the database",
    "alter database shop owner to admin",
    "alter database shop owner to shop_owner",
    "admin is the owner of the database shop, or the login of DATABASE_URL",
  ],
  [
    "a member of a superuser",
    "create role root superuser; grant root to authenticated",
    "drop role root",
    "authenticated is a member of root, which is a superuser",
  ],
  [
    "a member of the owner, through another role",
    "create role boss; alter database shop owner to boss; create role staff; grant boss to staff; grant staff to admin",
    "alter database shop owner to shop_owner; drop role staff, boss",
    "admin is a member of boss, which is the owner of the database shop, or the login of DATABASE_URL",
  ],
  ["without policies", "alter role anon bypassrls", "alter role anon nobypassrls", "anon bypasses policies"],
])("a start is refused if a role of callers is %s: %s", async (_what, change, undo, message) => {
  const root = await connected(server.cluster.url("shop"));
  try {
    await root.query(change);
    await expect(start()).rejects.toThrow(`the role ${message}: the service uses the role of this name for requests`);
  } finally {
    await root.query(undo);
    await root.end();
  }
});

test("a start with the roles that it makes is not, also if administrators are members of a role that bypasses policies", async () => {
  const root = await connected(server.cluster.url("shop"));
  await root.query("create role support bypassrls");
  await (await start()).service.stop();
  await root.query("grant support to admin");
  await (await start()).service.stop();
  await root.end();
});
