import { expect, test } from "vitest";
import { problemOf } from "../../db/errors.ts";
import { outcomes, type TestCaller, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const CONTEXT = { constraintMessages: new Map(), anonymous: false, refused: null };

const createUser = (caller: TestCaller, input: object) =>
  caller.row("select * from create_user(jsonb_populate_record(null::users, $1))", input);

test("every caller reads all users with their e-mail", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const found = await outcomes(await db.everyone(ada!), "select name, email from users where id = $1", ada!.id);
    expect(found).toEqual({ anon: 1, stranger: 1, self: 1, admin: 1, service: 1 });
  }));

test.each([
  "name = 'Countess'",
  "email = 'countess@test.example'",
  "age = 37",
  "avatar_url = 'https://a.example/a.png'",
])("the user, admins and the service may update a user: set %s", (change) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const found = await outcomes(await db.everyone(ada!), `update users set ${change} where id = $1`, ada!.id);
    expect(found).toEqual({ anon: "42501", stranger: 0, self: 1, admin: 1, service: 1 });
  }),
);

test("the user, admins and the service may delete a user", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const found = await outcomes(await db.everyone(ada!), "delete from users where id = $1", ada!.id);
    expect(found).toEqual({ anon: "42501", stranger: 0, self: 1, admin: 1, service: 1 });
  }));

test("an update without a condition affects only the caller's row", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    expect(await db.as(ada!).rows("update users set age = 37 returning id")).toEqual([{ id: ada!.id }]);
    expect(await db.as(ada!).rows("delete from users returning id")).toEqual([{ id: ada!.id }]);
  }));

test.each([null, { id: "" }, { id: "1 or true" }, { id: -1 }, { id: "9".repeat(19) }])(
  "a signed-in caller whose token names no user, %j, changes nothing",
  (claims) =>
    inTransaction(async (db) => {
      expect(await db.as(claims).outcome("update users set name = 'Me'")).toBe(0);
      expect(await db.as(claims).outcome("delete from users")).toBe(0);
    }),
);

test("every caller may sign up", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const text = "insert into users (name, email, age) values ('Dora', 'dora@test.example', 20)";
    const found = await outcomes(await db.everyone(ada!), text);
    expect(found).toEqual({ anon: 1, stranger: 1, self: 1, admin: 1, service: 1 });
  }));

test.each([
  ["id", "7"],
  ["created_at", "'2001-01-01'"],
  ["updated_at", "'2001-01-01'"],
  ["avatar_url", "'https://a.example/a.png'"],
])("only the service chooses the %s of a new user", (column, value) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const values = `overriding system value values ('Dora', 'dora@test.example', ${value})`;
    const text = `insert into users (name, email, ${column}) ${values}`;
    const found = await outcomes(await db.everyone(ada!), text);
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501", service: 1 });
  }),
);

test.each(["created_at", "updated_at"])("only the service updates the %s of a user", (column) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const text = `update users set ${column} = '2001-01-01' where id = $1`;
    const found = await outcomes(await db.everyone(ada!), text, ada!.id);
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501", service: 1 });
  }),
);

test("an id is assigned and never changes: an update of it fails", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const assigned = { anon: "428C9", stranger: "428C9", self: "428C9", admin: "428C9", service: "428C9" };
    expect(await outcomes(await db.everyone(ada!), "update users set id = 7 where id = $1", ada!.id)).toEqual(assigned);
    const error = await db
      .as(ada!)
      .rows("insert into users (id, name, email) values (7, 'D', 'd@d.d')")
      .catch((e) => e);
    expect(problemOf(error, CONTEXT)).toMatchObject({ status: 400, code: "VALIDATION_ERROR" });
  }));

test("no role of the API may truncate or lock the table", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const { service: _, ...callers } = await db.everyone(ada!);
    const refused = { anon: "42501", stranger: "42501", self: "42501", admin: "42501" };
    expect(await outcomes(callers, "truncate users cascade")).toEqual(refused);
    const { anon } = await outcomes(callers, "lock table users in access exclusive mode");
    expect(anon).toBe("42501");
  }));

test.each(["age = age + 1", "age = age"])("an update sets updated_at and keeps created_at: set %s", (change) =>
  inTransaction(async (db) => {
    const ada = await db.owner.row("select * from users where email = 'ada@example.com'");
    const written = await db.as(ada).row(`update users set ${change} where id = $1 returning *, now()`, ada.id);
    expect(written.updated_at).not.toEqual(ada.updated_at);
    expect(written.updated_at).toEqual(written.now);
    expect(written.created_at).toEqual(ada.created_at);
  }),
);

test.each([
  ["reads all users", "select name, email, created_at from users where id = $1"],
  [
    "updates the name, e-mail and age of any user",
    "update users set name = 'A', email = 'a@b.c', age = 1 where id = $1",
  ],
  ["deletes any user", "delete from users where id = $1"],
])("an editor of users %s", (_what, text) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    expect(await db.editor.outcome(text, ada!.id)).toBe(1);
  }),
);

test("an update by an editor sets updated_at and is subject to the constraints", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const written = await db.editor.row("update users set age = 1 where id = $1 returning *, now()", ada!.id);
    expect(written.updated_at).toEqual(written.now);
    expect(await db.editor.outcome("update users set email = 'bob@example.com' where id = $1", ada!.id)).toBe("23505");
    expect(await db.editor.outcome("update users set age = -1 where id = $1", ada!.id)).toBe("23514");
  }));

test("a user whom an editor deletes loses their account, and cannot be deleted while they have articles", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await db.addAccount(dora!);
    expect(await db.editor.rows("delete from users where id = $1 returning id", dora!.id)).toHaveLength(1);
    expect(await db.owner.rows("select from auth_private.accounts where user_id = $1", dora!.id)).toEqual([]);
    // 23001 since PostgreSQL 18, 23503 before.
    expect(await db.editor.outcome("delete from users where id = 1")).toMatch(/^(23001|23503)$/);
  }));

test.each([
  "insert into users (name, email) values ('Dora', 'dora@test.example')",
  "update users set avatar_url = 'https://a.example/a.png'",
  "update users set created_at = now()",
  "update users set updated_at = now()",
  "truncate users cascade",
  "select from articles",
  "insert into articles (title, content) values ('A title', 'Some content.')",
  "update articles set title = 'A title'",
  "delete from articles",
  "select from comments",
  "insert into comments (article_id, content) values (1, 'A comment.')",
  "delete from comments",
  "select from article_translations",
  "select from auth_private.accounts",
  "select auth_api.find_account('ada')",
  `select auth_api.register('{"name": "Dora", "email": "dora@test.example"}', null, null, null, '$argon2id$')`,
  "select from internal.seeds",
  "select auth.uid()",
  "select me()",
  "select create_user(row(null, 'Dora', 'dora@test.example', null, null, null, null)::users)",
  "select delete_article(1)",
])("an editor of users has no other privileges: %s", (text) =>
  inTransaction(async (db) => {
    expect(await db.editor.outcome(text)).toBe("42501");
  }),
);

/** The e-mails of the users that a keyword finds. */
const found = async (caller: TestCaller, keyword: string | null) =>
  (await caller.rows("select email from users as u where internal.user_matches(u, $1) order by id", keyword)).map(
    ({ email }) => email,
  );

test.each([
  ["in the name", "lovel"],
  ["in the e-mail", "ada@exam"],
  ["regardless of case", "LOVELACE"],
])("a keyword finds a user %s", (_where, keyword) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of [db.anon, db.as(ada!), db.as(ada!, "admin"), db.service])
      expect(await found(caller, keyword)).toEqual(["ada@example.com"]);
  }),
);

test.each(["Lovelace\nada", "Lovelaceada", "%ada%", "a_a", "ada\\", null])("the keyword %j finds no user", (keyword) =>
  inTransaction(async (db) => expect(await found(db.anon, keyword)).toEqual([])),
);

test("a keyword search uses the trigram index, even with a generic plan", () =>
  inTransaction(async (db) => {
    await db.owner.rows(
      `insert into users (name, email) select md5(i::text), 'user' || i || '@test.example' from generate_series(1, 20000) as i`,
    );
    await db.owner.rows("analyze users");
    const text = "select * from users as u where internal.user_matches(u, $1) order by id limit 10";
    expect(JSON.stringify(await db.anon.rows(`explain ${text}`, "user19999"))).toContain("users_search_idx");
    await db.owner.rows("set local plan_cache_mode = force_generic_plan");
    expect(JSON.stringify(await db.anon.rows(`explain ${text}`, "user19999"))).toContain("users_search_idx");
  }));

test.each(["name", "created_at"])("users sorted by %s are read from an index", (column) =>
  inTransaction(async (db) => {
    await db.owner.rows("set local enable_seqscan = off; set local enable_sort = off");
    const plan = await db.anon.rows(`explain select * from users order by ${column}, id limit 10`);
    expect(JSON.stringify(plan)).toContain(`users_${column}_id_idx`);
  }),
);

test("create_user creates a user", () =>
  inTransaction(async (db) => {
    const dora = await createUser(db.anon, { name: "Dora", email: "dora@test.example", age: 20, avatar_url: null });
    expect(dora).toMatchObject({ name: "Dora", email: "dora@test.example", age: 20, avatar_url: null });
    const { now } = await db.owner.row("select now()");
    expect([dora.created_at, dora.updated_at]).toEqual([now, now]);
  }));

test.each([
  [{ id: 7 }, "428C9"],
  [{ created_at: "2001-01-01" }, "42501"],
  [{ updated_at: "2001-01-01" }, "42501"],
  [{ avatar_url: "https://a.example/a" }, "42501"],
])("create_user is refused with %j, which the caller may not choose", (more, code) =>
  inTransaction((db) =>
    expect(createUser(db.anon, { name: "Dora", email: "dora@test.example", ...more })).rejects.toMatchObject({ code }),
  ),
);

test("create_user is refused when the e-mail is registered, regardless of case", () =>
  inTransaction(async (db) => {
    await createUser(db.anon, { name: "Dora", email: "Dora@Test.example" });
    for (const email of ["Dora@Test.example", "dora@test.example", "DORA@TEST.EXAMPLE"])
      await expect(createUser(db.anon, { name: "Another", email })).rejects.toMatchObject({
        code: "23505",
        schema: "public",
        table: "users",
        constraint: "users_email_key",
      });
  }));

test("an e-mail keeps its case, and its user may change the case", () =>
  inTransaction(async (db) => {
    const dora = await createUser(db.anon, { name: "Dora", email: "Dora@Test.example" });
    expect(dora.email).toBe("Dora@Test.example");
    expect(await db.as(dora).outcome("update users set email = lower(email) where id = $1", dora.id)).toBe(1);
  }));

test.each([
  ["age", -1, "users_age_range"],
  ["age", 0, null],
  ["age", 150, null],
  ["age", 151, "users_age_range"],
  ["age", null, null],
  ["name", "", "users_name_length"],
  ["name", " \t\n", "users_name_length"],
  ["name", "a", null],
  ["name", "😀".repeat(200), null],
  ["name", "😀".repeat(201), "users_name_length"],
  ["email", "a@b.c", null],
  ["email", "first.last+tag@sub.example.com", null],
  ["email", "jürgen@müller.example", null],
  ["email", "", "users_email_format"],
  ["email", "ada", "users_email_format"],
  ["email", "a@b", "users_email_format"],
  ["email", "@b.c", "users_email_format"],
  ["email", "a@", "users_email_format"],
  ["email", "a@b.", "users_email_format"],
  ["email", "a@.c", "users_email_format"],
  ["email", "a@b..c", "users_email_format"],
  ["email", "a@b@c.d", "users_email_format"],
  ["email", "a b@c.d", "users_email_format"],
  ["email", "a@b.c\n", "users_email_format"],
  ["email", " a@b.c", "users_email_format"],
  ["email", "o'brien_{x}+1@xn--mller-kva.example", null],
  ["email", `${"a".repeat(64)}@b.c`, null],
  ["email", `${"a".repeat(65)}@b.c`, "users_email_format"],
  ["email", `a@${"b".repeat(63)}.c`, null],
  ["email", `a@${"b".repeat(64)}.c`, "users_email_format"],
  ["email", `a@${"b.".repeat(125)}cd`, null],
  ["email", `a@${"b.".repeat(125)}cde`, "users_email_format"],
  ["email", ".a@b.c", "users_email_format"],
  ["email", "a.@b.c", "users_email_format"],
  ["email", "a..b@c.d", "users_email_format"],
  ["email", "a<b>@c.d", "users_email_format"],
  ["email", "a,b@c.d", "users_email_format"],
  ["email", '"a"@b.c', "users_email_format"],
  ["email", "a@-b.c", "users_email_format"],
  ["email", "a@b-.c", "users_email_format"],
  ["email", "a@b_c.d", "users_email_format"],
  ["email", "a@127.0.0.1", "users_email_format"],
  ["email", "a@b.c\u00a0", "users_email_format"],
  ["email", "\u200ba@b.c", "users_email_format"],
])("create_user with the %s %j violates the constraint %s", (column, value, constraint) =>
  inTransaction(async (db) => {
    const input = { name: "Dora", email: "dora@test.example", age: 20, [column]: value };
    if (constraint === null) expect(await createUser(db.anon, input)).toMatchObject({ [column]: value });
    else await expect(createUser(db.anon, input)).rejects.toMatchObject({ code: "23514", constraint });
  }),
);

test.each(["name", "email"])("create_user without %s is refused", (column) =>
  inTransaction(async (db) => {
    const input = { name: "Dora", email: "dora@test.example", [column]: null };
    await expect(createUser(db.anon, input)).rejects.toMatchObject({ code: "23502", column });
  }),
);

test("create_user without any field is refused", () =>
  inTransaction((db) => expect(createUser(db.anon, {})).rejects.toMatchObject({ code: "23502", column: "name" })));

test("me is the signed-in caller", () =>
  inTransaction(async (db) => {
    const [ada, admin] = await db.users("Ada", "Admin");
    expect(await db.as(ada!).call("me")).toMatchObject({ id: ada!.id, name: "Ada", email: "ada@test.example" });
    expect(await db.as(admin!, "admin").call("me")).toMatchObject({ id: admin!.id });
  }));

test("me raises 28000 for anonymous callers and deleted users", () =>
  inTransaction(async (db) => {
    const [gone] = await db.users("Gone");
    await db.owner.rows("delete from users where id = $1", gone!.id);
    for (const caller of [db.anon, db.service, db.as(null), db.as(gone!)])
      await expect(caller.call("me")).rejects.toMatchObject({
        code: "28000",
        message: "login required",
        routine: "exec_stmt_raise",
      });
  }));

test.each([
  ["https://a.example/a.png", undefined, "https://a.example/a.png?size=80"],
  ["https://a.example/a.png", null, "https://a.example/a.png?size=80"],
  ["https://a.example/a.png", 1, "https://a.example/a.png?size=1"],
  ["https://a.example/a.png", 2048, "https://a.example/a.png?size=2048"],
  ["http://a.example/?user=1", 40, "http://a.example/?user=1&size=40"],
  [null, 40, null],
])("the avatar of %j at size %j is %j", (address, size, expected) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    await db.as(ada!).rows("update users set avatar_url = $1 where id = $2", address, ada!.id);
    const argument = size === undefined ? "" : `, ${size}`;
    const text = `select users_avatar(u${argument}) as avatar from users as u where id = $1`;
    expect(await db.anon.row(text, ada!.id)).toEqual({ avatar: expected });
  }),
);

test.each([0, -1, 2049])("an avatar of size %j is refused", (size) =>
  inTransaction(async (db) => {
    const text = "select users_avatar(u, $1) from users as u limit 1";
    const error = { code: "22023", message: "size must be from 1 to 2048" };
    await expect(db.anon.rows(text, size)).rejects.toMatchObject(error);
  }),
);

test.each(["javascript:alert(1)", "//a.example/a.png", "https://", "https://a b", "https://a.example/\n", ""])(
  "the avatar_url %j is refused",
  (address) =>
    inTransaction(async (db) => {
      const [ada] = await db.users("Ada");
      const change = db.as(ada!).rows("update users set avatar_url = $1 where id = $2", address, ada!.id);
      await expect(change).rejects.toMatchObject({ code: "23514", constraint: "users_avatar_url_format" });
    }),
);

test.each(["articles", "comments"])("a user with %s cannot be deleted", (kind) =>
  inTransaction(async (db) => {
    const [ada, bob] = await db.users("Ada", "Bob");
    const article = await db.article({ author: kind === "articles" ? ada! : bob! });
    if (kind === "comments") await db.comment({ article, author: ada! });
    const error = await db
      .as(ada!)
      .rows("delete from users where id = $1", ada!.id)
      .catch((e) => e);
    // 23001 since PostgreSQL 18, 23503 before.
    expect(error.code).toMatch(/^(23001|23503)$/);
    expect(error.constraint).toBe(`${kind}_author_id_fkey`);
    expect(problemOf(error, CONTEXT)).toMatchObject({ status: 409, code: "RESOURCE_CONFLICT" });
  }),
);

test("deleting a user deletes their account and its tokens", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    await db.addAccount(ada!);
    await db.owner.rows(
      "select auth_api.start_session($1, 0, null, sha256('token'), null, null, now(), now() + '1 day', 9)",
      ada!.id,
    );
    await db.as(ada!).rows("delete from users where id = $1", ada!.id);
    const left =
      "select from auth_private.sessions where user_id = $1 union all select from auth_private.accounts where user_id = $1";
    expect(await db.owner.rows(left, ada!.id)).toEqual([]);
  }));
