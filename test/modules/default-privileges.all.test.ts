import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { withClient } from "../../db/cluster/client.ts";
import { installModules } from "../../db/cluster/migrate.ts";
import type { TestDatabase } from "../support/database.ts";
import { EMBEDDED, type ForeignServer, startForeignServer } from "./foreign-server.ts";

/** Roles of requests, a role of which they are members, every role, and another one get rights on whatever is new. */
const DEFAULTS = `
  create role shop_member; create role shop_reader; grant shop_member to anon;
  alter default privileges grant execute on functions to anon, authenticated, shop_member;
  alter default privileges grant usage on schemas to anon, shop_reader, public;
  alter default privileges grant all on tables to authenticated with grant option;
  alter default privileges grant select on tables to public, shop_reader;
  alter default privileges grant usage on sequences to shop_member`;

/** What the roles of requests may do with the objects of the modules. */
const RIGHTS = `
  select distinct o.name, g.privilege_type as privilege,
    case g.grantee when 0 then 'public' else pg_get_userbyid(g.grantee) end as role
  from (
    select nspname::text as name, nspname as schema, nspacl as acl from pg_namespace
    union all
    select c.oid::regclass::text, n.nspname, c.relacl from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    union all
    select p.oid::regprocedure::text, n.nspname, p.proacl from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
  ) as o
  cross join lateral aclexplode(o.acl) as g
  where o.schema = any($1) and (g.grantee = 0 or pg_get_userbyid(g.grantee) in ('anon', 'authenticated', 'admin', 'shop_member'))
    and (o.schema <> 'graphile_worker' or o.name = o.schema)
  order by 1, 2, 3`;
const SCHEMAS = [
  ...["content_service", "auth", "auth_private", "auth_api", "tasks", "graphile_worker", "changes", "realtime"],
];
const DEFAULT_ACL =
  "select defaclobjtype, array(select unnest(defaclacl)::text order by 1) from pg_default_acl order by 1";

describe("default privileges of the owner", () => {
  let server: ForeignServer;
  beforeAll(async () => {
    server = await startForeignServer(undefined, EMBEDDED);
  });
  afterAll(() => server.cluster.remove());

  const install = async ({ url }: TestDatabase) =>
    installModules(url, () => {}, { modules: ["auth", "tasks", "feed", "channels"], userId: "uuid" });
  const rightsIn = async ({ owner }: TestDatabase) => (await owner.query(RIGHTS, [SCHEMAS])).rows;

  test("give the roles of requests no rights on what the modules create, and stay as they were", async () => {
    const plain = await server.makeDatabase("plain", "select");
    await install(plain);
    const database = await server.makeDatabase("defaults", DEFAULTS);
    const { rows: before } = await database.owner.query(DEFAULT_ACL);
    expect(before.length).toBe(4);
    await install(database);
    expect(await rightsIn(database)).toEqual(await rightsIn(plain));
    expect((await database.owner.query(DEFAULT_ACL)).rows).toEqual(before);
    const { rows } = await database.owner.query(
      "select has_table_privilege('shop_reader', 'auth_private.accounts', 'select') as reads",
    );
    expect(rows).toEqual([{ reads: true }]);
    await plain.drop();
    await database.drop();
  });

  test("are found for an owner whose name has capitals and spaces", async () => {
    const { cluster } = server;
    await withClient(cluster.url("postgres"), async (client) => {
      await client.query(`create role "Shop Owner" superuser login password 'own'`);
      await client.query('create database "Quoted Shop" owner "Shop Owner"');
    });
    const url = Object.assign(new URL(cluster.url("Quoted Shop")), { username: "Shop Owner", password: "own" }).href;
    await withClient(url, async (owner) => {
      await owner.query("alter default privileges grant select on tables to authenticated");
      await installModules(url, () => {}, { modules: ["auth"], userId: "uuid" });
      const { rows } = await owner.query(
        "select has_table_privilege('authenticated', 'auth_private.accounts', 'select') as reads",
      );
      expect(rows).toEqual([{ reads: false }]);
    });
  });
});
