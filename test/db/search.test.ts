import { expect, test } from "vitest";
import { type TestCaller, type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

/** The titles that a search finds among these articles of Ada. */
async function search(db: TestTransaction, keyword: string | null, articles: readonly object[]): Promise<string[]> {
  const [ada] = await db.users("Ada");
  for (const article of articles) await db.article({ author: ada!, ...article });
  const found = await db.anon.callAll("search", keyword);
  return found.filter((article) => article.author_id === ada!.id).map((article) => article.title);
}

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
    const plan = JSON.stringify(await db.anon.rows("explain select * from search('steam engines')"));
    expect(plan).toContain("articles_search_idx");
  }));

test.each([
  ["in the title", "gine", { title: "Steam engines" }],
  ["in the content", "gine", { content: "Of engines." }],
  ["in a tag", "gine", { tags: ["steam", "engines"] }],
  ["regardless of case", "GINE", { title: "steam ENGINES" }],
  ["regardless of case, beyond ASCII", "ÜBUNG", { content: "eine übung" }],
  ["of one letter", "x", { content: "x-axis" }],
  ["with spaces", "m e", { title: "Steam engines" }],
  ["of symbols", "€ & 😀", { content: "5 € & 😀!" }],
])("search finds a keyword %s", (_where, keyword, article) =>
  inTransaction(async (db) => {
    const titles = await search(db, keyword, [{ title: "Found", ...article }, { title: "Nothing" }]);
    expect(titles).toEqual([{ title: "Found", ...article }.title]);
  }),
);

test.each([
  ["100%", "100% wool", "100 per cent"],
  ["%", "50% off", "Nothing"],
  ["snake_case", "A snake_case name", "A snakeXcase name"],
  ["a\\b", "Path a\\b", "Path a-b"],
  ["\\", "Path \\", "Path /"],
  ["\\%", "Escaped \\% sign", "Escaped % sign"],
  [".*", "Regexp .*", "Regexp xy"],
  ["it's", "So it's it", "So its it"],
])("search treats %j literally", (keyword, title, other) =>
  inTransaction(async (db) => {
    expect(await search(db, keyword, [{ title }, { title: other }])).toEqual([title]);
  }),
);

test("search does not find a match that spans two fields", () =>
  inTransaction(async (db) => {
    const article = { title: "First title", content: "Second content", tags: ["third", "fourth"] };
    expect(await search(db, "title\nSecond", [article])).toEqual([]);
    for (const keyword of ["content\nthird", "third\nfourth", "thirdfourth", "third,fourth"])
      expect(await db.anon.callAll("search", keyword)).toEqual([]);
  }));

test("search for an empty keyword finds every article, and for null none", () =>
  inTransaction(async (db) => {
    expect(await search(db, "", [{ title: "Something" }])).toEqual(["Something"]);
    expect(await db.anon.callAll("search", null)).toEqual([]);
  }));

test("search sorts by match (the whole title, part of the title, a whole tag, elsewhere) and then by age", () =>
  inTransaction(async (db) => {
    const articles = [
      { title: "Nothing here", content: "About an engine" },
      { title: "Tagged", tags: ["Engine"] },
      { title: "Engine" },
      { title: "The engine room" },
      { title: "Nothing there", content: "About an engine" },
    ];
    expect(await search(db, "engine", articles)).toEqual([
      "Engine",
      "The engine room",
      "Tagged",
      "Nothing there",
      "Nothing here",
    ]);
  }));

test("search uses the trigram index", () =>
  inTransaction(async (db) => {
    await db.owner.rows("set local enable_seqscan = off");
    const plan = await db.anon.rows("explain select * from search('engine')");
    expect(JSON.stringify(plan)).toContain("articles_search_idx");
  }));

test.each([
  ["Short text.", undefined, "Short text."],
  ["Short text.", null, "Short text."],
  ["Short text.", 11, "Short text."],
  ["Short text.", 10, "Short…"],
  ["Short text.", 6, "Short…"],
  ["Short text.", 5, "Shor…"],
  ["Short text.", 1, "…"],
  ["one two  three", 9, "one two…"],
  ["one\n\ntwo\nthree", 6, "one…"],
  ["😀😀😀 😀😀😀", 4, "😀😀😀…"],
  ["😀😀😀 😀😀😀", 7, "😀😀😀 😀😀😀"],
  ["x".repeat(201), undefined, `${"x".repeat(199)}…`],
  ["   indented", 3, "…"],
])("the summary of %j with length %j is %j", (content, length, expected) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const article = await db.article({ author: ada!, content });
    const argument = length === undefined ? "" : `, ${length}`;
    const text = `select articles_summary(a${argument}) as summary from articles as a where id = $1`;
    expect(await db.anon.row(text, article.id)).toEqual({ summary: expected });
  }),
);

test.each([0, -1, 10_001])("a summary of length %j is refused", (length) =>
  inTransaction(async (db) => {
    await expect(db.anon.rows("select articles_summary(a, $1) from articles as a", length)).rejects.toMatchObject({
      code: "22023",
      message: "length must be from 1 to 10000",
    });
  }),
);

const relatedTitles = async (caller: TestCaller, id: number, limit = "") => {
  const text = `select r.title from articles as a, articles_related_articles(a${limit}) as r where a.id = $1`;
  return (await caller.rows(text, id)).map(({ title }) => title);
};

test("related articles are sorted by shared tags and then by age, without the article itself", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const article = await db.article({ author: ada!, tags: ["a-1", "b-1", "c-1"] });
    const others = [
      ["a-1"],
      ["a-1", "b-1"],
      ["x-1"],
      ["c-1", "b-1", "a-1", "d-1"],
      ["c-1"],
      [],
      ["a-1", "a-1", "a-1", "a-1"],
    ];
    for (const tags of others) await db.article({ author: ada!, title: `Tagged ${tags}`, tags });
    expect(await relatedTitles(db.anon, article.id)).toEqual([
      "Tagged c-1,b-1,a-1,d-1",
      "Tagged a-1,b-1",
      "Tagged a-1,a-1,a-1,a-1",
      "Tagged c-1",
      "Tagged a-1",
    ]);
    expect(await relatedTitles(db.anon, article.id, ", 1")).toEqual(["Tagged c-1,b-1,a-1,d-1"]);
    expect(await relatedTitles(db.anon, article.id, ", 0")).toEqual([]);
  }));

test("related articles are at most 5 unless a limit is given", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const articles = [];
    for (let i = 0; i < 8; i++) articles.push(await db.article({ author: ada!, tags: ["same"] }));
    const { id } = articles[0]!;
    expect(await relatedTitles(db.anon, id)).toHaveLength(5);
    expect(await relatedTitles(db.anon, id, ", null")).toHaveLength(5);
    expect(await relatedTitles(db.anon, id, ", 1000")).toHaveLength(7);
    for (const limit of [", -1", ", 1001"])
      await expect(relatedTitles(db.anon, id, limit)).rejects.toMatchObject({
        code: "22023",
        message: "limit must be from 0 to 1000",
      });
  }));
