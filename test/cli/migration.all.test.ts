import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { reset as resetCommand } from "../../cli/embedded-database.ts";
import { startScratchCluster } from "../../cli/scratch-cluster.ts";
import { withClient } from "../../db/cluster/client.ts";
import { migrate } from "../../db/cluster/migrate.ts";
import { hasCurrent } from "../../db/cluster/migrations-folder.ts";
import { statementsOf } from "../../db/sql-tokens.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import { INSTALLATION } from "../support/cluster.ts";
import { PROJECT } from "../support/command.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const BLANK = "-- Nothing yet.\n";
const SECRET = "s".repeat(32);

let home: string;
let folder: string;
let database: TestDatabase;
let scratch: Awaited<ReturnType<typeof startScratchCluster>>;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "migrations-"));
  folder = join(home, "migrations");
  await cp(join(PROJECT, "demo/db/migrations"), folder, { recursive: true, verbatimSymlinks: true });
  await cp(join(PROJECT, "demo/db/schema"), join(home, "schema"), { recursive: true });
  [database, scratch] = await Promise.all([createTestDatabase(), startScratchCluster()]);
});
afterAll(async () => {
  await scratch.remove();
  await database.drop();
  await rm(home, { recursive: true });
});
beforeEach(() => current(BLANK));

const current = (text: string) => writeFile(join(folder, "current.sql"), text);
/** One cluster for all tests: starting one takes seconds. */
const startScratch = async () => ({ ...scratch, url: (name: string) => scratch.url(name), remove: async () => {} });
const run = (...args: string[]) => {
  const environment = { DATABASE_URL: database.url, JWT_SECRET: SECRET, AUTH_USER_ID: "bigint" };
  return outcomeOf(migrationCommand(args, { environment, folder, startScratch }));
};
const committed = async () => (await readdir(join(folder, "committed"))).sort();

describe("migrate apply", () => {
  test("runs current.sql again after each change, and says so", async () => {
    await current("create table if not exists public.notes (id int primary key);");
    expect(await run("apply")).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("has been applied") });
    await current(
      "create table if not exists public.notes (id int primary key);\nalter table public.notes add column if not exists note text;",
    );
    expect((await run("apply")).exitCode).toBe(0);
    expect((await database.owner.query("select note from public.notes")).rows).toEqual([]);
    expect((await run("apply")).exitCode).toBe(0);
  });

  test("announces what it has changed, also without an event trigger", async () => {
    await withClient(database.url, async (client) => {
      await client.query(
        "begin; drop event trigger announce_schema_change; drop event trigger announce_schema_drop; commit",
      );
      const announced = new Promise((resolve) => client.on("notification", resolve));
      await client.query("listen pgrst");
      await current("create table if not exists public.unannounced (id int primary key);");
      expect((await run("apply")).exitCode).toBe(0);
      expect(await announced).toMatchObject({ channel: "pgrst", payload: "reload schema" });
    });
  });

  test("with --watch runs current.sql again after each change of it or of db/schema/, and goes on after a failure", async () => {
    const printed: string[] = [];
    const stop = new AbortController();
    const watching = migrationCommand(["apply", "--watch"], {
      environment: { DATABASE_URL: database.url, JWT_SECRET: SECRET, AUTH_USER_ID: "bigint" },
      folder,
      print: (text) => printed.push(text),
      signal: stop.signal,
    });
    await expect.poll(() => printed.at(-1)).toMatch(/nothing to apply/);
    await current("create table public.watched ();\ncreate table public.watched ();\n");
    await expect.poll(() => printed.at(-1)).toMatch(/^current\.sql, line 2: relation "watched" already exists/);
    await writeFile(join(home, "schema/watched.sql"), "create table if not exists public.watched ();\n");
    await current("--!include watched.sql\n");
    await expect.poll(() => printed.at(-1)).toMatch(/has been applied/);
    await writeFile(join(home, "schema/watched.sql"), "create table if not exists public.watched_too ();\n");
    const created = async () => (await database.owner.query("select to_regclass('watched_too') as oid")).rows[0].oid;
    await expect.poll(created).not.toBeNull();
    stop.abort();
    expect(await watching).toBe("");
    await rm(join(home, "schema/watched.sql"));
  });

  test("without statements does nothing", async () => {
    expect((await run("apply")).stdout).toMatch(/nothing to apply/);
  });

  test("names file, line, statement and the fix of a failure", async () => {
    await database.owner.query("create type public.mood as enum ('good')");
    await current("select 1;\n\n-- The mood.\ncreate type public.mood as enum ('good', 'bad');\n");
    const { exitCode, stdout, stderr } = await run("apply");
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^current\.sql, line 4: type "mood" already exists \(42710\)\n/);
    expect(stderr).toContain("    create type public.mood as enum ('good', 'bad')\n");
    expect(stderr).toMatch(/or an experiment in psql\..* adopt it .*to_regtype/);
    expect(stderr).toMatch(/: drop type public\.mood;\n$/);
    expect(stderr).not.toMatch(/node_modules|at async/);
  });

  const LOCKED = "Another transaction holds a lock on the object: end it, and run this again.\n";

  test("names the statement that waits for a lock longer than lock_timeout", async () => {
    const { owner } = database;
    await current(
      "set local lock_timeout = '100ms';\nalter table public.articles add column if not exists note text;\n",
    );
    await owner.query("begin; lock table public.articles in access share mode");
    const outcome = await run("apply").finally(() => owner.query("rollback"));
    expect(outcome).toEqual({
      exitCode: 1,
      stdout: "",
      stderr:
        "current.sql, line 2: canceling statement due to lock timeout (55P03)\n" +
        `    alter table public.articles add column if not exists note text\n${LOCKED}`,
    });
  });

  test("names the line and the fix also if the statement succeeds the next time, or runs without a transaction", async () => {
    const { owner } = database;
    await owner.query("create sequence public.runs");
    await current(
      "do $$ begin if nextval('public.runs') = 1 then raise lock_not_available using message = 'locked'; end if; end $$;\n",
    );
    expect(await run("apply")).toEqual({
      exitCode: 1,
      stdout: "",
      stderr: expect.stringMatching(/^current\.sql, line 1: locked \(55P03\)\n/),
    });
    await owner.query("drop sequence public.runs");

    await owner.query(`alter database ${database.name} set lock_timeout = '100ms'`);
    await current(
      "--! no-transaction\ncreate index concurrently if not exists note_idx on public.articles (updated_at);\n",
    );
    await owner.query("begin; lock table public.articles in share update exclusive mode");
    const { stderr } = await run("apply").finally(() => owner.query("rollback"));
    await owner.query(`alter database ${database.name} reset lock_timeout`);
    expect(stderr).toMatch(/^current\.sql, line 2: canceling statement due to lock timeout \(55P03\)\n/);
    expect(stderr).toMatch(new RegExp(`${LOCKED}$`));
  });

  test("without a database, and while another command migrates it, says so in one line", async () => {
    await current("select 1;\n");
    const nowhere = { DATABASE_URL: "postgres://localhost:1/content", JWT_SECRET: SECRET };
    const { exitCode, stderr } = await outcomeOf(migrationCommand(["apply"], { environment: nowhere, folder }));
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^cannot use the database: connect ECONNREFUSED .*\n$/);

    await database.owner.query("select pg_advisory_lock(4727445306447283)");
    const second = await run("apply").finally(() => database.owner.query("select pg_advisory_unlock_all()"));
    expect([second.exitCode, second.stderr]).toEqual([
      1,
      "another command or service is migrating this database: try again when it has finished.\n",
    ]);
  });

  test("names the line with an unpaired apostrophe between $$, which graphile-migrate cannot read", async () => {
    await current(
      "-- It's a comment.\nselect 1;\ncreate function public.one() returns int language sql as $$\n  -- It's one.\n  select 1\n$$;\n" +
        "comment on function public.one() is $$\nThe caller's number.\n$$;\n",
    );
    expect((await run("apply")).exitCode).toBe(0);
    const file = join(home, "schema/comments/functions.sql");
    const schema = await readFile(file, "utf8");
    await writeFile(file, `${schema}\n${await readFile(join(folder, "current.sql"), "utf8")}`);
    const { exitCode, stderr } = await run("commit", "one");
    await writeFile(file, schema);
    await database.owner.query("drop function public.one()");
    expect([exitCode, stderr]).toEqual([
      1,
      "current.sql, line 8: an unpaired apostrophe. graphile-migrate needs an even number of them, also between $$ and $$: rephrase it, " +
        "or write ’.\n    The caller's number.\n",
    ]);
  });

  test.each(["begin", "start transaction", "Commit", "end", "rollback work"])(
    "refuses %s, before a statement has run",
    async (statement) => {
      await current(`create table public.begun (id int);\n${statement};\nselect 1;`);
      const { exitCode, stderr } = await run("apply");
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(/^current.sql, line 2: a migration runs in one transaction, so remove this statement/);
      expect(stderr).toMatch(new RegExp(`\n    ${statement}\n$`));
      const { rows } = await database.owner.query("select to_regclass('public.begun') as found");
      expect(rows).toEqual([{ found: null }]);
    },
  );

  test("says when the connection was lost, also if earlier statements had run before", async () => {
    await current("select 1;\nselect pg_terminate_backend(pg_backend_pid());");
    const { exitCode, stderr } = await run("apply");
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/^cannot use the database: terminating connection .*\n$/),
    ]);
  });

  test("names the included file and its line", async () => {
    await writeFile(join(home, "schema/broken.sql"), "select 1;\nselect nothing\nfrom public.users;\n");
    await current("--!include users/access.sql\n--!include broken.sql\n");
    expect((await run("apply")).stderr).toMatch(
      /^db\/schema\/broken\.sql, line 2, included by current\.sql: column "nothing" does not exist \(42703\)/,
    );
    await rm(join(home, "schema/broken.sql"));
  });

  test.each([
    [
      "user/access.sql",
      "current.sql, line 2: db/schema/user/access.sql does not exist. Did you mean users/access.sql?",
    ],
    ["access.sql", "current.sql, line 2: db/schema/access.sql does not exist. Create the file, or correct its name, "],
    ["../migrations/current.sql", "current.sql, line 2: db/schema/../migrations/current.sql does not exist. "],
    ["users/access", "current.sql, line 2: this includes nothing: write --!include and a file of db/schema/, "],
    ["outer.sql", "db/schema/outer.sql, line 1: db/schema/outer.sql includes itself: remove one of the lines"],
  ])("with --!include %s names file and line, and what to do", async (file, expected) => {
    await writeFile(join(home, "schema/outer.sql"), "--!include outer.sql\n");
    await current(`select 1;\n--!include ${file}\n`);
    const { exitCode, stderr } = await run("apply");
    await rm(join(home, "schema/outer.sql"));
    expect(exitCode).toBe(1);
    expect(stderr).toContain(expected);
    expect(stderr.split("\n")).toHaveLength(3);
  });

  test("reads included files with the line ends of Windows", async () => {
    await current("--!include users/access.sql\r\n--!include users/table.sql\r\n");
    expect((await run("apply")).stderr).not.toContain("this includes nothing");
  });
});

describe("a file of SQL that would be misread is refused, and nothing is run", () => {
  const SQL = "create table public.misread (name text default 'Müller');\n";
  const OF_INCLUDED = "--!include misread.sql\n";

  test.each<[why: string, bytes: Buffer, fault: string]>([
    ["UTF-16", Buffer.from(`\ufeff${SQL}`, "utf16le"), "cannot be read: .* is not text in UTF-8"],
    ["Latin-1", Buffer.from(SQL, "latin1"), "cannot be read: .* is not text in UTF-8"],
    ["a NUL", Buffer.from(`${SQL}\0`), "cannot be read: .* is not text in UTF-8"],
    ["a byte order mark", Buffer.from(`\ufeff${OF_INCLUDED}`), "begins with a byte order mark"],
  ])("%s", async (_, bytes, fault) => {
    const line = (name: string) =>
      expect.stringMatching(`^${name} ${fault}: save it in UTF-8, without a byte order mark\n$`);
    await writeFile(join(folder, "current.sql"), bytes);
    expect(await run("apply")).toEqual({ exitCode: 1, stdout: "", stderr: line("current.sql") });
    await writeFile(join(home, "schema/misread.sql"), bytes);
    await current(OF_INCLUDED);
    expect((await run("apply")).stderr).toEqual(line("db/schema/misread.sql"));
    await rm(join(home, "schema/misread.sql"));
    await current(BLANK);
    const file = "committed/999999-misread.sql";
    await writeFile(join(folder, file), bytes);
    const { stderr } = await run("check");
    await rm(join(folder, file));
    expect(stderr).toEqual(line(`db/migrations/${file}`));
    const { rows } = await database.owner.query("select to_regclass('public.misread') as made");
    expect(rows).toEqual([{ made: null }]);
  });

  test("a committed migration with the line ends of Windows, which Git writes if it is told to", async () => {
    const file = join(folder, "committed", (await committed())[0]!);
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replaceAll("\n", "\r\n"));
    const { exitCode, stderr } = await run("check");
    await writeFile(file, text);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^db\/migrations\/committed\/000001.*\.sql has the line ends of Windows, .*autocrlf.*\n$/);
  });
});

test("without db/schema, or the link to it, the commands name both and the cure", async () => {
  await rename(join(home, "schema"), join(home, "away"));
  const outcome = await run("check");
  await rename(join(home, "away"), join(home, "schema"));
  expect(outcome).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/^db\/schema cannot be read .*ENOENT.*git restore db.*ln -s .*\n$/),
  });
});

test("a database with tables of others is not migrated: the error says that MIGRATE=off serves them", async () => {
  const name = `${database.name}_other`;
  const url = new URL(database.url);
  url.pathname = `/${name}`;
  await database.owner.query(`create database ${name}`);
  try {
    await withClient(url.href, (client) => client.query("create table users (id serial primary key, login text)"));
    const failure = migrate(url.href, () => {}, { ...INSTALLATION, folder });
    await expect(failure).rejects.toThrow(
      /^000001-.*\.sql, line \d+: relation "users" already exists \(42P07\)\n.*not of this service.* set MIGRATE=off/s,
    );
  } finally {
    await database.owner.query(`drop database ${name} with (force)`);
  }
});

/** Runs `work` with a new database and with one more committed migration. */
async function withMigration(name: string, body: string, work: (database: TestDatabase) => Promise<void>) {
  const other = await createTestDatabase();
  const extra = join(folder, "committed", name);
  const [last] = (await committed()).toReversed();
  const hash = /^--! Hash: (.+)$/m.exec(await readFile(join(folder, "committed", last!), "utf8"))![1];
  const header = `--! Previous: ${hash}\n--! Hash: sha1:${"0".repeat(40)}\n--! AllowInvalidHash\n\n`;
  await writeFile(extra, `${header}${body}\n`);
  try {
    await work(other);
  } finally {
    await rm(extra);
    await other.drop();
  }
}

test("a committed migration that fails is named, with line, statement and fix", () =>
  withMigration("999999-broken.sql", "alter table public.users add column name text;", async ({ url }) => {
    const failure = migrate(url, () => {}, { ...INSTALLATION, folder });
    await expect(failure).rejects.toThrow(
      /^999999-broken\.sql, line 5: column "name" of relation "users" already exists \(42701\)\n {4}alter table .*take it out of db\/base.* if no other database has run the migration, .*npx content-service migrate uncommit/s,
    );
  }));

test("a migration builds an index concurrently while other services wait for their turn", () =>
  withMigration(
    "999999-index.sql",
    "--! no-transaction\ncreate index concurrently articles_test_idx on public.articles (updated_at);",
    async ({ url, owner }) => {
      await owner.query("select pg_advisory_lock(hashtext('content-service:migrate'))");
      const warnings: string[] = [];
      const start = () =>
        migrate(url, (level, line) => level === "warning" && warnings.push(line), { ...INSTALLATION, folder });
      const services = Promise.all([start(), start()]);
      const waits = "another service is migrating the database: waiting";
      await expect.poll(() => warnings).toEqual([waits, waits]);
      await owner.query("select pg_advisory_unlock(hashtext('content-service:migrate'))");
      await services;
      const { rows } = await owner.query(
        "select indisvalid from pg_index where indexrelid = 'public.articles_test_idx'::regclass",
      );
      expect(rows).toEqual([{ indisvalid: true }]);
    },
  ));

test("migrate commit refuses when db/schema/ lacks what the migration makes, and the other way round, and says how to fix it", async () => {
  await current("alter table public.users add column if not exists nickname text;");
  const { exitCode, stderr } = await run("commit", "users have nicknames");
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/nothing was committed/);
  expect(stderr).toMatch(
    /Only the migrations create these\. Write them into the files of db\/schema\/ too:\n {2}- column public\.users\.nickname/,
  );
  expect(await committed()).not.toContainEqual(expect.stringContaining("nicknames"));

  const file = join(home, "schema/users/nicknames.sql");
  await writeFile(file, "alter table public.users add column if not exists nickname text;\n");
  await current("--!include users/nicknames.sql\n");
  expect((await run("commit", "users have nicknames")).stderr).toContain(
    "db/schema/schema.sql does not include these files. Add a line for each, or delete the file:\n  --!include users/nicknames.sql\n",
  );
  const list = join(home, "schema/schema.sql");
  const schema = await readFile(list, "utf8");
  await writeFile(list, `${schema}--!include users/nicknames.sql\nselect nothing;\n`);
  expect((await run("commit", "users have nicknames")).stderr).toMatch(
    /^db\/schema\/schema\.sql, line \d+: column "nothing" does not exist \(42703\)/,
  );
  await writeFile(list, schema);
  await rm(file);
  expect((await run("commit")).stderr).toMatch(/^say what the migration does; see /);
});

test("migrate check says so where it cannot start the temporary server that it needs", async () => {
  vi.stubEnv("TMPDIR", join(folder, "absent"));
  onTestFinished(() => void vi.unstubAllEnvs());
  const environment = { DATABASE_URL: database.url, JWT_SECRET: SECRET, AUTH_USER_ID: "bigint" };
  const { exitCode, stderr } = await outcomeOf(migrationCommand(["check"], { environment, folder }));
  expect([exitCode, stderr]).toEqual([
    1,
    expect.stringMatching(
      /^a temporary PostgreSQL server, which this command needs, cannot start: ENOENT: .*an image has no server/,
    ),
  ]);
});

test("migrate check says that db/schema/ and the migrations agree, or what differs and what the advisor finds, with the fixes", async () => {
  expect(await run("check")).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/^schema\/ and migrations\/ create the same database \(\d+ objects\)\n$/),
  });
  await current("select 1;");
  expect((await run("check")).stdout).toMatch(/^warning: db\/migrations\/current\.sql is not committed: /);

  const list = join(home, "schema/schema.sql");
  const schema = await readFile(list, "utf8");
  const open = "create table public.rates (id int primary key); grant select on public.rates to anon;";
  await writeFile(list, `${schema}${open}\n`);
  const { exitCode, stderr } = await run("check");
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/\n {2}\+ table public\.rates: /);
  expect(stderr).toMatch(/\nerror: table public\.rates: it has no row-level security: /);
  expect(stderr).toMatch(
    /\nOnly db\/schema\/ creates these\. Write to db\/migrations\/current\.sql the statements that do, or /,
  );
  await writeFile(list, schema);
});

describe("plain statements, such as create table and add column", () => {
  const TABLE = "create table public.books (id int primary key);\n";
  const MORE = `${TABLE}insert into public.books values (1);
alter table public.books add column title text not null default '';
alter table public.books enable row level security;
create policy "everyone reads" on public.books for select using (true);
create index books_title_idx on public.books (title);
alter table public.books rename column title to name;
`;
  const books = async (url = database.url) =>
    withClient(url, async (client) => (await client.query("select * from public.books")).rows);

  test("run again after each change, then are committed, and a start runs what is left", async () => {
    await current(TABLE);
    expect(await run("apply")).toMatchObject({ exitCode: 0 });
    await current(MORE);
    expect(await run("apply")).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await run("apply")).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await books()).toEqual([{ id: 1, name: "" }]);

    const file = join(home, "schema/books.sql");
    const list = join(home, "schema/schema.sql");
    const schema = await readFile(list, "utf8");
    await writeFile(file, MORE.replace(/insert.*;\n/, ""));
    await writeFile(list, `${schema}--!include books.sql\n`);
    expect(await run("commit", "books")).toMatchObject({ exitCode: 0, stderr: "" });

    // Where it has been tried, and where not.
    const other = await createTestDatabase();
    for (const { url } of [database, other]) {
      await migrate(url, () => {}, { ...INSTALLATION, folder });
      expect(await books(url)).toEqual([{ id: 1, name: "" }]);
    }
    await other.drop();
    expect((await database.owner.query("select from content_service.tried_statements")).rowCount).toBe(0);

    expect(await run("uncommit")).toMatchObject({ exitCode: 0 });
    expect(await run("apply")).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await books()).toEqual([{ id: 1, name: "" }]);
    await rm(file);
    await writeFile(list, schema);
    await database.owner.query("drop table public.books");
  });

  test("name what to do when their text has changed after they had run", async () => {
    await current(TABLE);
    expect((await run("apply")).stdout).toMatch(/nothing new: all of it has run .* migrate apply --again runs it/);
    await run("apply", "--again");
    expect(await books()).toEqual([]);
    await current(TABLE.replace("key)", "key, title text)"));
    const { exitCode, stderr } = await run("apply");
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^current\.sql, line 1: relation "books" already exists \(42P07\)\n.*\n.* such as alter table … add column\..*\nTo make it again, .*: drop table public\.books;\n$/,
      ),
    ]);
    await database.owner.query("drop table public.books");
    expect((await run("apply")).exitCode).toBe(0);
    await database.owner.query("drop table public.books");
  });

  test("that a changed statement needs run again with it", async () => {
    const policy = (rule: string) =>
      `${TABLE}drop policy if exists "few" on public.books;\ncreate policy "few" on public.books using (${rule});\n`;
    for (const [rule, ...again] of [["id = 1", "--again"], ["id = 2"]] as const) {
      await current(policy(rule));
      expect(await run("apply", ...again)).toMatchObject({ exitCode: 0, stderr: "" });
    }
    const { rows } = await database.owner.query("select qual from pg_policies where tablename = 'books'");
    expect(rows).toEqual([{ qual: "(id = 2)" }]);
    await database.owner.query("drop table public.books");
  });

  test("that fail for another reason than that they are done are not taken for done", async () => {
    await current("create table public.books (id int);\nalter table public.books add check (id > 0);\n");
    await run("apply", "--again");
    await database.owner.query("drop table public.books; create view public.books as select 1 as id");
    expect((await run("apply", "--again")).stderr).toMatch(/^current\.sql, line 2: .*"books".* \(42809\)/);
    await database.owner.query("drop view public.books");
  });

  test.each([
    [
      "create view public.titles with (security_invoker = true) as select title from public.books;",
      "drop view if exists titles;",
    ],
    [
      "create materialized view public.titles as select title from public.books;",
      "drop materialized view if exists titles;",
    ],
    ["create policy titles on public.books using (title <> '');", null],
  ])("name what to do with what uses a column that gets another type: %s", async (user, drop) => {
    await database.owner.query(`create table public.books (id int primary key, title text); ${user}`);
    await current("alter table public.books alter column title type varchar(80);");
    const { exitCode, stderr } = await run("apply");
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^current\.sql, line 1: cannot alter type of a column used .* \(0A000\)\n/);
    expect(stderr).toContain(
      `\nDrop it${drop === null ? "" : ` (${drop})`} before this statement, and make it again after it: --!include the file of db/schema/ that makes it`,
    );
    await database.owner.query("drop table public.books cascade");
  });
});

test("migrate commit writes the next migration, and uncommit makes it current.sql again, also in the database", async () => {
  const before = await committed();
  const sql = "comment on table public.comments is 'What readers say.';";
  const file = join(home, "schema/comments/functions.sql");
  const schema = await readFile(file, "utf8");
  await writeFile(file, `${schema}\n${sql}\n`);
  await current(`${sql}\n`);
  const done = await run("commit", "a shorter comment");
  expect(done).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/committed\/\d{6}-a-shorter-comment\.sql/) });
  expect(await committed()).toHaveLength(before.length + 1);
  expect(await hasCurrent(folder)).toBe(false);

  await migrate(database.url, () => {}, { ...INSTALLATION, folder });
  expect((await run("uncommit")).stdout).toMatch(
    /was moved back to db\/migrations\/current\.sql\. npx content-service migrate apply runs it /,
  );
  expect(await committed()).toEqual(before);
  expect(await readFile(join(folder, "current.sql"), "utf8")).toContain(sql);
  expect((await run("apply")).exitCode).toBe(0);
  expect((await run("uncommit")).stderr).toMatch(/current\.sql is not empty/);
  await writeFile(file, schema);
});

test("migrate commit refuses a text that is too long in one line", async () => {
  await current("select 1;");
  expect(await run("commit", "x".repeat(600))).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: "Invalid commit message: message is too long (max: 512 chars)\n",
  });
});

test("a committed migration that was changed is named, with the fix", async () => {
  const [last] = (await committed()).toReversed();
  const file = join(folder, "committed", last!);
  const text = await readFile(file, "utf8");
  await writeFile(file, `${text}select 1;\n`);
  try {
    const { exitCode, stderr } = await run("uncommit");
    expect(exitCode).toBe(1);
    const warnings: string[] = [];
    await migrate(database.url, (level, line) => void (level === "warning" && warnings.push(line)), {
      ...INSTALLATION,
      folder,
    });
    expect(warnings).toEqual([
      `migrations that this database has run were changed afterwards, and no start runs them again: ${last}. Undo that (git ` +
        `restore db/migrations/committed/${last}), and write a new migration with the change. In development, npx content-service reset deletes the embedded database, and the next start runs all of them`,
    ]);
    expect(stderr).toMatch(
      /^\d{6}.*\.sql was changed after it had been committed\. Undo that \(git restore db\/migrations/,
    );
    const other = await createTestDatabase();
    await other.owner.query("delete from graphile_migrate.migrations where filename = any ($1)", [
      [last, `${last!.slice(0, 6)}.sql`],
    ]);
    await expect(migrate(other.url, () => {}, { ...INSTALLATION, folder })).rejects.toThrow(
      /was changed after it had been committed/,
    );
    await other.drop();
  } finally {
    await writeFile(file, text);
  }
});

test("docs/migrations.md, From psql to a migration: each step does what the page says", async () => {
  const page = await readFile(join(PROJECT, "docs/migrations.md"), "utf8");
  const [guide] = page.slice(page.indexOf("## From psql to a migration")).split("\n## ") as [string];
  const [table, access, asAda, asBob, migration] = [...guide.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql]) => sql!);
  const { owner } = database;
  await owner.query(table!);
  await owner.query(access!);
  await expect(owner.query(asAda!)).rejects.toThrow(/permission denied for function act_as/);
  const results = (await owner.query(asBob!)) as unknown as { rows: any[] }[];
  expect(results.at(-2)!.rows).toEqual([{ count: "0" }]);

  const topic = join(home, "schema/bookmarks");
  await mkdir(topic);
  await writeFile(
    join(topic, "access.sql"),
    access!
      .replace(/create index.*\n/g, "")
      .replace(
        "create policy",
        'drop policy if exists "users keep their own bookmarks" on public.bookmarks;\ncreate policy',
      ),
  );
  await current(migration!);
  expect(await run("apply")).toMatchObject({ exitCode: 0 });
  await current(migration!.replace("create table if not exists", "create table"));
  expect((await run("apply")).stderr).toMatch(/^current\.sql, line 1: relation "bookmarks" already exists \(42P07\)/);
  await rm(topic, { recursive: true });
});

test("auth.act_as without a transaction fails, and says that begin comes first", async () => {
  const { owner } = database;
  for (const alone of ["select auth.act_as('anon')", " SELECT * FROM auth.act_as();\n"])
    await expect(owner.query(alone)).rejects.toMatchObject({
      code: "25P01",
      message: expect.stringMatching(/^begin a transaction first: /),
      hint: "begin; select auth.act_as(...); ...; rollback;",
    });
  await owner.query("begin");
  const { rows } = await owner.query("select auth.act_as('anon')");
  expect(rows[0].act_as).toMatch(/^role anon until the end of the transaction\. Without begin it has ended already\./);
  expect((await owner.query("select current_user")).rows).toEqual([{ current_user: "anon" }]);
  await owner.query("rollback");
  // Some clients send all statements in one message.
  const results = (await owner.query(
    "begin; select auth.act_as('anon'); select current_user; rollback",
  )) as unknown as {
    rows: unknown[];
  }[];
  expect(results[2]!.rows).toEqual([{ current_user: "anon" }]);
});

describe("reset", () => {
  const reset = (environment: Record<string, string>, ...args: string[]) => outcomeOf(resetCommand(args, environment));

  test("deletes the embedded database when it is confirmed", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "data-"));
    await cp(folder, join(dataDir, "postgres"), { recursive: true, verbatimSymlinks: true });
    expect(await reset({ DATA_DIR: dataDir })).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--yes") });
    expect((await reset({ DATA_DIR: dataDir }, "--yes")).exitCode).toBe(0);
    expect(await readdir(dataDir)).toEqual([]);
    await rm(dataDir, { recursive: true });
  });
});

test.each([
  ["select 1; select 2;", ["select 1", "select 2"]],
  [
    "select ';', \";\", $$;$$, $a$ $$;$$ $a$; -- ;\n/* ; /* ; */ ; */ select 2",
    ["select ';', \";\", $$;$$, $a$ $$;$$ $a$", "select 2"],
  ],
  ["select e'\\';'; select 'it''s;'", ["select e'\\';'", "select 'it''s;'"]],
  [
    "create function f() returns int begin atomic select case when true then 1 end; select 2; end; select 3",
    ["create function f() returns int begin atomic select case when true then 1 end; select 2; end", "select 3"],
  ],
  ["-- nothing\n/* ; */ ;", []],
  // A name may contain $, and a string may have a prefix.
  ["select a$b$; select u&'\\003b;', b';' from x$a$", ["select a$b$", "select u&'\\003b;', b';' from x$a$"]],
])("%s has the statements %j", (text, statements) => {
  const found = statementsOf(text);
  expect(found.map((each) => each.text)).toEqual(statements);
  for (const { text: own, at } of found) expect(text.startsWith(own, at)).toBe(true);
});
