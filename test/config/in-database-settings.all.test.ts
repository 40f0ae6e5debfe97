import jwt from "jsonwebtoken";
import pino from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Service, startService } from "../../server.ts";
import { ChannelClient } from "../support/channel-socket.ts";
import { readConfig } from "../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const SECRET = "reallyreallyreallyreallyverysafe";
const OTHER_SECRET = "anotherreallyreallyreallyverysafe";

let database: TestDatabase;
/** Roles belong to the whole cluster, so their names are unique. */
let roles: { readonly login: string; readonly anon: string; readonly editor: string };

beforeAll(async () => {
  database = await createTestDatabase();
  const { name, owner } = database;
  roles = { login: `${name}_login`, anon: `${name}_web`, editor: `${name}_editor` };
  const { login, anon, editor } = roles;
  await owner.query(`
    create role ${login} login noinherit password 'secret';
    create role ${anon};
    create role ${editor};
    grant ${anon}, ${editor} to ${login};
    create schema api;
    create schema later;
    create table api.todos (id int primary key);
    insert into api.todos values (1), (2), (3);
    create table later.plans (id int primary key);
    create function api.closed() returns void language plpgsql as 'begin raise insufficient_privilege; end';
    create function api.path() returns text language sql stable return current_setting('search_path');
    create function later.path() returns text language sql stable return current_setting('search_path');
    create function public.pre_config() returns void language sql as $$
      select set_config('pgrst.db_max_rows', '3', true), set_config('pgrst.db_aggregates_enabled', 'true', true),
        set_config('pgrst.jwt_aud', 'shop', true)
    $$;
    create function public.no_config() returns void language plpgsql as 'begin raise exception ''it fails''; end';
    grant usage on schema api, later to ${anon}, ${editor};
    grant select on all tables in schema api, later to ${anon}, ${editor};
    grant usage on schema public to ${login};
    grant execute on function public.pre_config(), public.no_config() to ${login};
    grant execute on function api.closed(), api.path(), later.path() to ${anon}, ${editor};`);
});

afterAll(async () => {
  for (const role of Object.values(roles)) await database.owner.query(`drop owned by ${role}; drop role ${role}`);
  await database.drop();
});

afterEach(async () => {
  await database.owner.query(
    `alter role ${roles.login} reset all; alter role ${roles.login} in database ${database.name} reset all`,
  );
});

/** Sets the settings of the login: `{ db_max_rows: "1" }`. */
async function set(settings: Readonly<Record<string, string>>, where = ""): Promise<void> {
  for (const [name, value] of Object.entries(settings))
    await database.owner.query(
      `alter role ${roles.login} ${where} set pgrst.${name} = ${database.owner.escapeLiteral(value)}`,
    );
}

type Started = {
  readonly service: Service;
  readonly errors: string[];
  get(path: string, claims?: object, secret?: string): Promise<any>;
};

/** The service on the database; `get` returns the body, or the status and code of an error. */
async function start(settings: Readonly<Record<string, string>> = {}): Promise<Started> {
  const url = new URL(database.url);
  url.username = roles.login;
  url.password = "secret";
  const errors: string[] = [];
  const write = (line: string) => void errors.push(JSON.parse(line).err?.message ?? JSON.parse(line).msg);
  const config = readConfig({
    PGRST_DB_URI: url.href,
    PGRST_DB_SCHEMAS: "later",
    PGRST_DB_ANON_ROLE: roles.anon,
    PGRST_JWT_SECRET: SECRET,
    PGRST_SERVER_HOST: "127.0.0.1",
    PGRST_SERVER_PORT: "0",
    ...settings,
  });
  const service = await startService(config, pino({ level: "warn" }, { write }), { defersGraphQL: true });
  onTestFinished(() => service.stop());
  return {
    service,
    errors,
    async get(path, claims, secret = SECRET) {
      const token = claims && jwt.sign(claims, secret, { noTimestamp: true });
      const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
      const response = await fetch(`${service.url}/rest/v1/${path}`, { headers });
      const body = (await response.json()) as any;
      return response.ok ? body : `${response.status} ${body.code}`;
    },
  };
}

const reload = () => database.owner.query("notify pgrst, 'reload config'");
const rowsOf = async ({ get }: Started) => (await get("todos?select=id")).length;

describe("at start, settings in the database", () => {
  test("override those of the environment", async () => {
    await set({ db_schemas: "api", db_max_rows: "2", jwt_role_claim_key: ".app.role" });
    const started = await start({ PGRST_DB_MAX_ROWS: "1", DB_SCHEMAS: "later" });
    expect(await rowsOf(started)).toBe(2);
    expect(await started.get("todos?select=id&limit=1", { app: { role: roles.editor } })).toEqual([{ id: 1 }]);
    expect(await started.get("plans")).toBe("404 PGRST205");
  });

  test("of the role in this database take precedence over those of the role, and these over those of the pre-config function", async () => {
    await set({ db_schemas: "api", db_max_rows: "2", jwt_aud: "" });
    await set({ db_max_rows: "1" }, `in database ${database.name}`);
    const started = await start({ PGRST_DB_PRE_CONFIG: "pre_config" });
    expect(await rowsOf(started)).toBe(1);
    expect(await started.get("todos?select=count()")).toEqual([{ count: 3 }]);
    expect(await started.get("todos?limit=0", { role: roles.editor })).toEqual([]);
  });

  test("may name the function of PGRST_DB_PRE_CONFIG", async () => {
    await set({ db_schemas: "api", db_pre_config: "public.pre_config" });
    expect(await rowsOf(await start())).toBe(3);
    expect(await (await start()).get("todos", { role: roles.editor })).toBe("401 PGRST303");
  });

  test("of other roles and databases are not read", async () => {
    await database.owner.query(`alter role ${roles.anon} set pgrst.db_max_rows = '1'`);
    await database.owner.query(`alter database ${database.name} set pgrst.db_max_rows = '1'`);
    expect(await rowsOf(await start({ PGRST_DB_SCHEMAS: "api" }))).toBe(3);
    await database.owner.query(`alter role ${roles.anon} reset all; alter database ${database.name} reset all`);
  });

  test("are not read with PGRST_DB_CONFIG=false", async () => {
    await set({ db_max_rows: "1" });
    expect(await rowsOf(await start({ PGRST_DB_SCHEMAS: "api", PGRST_DB_CONFIG: "false" }))).toBe(3);
  });

  test("that have no effect are listed in one warning", async () => {
    await set({ db_schemas: "api", openapi_security_active: "true", db_pool: "3", server_port: "1" });
    const { errors } = await start();
    expect(errors.filter((text) => text.includes("settings"))).toEqual([
      "these settings in the database have no effect",
    ]);
  });

  test.each([
    [{ db_max_rows: "many" }, 'pgrst.db_max_rows must be a whole number (is "many")'],
    [{ jwt_secret: "short" }, "pgrst.jwt_secret must have at least 32 bytes"],
    [{ jwt_secret: "@/etc/passwd" }, "pgrst.jwt_secret must be the secret itself, not the name of a file"],
    [{ jwt_role_claim_key: "$.[" }, /^pgrst.jwt_role_claim_key must be a valid JSONPath/],
    [
      { db_schemas: "missing" },
      "pgrst.db_schemas, a setting in the database, names schemas that do not exist: missing",
    ],
    [{ db_pre_config: "missing" }, /^pgrst.db_pre_config: function missing\(\) does not exist/],
    [{ db_pre_config: "no_config" }, "pgrst.db_pre_config: it fails"],
  ])("that are invalid stop it: %j", async (settings, message) => {
    await set(settings);
    await expect(start()).rejects.toThrow(message);
  });
});

describe("after notify pgrst, 'reload config', settings in the database", () => {
  test("apply to the table interface", async () => {
    await set({ db_schemas: "api" });
    const started = await start();
    expect(await rowsOf(started)).toBe(3);
    await set({ db_max_rows: "2" });
    await reload();
    await expect.poll(() => rowsOf(started)).toBe(2);
    await database.owner.query(`alter role ${roles.login} reset pgrst.db_max_rows`);
    await reload();
    await expect.poll(() => rowsOf(started)).toBe(3);
  });

  test("may serve other schemas, over GraphQL too", async () => {
    const started = await start();
    const gql = async (query: string) => {
      const response = await fetch(`${started.service.url}/graphql?query=${encodeURIComponent(query)}`);
      return ((await response.json()) as any).data;
    };
    const fields = async () => {
      const data = await gql("{ __schema { queryType { fields { name } } } }");
      return data?.__schema.queryType.fields.map(({ name }: { name: string }) => name) ?? [];
    };
    const paths = async () => [await started.get("rpc/path"), (await gql("{ path }"))?.path];
    expect(await fields()).toContain("plans");
    expect(await paths()).toEqual(['"later", "public"', '"later", "public"']);
    await set({ db_schemas: "api", db_extra_search_path: "extra, public" });
    await reload();
    await expect.poll(() => rowsOf(started)).toBe(3);
    expect(await started.get("plans")).toBe("404 PGRST205");
    await expect.poll(fields).toContain("todos");
    expect(await fields()).not.toContain("plans");
    expect(await paths()).toEqual(['"api", "extra", "public"', '"api", "extra", "public"']);
  });

  test("may replace the secret and the anonymous role", async () => {
    await set({ db_schemas: "api" });
    const started = await start();
    const claims = { role: roles.editor };
    expect(await started.get("todos?limit=0", claims)).toEqual([]);
    await set({ jwt_secret: OTHER_SECRET, db_anon_role: roles.editor });
    await reload();
    await expect.poll(() => started.get("todos?limit=0", claims)).toBe("401 PGRST301");
    expect(await started.get("todos?limit=0", claims, OTHER_SECRET)).toEqual([]);
    await database.owner.query(`revoke select on api.todos from ${roles.anon}`);
    expect(await started.get("todos?limit=0")).toEqual([]);
    await database.owner.query(`grant select on api.todos to ${roles.anon}`);
  });

  test("may set and remove DB_PRE_REQUEST, for channels too", async () => {
    await set({ db_schemas: "api" });
    const started = await start();
    const read = () => started.get("todos?limit=0");
    const join = async () => {
      const channel = await new ChannelClient({ ...started, url: started.service.url } as never, "127.0.0.1").open();
      return (await channel.ask("t", "phx_join")).status;
    };
    expect([await read(), await join()]).toEqual([[], "ok"]);
    await set({ db_pre_request: "closed" });
    await reload();
    await expect.poll(read).toBe("401 42501");
    expect(await join()).toBe("error");
    await database.owner.query(`alter role ${roles.login} reset pgrst.db_pre_request`);
    await reload();
    await expect.poll(read).toEqual([]);
    expect(await join()).toBe("ok");
  });

  test("may change the origins of CORS", async () => {
    await set({ db_schemas: "api" });
    const { service } = await start();
    const allowed = async () => {
      const response = await fetch(`${service.url}/rest/v1/todos`, { headers: { origin: "https://app.example" } });
      return response.headers.get("access-control-allow-origin");
    };
    expect(await allowed()).toBe("*");
    await set({ server_cors_allowed_origins: "https://app.example" });
    await reload();
    await expect.poll(allowed).toBe("https://app.example");
  });

  test("that are invalid are reported in the log, and the previous ones stay", async () => {
    await set({ db_schemas: "api", db_max_rows: "2" });
    const started = await start();
    await set({ db_max_rows: "many" });
    await reload();
    await expect.poll(() => started.errors).toContain('pgrst.db_max_rows must be a whole number (is "many")');
    expect(await rowsOf(started)).toBe(2);
  });
});
