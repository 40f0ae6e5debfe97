import { describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

/** What a DBA can create. Nothing of it may stop the start, or hide another object. The zoo has what every interface serves. */
const OBJECTS: Readonly<Record<string, string>> = {
  "a view that reads itself": `
    create view own_v as select 1 as id;
    create or replace view own_v as select id from own_v`,
  "two views that read each other": `
    create view first_v as select 1 as id, 2 as n;
    create view second_v as select id, n from first_v;
    create or replace view first_v as select id, n from second_v`,
  "a view over a cycle, and a cycle through a subquery": `
    create view over_cycle_v as select id from first_v where id > 0;
    create view deep_v as select 1 as id;
    create view middle_v as select s.id from (select id from deep_v) as s;
    create or replace view deep_v as with m as (select id from middle_v) select id from m`,
  "a materialized view over a view": `
    create view plain_v as select id, title from articles;
    create materialized view stored_v as select id from plain_v`,
  "tables without columns, with dropped and with generated columns": `
    create table empty_t ();
    create table dropped_t (id int primary key, gone text, kept text);
    alter table dropped_t drop column gone;
    create table bare_t (gone int);
    alter table bare_t drop column gone;
    create table generated_t (id int primary key, double int generated always as (id * 2) stored, triple int generated always as (id * 3))`,
  "foreign tables of a server that cannot be reached": `
    create extension postgres_fdw;
    create server nowhere_s foreign data wrapper postgres_fdw options (host '127.0.0.1', port '1');
    create user mapping for public server nowhere_s options (user 'x', password 'x');
    create foreign table foreign_t (id int) server nowhere_s`,
  "foreign tables of a wrapper without a handler, and views that read them": `
    create foreign data wrapper unhandled_w;
    create server unhandled_s foreign data wrapper unhandled_w;
    create foreign table unhandled_t (id int) server unhandled_s;
    create view unhandled_v as select id from unhandled_t;
    create view over_unhandled_v as select id from unhandled_v;
    create table noted_t (id int primary key);
    create rule noted as on insert to noted_t do also insert into unhandled_t values (1)`,
  rules: `
    create table ruled_t (id int primary key);
    create rule ignored as on insert to ruled_t do instead nothing;
    create rule noted as on delete to ruled_t do also select 1`,
  "foreign keys to itself and in a circle": `
    create table circle_a_t (id int primary key);
    create table circle_b_t (id int primary key references circle_a_t);
    alter table circle_a_t add foreign key (id) references circle_b_t;
    create table self_t (id int primary key references self_t, other int references self_t)`,
  "a policy that reads its own table": `
    create table recursive_t (id int primary key);
    alter table recursive_t enable row level security;
    create policy recursive_p on recursive_t using (exists (select from recursive_t))`,
  "a view whose function fails": `
    create function failing_f() returns int language plpgsql as $$ begin raise exception 'no'; end $$;
    create view failing_v as select failing_f() as id`,
};

const READABLE = "articles users plain_v stored_v dropped_t generated_t noted_t ruled_t circle_a_t self_t".split(" ");
const FAILING = [
  ["own_v", "42P17"],
  ["first_v", "42P17"],
  ["over_cycle_v", "42P17"],
  ["deep_v", "42P17"],
  ["recursive_t", "42P17"],
  ["failing_v", "P0001"],
] as const;

const DDL = Object.values(OBJECTS).join(";\n");

const { service, rest, rows, sql } = useRest(
  { GRAPHQL_DOCUMENTS: "any" },
  `${DDL}; grant select on all tables in schema public to anon; grant execute on all functions in schema public to anon`,
);

describe("in a schema with unusual objects", () => {
  test.each(READABLE)("%s is served", async (name) => {
    expect(await rows(encodeURIComponent(name))).toBeInstanceOf(Array);
  });

  test.each(FAILING)("a request to %s returns Postgres' own error %s", async (name, code) => {
    expect((await rest(name)).json).toMatchObject({ code });
  });

  test.each(["unhandled_t", "over_unhandled_v"])("a request to %s, which nothing can read, is 500", async (name) => {
    expect((await rest(name)).status).toBe(500);
  });

  test("the OpenAPI description and GraphQL are served", async () => {
    expect((await rest("")).status).toBe(200);
    expect(await service().gql("{ articles(first: 1) { totalCount } }")).toMatchObject({
      data: { articles: { totalCount: 4 } },
    });
  });

  test("a cycle of views that is created later leaves everything else served", async () => {
    await sql("create view later_v as select 1 as id");
    await sql("create or replace view later_v as select id from later_v; grant select on later_v to anon");
    await expect.poll(async () => (await rest("later_v")).json.code).toBe("42P17");
    expect(await rows("articles")).toHaveLength(4);
  });
});
