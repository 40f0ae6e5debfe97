import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import { nodeRun } from "../support/command.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { followStream } from "../support/event-stream.ts";
import { expectSharedLimit, hasRedis, startRedis } from "../support/redis.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

async function databaseOf(template?: string): Promise<TestDatabase> {
  const database = await createTestDatabase(undefined, template);
  onTestFinished(() => database.drop());
  return { ...database, drop: async () => {} };
}

/** What a start writes first: both ledgers, settings, and logins with their passwords. */
const written = async ({ owner, name }: TestDatabase) => {
  const read = async (text: string, ...values: unknown[]) => (await owner.query(text, values)).rows;
  return [
    await read("select * from content_service.modules order by module"),
    await read("select * from graphile_migrate.migrations order by filename"),
    await read("select *, xmin::text from auth_private.settings order by name"),
    await read(
      "select rolname, rolpassword from pg_authid where starts_with(rolname, $1) order by rolname",
      `${name}_`,
    ),
  ];
};

test("MIGRATE=check serves a database that is up to date, and changes nothing", async () => {
  const database = await databaseOf();
  await (await startTestService({}, database)).stop();
  const before = await written(database);
  expect(before[3]).toHaveLength(6);
  const service = await startTestService({ MIGRATE: "check" }, database);
  onTestFinished(service.stop);
  expect((await service.gql("{ articles(first: 1) { edges { node { id } } } }")).errors).toBeUndefined();
  expect(await written(database)).toEqual(before);
});

test.runIf(hasRedis)("with MIGRATE=check, an instance shares changes and limits over REDIS_URL", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.kill());
  const database = await databaseOf();
  await database.owner.query("create table notes (title text primary key); grant select on notes to authenticated");
  const settings = { REDIS_URL: redis.url, RATE_LIMIT: "100", TRUST_PROXY: "loopback", API_KEY_REQUIRED: "off" };
  const first = await startTestService(settings, database);
  onTestFinished(first.stop);
  const before = await written(database);
  const checked = await startTestService({ ...settings, MIGRATE: "check" }, database);
  onTestFinished(checked.stop);
  expect(await written(database)).toEqual(before);

  const headers = { authorization: `Bearer ${first.token("ada")}` };
  const all = [first, checked].map(({ url }) => followStream(() => `${url}/rest/v1/notes?select=title`, headers));
  for (const { count } of all) await expect.poll(() => count("snapshot"), POLL).toBe(1);
  await database.owner.query("insert into notes values ('New')");
  for (const { titles } of all) await expect.poll(titles, POLL).toEqual(["New"]);
  const slots = "select slot_name from pg_replication_slots where database = current_database()";
  expect((await database.owner.query(slots)).rows).toEqual([{ slot_name: expect.stringMatching(/^content_\d+_s_/) }]);

  await expectSharedLimit(redis, first, checked);
});

test("MIGRATE=check names modules, migrations and logins that are missing, with exit code 1", async () => {
  const database = await databaseOf("template1");
  const dataDir = await mkdtemp(join(tmpdir(), "migrate-check-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const settings = { DATABASE_URL: database.url, JWT_SECRET, MIGRATE: "check", APPLICATION: "demo" };
  const command = nodeRun("start", { dataDir, settings });
  expect(await command.exited()).toBe(1);
  const [{ level, msg }] = command.logged as [Record<string, string>];
  expect([level, msg]).toEqual([
    "fatal",
    `the service cannot start: MIGRATE=check changes nothing, and the database is not up to date: ${[
      ...["caller", "auth", "tasks", "feed", "channels"].map((name) => `the module ${name}: a start installs it`),
      "the migration 000001-the-demo.sql of the application",
      ...["admin", "auth", "changes", "data", "service", "tasks"].map((kind) => `the login ${database.name}_${kind}`),
    ].join("; ")}. To change it, an instance with MIGRATE=on does all of it`,
  ]);
  const { rows } = await database.owner.query("select nspname from pg_namespace where nspname !~ '^pg_' order by 1");
  expect(rows.map(({ nspname }) => nspname)).toEqual(["information_schema", "public"]);
});

test("what is behind is named by MIGRATE=check and by migrate status", async () => {
  const database = await databaseOf();
  await (await startTestService({}, database)).stop();
  const environment = { DATABASE_URL: database.url, JWT_SECRET, APPLICATION: "demo" };
  const current = await migrationCommand(["status"], { environment });
  expect(current).toMatch(/^module +version +code +next start\ncaller +[\d.]+ +of this version\n/);
  expect(current).toMatch(/\nmigration +state\n000001-the-demo\.sql +applied\n$/);

  await database.owner.query(`
    update content_service.modules set code_hash = 'stale' where module = 'auth';
    delete from content_service.modules where module = 'channels'; drop schema realtime cascade;
    delete from graphile_worker.migrations where id = (select max(id) from graphile_worker.migrations);
    update graphile_migrate.migrations set filename = '999999.sql'`);
  await expect(startTestService({ MIGRATE: "check" }, database)).rejects.toThrow(
    /up to date: the module auth: a start runs its code again; the module channels: a start installs it; the queue of tasks: a start runs \d+\.sql; the migration 000001-the-demo\.sql of the application\. To change it, run npx content-service upgrade --yes$/,
  );
  const behind = await migrationCommand(["status"], { environment });
  expect(behind).toMatch(/^auth +[\d.]+ +of another version +runs its code again$/m);
  expect(behind).toMatch(/^channels +not installed +installs it$/m);
  expect(behind).toMatch(/^The queue of tasks lacks \d+\.sql\.$/m);
  expect(behind).toMatch(/^000001-the-demo\.sql +not applied\n999999\.sql +of a newer version$/m);
});
