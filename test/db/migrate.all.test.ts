import { readFileSync } from "node:fs";
import { copyFile, cp, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { calculateHash } from "graphile-migrate/dist/hash.js";
import pg from "pg";
import { beforeAll, expect, inject, onTestFinished, test } from "vitest";
import { startScratchCluster } from "../../cli/scratch-cluster.ts";
import { migrate } from "../../db/cluster/migrate.ts";
import { readMigrationState } from "../../db/cluster/migration-state.ts";
import { INSTALLATION, MIGRATIONS_FOLDER } from "../support/cluster.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

/** The warnings so far, and the end of the migrations. */
function start() {
  const warnings: string[] = [];
  const ended = migrate(database.url, (level, line) => level === "warning" && warnings.push(line), INSTALLATION);
  return { warnings, ended };
}

test("services that start at the same time migrate one after the other", async () => {
  await database.owner.query("select pg_advisory_lock(hashtext('content-service:migrate'))");
  const services = [start(), start(), start()];
  for (const { warnings } of services)
    await expect.poll(() => warnings).toEqual(["another service is migrating the database: waiting"]);
  await database.owner.query("select pg_advisory_unlock(hashtext('content-service:migrate'))");
  await Promise.all(services.map(({ ended }) => ended));
});

test("a database that has all migrations is left as it is", async () => {
  const lines: string[] = [];
  await migrate(database.url, (_, line) => void lines.push(line), INSTALLATION);
  expect(lines).toEqual([]);
});

test("two migrations with the same number stop the start", async () => {
  const folder = await mkdtemp(join(tmpdir(), "migrations-"));
  await cp(MIGRATIONS_FOLDER, folder, { recursive: true });
  const committed = join(folder, "committed");
  const last = (await readdir(committed)).sort().at(-1)!;
  await copyFile(join(committed, last), join(committed, last.replace(".sql", "-of-another-branch.sql")));
  await expect(migrate(database.url, () => {}, { ...INSTALLATION, folder })).rejects.toThrow(
    /^Previous migration with hash/,
  );
});

test("an older version on a newer database names the migrations that it lacks, and serves it", async () => {
  const later = "insert into graphile_migrate.migrations (hash, filename, date) values ($1, $2, now())";
  await database.owner.query(later, ["sha1:1", "999998.sql"]);
  await database.owner.query(later, ["sha1:2", "999999.sql"]);
  const { warnings, ended } = start();
  await ended;
  expect(warnings).toEqual([
    "a newer version of the application has migrated this database. This version serves it without the features of these migrations: " +
      "999998.sql, 999999.sql",
  ]);
});

test("an older version names the files of the migrations that a newer one has run", async () => {
  const newer = await createTestDatabase(inject("clusterUrl"));
  onTestFinished(() => newer.drop());
  const folder = await mkdtemp(join(tmpdir(), "migrations-"));
  await cp(MIGRATIONS_FOLDER, folder, { recursive: true });
  const { rows } = await newer.owner.query(
    "select hash, filename from graphile_migrate.migrations order by filename desc limit 1",
  );
  const [{ hash: previous, filename }] = rows;
  const name = String(Number.parseInt(filename, 10) + 1).padStart(6, "0");
  const body = "create table public.tags (id integer primary key);";
  const header = `--! Previous: ${previous}\n--! Hash: ${calculateHash(body, previous)}\n--! Message: tags`;
  await writeFile(join(folder, "committed", `${name}-tags.sql`), `${header}\n\n${body}\n`);
  await migrate(newer.url, () => {}, { ...INSTALLATION, folder });
  const warnings: string[] = [];
  await migrate(newer.url, (level, line) => void (level === "warning" && warnings.push(line)), INSTALLATION);
  expect(warnings).toEqual([expect.stringMatching(new RegExp(`: ${name}-tags\\.sql$`))]);
  const { migrations } = await readMigrationState(newer.owner, INSTALLATION);
  expect(migrations.at(-1)).toEqual({ name: `${name}.sql`, file: `${name}-tags.sql`, isApplied: true, isNewer: true });
});

/** Why the migrations of the service are refused on a database, after this SQL. */
async function refusalAfter(sql: string) {
  const foreign = await createTestDatabase(inject("clusterUrl"), "template1");
  onTestFinished(() => foreign.drop());
  await foreign.owner.query(sql);
  const schemas = async () => (await foreign.owner.query("select nspname from pg_namespace order by 1")).rows;
  const before = await schemas();
  const message = await migrate(foreign.url, () => {}, INSTALLATION).then(
    () => "",
    (error: Error) => error.message,
  );
  expect(await schemas()).toEqual(before);
  return message;
}

test("the database of another application is refused, and stays as it was", async () => {
  const message = await refusalAfter("create table public.users (id uuid primary key)");
  expect(message).toContain(
    "This database has tables that are not of this service. To serve them unchanged, set MIGRATE=off.",
  );
});

test("an extension in another schema is named, with the statement that moves it", async () => {
  const message = await refusalAfter("create extension pg_trgm");
  expect(message).toContain("alter extension pg_trgm set schema extensions;");
  expect(message).not.toContain("--!include");
});

const [, PREPARATION] = /```sql\n(create role content_owner [\s\S]*?)```/.exec(
  readFileSync("docs/configuration.md", "utf8"),
)!;

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

test("an owner who is not a superuser learns which preparation is missing", async () => {
  const cluster = await startScratchCluster();
  onTestFinished(() => cluster.remove());
  const root = await connect(cluster.url("postgres"));
  await root.query("create role plain login password 'plain'");
  await root.query("create database plain owner plain");
  const login = (database: string, username: string, password: string) =>
    Object.assign(new URL(cluster.url(database)), { username, password }).href;
  await expect(migrate(login("plain", "plain", "plain"), () => {}, INSTALLATION)).rejects.toThrow(
    /a superuser must create them first: docs\/configuration\.md#your-own-database/,
  );

  for (const statement of PREPARATION!.trim().split("\n")) await root.query(statement);
  await root.end();
  const content = await connect(cluster.url("content"));
  await content.query(`create schema extensions authorization content_owner; create extension pg_trgm schema extensions;
    revoke execute on all functions in schema extensions from public`);
  await content.end();
  await expect(
    migrate(login("content", "content_owner", encodeURIComponent("change me")), () => {}, INSTALLATION),
  ).rejects.toThrow(
    /permission denied for function[\s\S]*The login of DATABASE_URL lacks this right: the owner of the object/,
  );
});

test("an error of db/seed.sql stops the start with its line, and says that current.sql runs later", async () => {
  const folder = await mkdtemp(join(tmpdir(), "seeded-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, "db"));
  await writeFile(join(folder, "db/seed.sql"), "select 1;\ninsert into public.missing values (1);\n");
  const seeded = await createTestDatabase();
  onTestFinished(() => seeded.drop());
  const starting = startTestService({ SEED: "demo" }, seeded, undefined, undefined, {
    definition: { folder, config: {} },
  });
  await expect(starting).rejects.toThrow(
    /^db\/seed\.sql, line 2: relation "public\.missing" does not exist(.|\n)*\nThe seed runs after the committed migrations and before /,
  );
});
