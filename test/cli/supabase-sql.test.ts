import { expect, test } from "vitest";
import { withoutUnserved } from "../../parts/development/init/supabase-sql.ts";

const read = (sql: string) => withoutUnserved("migrations/1_a.sql", sql);

test.each([
  ["insert into storage.buckets (id) values ('a')", /storage server/],
  [`create policy "see" on "storage"."objects" for select using (true)`, /storage server/],
  ["create policy p on storage.objects as restrictive using (true)", /storage server/],
  ["select vault.create_secret('a')", /environment variables/],
  [
    "create trigger t after insert on a execute function supabase_functions.http_request('https://a.example')",
    /a task/,
  ],
  ["select net.http_post('https://a.example')", /a task/],
  ["select cron.schedule('a', '* * * * *', 'select 1')", /a task with cron/],
  ["grant usage on schema graphql_public to anon", /\/graphql/],
  ["comment on schema graphql is '@graphql'", /\/graphql/],
  ['create extension if not exists "pg_net" with schema "extensions"', /does not use this extension/],
  ['CREATE EXTENSION IF NOT EXISTS "supabase_vault" WITH SCHEMA "vault"', /does not use this extension/],
  ["delete from auth.refresh_tokens", /supabase\.auth\.admin/],
  ["alter role authenticator set pgrst.db_schemas = 'public'", /DB_SCHEMAS/],
  ["alter database postgres set timezone to 'UTC'", /current_database/],
  ["BEGIN", /each migration is a transaction/],
])("%s is a comment, and listed", (sql, instead) => {
  expect(read(`select 1;\n${sql};\nselect 2;\n`)).toEqual({
    text: `select 1;\n-- ${sql};\nselect 2;\n`,
    differences: [
      {
        file: "migrations/1_a.sql",
        line: 2,
        what: expect.stringContaining("(a comment now)"),
        instead: expect.stringMatching(instead),
      },
    ],
  });
});

test.each([
  ["create extension vector with schema extensions", /a server that has the extension/],
  ["create function f() returns void language sql as $$ delete from storage.objects $$", /storage server/],
  ["create table photos (id uuid references storage.objects)", /storage server/],
  ["create policy p on a as restrictive using (exists (select from auth.mfa_factors))", /aal/],
  ["create policy p on a using (exists (select from auth.sessions))", /session_id/],
  [`create policy "q" on a as restrictive for all using (exists (select from storage.objects))`, /storage server/],
  ["copy public.plots (id) from stdin", /psql/],
])("%s stays, and is listed", (sql, instead) => {
  const { text, differences } = read(`${sql};`);
  expect([text, differences]).toEqual([
    `${sql};`,
    [expect.objectContaining({ line: 1, instead: expect.stringMatching(instead) })],
  ]);
});

test.each([
  "select my.storage.name from storage",
  "select 'https://storage.example/a'",
  "-- insert into storage.buckets\nselect 1",
  "/* net.http_post */ select 1",
  "create table cron_jobs (vault_id int)",
  "create policy p on realtime.messages for select using (realtime.topic() = 'a')",
  "create extension if not exists pgcrypto with schema extensions",
  "insert into auth.identities (id) values ('a')",
])("%s stays as it is", (sql) => {
  expect(read(sql)).toEqual({ text: sql, differences: [] });
});

test.each([
  ['ALTER TABLE "a" OWNER TO "postgres";', 'ALTER TABLE "a" OWNER TO current_user;'],
  ["alter function f() owner to supabase_admin;", "alter function f() owner to current_user;"],
  [
    'ALTER DEFAULT PRIVILEGES FOR ROLE "postgres" IN SCHEMA "public" REVOKE ALL ON TABLES FROM "anon";',
    'ALTER DEFAULT PRIVILEGES IN SCHEMA "public" REVOKE ALL ON TABLES FROM "anon";',
  ],
  ["\uFEFFselect 1;\r\nselect 2;", "select 1;\nselect 2;"],
])("%s becomes %s", (sql, text) => {
  expect(read(sql)).toEqual({ text, differences: [] });
});

test("statements beside one that is a comment keep their lines", () => {
  const { text, differences } = read(
    "select 1; select cron.unschedule('a'); select 2;\nselect 3; -- cron\nselect net.a(\n  1);",
  );
  expect(text).toBe(
    "select 1; -- select cron.unschedule('a');\n select 2;\nselect 3; -- cron\n-- select net.a(\n--   1);",
  );
  expect(differences.map(({ line }) => line)).toEqual([1, 3]);
});
