import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { compileSchema } from "../../cli/current-migration.ts";
import { installModules } from "../../db/cluster/migrate.ts";
import { describeDatabase, differences } from "../../parts/development/migrations/describe.ts";
import { INSTALLATION, MIGRATIONS_FOLDER } from "../support/cluster.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let migrated: string[];

/** Without the roles of other test files, which belong to the whole server and are named after their databases. */
const described = async (client: pg.Client) =>
  (await describeDatabase(client)).filter((line) => !/\btest_[0-9a-f]{10}_/.test(line));

beforeAll(async () => {
  database = await createTestDatabase();
  migrated = await described(database.owner);
  return () => database.drop();
});

/** The differences that a change of the schema causes; the change is rolled back. */
async function differencesAfter(change: string): Promise<string[]> {
  await database.owner.query("begin");
  try {
    await database.owner.query(`set local search_path = public; ${change}`);
    return differences(migrated, await described(database.owner));
  } finally {
    await database.owner.query("rollback");
  }
}

test("db/schema and db/migrations create the same database", async () => {
  const name = `${database.name}_compiled`;
  await database.owner.query(`create database ${name}`);
  const url = database.url.replace(database.name, name);
  const client = new pg.Client(url);
  await client.connect();
  try {
    await installModules(url, () => {}, INSTALLATION);
    await client.query(await compileSchema(url, MIGRATIONS_FOLDER));
    expect(differences(migrated, await described(client))).toEqual([]);
  } finally {
    await client.end();
    await database.owner.query(`drop database ${name}`);
  }
});

test("data and login roles do not count as differences", async () => {
  const change = `
    insert into users (name, email) values ('Dora', 'dora@test.example');
    create role some_login login;
    grant anon to some_login;
    alter role some_login set search_path = public;`;
  expect(await differencesAfter(change)).toEqual([]);
});

/** Each changes another object. */
const CHANGES: readonly (readonly [what: string, change: string, expected: readonly string[]])[] = [
  [
    "a column",
    "alter table articles add column subtitle text not null default ''",
    ["+ column public.articles.subtitle: 9 text, not null, default ''::text"],
  ],
  [
    "a column's type",
    "alter table internal.seeds alter column seeded_at type date",
    [
      "- column internal.seeds.seeded_at: 2 timestamp with time zone, not null, default now()",
      "+ column internal.seeds.seeded_at: 2 date, not null, default now()",
    ],
  ],
  [
    "the order of columns",
    "alter table auth_private.refresh_tokens drop column issued_at, add column issued_at timestamptz not null default now()",
    [
      "- column auth_private.refresh_tokens.expires_at: 4 timestamp with time zone, not null",
      "+ column auth_private.refresh_tokens.expires_at: 3 timestamp with time zone, not null",
      "- column auth_private.refresh_tokens.spent_at: 5 timestamp with time zone",
      "+ column auth_private.refresh_tokens.spent_at: 4 timestamp with time zone",
      "- column auth_private.refresh_tokens.issued_at: 3 timestamp with time zone, not null, default now()",
      "- column auth_private.refresh_tokens.parent: 6 bytea",
      "+ column auth_private.refresh_tokens.parent: 5 bytea",
      "+ column auth_private.refresh_tokens.issued_at: 6 timestamp with time zone, not null, default now()",
    ],
  ],
  [
    "a column's default",
    "alter table users alter column created_at drop default",
    [
      "+ column public.users.created_at: 6 timestamp(3) with time zone, not null",
      "- column public.users.created_at: 6 timestamp(3) with time zone, not null, default now()",
    ],
  ],
  [
    "a column's grant",
    "grant update (created_at) on comments to authenticated",
    ["+ grants on column public.comments.created_at to authenticated: update"],
  ],
  [
    "a table's grant",
    "revoke delete on comments from authenticated",
    [
      "- grants on table public.comments to authenticated: delete, select",
      "+ grants on table public.comments to authenticated: select",
    ],
  ],
  [
    "row-level security",
    "alter table internal.seeds disable row level security",
    ["- table internal.seeds: owner postgres, row-level security", "+ table internal.seeds: owner postgres"],
  ],
  [
    "forced row-level security",
    "alter table article_translations force row level security",
    [
      "- table public.article_translations: owner postgres, row-level security",
      "+ table public.article_translations: owner postgres, row-level security, forced",
    ],
  ],
  [
    "a replica identity",
    "alter table users replica identity nothing",
    [
      "- table public.users: owner postgres, row-level security",
      "+ table public.users: owner postgres, row-level security, replica identity nothing",
    ],
  ],
  [
    "an owner",
    "alter table auth_private.refresh_tokens owner to tasks_owner",
    [
      "- table auth_private.refresh_tokens: owner auth_owner, row-level security",
      "+ table auth_private.refresh_tokens: owner tasks_owner, row-level security",
      "- grants on table auth_private.refresh_tokens to auth_owner: delete, insert, maintain, references, select, trigger, truncate, update",
      "+ grants on table auth_private.refresh_tokens to tasks_owner: delete, insert, maintain, references, select, trigger, truncate, update",
    ],
  ],
  [
    "a policy's condition",
    `alter policy "everyone reads users" on users using (age > 17)`,
    [
      `+ policy "everyone reads users" on public.users: permissive select to public using (age > 17)`,
      `- policy "everyone reads users" on public.users: permissive select to public using true`,
    ],
  ],
  [
    "a policy's roles",
    `alter policy "everyone may sign up" on users to anon`,
    [
      `- policy "everyone may sign up" on public.users: permissive insert to anon, authenticated with check true`,
      `+ policy "everyone may sign up" on public.users: permissive insert to anon with check true`,
    ],
  ],
  [
    "a constraint",
    "alter table users drop constraint users_age_range, add constraint users_age_range check (age > 0)",
    [
      "- comment on constraint users_age_range on public.users: age must be from 0 to 150",
      "- constraint users_age_range on public.users: CHECK (((age >= 0) AND (age <= 150)))",
      "+ constraint users_age_range on public.users: CHECK ((age > 0))",
    ],
  ],
  [
    "an index",
    "drop index articles_tags_idx",
    ["- index public.articles_tags_idx: CREATE INDEX articles_tags_idx ON public.articles USING gin (tags)"],
  ],
  ["a comment", "comment on column users.age is null", ["- comment on column public.users.age: In years, 0 to 150."]],
  [
    "a comment of the schema public",
    "comment on schema public is 'Ours.'",
    ["+ comment on schema public: Ours.", "- comment on schema public: The API: objects granted here are served."],
  ],
  [
    "a trigger",
    "alter table users disable trigger _100_timestamps",
    [
      "+ trigger _100_timestamps on public.users: CREATE TRIGGER _100_timestamps BEFORE UPDATE ON public.users FOR EACH ROW EXECUTE FUNCTION internal.touch(), disabled",
      "- trigger _100_timestamps on public.users: CREATE TRIGGER _100_timestamps BEFORE UPDATE ON public.users FOR EACH ROW EXECUTE FUNCTION internal.touch()",
    ],
  ],
  [
    "an event trigger",
    "drop event trigger announce_schema_drop",
    ["- event trigger announce_schema_drop: on sql_drop, calls changes.announce_schema_change, owner postgres"],
  ],
  [
    "an enum's values",
    "alter type article_status add value 'DELETED' before 'ARCHIVED'",
    [
      "+ type public.article_status: enum, 'DRAFT' < 'PUBLISHED' < 'DELETED' < 'ARCHIVED', owner postgres",
      "- type public.article_status: enum, 'DRAFT' < 'PUBLISHED' < 'ARCHIVED', owner postgres",
    ],
  ],
  [
    "a domain",
    "create domain percent as int not null check (value between 0 and 100)",
    [
      "+ constraint percent_check on public.percent: CHECK (((VALUE >= 0) AND (VALUE <= 100)))",
      "+ type public.percent: domain over integer, not null, owner postgres",
      "+ grants on type public.percent to postgres: usage",
      "+ grants on type public.percent to public: usage",
    ],
  ],
  ["a composite type", "alter type field_error add attribute hint text", ["+ column public.field_error.hint: 4 text"]],
  [
    "a schema's grant",
    "grant usage on schema auth_private to anon",
    ["+ grants on schema auth_private to anon: usage"],
  ],
  [
    "a default privilege",
    "alter default privileges grant execute on functions to public",
    ["- default acl of postgres in every schema for type f: postgres=X/postgres"],
  ],
  ["a role", "create role editor nologin bypassrls", ["+ role editor: bypassrls"]],
  ["a role's attributes", "alter role admin createrole", ["- role admin: ", "+ role admin: createrole"]],
  ["a membership", "grant service_role to admin", ["+ membership admin in service_role: inherit, set"]],
  ["a setting", "alter role anon set statement_timeout = '3s'", ["+ setting anon: statement_timeout=3s"]],
  [
    "an extension",
    "create extension ltree",
    [
      "+ extension ltree: in schema public",
      "+ comment on extension ltree: data type for hierarchical tree-like structures",
    ],
  ],
  [
    "a publication",
    "create publication changes for table users",
    [
      "+ publication changes: insert, update, delete, truncate",
      "+ published table public.users in publication changes: published",
    ],
  ],
  [
    "an operator",
    "create operator public.=== (leftarg = text, rightarg = text, function = texteq)",
    ["+ object public.===(pg_catalog.text,pg_catalog.text): operator"],
  ],
];

describe("a difference in", () => {
  let found: string[];
  beforeAll(async () => {
    found = await differencesAfter(CHANGES.map(([, change]) => change).join(";"));
  });

  test.each(CHANGES)("%s is found", (_what, _change, expected) => {
    expect(expected.filter((line) => !found.includes(line))).toEqual([]);
  });

  test("other objects is not reported", () => {
    expect(found.toSorted()).toEqual(CHANGES.flatMap(([, , expected]) => expected).toSorted());
  });
});

test("a function's body, its owner and its grants are compared", async () => {
  const found = await differencesAfter(`
    revoke execute on function auth.uid() from anon;
    create or replace function auth.is_admin() returns boolean language sql stable parallel safe return false;
    alter function internal.touch() owner to auth_owner;`);
  const names = found.map((line) => line.slice(0, line.indexOf(":")));
  expect(names).toEqual([
    "- function auth.is_admin()",
    "+ function auth.is_admin()",
    "- function internal.touch()",
    "+ function internal.touch()",
    "- grants on function auth.uid() to anon",
    "+ grants on function internal.touch() to auth_owner",
    "- grants on function internal.touch() to postgres",
  ]);
  expect(found[1]).toContain("RETURN false");
});
