import { expect, test } from "vitest";
import { outcomes, type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

/** The callers; Ada owns all rows in question, and her comment is on an article of Bob. */
async function everyone(db: TestTransaction) {
  const [ada, bob, root] = await db.users("Ada", "Bob", "Root");
  const article = await db.article({ author: ada! });
  await db.owner.rows("insert into article_translations values ($1, 'de', 'Ein Titel')", article.id);
  const comment = await db.comment({ article: await db.article({ author: bob! }), author: ada! });
  const callers = { anon: db.anon, bob: db.as(bob!), ada: db.as(ada!), admin: db.as(root!, "admin") };
  return {
    callers: { ...callers, service: db.service, editor: db.editor },
    ids: { ada: ada!.id, article: article.id, comment: comment.id } as Readonly<Record<string, number>>,
  };
}

const NO = "42501"; // insufficient privilege
const FIXED = "428C9"; // generated always
const NULL = "23502"; // The service has no user id, so it must name the author.
const TAKEN = "23505";
const DONE = null; // no count of rows
/** A user who has written something cannot be deleted. 23001 since PostgreSQL 18, 23503 before. */
const HELD = expect.stringMatching(/^(23001|23503)$/);

// The statement, and for anon, Bob, Ada, an admin, the service and an editor of users the number of rows or the SQLSTATE.
test.each<[statement: string, ...found: unknown[]]>([
  ["select name, email, created_at from users where id = :ada", 1, 1, 1, 1, 1, 1],
  ["insert into users (name, email, age) values ('D', 'd@d.d', 20)", 1, 1, 1, 1, 1, NO],
  ["insert into users (id, name, email) values (7, 'D', 'd@d.d')", FIXED, FIXED, FIXED, FIXED, FIXED, FIXED],
  ["insert into users (id, name, email) overriding system value values (7, 'D', 'd@d.d')", NO, NO, NO, NO, 1, NO],
  ["insert into users (name, email, created_at) values ('D', 'd@d.d', now())", NO, NO, NO, NO, 1, NO],
  ["insert into users (name, email, updated_at) values ('D', 'd@d.d', now())", NO, NO, NO, NO, 1, NO],
  ["insert into users (name, email, avatar_url) values ('D', 'd@d.d', null)", NO, NO, NO, NO, 1, NO],
  ["update users set name = 'D', email = 'd@d.d', age = 37 where id = :ada", NO, 0, 1, 1, 1, 1],
  ["update users set avatar_url = 'https://a.example/a.png' where id = :ada", NO, 0, 1, 1, 1, NO],
  ["update users set created_at = now() where id = :ada", NO, NO, NO, NO, 1, NO],
  ["update users set updated_at = now() where id = :ada", NO, NO, NO, NO, 1, NO],
  ["update users set id = 7 where id = :ada", FIXED, FIXED, FIXED, FIXED, FIXED, FIXED],
  ["delete from users where id = :ada", NO, 0, HELD, HELD, HELD, HELD],
  ["truncate users cascade", NO, NO, NO, NO, NO, NO],
  ["lock table users in access exclusive mode", NO, DONE, DONE, DONE, DONE, DONE],

  // One of each status.
  ["select from articles where id in (1, 3, 4)", 3, 3, 3, 3, 3, NO],
  ["insert into articles (title, content, tags, status) values ('A title', 'x', '{}', 'DRAFT')", NO, 1, 1, 1, NULL, NO],
  ["insert into articles (title, content, author_id) values ('A title', 'x', :ada)", NO, NO, NO, NO, 1, NO],
  ["insert into articles (title, content, created_at) values ('A title', 'x', now())", NO, NO, NO, NO, NULL, NO],
  ["insert into articles (title, content, updated_at) values ('A title', 'x', now())", NO, NO, NO, NO, NULL, NO],
  [
    "insert into articles (id, title, content) overriding system value values (7, 'A title', 'x')",
    ...[NO, NO, NO, NO, NULL, NO],
  ],
  ["update articles set title = 'A title', content = 'x' where id = :article", NO, 0, 1, 1, 1, NO],
  ["update articles set tags = '{two}', status = 'ARCHIVED' where id = :article", NO, 0, 1, 1, 1, NO],
  ["update articles set author_id = 1 where id = :article", NO, NO, NO, NO, 1, NO],
  ["update articles set created_at = now() where id = :article", NO, NO, NO, NO, 1, NO],
  ["update articles set updated_at = now() where id = :article", NO, NO, NO, NO, 1, NO],
  [
    "merge into articles a using (select) g on a.id = :article when matched then update set title = 'Taken over'",
    ...[NO, NO, 1, 1, 1, NO],
  ],
  ["delete from articles where id = :article", NO, 0, 1, 1, 1, NO],
  ["truncate articles cascade", NO, NO, NO, NO, DONE, NO],

  ["select from comments where id = :comment", 1, 1, 1, 1, 1, NO],
  ["insert into comments (article_id, content) values (1, 'x')", NO, 1, 1, 1, NULL, NO],
  ["insert into comments (article_id, content, author_id) values (1, 'x', :ada)", NO, NO, NO, NO, 1, NO],
  ["insert into comments (article_id, content, created_at) values (1, 'x', now())", NO, NO, NO, NO, NULL, NO],
  [
    "insert into comments (id, article_id, content) overriding system value values (7, 1, 'x')",
    ...[NO, NO, NO, NO, NULL, NO],
  ],
  ["update comments set content = 'Changed.' where id = :comment", NO, 0, 1, 1, 1, NO],
  ["update comments set author_id = 1 where id = :comment", NO, NO, NO, NO, 1, NO],
  ["update comments set article_id = 1 where id = :comment", NO, NO, NO, NO, 1, NO],
  ["update comments set created_at = now() where id = :comment", NO, NO, NO, NO, 1, NO],
  ["delete from comments where id = :comment", NO, 0, 1, 1, 1, NO],
  ["truncate comments", NO, NO, NO, NO, DONE, NO],

  ["select from article_translations where article_id = :article", 1, 1, 1, 1, 1, NO],
  ["insert into article_translations values (:article, 'fr', 'Un titre')", NO, NO, 1, 1, 1, NO],
  ["insert into article_translations values (:article, 'de', 'Noch einer')", NO, NO, TAKEN, TAKEN, TAKEN, NO],
  ["update article_translations set title = 'Another' where article_id = :article", NO, 0, 1, 1, 1, NO],
  ["update article_translations set article_id = 3 where article_id = :article", NO, NO, NO, NO, 1, NO],
  ["update article_translations set language = 'fr' where article_id = :article", NO, NO, NO, NO, 1, NO],
  ["delete from article_translations where article_id = :article", NO, 0, 1, 1, 1, NO],
  ["truncate article_translations", NO, NO, NO, NO, DONE, NO],
])("%s", (statement, ...found) =>
  inTransaction(async (db) => {
    const { callers, ids } = await everyone(db);
    const received = await outcomes(
      callers,
      statement.replace(/:(\w+)/g, (_, name) => String(ids[name])),
    );
    expect(Object.values(received)).toEqual(found);
  }),
);

test("the user, admins, the service and editors of users may delete a user who has written nothing", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    const callers = { ...(await everyone(db)).callers, dora: db.as(dora!) };
    const found = await outcomes(callers, "delete from users where id = $1", dora!.id);
    expect(found).toEqual({ anon: NO, bob: 0, ada: 0, admin: 1, service: 1, editor: 1, dora: 1 });
  }));

test.each([null, { id: "" }, { id: "1 or true" }, { id: -1 }, { id: "9".repeat(19) }])(
  "a signed-in caller whose token names no user, %j, changes nothing",
  (claims) =>
    inTransaction(async (db) => {
      for (const statement of ["update users set name = 'Me'", "delete from users", "delete from articles"])
        expect([statement, await db.as(claims).outcome(statement)]).toEqual([statement, 0]);
    }),
);

test("a signed-in caller writes as themselves, and only as a user", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const insert of [
      "insert into articles (title, content) values ('A title', 'A text.') returning author_id",
      "insert into comments (article_id, content) values (1, 'Well said.') returning author_id",
    ]) {
      expect(await db.as(ada!).row(insert)).toEqual({ author_id: ada!.id });
      expect(await db.as(null).outcome(insert)).toBe(NO);
    }
  }));

test.each([
  "select from auth_private.accounts",
  "select auth_api.find_account('ada')",
  `select auth_api.register('{"name": "Dora", "email": "dora@test.example"}', null, '$argon2id$')`,
  "select from internal.seeds",
  "select auth.uid()",
  "select me()",
  "select create_user(row(null, 'Dora', 'dora@test.example', null, null, null, null)::users)",
  "select delete_article(1)",
])("an editor of users has no other privileges: %s", (statement) =>
  inTransaction(async (db) => expect(await db.editor.outcome(statement)).toBe(NO)),
);
