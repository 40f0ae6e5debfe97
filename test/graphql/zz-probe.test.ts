import { test } from "vitest";
(globalThis as any).PROBE = { name: "Probe", version: "0", schema: { hooks: { build: { after: ["SwallowErrors"], callback(b: any) { b.handleRecoverableError = (e: any) => console.log("REC", JSON.stringify(b.status), JSON.stringify(e.message), e.cause, e.stack.split("\n").filter((l: string)=>l.includes("Plugin")).slice(0,4).join("\n")); return b; } } } } };
import { buildSchema } from "../../graphql/schema.ts";
import { Pool } from "pg";
import { createTestDatabase } from "../support/database.ts";
test.each([
 ["edges", "create table article_edges (id int primary key); grant select on article_edges to anon"],
 ["connection", "create table article_connections (id int primary key); grant select on article_connections to anon"],
 ["author", "create function articles_author(public.articles) returns text language sql stable as $$select 'x'$$; grant execute on function articles_author to anon"],
 ["title", "create function articles_title(public.articles) returns int language sql stable as $$select 1$$; grant execute on function articles_title to anon"],
 ["fn articles", "create function articles() returns int language sql stable as $$select 1$$; grant execute on function articles to anon"],
 ["enum article", "create type article as enum ('A'); create table uu(id int primary key, a article); grant select on uu to anon"],
 ["column", "alter table articles add column author text; grant select(author) on articles to anon"],
 ["fn publish", "create function create_article(x int) returns int language sql volatile as $$select 1$$; grant execute on function create_article to authenticated"],
 ["user", 'create table "user" (id int primary key); grant select on "user" to anon'],
 ["two fns", 'create function foo_bar() returns int language sql stable as $$select 1$$; create function "fooBar"() returns int language sql stable as $$select 1$$; grant execute on function foo_bar, "fooBar" to anon'],
 ["enum values", `create type odd as enum ('a-b', 'a_b', '1'); create table uu(id int primary key, a odd); grant select on uu to anon`],
 ["fn args", `create function ff("a_b" int, "aB" int) returns int language sql stable as $$select 1$$; grant execute on function ff to anon`],
 ["columns", `create table uu(id int primary key, a_b int, "aB" int); grant select, insert, update on uu to anon`],
])("%s", async (name, sql) => {
  const database = await createTestDatabase();
  await database.owner.query(sql);
  const pool = new Pool({ connectionString: database.url });
  try {
    const b: any = await buildSchema({ catalog: pool, schemas: ["public"], timeScalar: "Time", maxPageSize: 100, deleteAnonymous: "error" } as any);
    const f = (t: string) => Object.entries((b.schema.getType(t) as any)?.getFields?.() ?? {}).map(([k, v]: any) => k + ":" + v.type).join(" ");
    console.log("OK", name, "\nQuery", f("Query"), "\nArticle", f("Article"));
    console.log(JSON.stringify(b.omissions, null, 1));
  } catch (e) { console.log("FAIL", name, (e as Error).name, JSON.stringify((e as Error).message)); }
  await pool.end();
  await database.drop();
});
