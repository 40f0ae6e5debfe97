import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { EventStreamClient } from "../support/event-stream.ts";
import { healthOf, startTestService, type TestService } from "../support/service.ts";
import { startTrackit, type Trackit } from "./trackit.ts";

/** The service on the application, after `change`, and the warnings of its log. */
async function start(change = "", settings: Readonly<Record<string, string>> = {}) {
  const warnings: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => warnings.push(JSON.parse(line).msg) });
  const trackit = await startTrackit(settings, log, change);
  onTestFinished(() => trackit.stop());
  return { trackit, warnings };
}

const changesOf = async ({ service }: Trackit): Promise<any> => (await healthOf(service)).details.changes;

/** Tables that can no longer be deleted from. Postgres checks the replica identity of a table before it looks for rows. */
async function unwritable({ database }: Trackit): Promise<string[]> {
  const { rows } = await database.owner.query(
    `select oid::regclass::text as name from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace`,
  );
  const failed: string[] = [];
  for (const { name } of rows) {
    await database.owner.query(`delete from ${name} where false`).catch(() => failed.push(name));
  }
  return failed;
}

const statementIn = (text: string) => /create publication .*? with \([^)]*\)/.exec(text)![0];

test("everything that is missing for changes is named at once, and the statement makes no write fail", async () => {
  const { trackit, warnings } = await start();
  const { state, reason } = await changesOf(trackit);
  expect(state).toBe("unavailable");
  expect(warnings).toContainEqual(expect.stringContaining(reason));
  expect(reason).toContain("may not replicate");
  const statement = statementIn(reason);
  expect(statement).toContain(" for table public.");
  expect(statement).not.toContain("import_staging");
  expect(reason).toContain(
    "updates and deletes of public.import_staging fail while it is published: alter table public.import_staging replica identity full",
  );
  await trackit.database.owner.query(statement);
  expect(await unwritable(trackit)).toEqual([]);
  await trackit.database.owner.query("alter table import_staging replica identity full");
  await trackit.database.owner.query("alter publication content_changes add table public.import_staging");
  expect(await unwritable(trackit)).toEqual([]);
});

test("a table without a key is never suggested for the publication of a DBA", async () => {
  const { trackit, warnings } = await start(`
    alter role trackit_api replication;
    create publication content_changes for table tasks, plans with (publish_via_partition_root)`);
  await expect.poll(() => changesOf(trackit)).toMatchObject({ publication: { tables: 2 } });
  const { publication } = await changesOf(trackit);
  expect(publication.refused).toMatchObject({
    '"public"."comments"': "a DBA can publish it: alter publication content_changes add table public.comments",
    '"public"."import_staging"':
      "updates and deletes of public.import_staging fail while it is published: alter table public.import_staging replica identity full",
  });
  expect(warnings.join("\n")).not.toContain("add table public.import_staging");
  expect(warnings.join("\n")).toContain("subscribers receive no changes of public.import_staging");
});

test("tables that cannot be written while they are published, and operations that are left out, are named", async () => {
  const { trackit, warnings } = await start(`
    alter role trackit_api replication;
    create publication content_changes for tables in schema public with (publish = 'insert, update')`);
  const failure =
    "updates and deletes of public.import_staging fail while it is published: alter table public.import_staging replica identity full";
  await expect
    .poll(async () => (await changesOf(trackit)).publication)
    .toMatchObject({ failing: { '"public"."import_staging"': failure }, missing: ["DELETE"] });
  expect(warnings).toEqual(
    expect.arrayContaining([failure, "subscribers receive no DELETE: the publication content_changes leaves them out"]),
  );
});

test.each(["all tables", "table parcels"])(
  "a publication for %s that has the partitions of a table gets the table by the statement that is named",
  async (tables) => {
    const { trackit } = await start(`
      alter role trackit_api replication;
      create table parcels (id int primary key) partition by range (id);
      create table first_parcels partition of parcels default;
      grant select on parcels to trackit_user;
      create publication content_changes for ${tables}`);
    const parcels = async () => (await changesOf(trackit)).publication.refused?.['"public"."parcels"'];
    await expect.poll(parcels).toMatch(/^a DBA can publish it: alter publication content_changes /);
    await trackit.database.owner.query((await parcels()).split(": ")[1]);
    await trackit.database.owner.query("notify pgrst, 'reload schema'");
    await expect.poll(parcels).toBe(undefined);
  },
);

test("a table with partitions and no key, whose new partitions could not be written, is left out", async () => {
  const { trackit } = await start(`
    create table readings (at timestamptz not null, value int) partition by range (at);
    create table readings_2026 partition of readings for values from ('2026-01-01') to ('2027-01-01');
    alter table readings_2026 replica identity full;
    grant select on readings to trackit_user`);
  const { reason } = await changesOf(trackit);
  expect(statementIn(reason)).not.toContain("readings");
  expect(reason).toContain("new partitions of public.readings fail while it is published: add a primary key");
});

/** A second service on the database, whose changes another login reads. */
async function startWithFeed(trackit: Trackit, login: string): Promise<TestService> {
  const changesUrl = new URL(trackit.loginUrl);
  Object.assign(changesUrl, { username: login, password: "feed" });
  const settings = {
    DATABASE_URL: trackit.loginUrl,
    CHANGES_URL: changesUrl.href,
    MIGRATE: "off",
    DB_ANON_ROLE: trackit.role("anon"),
    API_KEY_REQUIRED: "off",
  };
  const service = await startTestService(settings, { ...trackit.database, drop: async () => {} });
  onTestFinished(() => service.stop());
  return service;
}

test("the login that serves requests need not replicate: another one does, and is noticed without a restart", async () => {
  const { trackit } = await start();
  const { owner, name } = trackit.database;
  const login = `${name}_changes`;
  const { reason } = await changesOf(trackit);
  expect(reason).toContain(`create role ${login} login replication password`);
  expect(reason).not.toContain("alter role");

  const { url, service } = await startWithFeed(trackit, login);
  const reasonNow = async () => (await healthOf(service)).details.changes.reason;
  expect(await reasonNow()).toMatch(/the login of CHANGES_URL is refused: .*there is no publication content_changes/s);
  await owner.query(`create role ${login} login password 'feed'`);
  onTestFinished(async () => void (await owner.query(`drop role ${login}`)));
  await expect.poll(reasonNow).toContain(`the login ${login} may not replicate: a superuser can run: alter role`);
  await owner.query(`alter role ${login} replication`);
  await owner.query(statementIn(reason));

  // A client that subscribes makes the service look again.
  const subscribe = async () => {
    const stream = new EventStreamClient(`${url}/rest/v1/plans?select=code`);
    await expect.poll(() => stream.status).not.toBe(0);
    return stream.status === 200 ? stream : null;
  };
  let stream: EventStreamClient | null = null;
  await expect
    .poll(
      async () => {
        stream = await subscribe();
        return stream !== null;
      },
      { timeout: 120_000 },
    )
    .toBe(true);
  await stream!.take(1, "snapshot");
  await owner.query("insert into plans (code, title, price_cents) values ('new', 'New', 1)");
  expect((await stream!.take(1, "INSERT"))[0]!.data.new).toEqual({ code: "new" });
  expect(await healthOf(service)).toMatchObject({ details: { changes: { state: "streaming" } } });
});

test("a login for the changes of another database is refused", async () => {
  const { trackit } = await start();
  const changesUrl = new URL(trackit.loginUrl);
  changesUrl.pathname = "/postgres";
  const service = await startTestService(
    {
      DATABASE_URL: trackit.loginUrl,
      CHANGES_URL: changesUrl.href,
      MIGRATE: "off",
      DB_ANON_ROLE: trackit.role("anon"),
    },
    { ...trackit.database, drop: async () => {} },
  );
  onTestFinished(() => service.stop());
  expect((await healthOf(service.service)).details.changes.reason).toContain(
    `CHANGES_URL names the database postgres instead of ${trackit.database.name}`,
  );
});
