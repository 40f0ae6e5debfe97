import { describe, expect, test } from "vitest";
import { type TestCaller, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();
const INPUT = { title: "A title", content: "A text." };

/** The `mutation_result` of create_article. */
async function createArticle(caller: TestCaller, input: object = INPUT) {
  const text = "select to_jsonb(create_article(jsonb_populate_record(null::articles, $1))) as result";
  return (await caller.row(text, input)).result;
}

describe("create_article", () => {
  test("reports every check of the table with its comment as the message", () =>
    inTransaction(async (db) => {
      const [ada] = await db.users("Ada");
      const message = "title must have two words";
      await db.owner.rows("alter table articles add constraint articles_title_words check (title ~ ' ')");
      await db.owner.rows(`comment on constraint articles_title_words on articles is '${message}'`);
      const result = await createArticle(db.as(ada!), { ...INPUT, title: "Engines" });
      expect(result).toMatchObject({ success: false, article: null, errors: [{ field: "title", message }] });
    }));

  test("passes on an error that is not about its input", () =>
    inTransaction(async (db) => {
      const [ada] = await db.users("Ada");
      await db.owner.rows("alter table articles alter column created_at drop default");
      const error = { code: "23502", column: "created_at" };
      await expect(createArticle(db.as(ada!))).rejects.toMatchObject(error);
    }));
});

test.each<[name: string, code: string, constraint: string | undefined, act: (caller: TestCaller) => Promise<unknown>]>([
  ["me", "28000", undefined, (caller) => caller.call("me")],
  ["create_article", "23503", "articles_author_id_fkey", (caller) => createArticle(caller)],
  // It does not say that the article is missing.
  ["create_comment", "23503", "comments_author_id_fkey", (caller) => caller.call("create_comment", 1, "Well said.")],
])("%s is refused to a user who has been deleted", (_name, code, constraint, act) =>
  inTransaction(async (db) => {
    const [gone] = await db.users("Gone");
    await db.owner.rows("delete from users where id = $1", gone!.id);
    await expect(act(db.as(gone!))).rejects.toMatchObject({ code, constraint });
  }),
);

test("create_article, create_comment and me need a user", () =>
  inTransaction(async (db) => {
    for (const caller of [db.anon, db.as(null), db.service]) {
      expect(await createArticle(caller)).toMatchObject({ success: false, message: "login required", article: null });
      await expect(caller.call("me")).rejects.toMatchObject({ code: "28000", message: "login required" });
      const code = caller === db.service ? "23502" : "42501";
      await expect(caller.call("create_comment", 1, "Well said.")).rejects.toMatchObject({ code });
    }
  }));
