import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { rehearse } from "../../parts/development/migrations/rehearsal.ts";
import { judge } from "../../parts/development/migrations/rules.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const NOTES = `
  create table public.users (id int primary key);
  create table public.notes (
    id int primary key, author int, title text, size int not null default 0,
    constraint notes_title_present check (title is not null)
  );
  create view public.titles as select id, title from public.notes;
  create function public.words(text) returns int language sql return length($1);
  create function public.touch() returns trigger language plpgsql as 'begin return new; end';
  create type public.mood as enum ('good', 'bad');`;

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase(undefined, "template1");
  await database.owner.query(NOTES);
});
afterEach(() => database.drop());

const PATIENT = "set local lock_timeout = '3s';\n";
const judged = async (sql: string) => judge(await rehearse(database.url, { file: "current.sql", text: sql }));
const rulesOf = async (sql: string) => (await judged(PATIENT + sql)).map(({ rule, object }) => `${rule}: ${object}`);

describe("a statement is judged by what it changed", () => {
  test.each([
    ["drop table users", ["loses-data: table public.users"]],
    ["do $$ begin execute 'drop table ' || 'users'; end $$", ["loses-data: table public.users"]],
    ["alter table notes drop column size", ["loses-data: column public.notes.size"]],
    ["truncate users", ["loses-data: table public.users"]],
    ["drop table users; create table users (id int primary key)", ["loses-data: table public.users"]],
    ["alter table users rename to people", ["breaks-instances: table public.users"]],
    ["alter table notes rename column size to length", ["breaks-instances: column public.notes.size"]],
    ["create schema api; alter table users set schema api", ["breaks-instances: table public.users"]],
    ["drop view titles", ["breaks-instances: view public.titles"]],
    ["drop function words(text)", ["breaks-instances: function public.words(text)"]],
    ["alter function words(text) rename to letters", ["breaks-instances: function public.words(text)"]],
    ["alter type mood rename value 'bad' to 'sad'", ["breaks-instances: value 'bad' of type public.mood"]],
    ["alter table notes alter column size type bigint", ["table-rewrite: table public.notes"]],
    ["alter table notes add column key uuid default gen_random_uuid()", ["table-rewrite: table public.notes"]],
    ["alter table notes set unlogged", ["table-rewrite: table public.notes"]],
    [
      "create index notes_author_idx on notes (author)",
      ["index-blocks-writes: index notes_author_idx on public.notes"],
    ],
    ["alter table notes add unique (author)", ["index-blocks-writes: index notes_author_key on public.notes"]],
    ["alter table notes alter column author set not null", ["not-null-scan: column public.notes.author"]],
    ["alter table notes add constraint small check (size < 9)", ["constraint-scan: constraint small on public.notes"]],
    [
      "alter table notes add constraint small check (size < 9) not valid; alter table notes validate constraint small",
      ["constraint-scan: constraint small on public.notes"],
    ],
    [
      "alter table notes add foreign key (author) references users",
      ["constraint-scan: constraint notes_author_fkey on public.notes"],
    ],
    ["alter table users add column name text not null", ["column-without-default: column public.users.name"]],
    [
      "alter table users add column name text; update users set name = ''; alter table users alter column name set not null",
      ["column-without-default: column public.users.name"],
    ],
    ["alter table notes alter column size drop default", ["column-without-default: column public.notes.size"]],
  ])("%s", async (sql, found) => {
    expect(await rulesOf(`${sql};`)).toEqual(found);
  });

  test.each([
    ["create table tags (id int primary key, name text not null unique); create index on tags (name); drop table tags"],
    ["alter table notes add column key uuid"],
    ["alter table notes add column state text not null default 'new'"],
    ["alter table notes add column owner int references users"],
    ["alter table notes alter column title set not null"],
    ["alter table notes add constraint small check (size < 9) not valid"],
    ["drop function touch()"],
    ["drop function words(text); create function words(text) returns bigint language sql return length($1)"],
    ["drop view titles; create view titles as select id, title, size from notes"],
    ["create or replace function words(text) returns int language sql return 0"],
    ["alter type mood add value 'fair' before 'bad'"],
    ["comment on table notes is 'Notes.'; grant select on notes to public"],
  ])("%s: nothing speaks against it", async (sql) => {
    expect(await rulesOf(`${sql};`)).toEqual([]);
  });
});

test("what an earlier migration has prepared is not judged again", async () => {
  await database.owner.query(`
    alter table notes add constraint small check (size < 9) not valid;
    create unique index notes_author_idx on notes (author);`);
  expect(
    await rulesOf(
      "alter table notes validate constraint small; alter table notes add unique using index notes_author_idx;",
    ),
  ).toEqual([]);
});

test("an index that is built concurrently is not judged, and other indexes without a transaction are", async () => {
  expect(await judged("--! no-transaction\ncreate index concurrently notes_author_idx on notes (author);")).toEqual([]);
  expect(await judged("--! no-transaction\ncreate index notes_size_idx on notes (size);")).toMatchObject([
    { rule: "index-blocks-writes" },
  ]);
});

test("a judgement names the line, what is wrong, and the SQL that is better", async () => {
  const sql = "select 1;\n\n-- For the lists.\ncreate index if not exists notes_author_idx on notes (author);\n";
  expect(await judged(sql)).toEqual([
    {
      rule: "index-blocks-writes",
      level: "warning",
      place: "current.sql, line 4",
      object: "index notes_author_idx on public.notes",
      reason: "writes of the table wait until it is built",
      fix:
        "create index concurrently if not exists notes_author_idx on public.notes using btree (author);  " +
        "-- before, in psql, or as the only statement of a migration that begins with --! no-transaction",
    },
  ]);
});

test("a lock that is awaited without an end is named once, at the first statement that waits", async () => {
  const alter = "alter table notes add column x int;\nalter table users add column x int;\n";
  expect(await judged(`select 1;\n${alter}`)).toMatchObject([
    { rule: "no-lock-timeout", level: "warning", place: "current.sql, line 2", object: "table public.notes" },
  ]);
  expect(await judged(`set local lock_timeout = '3s';\n${alter.replaceAll(" x ", " y ")}`)).toEqual([]);
});

test("a comment before a statement accepts a rule for this statement, with a reason", async () => {
  const drop = "alter table notes drop column size;\nalter table notes drop column author;\n";
  const places = async (comment: string) => (await judged(`${PATIENT}${comment}\n${drop}`)).map(({ place }) => place);
  expect(await places("-- @accept loses-data")).toEqual(["current.sql, line 3", "current.sql, line 4"]);
  await database.owner.query("alter table notes add column size int, add column author int");
  expect(await places("-- @accept table-rewrite It is small.")).toHaveLength(2);
  await database.owner.query("alter table notes add column size int, add column author int");
  expect(await places("-- Unused.\n-- @accept loses-data It was never filled.")).toEqual(["current.sql, line 5"]);
});

test("the lines of included files are named", async () => {
  const sql =
    "select 1;\n--! Included notes/table.sql\nselect 2;\ndrop table users;\n--! EndIncluded notes/table.sql\n";
  expect((await judged(PATIENT + sql)).map(({ place }) => place)).toEqual([
    "db/schema/notes/table.sql, line 2, included by current.sql",
  ]);
});

test("the recorder leaves nothing in the database", async () => {
  const objects = async () =>
    (
      await database.owner.query(
        "select evtname as name from pg_event_trigger union select nspname from pg_namespace where nspname !~ '^pg_' order by 1",
      )
    ).rows;
  const before = await objects();
  await judged("select 1;");
  expect(await objects()).toEqual(before);
});
