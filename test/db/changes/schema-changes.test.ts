import pg from "pg";
import { beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

let database: TestDatabase;
let listener: pg.Client;

beforeAll(async () => {
  database = await createTestDatabase();
  listener = new pg.Client(database.url);
  await listener.connect();
  await listener.query("listen schema_changes; listen the_end");
  return async () => {
    await listener.end();
    await database.drop();
  };
});

/** The notifications that the statements cause, each committed separately: `["schema_changes", "CREATE TABLE"]`. */
async function heard(...statements: string[]): Promise<[channel: string, payload: string][]> {
  const messages: [string, string][] = [];
  const end = new Promise<void>((resolve) => {
    listener.on("notification", ({ channel, payload = "" }) => {
      if (channel === "the_end") resolve();
      else messages.push([channel, payload]);
    });
  });
  // Postgres delivers in commit order: after this notification, all earlier ones have arrived.
  for (const statement of [...statements, "notify the_end"]) await database.owner.query(statement);
  await end;
  listener.removeAllListeners("notification");
  return messages;
}

test.each([
  ["create table notes (id int primary key)", "CREATE TABLE"],
  ["alter table notes add column text text", "ALTER TABLE"],
  ["comment on column notes.text is 'What it says.'", "COMMENT"],
  ["grant select on notes to anon", "GRANT"],
  ["revoke select on notes from anon", "REVOKE"],
  ["create index on notes (text)", "CREATE INDEX"],
  ["create view recent_notes with (security_invoker) as select * from notes", "CREATE VIEW"],
  ["create function note() returns int return 1", "CREATE FUNCTION"],
  ['create policy "hidden rows" on notes using (false)', "CREATE POLICY"],
  ["create type mood as enum ('good')", "CREATE TYPE"],
  ["drop function note()", "DROP FUNCTION"],
  ['drop policy "hidden rows" on notes', "DROP POLICY"],
  ["drop view recent_notes", "DROP VIEW"],
  ["drop table notes cascade", "DROP TABLE"],
  ["alter publication content_changes set (publish = 'insert, update, delete, truncate')", "ALTER PUBLICATION"],
  ["create table copied as select 1 as one", "CREATE TABLE AS"],
  ["create schema more create table more.one (id int)", "CREATE SCHEMA"],
  ["drop schema more cascade", "DROP SCHEMA"],
])("a change of the schema is announced: %s", async (statement, tag) => {
  expect(await heard(statement)).toEqual([["schema_changes", tag]]);
});

test("a change of the schema that is rolled back is not announced", async () => {
  expect(await heard("begin", "create table never (id int)", "rollback")).toEqual([]);
});

test("temporary tables are not announced", async () => {
  const messages = await heard(
    "create temporary table scratch (id bigint generated always as identity primary key, text text unique)",
    "create index on scratch (text)",
    "alter table scratch add column more int default 1",
    "alter table scratch alter column more drop default, drop constraint scratch_text_key",
    "alter table scratch drop column more",
    "create function pg_temp.one() returns int return 1",
    "drop function pg_temp.one()",
    "create temporary view looking as select * from scratch",
    "drop view looking",
    "drop table scratch",
    "create temporary table copied_too as select 1 as one",
    "begin",
    "create temporary table short (id int) on commit drop",
    "commit",
  );
  expect(messages).toEqual([]);
});

test("a table created by a role that is not a superuser is announced", async () => {
  const messages = await heard(
    "begin",
    "create role dba nologin",
    "grant usage, create on schema public to dba",
    "set local role dba",
    "create table by_dba (id int)",
    "drop table by_dba",
    "reset role",
    "revoke usage, create on schema public from dba",
    "drop role dba",
    "commit",
  );
  expect(messages.map(([, tag]) => tag)).toEqual(["GRANT", "CREATE TABLE", "DROP TABLE", "REVOKE"]);
});

test("what processes do to publish a new table is not announced: the first sets its replica identity, others change nothing", async () => {
  await heard("create table published (id int primary key)");
  const identity = "select changes.set_identity('published', 'f')";
  expect(await heard(identity, "select changes.publish_table('published')")).toEqual([]);
  const row = "select xmin, relreplident from pg_class where oid = 'published'::regclass";
  const { rows } = await database.owner.query(row);
  expect(rows).toEqual([{ xmin: expect.any(String), relreplident: "f" }]);
  await heard(identity);
  expect((await database.owner.query(row)).rows).toEqual(rows);
  expect(await heard("alter table published replica identity default")).toEqual([["schema_changes", "ALTER TABLE"]]);
});
