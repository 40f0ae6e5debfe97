import { expect, test } from "vitest";
import { outcomes, type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

/** Ada's article with a German title. */
async function adasTranslation(db: TestTransaction) {
  const [ada] = await db.users("Ada");
  const article = await db.article({ author: ada!, title: "A title" });
  await db.owner.rows("insert into article_translations values ($1, 'de', 'Ein Titel')", article.id);
  return { ada: ada!, article };
}

test("every caller reads translations", () =>
  inTransaction(async (db) => {
    const { ada, article } = await adasTranslation(db);
    const text = "select title from article_translations where article_id = $1";
    const found = await outcomes(await db.everyone(ada), text, article.id);
    expect(found).toEqual({ anon: 1, stranger: 1, self: 1, admin: 1, service: 1 });
  }));

test("the article's author, admins and the service may add translations", () =>
  inTransaction(async (db) => {
    const { ada, article } = await adasTranslation(db);
    const text = "insert into article_translations (article_id, language, title) values ($1, 'fr', 'Un titre')";
    const found = await outcomes(await db.everyone(ada), text, article.id);
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: 1, admin: 1, service: 1 });
  }));

test("the article's author, admins and the service may update translations", () =>
  inTransaction(async (db) => {
    const { ada, article } = await adasTranslation(db);
    const text = "update article_translations set title = 'Anderer Titel' where article_id = $1";
    const found = await outcomes(await db.everyone(ada), text, article.id);
    expect(found).toEqual({ anon: "42501", stranger: 0, self: 1, admin: 1, service: 1 });
  }));

test("the article's author, admins and the service may delete translations", () =>
  inTransaction(async (db) => {
    const { ada, article } = await adasTranslation(db);
    const text = "delete from article_translations where article_id = $1";
    const found = await outcomes(await db.everyone(ada), text, article.id);
    expect(found).toEqual({ anon: "42501", stranger: 0, self: 1, admin: 1, service: 1 });
  }));

test.each(["article_id = 1", "language = 'fr'"])("the key of a translation cannot be updated: set %s", (change) =>
  inTransaction(async (db) => {
    const { ada, article } = await adasTranslation(db);
    const text = `update article_translations set ${change} where article_id = $1`;
    const found = await outcomes(await db.everyone(ada), text, article.id);
    expect(found).toMatchObject({ anon: "42501", stranger: "42501", self: "42501", admin: "42501" });
  }),
);

test("no role of the API may truncate the table", () =>
  inTransaction(async (db) => {
    const { ada } = await adasTranslation(db);
    const { service: _, ...callers } = await db.everyone(ada);
    const found = await outcomes(callers, "truncate article_translations");
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501" });
  }));

test.each([
  ["de", "Ein Titel", null],
  ["pt-br", "Um título", null],
  ["zh-hans-cn", "一个标题啊", null],
  ["DE", "Ein Titel", "article_translations_language_format"],
  ["d", "Ein Titel", "article_translations_language_format"],
  ["deutsch", "Ein Titel", "article_translations_language_format"],
  ["de_at", "Ein Titel", "article_translations_language_format"],
  ["de\n", "Ein Titel", "article_translations_language_format"],
  ["", "Ein Titel", "article_translations_language_format"],
  ["de", "😀".repeat(4), "article_translations_title_length"],
  ["de", "      ", "article_translations_title_text"],
  ["de", "😀".repeat(5), null],
])("a translation to %j with the title %j violates the constraint %s", (language, title, constraint) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const article = await db.article({ author: ada! });
    const text = "insert into article_translations (article_id, language, title) values ($1, $2, $3) returning title";
    const added = db.as(ada!).row(text, article.id, language, title);
    if (constraint === null) expect(await added).toEqual({ title });
    else await expect(added).rejects.toMatchObject({ code: "23514", constraint });
  }),
);

test("an article has one title per language", () =>
  inTransaction(async (db) => {
    const { ada, article } = await adasTranslation(db);
    const text = "insert into article_translations (article_id, language, title) values ($1, 'de', 'Noch einer')";
    expect(await db.as(ada).outcome(text, article.id)).toBe("23505");
  }));

test.each([
  ["de", "Ein Titel"],
  ["DE", "Ein Titel"],
  ["fr", "A title"],
  ["", "A title"],
  [null, "A title"],
])("the title in the language %j is %j", (language, title) =>
  inTransaction(async (db) => {
    const { article } = await adasTranslation(db);
    const text = "select articles_title(a, $1) as title from articles as a where id = $2";
    expect(await db.anon.row(text, language, article.id)).toEqual({ title });
  }),
);
