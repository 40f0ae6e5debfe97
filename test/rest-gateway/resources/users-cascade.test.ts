import jwt from "jsonwebtoken";
import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { JWT_SECRET } from "../../support/service.ts";
import { type User, userMaker } from "./users.ts";

const client = useResources();
const { api, failure, sql } = client;
const user = userMaker(client);

/** A user who can sign in: other users have no valid tokens. */
async function userWithAccount(): Promise<User> {
  const made = await user();
  await sql("select auth.add_account(id, name, email, null, '$argon2id$') from users where id = $1", made.id);
  return made;
}

/** A user with two articles, on which Bob has commented, and with a comment on an article of Ada's. */
async function writer(): Promise<User> {
  const made = await userWithAccount();
  const articles = await sql(
    "insert into articles (author_id, title, content) values ($1, 'First article', 'x'), ($1, 'Second article', 'x') returning id",
    made.id,
  );
  await sql(
    "insert into comments (article_id, author_id, content) values ($1, 2, 'x'), (1, $2, 'x')",
    articles[0].id,
    made.id,
  );
  return made;
}

/** A user who has commented, and written nothing else. */
async function commenter(): Promise<User> {
  const made = await userWithAccount();
  await sql("insert into comments (article_id, author_id, content) values (1, $1, 'x')", made.id);
  return made;
}

const bearerOf = ({ id }: User) => ({
  authorization: `Bearer ${jwt.sign({ role: "authenticated", type: "access" }, JWT_SECRET, { issuer: "content-service", subject: String(id), expiresIn: 60 })}`,
});

/** All that there is, as text. */
const content = async () =>
  JSON.stringify(
    await sql(
      "select u::text from users u union all select a::text from articles a union all select c::text from comments c order by 1",
    ),
  );

/** How many users, articles and comments are of this one. */
const countsOf = async ({ id }: User) =>
  Object.values(
    (
      await sql(
        "select (select count(*)::int from users where id = $1), (select count(*)::int from articles where author_id = $1) as articles, (select count(*)::int from comments where author_id = $1) as comments",
        id,
      )
    )[0],
  );

describe("DELETE of a user who has written something is 409", () => {
  test.each<[what: string, make: () => Promise<User>, has: string]>([
    ["articles and comments", writer, "(articles|comments)"],
    ["comments alone", commenter, "comments"],
  ])("%s", async (_, make, has) => {
    const made = await make();
    const before = await content();
    for (const sent of [{}, { headers: bearerOf(made) }, { as: "admin" as const }, { as: "service" as const }]) {
      for (const query of ["", "?cascade=false"]) {
        const [status, code, message] = await failure(`DELETE /users/${made.id}${query}`, sent);
        expect([status, code]).toEqual([409, "RESOURCE_CONFLICT"]);
        expect(message).toMatch(RegExp(`^this user still has ${has}: delete them first, or use .cascade=true$`));
      }
    }
    expect(await content()).toBe(before);
  });
});

describe("?cascade=true deletes what the user has written", () => {
  test.each(["the user", "admin", "service"] as const)("and nothing of other users, for %s", async (who) => {
    const before = await content();
    const made = await writer();
    const sent = who === "the user" ? { headers: bearerOf(made) } : { as: who };
    const { status, text } = await api(`DELETE /users/${made.id}?cascade=true`, sent);
    expect([status, text, await countsOf(made)]).toEqual([204, "", [0, 0, 0]]);
    expect(await content()).toBe(before);
  });

  describe("while the user", () => {
    const deletion = async (id: number) => (await api(`DELETE /users/${id}?cascade=true`, { as: "admin" })).status;
    const waiting = async () => {
      const text =
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and backend_type = 'client backend'";
      return (await sql(text)).length;
    };

    test("writes another article: later writes are rejected", async () => {
      const made = await writer();
      await sql("begin");
      await sql("insert into articles (author_id, title, content) values ($1, 'Third article', 'x')", made.id);
      const status = deletion(made.id);
      await expect.poll(waiting).toBe(1);
      await sql("commit");
      const body = { title: "Fourth article", content: "x" };
      const writes = [1, 2, 3].map(() => api("POST /articles", { headers: bearerOf(made), body }));
      expect(await status).toBe(204);
      for (const { status } of await Promise.all(writes)) expect([201, 401, 409]).toContain(status);
      expect(await countsOf(made)).toEqual([0, 0, 0]);
    });

    test("writes a comment on their own article", async () => {
      const made = await writer();
      const [{ id }] = await sql("select id from articles where author_id = $1", made.id);
      await sql("begin");
      await sql("select from articles where id = $1 for key share", id);
      const status = deletion(made.id);
      await expect.poll(waiting).toBe(1);
      // Each waits for the other now. Postgres cancels the deletion, which is attempted again; if the deletion had waited for
      // longer than its deadlock_timeout before this insert began, Postgres cancels the insert.
      await sql("set local deadlock_timeout = '5s'");
      const insert = sql("insert into comments (article_id, author_id, content) values ($1, $2, 'x')", id, made.id);
      const end = await insert.then(
        () => "commit",
        ({ code }) => {
          expect(code).toBe("40P01");
          return "rollback";
        },
      );
      await sql(end);
      expect(await status).toBe(204);
      expect(await countsOf(made)).toEqual([0, 0, 0]);
    });
  });

  test("of a user who has written nothing, with their account", async () => {
    const { id, email } = await user({ password: "Correct-Horse-7!" });
    expect((await api(`DELETE /users/${id}?cascade=true`, { as: "admin" })).status).toBe(204);
    expect((await api(`DELETE /users/${id}?cascade=true`, { as: "admin" })).status).toBe(404);
    const login = { username: email, password: "Correct-Horse-7!" };
    expect((await api("POST /auth/login", { body: login })).status).toBe(401);
  });
});

describe("it is rejected and deletes nothing", () => {
  test.each(["nonsense", "", "1", "TRUE", "yes"])("with cascade=%s: 400", async (text) => {
    const before = await content();
    const answer = await failure(`DELETE /users/1?cascade=${text}`, { as: "admin" });
    expect(answer).toEqual([400, "BAD_REQUEST", "cascade must be true or false"]);
    expect((await failure("DELETE /users/1?cascade=true&cascade=true", { as: "admin" }))[0]).toBe(400);
    expect(await content()).toBe(before);
  });

  test("when the user has changed: 412", async () => {
    const made = await writer();
    const { headers } = await api(`/users/${made.id}`);
    await api(`PATCH /users/${made.id}`, { body: { age: 7 } });
    const before = await content();
    const sent = { as: "admin" as const, headers: { "if-match": headers.get("etag")! } };
    const [status, code] = await failure(`DELETE /users/${made.id}?cascade=true`, sent);
    expect([status, code]).toEqual([412, "PRECONDITION_FAILED"]);
    expect(await content()).toBe(before);
    const { headers: now } = await api(`/users/${made.id}`);
    const again = { as: "admin" as const, headers: { "if-match": now.get("etag")! } };
    expect((await api(`DELETE /users/${made.id}?cascade=true`, again)).status).toBe(204);
  });
});
