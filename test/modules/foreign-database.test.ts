import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { USER_ID_TYPES, type UserIdType } from "../../config/modules.ts";
import { type ScratchCluster, startScratchCluster } from "../../db/cluster/embedded.ts";
import { hashCheaply } from "../support/cluster.ts";
import type { TestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";

const run = promisify(execFile);
const DEBIAN_15 = "/usr/lib/postgresql/15/bin";
const PASSWORD = "Correct-Horse-7!";
const ROLES = ["anon", "authenticated", "admin", "service_role", "auth_owner", "tasks_owner", "changes_owner"];
const SCHEMAS = [
  "content_service",
  "auth",
  "auth_private",
  "auth_api",
  "tasks",
  "graphile_worker",
  "changes",
  "realtime",
];

/** An application of another team: its own users, an extension in another schema, and nothing executable by everyone. */
const APPLICATION = (id: string, next: string) => `
  alter default privileges revoke execute on functions from public;
  create table public.users (id ${id} primary key default ${next}, email text not null unique, name text not null);
  create table public.notes (id integer primary key, owner_id ${id} not null references public.users, text text not null);
  create function public.count_notes() returns bigint language sql stable return (select count(*) from public.notes);
  create index notes_text_idx on public.notes using gin (text ext.gin_trgm_ops);`;

/** What the application adds for sign-in. */
const SIGN_IN = (id: string) => `
  select auth.use_users('public.users');
  create function public.new_user(fields jsonb) returns ${id} language sql security definer set search_path = '' as
    $$ insert into public.users (email, name) values (fields ->> 'email', fields ->> 'name') returning id $$;
  grant usage on schema public to auth_owner;
  grant execute on function public.new_user(jsonb) to auth_owner;
  select auth.use_hook('new_user', 'public.new_user(jsonb)');
  alter table public.notes enable row level security;
  create policy "owners read their notes" on public.notes to authenticated using (owner_id = (select auth.uid()));
  grant select on public.notes to authenticated;`;

const NEXT: Readonly<Record<UserIdType, string>> = {
  uuid: "gen_random_uuid()",
  text: "'user-' || gen_random_uuid()",
  bigint: "nextval('public.ids')",
  integer: "nextval('public.ids')",
};

describe.skipIf(!existsSync(DEBIAN_15))("beside the tables of another application", () => {
  let cluster: ScratchCluster;
  beforeAll(async () => {
    cluster = await startScratchCluster(DEBIAN_15);
    const root = await connected(cluster.url("postgres"));
    for (const role of ROLES) await root.query(`create role ${role}${role === "service_role" ? " bypassrls" : ""}`);
    await root.query("grant authenticated to admin; create role shop_owner login createrole password 'shop'");
    await root.query(`grant ${ROLES.join(", ")} to shop_owner with admin option`);
    await root.end();
  });
  afterAll(() => cluster?.remove());

  async function connected(url: string): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    return client;
  }

  /** A database whose owner is not a superuser, with this SQL. */
  async function makeDatabase(name: string, sql: string): Promise<TestDatabase> {
    const root = await connected(cluster.url("postgres"));
    await root.query(`create database ${name} owner shop_owner`);
    await root.end();
    const superuser = await connected(cluster.url(name));
    await superuser.query(`create schema ext authorization shop_owner; create extension pg_trgm schema ext;
      grant execute on all functions in schema ext to shop_owner; alter schema public owner to shop_owner`);
    await superuser.end();
    const url = Object.assign(new URL(cluster.url(name)), { username: "shop_owner", password: "shop" }).href;
    const owner = await connected(url);
    await owner.query(sql);
    return { name, url, owner, drop: () => owner.end() };
  }

  const dump = async (name: string) => {
    const left = SCHEMAS.flatMap((schema) => ["-N", schema]);
    const args = ["--restrict-key=k", "--no-publications", ...left, cluster.url(name)];
    const { stdout } = await run(`${DEBIAN_15}/pg_dump`, args, { maxBuffer: 100_000_000 });
    return stdout;
  };

  const SETTINGS = { MIGRATE: "modules", MODULES: "auth,tasks,channels", GRAPHQL_MAX_TABLES: "50" };

  test.each(USER_ID_TYPES)(
    "users with %s ids sign in, and the schemas of the application stay byte for byte",
    async (type) => {
      const database = await makeDatabase(
        `shop_${type}`,
        `create sequence public.ids; ${APPLICATION(type, NEXT[type])}`,
      );
      const before = await dump(database.name);
      const settings = { ...SETTINGS, AUTH_USER_ID: type };
      const { service, url, stop } = await startTestService(settings, database, undefined, undefined, {
        definition: NO_APPLICATION,
      });
      onTestFinished(stop);
      expect(await dump(database.name)).toBe(before);

      const { owner } = database;
      await owner.query(SIGN_IN(type));
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

      await owner.query("delete from notes; delete from users");
      expect((await owner.query("select from auth_private.accounts")).rowCount).toBe(0);
    },
  );

  test("without a table of users, accounts have new ids", async () => {
    const database = await makeDatabase("shop_none", "create table public.things (id integer primary key)");
    const service = await startTestService(SETTINGS, database, undefined, undefined, { definition: NO_APPLICATION });
    onTestFinished(service.stop);
    const register = "select auth_api.register($1, null, null, null, $2)::text as id";
    const fields = { name: "Ada", email: "ada@example.com" };
    const { rows } = await database.owner.query(register, [fields, await hashCheaply(PASSWORD)]);
    expect(rows[0].id).toMatch(/^[0-9a-f]{8}-/);
    const body = JSON.stringify({ username: "ada@example.com", password: PASSWORD });
    const headers = { "content-type": "application/json" };
    expect((await fetch(`${service.url}/auth/login`, { method: "POST", headers, body })).status).toBe(200);
  });

  test("the type of ids is chosen once", async () => {
    const database = await makeDatabase("shop_twice", "");
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
