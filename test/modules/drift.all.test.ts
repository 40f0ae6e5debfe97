import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { migrationCommand } from "../../cli/migration.ts";
import { upgrade } from "../../cli/upgrade.ts";
import { MODULE_NAMES } from "../../config/modules.ts";
import { withClient } from "../../db/cluster/client.ts";
import { type ScratchCluster, startScratchCluster } from "../../db/cluster/embedded.ts";
import { migrate } from "../../db/cluster/migrate.ts";
import type { TestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";
import {
  applicationOf,
  connected,
  type ForeignServer,
  SERVERS,
  signInSql,
  startForeignServer,
} from "./foreign-server.ts";

const SECRET = "a secret of thirty-two bytes or more";

let scratch: ScratchCluster;
beforeAll(async () => {
  scratch = await startScratchCluster();
});
afterAll(() => scratch?.remove());

/** `migrate check --database` of this database. All tests share the cluster on which migrations run again. */
async function check(
  { url }: { readonly url: string },
  folder: string | undefined,
  { args = [], ...settings }: { readonly args?: string[] } & Readonly<Record<string, any>> = {},
) {
  const environment = { DATABASE_URL: url, JWT_SECRET: SECRET, ...settings };
  const startScratch = async () => ({ ...scratch, remove: async () => {} });
  const options = { environment, startScratch, ...(folder !== undefined && { folder }) };
  return outcomeOf(migrationCommand(["check", "--database", ...args], options));
}

/** `missing table public.drafts`, in the order of the output, below the name of each part. */
const foundIn = (stdout: string): readonly string[] =>
  stdout
    .split("\n")
    .filter((line) => /^( {2}(missing|changed|extra) |application$|module )/.test(line))
    .map((line) => line.trim().replace(/ +/, " "));

const SAME = /^The database \w+ is as its migrations make it \(\d+ objects\)\.\n$/m;
const HEADER = `--! Previous: -\n--! Hash: sha1:${"0".repeat(40)}\n--! Message: m\n--! AllowInvalidHash\n\n`;

/** Every kind of object. Partitions have the identity of their table since PostgreSQL 17. The view is one that PostgreSQL 15 writes with the name of the table before each column. */
const MIGRATION = `
  grant usage on schema public to anon, authenticated;
  create type public.mood as enum ('good', 'bad');
  create type public.mark as enum ('a');
  create sequence public.numbers;
  create table public.notes (
    id bigint primary key default nextval('public.numbers'), author uuid default auth.uid(), title text not null default '',
    body text, mood public.mood, constraint notes_title_length check (char_length(title) < 100),
    constraint notes_body_length check (char_length(body) < 9999)
  );
  create table public.drafts (id bigint generated always as identity primary key, note_id bigint references public.notes);
  create table public.visits (id bigint generated always as identity, day date not null, primary key (id, day)) partition by range (day);
  create table public.visits_2026 partition of public.visits for values from ('2026-01-01') to ('2027-01-01');
  create index drafts_note_id_idx on public.drafts (note_id);
  create index notes_author_idx on public.notes (author);
  create index notes_title_idx on public.notes (title);
  create view public.titles with (security_invoker = true) as select n.id, n.title from public.notes as n where n.id > 0;
  create function public.touch() returns trigger language plpgsql as $$ begin return new; end $$;
  create function public.count_notes() returns bigint language sql stable begin atomic select count(*) from public.notes as n where n.id > 0; end;
  create function public.shout(text text) returns text language sql as $$ select upper(text) $$;
  create trigger _100_touch before update on public.notes for each row execute function public.touch();
  create trigger _200_touch before insert on public.notes for each row execute function public.touch();
  alter table public.notes enable row level security;
  create policy "all read" on public.notes for select using (id > 0);
  create policy "authors write" on public.notes to authenticated using (author = (select auth.uid()));
  grant select (id, title), insert (title) on public.notes to authenticated;
  grant select on public.titles to anon;
  grant delete on public.notes to authenticated;
  comment on column public.notes.id is '@behavior -*';
  comment on table public.notes is '@name remarks';
  create publication archive for table public.notes;
  create publication copies for table public.notes;`;

const CHANGES = `
  drop table public.drafts;
  create table public.extras (id int primary key, text text); grant select on public.extras to anon;
  alter table public.notes drop column body, alter column title drop not null, add column extra text;
  alter table public.notes alter column id drop default;
  alter table public.notes drop constraint notes_title_length, add constraint notes_title_length check (char_length(title) < 200),
    add constraint notes_extra check (id > 0);
  drop index public.notes_author_idx, public.notes_title_idx;
  create index notes_title_idx on public.notes (title desc); create index notes_extra_idx on public.notes (extra);
  drop policy "all read" on public.notes;
  alter policy "authors write" on public.notes using (true);
  create policy "everyone writes" on public.notes to anon using (true);
  revoke delete on public.notes from authenticated; grant select on public.notes to anon;
  grant update (title) on public.notes to authenticated;
  drop function public.shout(text);
  create or replace function public.count_notes() returns bigint language sql stable begin atomic select count(*) from public.notes as n; end;
  create function public.whisper() returns text language sql as 'select null';
  drop trigger _100_touch on public.notes; alter table public.notes disable trigger _200_touch;
  create trigger _300_touch after insert on public.notes for each row execute function public.touch();
  drop type public.mark; alter type public.mood add value 'none'; create type public.size as enum ('s');
  alter sequence public.numbers increment 2; create sequence public.more;
  comment on table public.notes is '@name notes'; comment on column public.notes.title is '@deprecated';
  comment on column public.notes.id is null;
  alter table public.notes disable row level security;
  drop view public.titles; create view public.titles as select n.id, n.title from public.notes as n;
  drop publication archive; alter publication copies set (publish = 'insert'); create publication more for table public.notes;

  drop table realtime.messages; create table auth_private.spare (id int);
  alter table auth_private.mails drop constraint mails_email_length, alter column email drop not null;
  drop index auth_private.mails_user_id_idx; create index on auth_private.mails (email);
  drop trigger _500_announce on auth_private.accounts;
  create policy open on auth_private.mails to anon using (true);
  grant usage on schema auth_private to anon; revoke execute on function auth.uid() from anon;
  drop function auth_api.refuse_sign_up() cascade;
  create or replace function auth.is_admin() returns boolean language sql stable parallel safe return true;
  create function auth.spare() returns int language sql as 'select 1';
  comment on function auth.is_email(text) is null;
  drop event trigger if exists announce_schema_drop;
  alter publication content_changes set (publish = 'insert');
  grant service_role to anon; alter role authenticated createdb;`;

/** What the changes are, with everything that follows from them left out. */
const FOUND = [
  "application",
  ...["missing type public.mark", "changed type public.mood", "extra type public.size"],
  ...["changed sequence public.numbers", "extra sequence public.more"],
  ...["missing table public.drafts", "extra table public.extras"],
  ...["missing column public.notes.body", "changed column public.notes.title", "extra column public.notes.extra"],
  "changed column public.notes.id",
  "missing constraint notes_body_length on public.notes",
  "changed constraint notes_title_length on public.notes",
  "extra constraint notes_extra on public.notes",
  ...["missing index public.notes_author_idx", "changed index public.notes_title_idx"],
  "extra index public.notes_extra_idx",
  ...['missing policy "all read" on public.notes', 'changed policy "authors write" on public.notes'],
  'extra policy "everyone writes" on public.notes',
  "missing grants on table public.notes to authenticated",
  "changed grants on column public.notes.title to authenticated",
  "extra grants on table public.notes to anon",
  ...[
    "missing function public.shout(text)",
    "changed function public.count_notes()",
    "extra function public.whisper()",
  ],
  ...["missing trigger _100_touch on public.notes", "changed trigger _200_touch on public.notes"],
  "extra trigger _300_touch on public.notes",
  ...["missing comment on table column public.notes.id", "changed comment on table public.notes"],
  "extra comment on table column public.notes.title",
  "changed row-level security of public.notes",
  ...[
    "changed view public.titles",
    "changed definition of public.titles",
    "missing grants on view public.titles to anon",
  ],
  ...["missing publication archive", "changed publication copies", "extra publication more"],

  "module auth",
  "extra table auth_private.spare",
  ...["changed column auth_private.mails.email", "missing constraint mails_email_length on auth_private.mails"],
  ...["missing index auth_private.mails_user_id_idx", "extra index auth_private.mails_email_idx"],
  ...["missing function auth_api.refuse_sign_up()", "missing trigger _500_announce on auth_private.accounts"],
  ...["extra policy open on auth_private.mails", "extra grants on schema auth_private to anon"],
  "missing comment on function auth.is_email(text)",

  ...["module channels", "missing table realtime.messages"],

  "module caller",
  ...[
    "changed function auth.is_admin()",
    "extra function auth.spare()",
    "missing grants on function auth.uid() to anon",
  ],
  ...["extra membership anon in service_role", "changed role authenticated"],

  "module feed",
  ...["missing event trigger announce_schema_drop", "changed publication content_changes"],
];

describe.each(SERVERS)("on PostgreSQL $version", (version) => {
  let server: ForeignServer;
  let home: string;
  let folder: string;
  beforeAll(async () => {
    server = await startForeignServer(undefined, version);
    home = await mkdtemp(join(tmpdir(), "drift-"));
    folder = join(home, "db/migrations");
    await mkdir(join(folder, "committed"), { recursive: true });
    await mkdir(join(home, "db/schema"));
    await symlink("../schema", join(folder, "fixtures"));
    await writeFile(join(folder, "committed/000001-base.sql"), `${HEADER}${MIGRATION}`);
    return async () => {
      await server.cluster.remove();
      await rm(home, { recursive: true });
    };
  });

  /** A database of the superuser, with everything that the migrations make. */
  async function migrated(name: string): Promise<TestDatabase> {
    await withClient(server.cluster.url("postgres"), (root) => root.query(`create database ${name}`));
    const url = server.cluster.url(name);
    await migrate(url, () => {}, { folder, modules: MODULE_NAMES, userId: "" });
    const owner = await connected(url);
    onTestFinished(() => owner.end());
    return { name, url, owner, drop: async () => {} };
  }

  test("each object of the application and of the modules is named that is missing, changed or extra", async () => {
    const database = await migrated("changed");
    expect(await check(database, folder)).toEqual({ exitCode: 0, stdout: expect.stringMatching(SAME), stderr: "" });
    // Roles belong to the server, and so to the other tests too.
    onTestFinished(
      async () =>
        void (await database.owner.query("revoke service_role from anon; alter role authenticated nocreatedb")),
    );
    await database.owner.query(CHANGES);
    const { exitCode, stdout, stderr } = await check(database, folder);
    expect([exitCode, stderr]).toEqual([1, "the database differs from its migrations\n"]);
    expect(foundIn(stdout).toSorted()).toEqual(FOUND.toSorted());
    expect(stdout).toContain(`
  changed  column public.notes.title
             expected  text, not null, default ''::text
             actual    text, default ''::text
`);
    expect(stdout).toContain(`
  changed  function public.count_notes()
             expected  line 8: FROM public.notes n
                          WHERE (n.id > 0);
             actual    line 8: FROM public.notes n;
`);
    expect(stdout).toMatch(/^The database changed differs from its migrations in \d+ of \d+ objects\.\n$/m);

    // What the output says to do about the modules.
    const repair = /update content_service\.modules set code_hash = '' where module = 'auth';/.exec(stdout)![0];
    await database.owner.query(repair.replace("= 'auth'", "in ('auth', 'feed')"));
    const environment = { DATABASE_URL: database.url, JWT_SECRET: SECRET, MIGRATE: "modules" };
    expect(await upgrade(["--yes"], environment)).toMatch(/\nDone\. /);
    const after = foundIn((await check(database, folder)).stdout);
    const repaired = FOUND.filter((line) =>
      / (auth_api\.refuse_sign_up|_500_announce|announce_schema_drop|content_changes)/.test(line),
    );
    expect(repaired).toHaveLength(4);
    expect(after.filter((line) => repaired.includes(line))).toEqual([]);
  });

  test("--json has all definitions, and what a start would change is not drift", async () => {
    const database = await migrated("as_json");
    await database.owner.query(`
      create function public.announce_ddl() returns event_trigger language plpgsql as $$ begin notify pgrst, 'reload schema'; end $$;
      create event trigger announce_ddl on ddl_command_end execute function public.announce_ddl();
      update content_service.modules set code_hash = 'of another version' where module = 'auth';
      drop function auth_api.refuse_sign_up() cascade; drop index public.notes_author_idx;
      create schema others; create table others.things (id int);`);
    await writeFile(join(folder, "committed/000002-more.sql"), `${HEADER}create table public.more (id int);`);
    onTestFinished(() => rm(join(folder, "committed/000002-more.sql")));
    const { exitCode, stdout } = await check(database, folder, { args: ["--json"] });
    expect([exitCode, JSON.parse(stdout)]).toEqual([
      1,
      {
        database: "as_json",
        objects: expect.any(Number),
        drift: [
          {
            of: "application",
            ...{ state: "missing", kind: "index", name: "public.notes_author_idx", actual: null },
            expected: "CREATE INDEX notes_author_idx ON public.notes USING btree (author)",
          },
        ],
        notes: [
          "pending, and so not compared: the module auth: a start runs its code again",
          "pending, and so not compared: the migration 000002-more.sql of the application",
          "not compared, because no migration makes anything in them: others",
        ],
      },
    ]);
  });

  test("what a database has run of current.sql counts as a migration", async () => {
    const database = await migrated("current");
    const environment = { DATABASE_URL: database.url, JWT_SECRET: SECRET };
    await writeFile(join(folder, "current.sql"), "create table public.tags (id int primary key);");
    onTestFinished(() => rm(join(folder, "current.sql")));
    await migrationCommand(["apply"], { environment, folder });
    expect(await check(database, folder)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^note: db\/migrations\/current\.sql is not committed; /),
    });
    await database.owner.query("alter table public.tags add column name text");
    expect(foundIn((await check(database, folder)).stdout)).toEqual(["application", "extra column public.tags.name"]);
  });

  test("right after the start of an application with all modules there is no drift", async () => {
    await withClient(server.cluster.url("postgres"), (root) => root.query("create database demo"));
    const owner = await connected(server.cluster.url("demo"));
    const database = { name: "demo", url: server.cluster.url("demo"), owner, drop: () => owner.end() };
    const service = await startTestService({ SEED: "demo" }, database);
    onTestFinished(service.stop);
    const settings = { APPLICATION: "demo", AUTH_USER_ID: "bigint" };
    expect(await check(database, undefined, settings)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(SAME),
    });
  });

  test("with MIGRATE=modules only the modules are compared, beside tables of another team", async () => {
    const database = await server.makeDatabase("beside", applicationOf("uuid"));
    const settings = { MIGRATE: "modules", MODULES: "auth,tasks,feed,channels", GRAPHQL_MAX_TABLES: "50" };
    const options = { definition: NO_APPLICATION };
    const service = await startTestService(settings, database, undefined, undefined, options);
    onTestFinished(service.stop);
    await database.owner.query(signInSql("uuid"));
    await database.owner.query(`
      create table public.of_others (id int primary key); create schema others; create role reader;
      grant usage on schema auth to reader; create publication of_others for table public.of_others;
      create policy "members read" on realtime.messages for select to authenticated using (true);`);
    expect(await check(database, undefined, settings)).toEqual({
      exitCode: 0,
      stdout: expect.stringMatching(SAME),
      stderr: "",
    });
    await database.owner.query(`
      drop publication content_changes; drop function tasks.run(text, json); create index on tasks.tasks (id);
      alter table realtime.messages disable row level security;`);
    const { exitCode, stdout } = await check(database, undefined, settings);
    expect([exitCode, foundIn(stdout)]).toEqual([
      1,
      [
        ...["module channels", "changed row-level security of realtime.messages"],
        ...["module feed", "missing publication content_changes"],
        ...["module tasks", "missing function tasks.run(text,json)", "extra index tasks.tasks_id_idx"],
      ],
    ]);
  });

  test("a login without rights, a database without modules, MIGRATE=off and wrong options are refused with the reason", async () => {
    const database = await migrated("refused");
    await database.owner.query("create role nobody login password 'nobody'");
    const login = Object.assign(new URL(database.url), { username: "nobody", password: "nobody" }).href;
    expect(await check({ url: login }, folder)).toEqual({
      exitCode: 1,
      stdout: "",
      stderr: expect.stringMatching(
        /^the modules of the service in this database belong to the login \w+, and nobody may not use them: set DATABASE_URL to the URL of \w+, or .*\n$/,
      ),
    });
    const empty = { url: server.cluster.url("template1") };
    expect((await check(empty, folder)).stderr).toMatch(/^this database has nothing of the service yet: /);
    expect(await check(database, folder, { MIGRATE: "off" })).toMatchObject({
      exitCode: 2,
      stderr: "with MIGRATE=off no migration runs on the database: there is nothing to compare\n",
    });
    expect(await check(database, folder, { args: ["--all"] })).toMatchObject({ exitCode: 2 });
    await database.owner.query("insert into graphile_migrate.migrations values ('sha1:1', null, '000009.sql')");
    expect((await check(database, folder)).stderr).toMatch(
      /^a newer version of the application has migrated .*: 000009\.sql\n$/,
    );
  });
});
