import { expect, test } from "vitest";
import { outcomes, type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

/** Ada's comment on Bob's article. */
async function adasComment(db: TestTransaction) {
  const [ada, bob] = await db.users("Ada", "Bob");
  const article = await db.article({ author: bob! });
  return { ada: ada!, bob: bob!, article, comment: await db.comment({ article, author: ada! }) };
}

test("every caller reads comments", () =>
  inTransaction(async (db) => {
    const { ada, comment } = await adasComment(db);
    const found = await outcomes(await db.everyone(ada), "select * from comments where id = $1", comment.id);
    expect(found).toEqual({ anon: 1, stranger: 1, self: 1, admin: 1, service: 1 });
  }));

test("its author, admins and the service may update a comment, the article's author may not", () =>
  inTransaction(async (db) => {
    const { ada, bob, comment } = await adasComment(db);
    const callers = { ...(await db.everyone(ada)), articleAuthor: db.as(bob) };
    const found = await outcomes(callers, "update comments set content = 'Changed.' where id = $1", comment.id);
    expect(found).toEqual({ anon: "42501", stranger: 0, self: 1, admin: 1, service: 1, articleAuthor: 0 });
  }));

test("its author, admins and the service may delete a comment, the article's author may not", () =>
  inTransaction(async (db) => {
    const { ada, bob, comment } = await adasComment(db);
    const callers = { ...(await db.everyone(ada)), articleAuthor: db.as(bob) };
    const found = await outcomes(callers, "delete from comments where id = $1", comment.id);
    expect(found).toEqual({ anon: "42501", stranger: 0, self: 1, admin: 1, service: 1, articleAuthor: 0 });
  }));

test("a signed-in caller, even an admin, comments on any article as themselves", () =>
  inTransaction(async (db) => {
    const { ada, article } = await adasComment(db);
    const text = "insert into comments (article_id, content) values ($1, 'Well said.') returning author_id";
    const found = await outcomes(await db.everyone(ada), text, article.id);
    expect(found).toEqual({ anon: "42501", stranger: 1, self: 1, admin: 1, service: "23502" });
    expect(await db.as(ada).row(text, article.id)).toEqual({ author_id: ada.id });
    expect(await db.as(null).outcome(text, article.id)).toBe("42501");
  }));

test.each([
  ["id", "7000"],
  ["author_id", "1"],
  ["created_at", "'2001-01-01'"],
])("only the service chooses the %s of a new comment", (column, value) =>
  inTransaction(async (db) => {
    const { ada, article } = await adasComment(db);
    const rest = column === "author_id" ? "" : ", author_id";
    const text = `insert into comments (article_id, content, ${column}${rest}) overriding system value
      values ($1, 'Well said.', ${value}${rest && ", 1"})`;
    const found = await outcomes(await db.everyone(ada), text, article.id);
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501", service: 1 });
  }),
);

test.each([
  ["author_id", "1"],
  ["article_id", "1"],
  ["created_at", "'2001-01-01'"],
])("only the service updates the %s of a comment", (column, value) =>
  inTransaction(async (db) => {
    const { ada, comment } = await adasComment(db);
    const text = `update comments set ${column} = ${value} where id = $1`;
    const found = await outcomes(await db.everyone(ada), text, comment.id);
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501", service: 1 });
  }),
);

test("an update without a condition affects only the caller's comments", () =>
  inTransaction(async (db) => {
    const { ada, comment } = await adasComment(db);
    expect(await db.as(ada).rows("update comments set content = 'x' returning id")).toEqual([{ id: comment.id }]);
    expect(await db.as(ada).rows("delete from comments returning id")).toEqual([{ id: comment.id }]);
    expect(await db.as(null).rows("delete from comments returning id")).toEqual([]);
  }));

test("no role of the API may truncate the table", () =>
  inTransaction(async (db) => {
    const { ada } = await adasComment(db);
    const { service: _, ...callers } = await db.everyone(ada);
    const found = await outcomes(callers, "truncate comments");
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501" });
  }));

test("create_comment adds a comment with the caller as its author", () =>
  inTransaction(async (db) => {
    const { ada, article } = await adasComment(db);
    const comment = await db.as(ada).call("create_comment", article.id, "Well said.");
    expect(comment).toMatchObject({ article_id: article.id, author_id: ada.id, content: "Well said." });
    expect(await db.anon.row("select content from comments where id = $1", comment.id)).toEqual({
      content: "Well said.",
    });
  }));

test.each([7000, null])("create_comment on article %j raises P0002", (id) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    await expect(db.as(ada!).call("create_comment", id, "Well said.")).rejects.toMatchObject({
      code: "P0002",
      message: "article not found",
      routine: "exec_stmt_raise",
    });
  }),
);

test("create_comment is refused to anonymous callers", () =>
  inTransaction(async (db) => {
    const { article } = await adasComment(db);
    for (const caller of [db.anon, db.as(null)])
      await expect(caller.call("create_comment", article.id, "Well said.")).rejects.toMatchObject({ code: "42501" });
    await expect(db.service.call("create_comment", article.id, "Well said.")).rejects.toMatchObject({ code: "23502" });
  }));

test("create_comment by a deleted user does not report a missing article", () =>
  inTransaction(async (db) => {
    const { article } = await adasComment(db);
    const [gone] = await db.users("Gone");
    await db.owner.rows("delete from users where id = $1", gone!.id);
    await expect(db.as(gone!).call("create_comment", article.id, "Well said.")).rejects.toMatchObject({
      code: "23503",
      schema: "public",
      table: "comments",
      constraint: "comments_author_id_fkey",
    });
  }));

test.each([
  ["", "comments_content_text"],
  [" \n\u00a0", "comments_content_text"],
  ["x", null],
  ["ä".repeat(524_288), null],
  [`${"ä".repeat(524_288)}.`, "comments_content_length"],
])("a comment of %j violates %j", (content, constraint) =>
  inTransaction(async (db) => {
    const { ada, article } = await adasComment(db);
    const comment = db.as(ada).call("create_comment", article.id, content);
    if (constraint === null) expect((await comment).content).toBe(content);
    else await expect(comment).rejects.toMatchObject({ code: "23514", constraint });
  }),
);

test("a comment without content is refused", () =>
  inTransaction(async (db) => {
    const { ada, article } = await adasComment(db);
    const comment = db.as(ada).call("create_comment", article.id, null);
    await expect(comment).rejects.toMatchObject({ code: "23502", column: "content" });
  }));

test.each([
  ["A", ["A comment."]],
  ["COMMENT.", ["A comment."]],
  ["_", []],
  ["%", []],
  [null, []],
])("the keyword %j finds the comments %j", (keyword, contents) =>
  inTransaction(async (db) => {
    const { ada, article } = await adasComment(db);
    const text = `select content from comments as c
      where c.article_id = $1 and internal.comment_matches(c, $2)`;
    for (const caller of [db.anon, db.as(ada), db.service])
      expect((await caller.rows(text, article.id, keyword)).map(({ content }) => content)).toEqual(contents);
  }),
);
