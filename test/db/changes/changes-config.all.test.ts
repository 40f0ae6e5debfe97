import { randomBytes } from "node:crypto";
import pg from "pg";
import pino, { type Logger } from "pino";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { prepareChanges } from "../../../db/changes/changes-config.ts";
import type { TestDatabase } from "../../support/database.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const name = `test_${randomBytes(5).toString("hex")}`;
const login = `${name}_login`;
let root: pg.Client;
let owner: pg.Client;

beforeAll(async () => {
  root = new pg.Client({ connectionString: inject("clusterUrl") });
  await root.connect();
  await root.query(`create database ${name}; `);
  owner = new pg.Client({ connectionString: urlFor("postgres") });
  await owner.connect();
  await owner.query(`create role ${name}_web; create role ${login} login noinherit; grant ${name}_web to ${login};
    create table notes (id int primary key, text text); grant select on notes to ${name}_web`);
});
afterAll(async () => {
  await owner.end();
  await root.query(`drop database ${name} with (force)`);
  await root.query(`drop role ${login}, ${name}_web`);
  await root.end();
});

/** A connection string of this database. */
function urlFor(user: string): string {
  const url = new URL(inject("clusterUrl"));
  url.pathname = `/${name}`;
  if (user !== "postgres") [url.username, url.password] = [user, "password"];
  return url.href;
}

/** A service with MIGRATE=off on this database. */
async function startForeign(settings: Readonly<Record<string, string>> = {}, log?: Logger): Promise<TestService> {
  await owner.query(`alter role ${login} password 'password'`);
  const database: TestDatabase = { name, url: urlFor(login), owner, drop: async () => {} };
  const service = await startTestService({ MIGRATE: "off", DB_ANON_ROLE: `${name}_web`, ...settings }, database, log);
  onTestFinished(() => service.stop());
  return service;
}

const healthOf = async (service: TestService) => (await service.health()).details.changes;

describe("with MIGRATE=off, changes", () => {
  test("are not read by a login that may not replicate: /health says what a DBA can run, and clients learn no names", async () => {
    const service = await startForeign({ API_KEY_REQUIRED: "off" });
    const response = await fetch(`${service.url}/rest/v1/notes`, { headers: { accept: "text/event-stream" } });
    expect([response.status, ((await response.json()) as { message: string }).message]).toEqual([
      400,
      "changes of public.notes cannot be streamed: this service reads no changes of tables, because its database does not allow logical decoding or has no publication (its log and /health name the SQL that helps)",
    ]);
    expect(await healthOf(service)).toEqual({
      state: "unavailable",
      reason: expect.stringContaining(
        `changes cannot be read, because the login ${login} may not replicate, and should not, because it serves requests. A superuser can create another login: create role ${name}_changes login replication`,
      ),
    });
  });

  test("are not read without a publication, which the service does not create, and /health says what a DBA can run", async () => {
    await owner.query(`alter role ${login} replication; grant create on database ${name} to ${login}`);
    expect(await healthOf(await startForeign())).toEqual({
      state: "unavailable",
      reason: expect.stringContaining(
        "a DBA can run: create publication content_changes for table public.notes with (publish_via_partition_root",
      ),
    });
    expect((await owner.query("select from pg_publication")).rowCount).toBe(0);
  });

  test.each<[what: string, publication: string, other?: string]>([
    ["of a DBA", "content_changes"],
    ["of a DBA, and not with that of Supabase", "content_changes", "supabase_realtime"],
    ["of Supabase, if it is the only one", "supabase_realtime"],
  ])("are read with the publication %s", async (_what, publication, other) => {
    await owner.query("create table unpublished (id int primary key)");
    await owner.query(`grant select on unpublished to ${name}_web; create publication ${publication} for table notes`);
    if (other) await owner.query(`create publication ${other} for table unpublished`);
    const service = await startForeign();
    await expect
      .poll(() => healthOf(service))
      .toMatchObject({
        state: "resting",
        slot: { temporary: true },
        publication: {
          name: publication,
          tables: 1,
          refused: { '"public"."unpublished"': expect.stringContaining(`alter publication ${publication} add table`) },
        },
      });
    await owner.query("drop publication if exists content_changes, supabase_realtime; drop table unpublished");
  });

  test("are read with a publication of the login, to which the service adds what callers may read", async () => {
    await owner.query(`create publication content_changes; alter publication content_changes owner to ${login};
      alter table notes owner to ${login}`);
    const service = await startForeign();
    await expect.poll(() => healthOf(service)).toMatchObject({ publication: { name: "content_changes", tables: 1 } });
  });
});

test("without an event trigger, the log and /health say how DDL is noticed, and the SQL in the log does it", async () => {
  const logged: Record<string, any>[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  const service = await startForeign({}, log);
  const schemaChanges = async () => (await service.health()).details.schemaChanges;
  const reason = await schemaChanges();
  expect(reason).toMatch(
    /not announced.*notify pgrst, 'reload schema'.*SIGUSR1.*create an event trigger as a superuser/,
  );
  const { fix } = logged.find(({ msg }) => msg === reason)!;
  await owner.query(fix);
  await owner.query("create table announced (id int primary key)");
  await expect.poll(schemaChanges).toBeUndefined();
  await owner.query("drop event trigger announce_ddl; drop function announce_ddl; drop table announced");
});

test("an owner who may not let the login replicate gets the statement that does", async () => {
  await owner.query(`create role ${name}_owner login password 'password'; alter role ${login} noreplication`);
  onTestFinished(async () => void (await owner.query(`drop role ${name}_owner`)));
  const client = new pg.Client({ connectionString: urlFor(`${name}_owner`) });
  await client.connect();
  expect((await prepareChanges(client, { url: urlFor(login), standbyUrl: "" }, true)).missing).toBe(
    `changes cannot be read, because the login ${login} may not replicate: a superuser can run: alter role "${login}" replication`,
  );
  await client.end();
});

test("a table is published when it is granted to callers, without a restart", async () => {
  const service = await startTestService();
  onTestFinished(() => service.stop());
  await expect.poll(() => healthOf(service)).toMatchObject({ publication: { name: "content_changes" } });
  const published = async () => (await healthOf(service)).publication.tables;
  await expect.poll(published).toBeGreaterThan(0);
  const tables = await published();
  await service.database.owner.query("create table notes (id int primary key)");
  await service.database.owner.query("create table hidden_notes (id int primary key); grant select on notes to anon");
  await expect
    .poll(async () => (await healthOf(service)).publication)
    .toEqual({ name: "content_changes", tables: tables + 1 });
  await service.database.owner.query("revoke select on notes from anon");
  await expect.poll(async () => (await healthOf(service)).publication.tables).toBe(tables);
});
