import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { moduleCommand } from "../../cli/module.ts";
import { user } from "../../cli/user.ts";
import { USER_ID_TYPES } from "../../config/modules.ts";
import { hashCheaply } from "../support/cluster.ts";
import { startTestService } from "../support/service.ts";
import {
  applicationOf,
  blockOf,
  type ForeignServer,
  ROLES,
  SERVERS,
  signInSql,
  startForeignServer,
} from "./foreign-server.ts";

const PASSWORD = "Correct-Horse-7!";

describe.each(SERVERS)("beside the tables of another application on PostgreSQL $version", (version) => {
  let server: ForeignServer;
  beforeAll(async () => {
    server = await startForeignServer(undefined, version);
  });
  afterAll(() => server?.cluster.remove());

  const SETTINGS = { MIGRATE: "modules", MODULES: "auth,tasks,channels", GRAPHQL_MAX_TABLES: "50" };

  test.each(USER_ID_TYPES)(
    "users with %s ids sign in, and the schemas of the application stay byte for byte",
    async (type) => {
      const database = await server.makeDatabase(`shop_${type}`, applicationOf(type));
      const before = await server.dump(database.name);
      const settings = { ...SETTINGS, AUTH_USER_ID: type, INSTANCE_ID: "web1" };
      const { service, url, stop } = await startTestService(settings, database, undefined, undefined, {
        definition: NO_APPLICATION,
      });
      onTestFinished(stop);
      expect(await server.dump(database.name)).toBe(before);

      const { owner } = database;
      await owner.query(signInSql(type));
      const hash = await hashCheaply(PASSWORD);
      for (const name of ["Ada", "Bob"]) {
        const fields = { name, email: `${name.toLowerCase()}@example.com` };
        const { rows } = await owner.query("select auth_api.register($1, null, $2, $2, $3)::text as id", [
          fields,
          name.toLowerCase(),
          hash,
        ]);
        await owner.query("insert into notes values ($1, $2, $3)", [name === "Ada" ? 1 : 2, rows[0].id, `of ${name}`]);
      }

      const send = async (path: string, { body, ...headers }: Record<string, any> = {}) => {
        const json = body && { method: "POST", body: JSON.stringify(body) };
        const response = await fetch(url + path, {
          ...json,
          headers: { "content-type": "application/json", ...headers },
        });
        return { status: response.status, json: (await response.json()) as any };
      };
      const login = await send("/auth/login", { body: { username: "ada", password: PASSWORD } });
      expect(login.status).toBe(200);
      const next = await send("/auth/refresh", { body: { refreshToken: login.json.refreshToken } });
      expect(next.status).toBe(200);
      const authorization = `Bearer ${next.json.accessToken}`;
      const apikey = service.tokens.issueKey("anon");
      await expect
        .poll(async () => (await send("/rest/v1/notes?select=text", { authorization, apikey })).json)
        .toEqual([{ text: "of Ada" }]);
      // Without the feed nothing announces changes of the schema.
      await owner.query("notify pgrst, 'reload schema'");
      const query = "{ notes { edges { node { text } } } }";
      await expect
        .poll(async () => (await send("/graphql", { authorization, body: { query } })).json)
        .toEqual({ data: { notes: { edges: [{ node: { text: "of Ada" } }] } } });
      const key = await send("/auth/keys", { authorization, body: { name: "program" } });
      expect(key.status).toBe(201);
      expect((await send("/rest/v1/notes?select=text", { apikey: key.json.key })).json).toEqual([{ text: "of Ada" }]);

      // A token of this service for an id that no user can have.
      const pair = { refreshToken: "", signedInAt: Date.now() };
      const other = service.tokens.issuePair({ id: "no user", name: "", role: "authenticated", permissions: [] }, pair);
      expect((await send("/rest/v1/notes", { authorization: `Bearer ${other.accessToken}`, apikey })).status).toBe(401);

      // What docs/deployment.md marks with (feed): without this module the service reads no changes.
      const slots = await owner.query("select from pg_replication_slots where database = current_database()");
      expect(slots.rowCount).toBe(0);

      await owner.query("delete from notes; delete from users");
      expect((await owner.query("select from auth_private.accounts")).rowCount).toBe(0);
    },
  );

  test("docs/modules.md: the settings and statements add sign-in beside the tables", async () => {
    const database = await server.makeDatabase("shop_page", applicationOf("uuid"));
    const before = await server.dump(database.name);
    const settings = Object.fromEntries(
      blockOf("ini")
        .trim()
        .split("\n")
        .map((line) => line.split("=")),
    );
    const definition = NO_APPLICATION;
    const { service, url, stop } = await startTestService(settings, database, undefined, undefined, { definition });
    onTestFinished(stop);
    expect(await server.dump(database.name)).toBe(before);
    await database.owner.query(signInSql("uuid"));
    const environment = { ...settings, DATABASE_URL: database.url, JWT_SECRET: "a secret of thirty-two bytes or more" };
    await user(["create", "Ada", "ada@example.com"], environment, () => Readable.from([PASSWORD]));
    await database.owner.query(
      "insert into notes select 1, id, 'of Ada' from users; insert into users values (default, 'b', 'Bob')",
    );
    await database.owner.query("insert into notes select 2, id, 'of Bob' from users where name = 'Bob'");
    const headers = { "content-type": "application/json", apikey: service.tokens.issueKey("anon") };
    const body = JSON.stringify({ username: "ada@example.com", password: PASSWORD });
    const login = await fetch(`${url}/auth/login`, { method: "POST", headers, body });
    const { accessToken } = (await login.json()) as { accessToken: string };
    const read = async () =>
      (await fetch(`${url}/rest/v1/notes`, { headers: { ...headers, authorization: `Bearer ${accessToken}` } })).json();
    await expect.poll(read).toMatchObject([{ id: 1, text: "of Ada" }]);
  });

  test("without a table of users, accounts have new ids", async () => {
    const database = await server.makeDatabase("shop_none", "create table public.things (id integer primary key)");
    const before = await server.dump(database.name);
    const kept = { ...database, drop: async () => {} };
    const service = await startTestService(SETTINGS, kept, undefined, undefined, { definition: NO_APPLICATION });
    const register = "select auth_api.register($1, null, null, null, $2)::text as id";
    const fields = { name: "Ada", email: "ada@example.com" };
    const { rows } = await database.owner.query(register, [fields, await hashCheaply(PASSWORD)]);
    expect(rows[0].id).toMatch(/^[0-9a-f]{8}-/);
    const body = JSON.stringify({ username: "ada@example.com", password: PASSWORD });
    const headers = { "content-type": "application/json" };
    expect((await fetch(`${service.url}/auth/login`, { method: "POST", headers, body })).status).toBe(200);
    await service.stop();

    // The roles that a superuser has made stay, and the logins of the service go.
    const environment = { DATABASE_URL: database.url, JWT_SECRET: "a secret of thirty-two bytes or more", ...SETTINGS };
    const removed = await moduleCommand(["remove", "caller", "auth", "tasks", "channels", "--yes"], environment);
    expect(removed).toBe("Removed: caller auth tasks channels. The next start installs what MODULES names.\n");
    expect(await server.dump(database.name)).toBe(before);
    const { rows: roles } = await database.owner.query(
      "select rolname from pg_roles where rolname = any ($1) or rolname like 'shop\\_none\\_%'",
      [ROLES],
    );
    expect(roles).toHaveLength(ROLES.length);
    await database.drop();
  });

  test("the type of ids is chosen once", async () => {
    const database = await server.makeDatabase("shop_twice", "");
    const start = (type: string) =>
      startTestService({ ...SETTINGS, AUTH_USER_ID: type }, database, undefined, undefined, {
        definition: NO_APPLICATION,
      });
    await (await start("text")).service.stop();
    await expect(start("uuid")).rejects.toThrow(
      "AUTH_USER_ID is uuid, but the ids of users in this database are text: the type was chosen at installation.",
    );
    await database.drop();
  });
});
