import { globSync } from "node:fs";
import { cp, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { migrate } from "../../db/cluster/migrate.ts";
import { MODULES_FOLDER, updateModules } from "../../db/cluster/modules.ts";
import { MODULES } from "../../db/modules/modules.ts";
import { INSTALLATION } from "../support/cluster.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

const rows = async (text: string, ...values: unknown[]) => (await database.owner.query(text, values)).rows;

/** The warnings of a start. */
async function start(): Promise<readonly string[]> {
  const warnings: string[] = [];
  await migrate(database.url, (level, line) => level === "warning" && warnings.push(line), INSTALLATION);
  return warnings;
}

const LEDGER = "select module, code_hash, product_version, updated_at from content_service.modules order by module";
const STALE = "update content_service.modules set code_hash = 'stale' where module = 'auth'";
const BREAK = `
  create or replace function auth_api.has_account(user_id auth.user_id) returns boolean language sql return false;
  drop trigger _500_announce on auth_private.accounts`;
const has = async () => {
  const [{ account, triggers }] = await rows(`
    select auth_api.has_account(1) as account,
      (select count(*)::integer from pg_trigger where tgrelid = 'auth_private.accounts'::regclass and tgname = '_500_announce') as triggers`);
  return [account, triggers];
};

test("a start changes nothing in modules that are up to date", async () => {
  const before = await rows(LEDGER);
  expect(before.map(({ module }) => module)).toEqual(MODULES.map(({ name }) => name).sort());
  expect(await start()).toEqual([]);
  expect(await rows(LEDGER)).toEqual(before);
});

test("code that has changed is executed again, without a migration", async () => {
  const before = await rows(LEDGER);
  await database.owner.query(`${BREAK}; ${STALE}`);
  expect(await has()).toEqual([false, 0]);
  expect(await start()).toEqual([]);
  expect(await has()).toEqual([true, 1]);
  const hashes = (ledger: readonly any[]) => ledger.map(({ code_hash }) => code_hash);
  expect(hashes(await rows(LEDGER))).toEqual(hashes(before));
});

test("code waits a short time for a lock, then the start is refused and nothing has changed", async () => {
  await database.owner.query(`${BREAK}; ${STALE}`);
  const before = await rows(LEDGER);
  const other = new pg.Client({ connectionString: database.url });
  await other.connect();
  await other.query("begin; lock table auth_private.accounts in row exclusive mode");
  await expect(start()).rejects.toThrow(
    /^db\/modules\/auth\/\w+\.sql, line \d+: canceling statement due to lock timeout \(55P03\)[\s\S]*Another transaction holds a lock/,
  );
  await other.query("rollback");
  await other.end();
  expect(await rows(LEDGER)).toEqual(before);
  expect(await has()).toEqual([false, 0]);
});

test("an older version does not write its code over that of a newer one, and says so", async () => {
  await database.owner.query(`${BREAK}; ${STALE}`);
  await database.owner.query("update content_service.modules set product_version = '99.10.0' where module = 'auth'");
  expect(await start()).toEqual([
    "a newer version of the service has migrated this database. This version serves it as it is; the newer one is 99.10.0",
  ]);
  expect(await has()).toEqual([false, 0]);
});

test("a database that was made before 1.0 is refused with what to do", async () => {
  await database.owner.query("drop schema content_service cascade");
  await expect(start()).rejects.toThrow(
    "this database was made before 1.0 and cannot be upgraded. Use an empty database; for the embedded one, " +
      "npx content-service reset --yes deletes it with all its data, and the next start makes a new one.",
  );
});

/** The modules, and in addition these files. */
async function modulesWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "modules-"));
  await cp(MODULES_FOLDER, folder, { recursive: true });
  for (const [file, text] of Object.entries(files)) {
    await mkdir(join(folder, file, ".."), { recursive: true });
    await writeFile(join(folder, file), text);
  }
  return folder;
}

const COLUMN = "alter table auth_private.providers add column label text;\n";
const RENAMED = "alter table auth_private.providers rename column label to title;\n";
const columns = async () =>
  (
    await rows("select attname from pg_attribute where attrelid = 'auth_private.providers'::regclass and attnum > 2")
  ).map(({ attname }) => attname);

test("migrations of a module run once, in order, before its code", async () => {
  const first = await modulesWith({ "auth/migrations/901-labels.sql": COLUMN });
  await updateModules(database.owner, INSTALLATION, first);
  expect(await columns()).toEqual(["label"]);
  const second = await modulesWith({
    "auth/migrations/901-labels.sql": COLUMN,
    "auth/migrations/902-titles.sql": RENAMED,
    "auth/factors.sql":
      "create function auth_private.titles() returns setof text language sql as 'select title from auth_private.providers';",
  });
  await updateModules(database.owner, INSTALLATION, second);
  await updateModules(database.owner, INSTALLATION, second);
  expect(await columns()).toEqual(["title"]);
  expect(
    await rows("select module, number from content_service.migrations where number > '900' order by number"),
  ).toEqual([
    { module: "auth", number: "901" },
    { module: "auth", number: "902" },
  ]);
});

test("a new database has the tables as they are, and no migration to run", async () => {
  const folder = await modulesWith({ "auth/migrations/901-labels.sql": COLUMN });
  const empty = await createTestDatabase(undefined, "template1");
  onTestFinished(() => empty.drop());
  expect((await updateModules(empty.owner, INSTALLATION, folder)).isNew).toBe(true);
  const { rows: found } = await empty.owner.query(
    "select module, number from content_service.migrations where number > '900'",
  );
  expect(found).toEqual([{ module: "auth", number: "901" }]);
});

test("a migration that fails names its file and statement, and nothing has changed", async () => {
  const folder = await modulesWith({
    "auth/migrations/901-labels.sql": COLUMN,
    "auth/migrations/902-wrong.sql": "select 1;\nalter table auth_private.missing add column label text;\n",
  });
  await expect(updateModules(database.owner, INSTALLATION, folder)).rejects.toThrow(
    /^db\/modules\/auth\/migrations\/902-wrong\.sql, line 2: relation "auth_private.missing" does not exist \(42P01\)/,
  );
  expect(await columns()).toEqual([]);
});

test("db/modules/modules.ts lists every file of the modules", () => {
  const listed = MODULES.flatMap(({ name, code }) => ["tables.sql", ...code].map((file) => `${name}/${file}`));
  expect(globSync("*/*.sql", { cwd: MODULES_FOLDER }).sort()).toEqual(listed.sort());
});
