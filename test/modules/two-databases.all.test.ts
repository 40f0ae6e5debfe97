import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { moduleCommand } from "../../cli/module.ts";
import { findLogins } from "../../db/cluster/provision.ts";
import { sendTo } from "../support/resource-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";
import { connected, EMBEDDED, type ForeignServer, startForeignServer } from "./foreign-server.ts";

const SECTION = readFileSync("docs/configuration.md", "utf8").split("### Two databases of one server")[1]!;
const [CLOSE, DROP_LOGINS, DROP_ROLES] = [...SECTION.matchAll(/```sql\n(.*?)```/gs)].map(([, sql]) => sql!);
const NAMES = ["shop", "crm"] as const;
type Name = (typeof NAMES)[number];

const secretOf = (name: Name) => `the secret of ${name}, which has more than 32 bytes`;
const SETTINGS = { MIGRATE: "modules", MODULES: "auth,feed", INSTANCE_ID: "web1" };

describe("docs/configuration.md: two databases of one server", () => {
  let server: ForeignServer;
  const services = new Map<Name, TestService>();
  const of = (name: Name) => services.get(name)!;
  beforeAll(async () => {
    server = await startForeignServer("alter role shop_owner superuser", EMBEDDED);
    const root = await connected(server.cluster.url("postgres"));
    await root.query("create role shop_user; create role crm_user");
    await root.end();
    for (const name of NAMES) {
      const table = `create table public.deals (id integer primary key); insert into deals values (1); grant select on deals to ${name}_user;
        grant usage on schema public to ${name}_user`;
      const database = await server.makeDatabase(name, table);
      const settings = { ...SETTINGS, JWT_SECRET: secretOf(name) };
      services.set(
        name,
        await startTestService(settings, database, undefined, undefined, { definition: NO_APPLICATION }),
      );
    }
    await of("shop").database.owner.query("grant shop_user to authenticated");
    for (const name of NAMES) await of(name).database.owner.query("grant select on public.deals to anon");
  });
  afterAll(async () => {
    for (const service of services.values()) await service.stop();
    await server?.cluster.remove();
  });

  const read = async (name: Name, apikey: string) =>
    (await sendTo(of(name).url, "GET /rest/v1/deals", { headers: { apikey } })).status;
  const login = async (name: Name, database: Name) => {
    const { database: own } = of(name);
    const { logins } = await findLogins(own.owner, own.url, secretOf(name));
    return connected(Object.assign(new URL(logins.data), { pathname: `/${database}` }).href);
  };

  test("a membership holds in both, and what it lets callers do in one", async () => {
    for (const name of NAMES) {
      const client = await login(name, name);
      await client.query("set role authenticated");
      const { rows } = await client.query("select pg_has_role('shop_user', 'usage') as has");
      expect(rows).toEqual([{ has: true }]);
      const reading = client.query("select from public.deals");
      if (name === "shop") expect((await reading).rowCount).toBe(1);
      else await expect(reading).rejects.toThrow("permission denied");
      await client.end();
    }
  });

  test("a key of one is refused by the other, which has another secret", async () => {
    const key = (name: Name) => of(name).service.tokens.issueKey("anon");
    expect(await read("crm", key("shop"))).toBe(401);
    expect(await read("crm", key("crm"))).toBe(200);
  });

  test("a login of one connects to the other until connect is revoked, and the services go on", async () => {
    await (await login("shop", "crm")).end();
    const root = await connected(server.cluster.url("postgres"));
    await root.query(CLOSE!);
    await root.end();
    await expect(login("shop", "crm")).rejects.toThrow("permission denied for database");
    for (const name of NAMES) await (await login(name, name)).end();
  });

  test("instances with the same name have slots of their own", async () => {
    const { owner } = of("shop").database;
    const slots = async () =>
      (await owner.query("select slot_name as name, database from pg_replication_slots order by database desc")).rows;
    const ids = new Map(
      (await owner.query("select datname, oid from pg_database")).rows.map(({ datname, oid }) => [datname, oid]),
    );
    await expect
      .poll(slots, POLL)
      .toEqual(NAMES.map((name) => ({ name: `content_${ids.get(name)}_web1`, database: name })));
  });

  test("module remove keeps the roles that the other database uses, and says so", async () => {
    await of("crm").stop();
    services.delete("crm");
    const url = Object.assign(new URL(of("shop").database.url), { pathname: "/crm" }).href;
    const environment = { ...SETTINGS, JWT_SECRET: secretOf("crm"), DATABASE_URL: url };
    const outcome = await outcomeOf(moduleCommand(["remove", "feed", "auth", "caller", "--yes"], environment));
    expect(outcome.stdout).toMatch(/^ {2}authenticated: /m);
    expect(await read("shop", of("shop").service.tokens.issueKey("anon"))).toBe(200);
  });

  test("a superuser drops the roles of databases that no longer exist, and PostgreSQL refuses those in use", async () => {
    const root = await connected(server.cluster.url("postgres"));
    await expect(root.query(DROP_ROLES!)).rejects.toThrow(
      /^role "\w+" cannot be dropped because some objects depend on it/,
    );
    await of("shop").stop();
    await of("shop").database.owner.end();
    services.delete("shop");
    await root.query("drop database shop with (force)");
    await root.query("drop database crm with (force)");
    await root.query(DROP_LOGINS!.replaceAll("shop_dev", "shop"));
    await root.query(DROP_ROLES!);
    const left = await root.query("select rolname as name from pg_roles where rolname !~ '^pg_' order by name");
    expect(left.rows.map(({ name }) => name)).toEqual([
      "crm_user",
      "postgres",
      "service_role",
      "shop_owner",
      "shop_user",
    ]);
    await root.end();
  });
});
