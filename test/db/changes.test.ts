import pg from "pg";
import { beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let listener: pg.Client;

beforeAll(async () => {
  database = await createTestDatabase();
  listener = new pg.Client(database.url);
  await listener.connect();
  await listener.query("listen changes; listen schema_changes; listen the_end");
  return async () => {
    await listener.end();
    await database.drop();
  };
});

/** The notifications that the statements cause, each committed separately: `["changes", …payload]`. */
async function heard(...statements: string[]): Promise<[channel: string, payload: any][]> {
  const messages: [string, any][] = [];
  const end = new Promise<void>((resolve) => {
    listener.on("notification", ({ channel, payload = "" }) => {
      if (channel === "the_end") resolve();
      else messages.push([channel, payload.startsWith("{") ? JSON.parse(payload) : payload]);
    });
  });
  // Postgres delivers in commit order: after this notification, all earlier ones have arrived.
  for (const statement of [...statements, "notify the_end"]) await database.owner.query(statement);
  await end;
  listener.removeAllListeners("notification");
  return messages;
}

const change = (operation: string, table: string, keys: object) => [
  "changes",
  { schema: "public", table, operation, keys },
];

/** Seeded: article 1 is Ada's (1), with comments 1 by Bob (2) and 2 by the administrator (3). */
const ARTICLE_1 = { id: "1", author_id: "1" };

test("a new article is announced with its keys", async () => {
  const text = "insert into articles (author_id, title, content) values (2, 'A title', 'A text.')";
  expect(await heard(text)).toEqual([
    change("INSERT", "articles", { id: expect.stringMatching(/^\d+$/), author_id: "2" }),
  ]);
});

test("an updated article is announced, unless no value has changed", async () => {
  expect(await heard("update articles set title = 'Another title' where id = 1")).toEqual([
    change("UPDATE", "articles", ARTICLE_1),
  ]);
  expect(await heard("update articles set title = title where id = 1", "select publish_article(1)")).toEqual([]);
});

test("a comment's insert, update and delete are announced with the article's key", async () => {
  const [inserted, updated, deleted] = await heard(
    "insert into comments (article_id, author_id, content) values (1, 3, 'A comment.')",
    "update comments set content = 'Changed.' where content = 'A comment.'",
    "delete from comments where content = 'Changed.'",
  );
  const keys = { id: expect.stringMatching(/^\d+$/), article_id: "1", author_id: "3" };
  expect([inserted, updated, deleted]).toEqual([
    change("INSERT", "comments", keys),
    change("UPDATE", "comments", keys),
    change("DELETE", "comments", keys),
  ]);
  expect(updated![1].keys.id).toBe(inserted![1].keys.id);
});

test("each row of one statement is announced", async () => {
  const messages = await heard("update articles set tags = tags || '{bulk}' where id in (1, 2)");
  expect(messages).toHaveLength(2);
  expect(messages).toContainEqual(change("UPDATE", "articles", ARTICLE_1));
  expect(messages).toContainEqual(change("UPDATE", "articles", { id: "2", author_id: "2" }));
});

test("a deleted article is announced with its deleted comments", async () => {
  const text = `
    with article as (insert into articles (author_id, title, content) values (1, 'To be deleted', '-') returning id)
    insert into comments (article_id, author_id, content) select id, 2, '-' from article`;
  // The foreign key is checked at the end of the statement, when both rows exist.
  const inserted = await heard(text);
  expect(inserted.map(([, { table }]) => table).sort()).toEqual(["articles", "comments"]);
  const { id } = inserted.find(([, { table }]) => table === "articles")![1].keys;
  const deleted = await heard(`delete from articles where id = ${id}`);
  expect(deleted.map(([, { table, operation }]) => `${operation} ${table}`).sort()).toEqual([
    "DELETE articles",
    "DELETE comments",
  ]);
});

test("a change that is rolled back is not announced", async () => {
  expect(await heard("begin", "update articles set title = 'Rolled back' where id = 1", "rollback")).toEqual([]);
});

test("a change of any role is announced at commit", async () => {
  const messages = await heard(
    "begin",
    "set local role authenticated",
    `set local request.jwt.claims = '{"sub": "1"}'`,
    "update articles set title = 'By Ada herself' where id = 1",
    "commit",
  );
  expect(messages).toEqual([change("UPDATE", "articles", ARTICLE_1)]);
});

test("an article of 1 MiB is announced: the message does not contain its text", async () => {
  const messages = await heard("update articles set content = repeat('x', 1048576) where id = 1");
  expect(messages).toEqual([change("UPDATE", "articles", ARTICLE_1)]);
});

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
