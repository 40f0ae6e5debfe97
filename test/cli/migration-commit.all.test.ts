import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { startScratchCluster } from "../../cli/scratch-cluster.ts";
import { upgrade } from "../../cli/upgrade.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";

const SECRET = "s".repeat(32);

let home: string;
let folder: string;
let scratch: Awaited<ReturnType<typeof startScratchCluster>>;
beforeAll(async () => {
  scratch = await startScratchCluster();
  return () => scratch.remove();
});
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "commit-"));
  folder = join(home, "db/migrations");
  await mkdir(join(folder, "committed"), { recursive: true });
  await mkdir(join(home, "db/schema"));
  await symlink("../schema", join(folder, "fixtures"));
  return () => rm(home, { recursive: true });
});

const BASE = `
revoke all on schema public from public;
grant usage on schema public to anon, authenticated, service_role;
create table if not exists public.notes (
  id bigint generated always as identity primary key,
  author uuid not null default auth.uid(),
  title text not null default '',
  text text
);
create index if not exists notes_author_idx on public.notes (author);
alter table public.notes enable row level security;
grant select (id, title) on public.notes to anon;
grant select, insert (title, text), update (title, text) on public.notes to authenticated;
grant all on public.notes to service_role;
drop policy if exists "all read notes" on public.notes;
create policy "all read notes" on public.notes for select using (id > 0);
drop policy if exists "authors write their own notes" on public.notes;
create policy "authors write their own notes" on public.notes to authenticated
  using (author = (select auth.uid())) with check (author = (select auth.uid()));
create or replace function public.count_notes() returns bigint language sql stable set search_path = '' as
  $$ select count(*) from public.notes $$;
revoke execute on function public.count_notes() from public;
grant execute on function public.count_notes() to anon, authenticated;
set local lock_timeout = '3s';
`;

/** Commits `current` on top of a first migration; `db/schema` has the result. */
async function commit(current: string, ...args: string[]) {
  const header = `--! Previous: -\n--! Hash: sha1:${"0".repeat(40)}\n--! Message: base\n--! AllowInvalidHash\n\n`;
  await writeFile(join(folder, "committed/000001-base.sql"), header + BASE);
  await writeFile(join(home, "db/schema/schema.sql"), `${BASE}\n${current}\n`);
  await writeFile(join(folder, "current.sql"), current);
  return run("commit", "a change", ...args);
}

const printed: string[] = [];
async function run(...args: string[]) {
  const startScratch = async () => ({ ...scratch, url: (name: string) => scratch.url(name), remove: async () => {} });
  const environment = { JWT_SECRET: SECRET, DATA_DIR: join(home, "data") };
  const print = (text: string) => void printed.push(text);
  return outcomeOf(migrationCommand(args, { environment, folder, startScratch, print }));
}
const changelog = () => readFile(join(home, "CHANGELOG.md"), "utf8");
const committed = async () => (await readdir(join(folder, "committed"))).sort();

const DROP = "alter table public.notes drop column if exists title;\n";
const PARTS = Array.from({ length: 20 }, (_, i) => `part_${i}`);
const ACCEPTED = `-- @accept loses-data no version has used it since 1.4\n${DROP}`;

test("a first migration is committed without a word about locks or clients that there were before", async () => {
  await writeFile(join(home, "db/schema/schema.sql"), BASE);
  await writeFile(join(folder, "current.sql"), BASE);
  const { exitCode, stdout, stderr } = await run("commit", "notes");
  expect([exitCode, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(
    /^What changes for clients, without breaking them:\n {2}GraphQL for all callers: the schema was added\n/,
  );
  expect(stdout).toMatch(/\ndb\/migrations\/committed\/000001-notes\.sql has been written\.\n$/);
});

test("a change that breaks clients is refused without --breaking, and says what breaks for whom, and how to go on", async () => {
  const { exitCode, stdout, stderr } = await commit(DROP);
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(
    /^nothing was committed\.\ncurrent\.sql, line 1: error: column public\.notes\.title: its values are lost/,
  );
  expect(stderr).toContain("    -- @accept loses-data reason\n");
  expect(stderr).toContain("  GraphQL for all callers: Note.title was removed\n");
  expect(stderr).toContain("  REST for all callers: notes.title is no longer in responses\n");
  expect(stderr).toContain(
    "  REST for admin, authenticated, service_role: notes_insert.title is no longer in requests\n",
  );
  expect(stderr).toContain('commit with --breaking "reason"');
  expect(await committed()).toEqual(["000001-base.sql"]);
});

test("a change that breaks clients is refused without --breaking although what it loses is accepted", async () => {
  expect((await commit(ACCEPTED)).stderr).toContain('commit with --breaking "reason"');
  expect(await committed()).toEqual(["000001-base.sql"]);
});

test("--breaking commits it, and the changelog of the application gets the reason; uncommit takes both back", async () => {
  const { exitCode, stdout, stderr } = await commit(ACCEPTED, "--breaking", "titles are part of the text");
  expect([exitCode, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(
    /committed\/000002-a-change\.sql has been written\.\nCHANGELOG\.md has the reason of the breaking change\.\n$/,
  );
  expect(await changelog()).toMatch(
    /^# Changelog\n\n## Unreleased\n\n- \*\*Breaking\*\* \(000002-a-change\.sql\): titles are part of the text\n {2}- GraphQL for all callers: Note\.title was removed\n/,
  );
  expect(await readFile(join(folder, "committed/000002-a-change.sql"), "utf8")).toContain(ACCEPTED);
  expect((await run("uncommit")).exitCode).toBe(0);
  expect(await changelog()).toBe("# Changelog\n\n## Unreleased\n\n");
});

test("upgrade repeats what the commit of a pending migration has found, and --sql prints it; uncommit forgets it", async () => {
  const wider = "alter table public.notes alter column text type varchar(200);\n";
  await commit(`${ACCEPTED}${wider}`, "--breaking", "titles are part of the text");
  const header = `--! Message: a change
--! Judgement1: table public.notes: it waits for every transaction that uses the table, and all requests of the table wait behind it (no-lock-timeout)
--! Judgement2: table public.notes: text gets another type: all its rows are written again, and nothing can use it meanwhile (table-rewrite)
--! Breaking: titles are part of the text

`;
  const file = join(folder, "committed/000002-a-change.sql");
  expect(await readFile(file, "utf8")).toContain(`${header}${ACCEPTED}${wider}`);
  expect((await stat(file)).mode & 0o777).toBe(0o444);

  await writeFile(join(home, "content-service.config.ts"), "export default {};\n");
  const environment = { DATABASE_URL: scratch.url("postgres"), JWT_SECRET: SECRET, APPLICATION: home };
  const notes = `  the migration 000001-base.sql of the application
  the migration 000002-a-change.sql of the application
    table public.notes: it waits for every transaction that uses the table, and all requests of the table wait behind it (no-lock-timeout)
    table public.notes: text gets another type: all its rows are written again, and nothing can use it meanwhile (table-rewrite)
    accepted, loses-data: no version has used it since 1.4
    it breaks clients: titles are part of the text (CHANGELOG.md of the application lists the changes)
`;
  expect((await outcomeOf(upgrade([], environment))).stdout).toContain(`${notes}\nNothing has been changed.`);
  const { stdout } = await outcomeOf(upgrade(["--sql"], environment));
  expect(stdout).toContain(
    `    --! Breaking: titles are part of the text\n\n    ${ACCEPTED.split("\n")[0]}\n    ${DROP}    ${wider}`,
  );

  await run("uncommit");
  expect(await readFile(join(folder, "current.sql"), "utf8")).toBe(`--! Message: a change\n\n${ACCEPTED}${wider}`);
});

test("an existing changelog keeps what it has", async () => {
  const old = "# Notes\n\nOf the application.\n\n## 1.0.0\n\n- The first version.\n";
  await writeFile(join(home, "CHANGELOG.md"), old);
  await commit(ACCEPTED, "--breaking", "first");
  expect(await changelog()).toMatch(
    /^# Notes\n\nOf the application\.\n\n## Unreleased\n\n- \*\*Breaking\*\* \(000002-a-change\.sql\): first\n( {2}- .*\n)+\n## 1\.0\.0\n\n- The first version\.\n$/,
  );
});

test("a change that breaks nothing is committed, and printed with what the advisor finds", async () => {
  const { exitCode, stdout } = await commit(`
create table if not exists public.tags (
  id bigint generated always as identity primary key,
  note_id bigint not null references public.notes
);
alter table public.tags enable row level security;
grant select on public.tags to authenticated;
drop policy if exists "users read tags" on public.tags;
create policy "users read tags" on public.tags for select to authenticated using (id > 0);
create index if not exists notes_text_idx on public.notes (text);
${PARTS.map((part) => `alter table public.notes add column if not exists ${part} text;`).join("\n")}
grant select on public.notes to authenticated;
`);
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(
    /^current\.sql, line 2: warning: constraint tags_note_id_fkey on public\.tags: .* \(foreign-key-without-index\)\n {4}create index on public\.tags \(note_id\);$/m,
  );
  expect(stdout).toMatch(
    /^current\.sql, line 10: warning: index notes_text_idx on public\.notes: .* \(index-blocks-writes\)$/m,
  );
  expect(stdout).toMatch(
    /^What changes for clients, without breaking them:\n {2}GraphQL for admin, authenticated: Query\.tag, .*Query\.tags.* were added\n/m,
  );
  expect(stdout).toContain("  REST for admin, authenticated: /tags was added\n");
  expect(stdout).toMatch(/: Note\.part0, .*, Note\.part11 and 8 more were added\n/);
  expect(stdout).toMatch(/: \/notes: the parameters \?part_0, .*, \?part_11 and 8 more were added\n/);
  expect(stdout).toMatch(/: TEXT_ASC, .* were added to enum type NoteOrderBy\n/);
  expect(stdout).toContain(
    `  REST for admin, authenticated, service_role: ${PARTS.slice(0, 12)
      .map((part) => `notes.${part}`)
      .join(", ")} and 8 more are new in responses\n`,
  );
  expect(stdout).not.toMatch(/notes_author_idx|all read notes/);
});

test("rows that a table without row-level security would show are an error of the advisor, and refused until it is accepted", async () => {
  const rates = `create table if not exists public.rates (id int primary key);\ngrant select on public.rates to anon;
comment on table public.rates is e'@name rate\\nThe day''s rates.';\n`;
  const { exitCode, stderr } = await commit(rates);
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(
    /^current\.sql, line 1: error: table public\.rates: it has no row-level security: anon may use all rows \(table-without-row-security\)\n {4}begin;\n {4}create policy "…" on public\.rates to anon using \(…\);\n {4}alter table public\.rates enable row level security;/m,
  );
  const accept = `comment on table public.rates is e'@accept table-without-row-security reason\\n@name rate\\nThe day''s rates.';\n`;
  expect(stderr).toContain(`If that is intended, say why in SQL:\n    ${accept}`);
  expect(await commit(rates + accept)).toMatchObject({ exitCode: 0, stderr: "" });
});

test("a revoke, a required argument and another type break the contract for the roles that lose it", async () => {
  const { exitCode, stderr } = await commit(`
set local lock_timeout = '3s';
revoke select (title) on public.notes from anon;
drop function if exists public.count_notes();
create or replace function public.count_notes(author uuid) returns text language sql stable set search_path = '' as
  $$ select count(*)::text from public.notes as n where n.author = count_notes.author $$;
revoke execute on function public.count_notes(uuid) from public;
grant execute on function public.count_notes(uuid) to anon, authenticated;
`);
  expect(exitCode).toBe(1);
  expect(stderr).toContain("  REST for anon: notes.title is no longer in responses\n");
  expect(stderr).toContain(
    "  REST for admin, anon, authenticated: the response of POST /rpc/count_notes was integer or null, and is string or null in responses\n",
  );
  expect(stderr).toMatch(/^current\.sql, line 4: error: function public\.count_notes\(\): .* \(breaks-instances\)$/m);
  expect(stderr).toMatch(
    /GraphQL for admin, anon, authenticated: Query\.countNotes changed type from BigInt to String/,
  );
});

test("progress is printed for people", () => {
  expect(printed.slice(0, 4).join("")).toBe(
    "Comparing db/schema/ with the migrations …\nReading what clients see before current.sql …\n" +
      "Running current.sql, and judging each statement …\nComparing what clients see after it …\n",
  );
});
