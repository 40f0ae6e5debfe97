import { expect, test } from "vitest";
import { type TestCaller, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const planOf = async (caller: TestCaller, query: string, ...values: unknown[]) =>
  JSON.stringify(await caller.rows(`explain ${query}`, ...values));

test("search, create_article and update_article work after a column was added, and search uses the index", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    await db.owner.rows("alter table articles add column subtitle text not null default 'none'");
    const input = "jsonb_populate_record(null::articles, $1)";
    const create = `select (created.article).id from create_article(${input}) as created`;
    const { id } = await db.as(ada!).row(create, { title: "Steam engines", content: "Text." });
    await db.as(ada!).row(`select update_article(${id}, ${input})`, { content: "Other text." });
    const found = await db.anon.callAll("search", "steam engines");
    expect(found).toMatchObject([{ id: Number(id), content: "Other text.", subtitle: "none" }]);
    await db.owner.rows("set local enable_seqscan = off");
    expect(await planOf(db.anon, "select * from search('steam engines')")).toContain("articles_search_idx");
  }));

test("search for null finds no article", () =>
  inTransaction(async (db) => expect(await db.anon.callAll("search", null)).toEqual([])));

test("a keyword search for users uses the trigram index, even with a generic plan", () =>
  inTransaction(async (db) => {
    await db.owner.rows(
      `insert into users (name, email) select md5(i::text), 'user' || i || '@test.example' from generate_series(1, 20000) as i`,
    );
    await db.owner.rows("analyze users");
    const query = "select * from users as u where internal.user_matches(u, $1) order by id limit 10";
    expect(await planOf(db.anon, query, "user19999")).toContain("users_search_idx");
    await db.owner.rows("set local plan_cache_mode = force_generic_plan");
    expect(await planOf(db.anon, query, "user19999")).toContain("users_search_idx");
  }));

test.each(["name", "created_at"])("users sorted by %s are read from an index", (column) =>
  inTransaction(async (db) => {
    await db.owner.rows("set local enable_seqscan = off; set local enable_sort = off");
    const query = `select * from users order by ${column}, id limit 10`;
    expect(await planOf(db.anon, query)).toContain(`users_${column}_id_idx`);
  }),
);
