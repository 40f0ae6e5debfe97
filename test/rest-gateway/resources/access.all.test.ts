import { describe, expect, test } from "vitest";
import { type ResourceClient, useResources } from "../../support/resource-client.ts";
import { allUsers, newEmail, userMaker } from "./users.ts";

const CALLERS = ["anonymous", "ada", "bob", "admin", "service"] as const;
type Who = (typeof CALLERS)[number];
const as = (who: Who) => (who === "anonymous" ? {} : { as: who });

const LOGIN = "401 AUTH_REQUIRED login required";
const denied = (action: string, singular: string) => `403 PERMISSION_DENIED you may not ${action} this ${singular}`;
const CHANGE_ARTICLE = denied("change", "article");
const CHANGE_COMMENT = denied("change", "comment");
const CHANGE_USER = denied("change", "user");
const NO_ARTICLE = "404 RESOURCE_NOT_FOUND there is no article with this id";
const NO_USER = "404 USER_NOT_FOUND there is no user with this id";
// An article needs an author.
const NO_AUTHOR = "400 VALIDATION_ERROR a value violates a constraint of the database";
const TAKEN = "409 RESOURCE_CONFLICT email already registered";

const ARTICLE = { title: "A new article", content: "Some content." };
const COMMENT = { content: "Nice." };
const ADA = { name: "Ada Lovelace", email: "ada@example.com", age: 36 };

/** The paths that a row may name: an article of Ada, Bob's comment on it, and two users, of whom one has written an article. */
async function records({ body, sql }: ResourceClient): Promise<Readonly<Record<string, string>>> {
  const article = await body("POST /articles", { as: "ada", body: ARTICLE });
  const comment = await body(`POST /articles/${article.id}/comments`, { as: "bob", body: COMMENT });
  const insert = "insert into users (name, email) values ('Grace', $1), ('Writer', $2) returning id";
  const [user, writer] = await sql(insert, newEmail(), newEmail());
  await sql("insert into articles (author_id, title, content) values ($1, 'First article', 'x')", writer.id);
  return {
    article: `/articles/${article.id}`,
    comment: `/comments/${comment.id}`,
    user: `/users/${user.id}`,
    writer: `/users/${writer.id}`,
  };
}

type Row = [request: string, body: unknown, ...outcomes: (number | string)[]];

/** The status of a success, or the error, of each request by each caller. A request that is refused changes nothing. */
function expectAccess(client: ResourceClient, rows: readonly Row[]): void {
  const { api, sql } = client;
  const content = () =>
    sql(
      "select u::text as row from users u union all select a::text from articles a union all select c::text from comments c order by 1",
    );
  test.each<Row>(rows)("%s with %j", async (request, body, ...expected) => {
    for (const [i, who] of CALLERS.entries()) {
      const paths = await records(client);
      const before = await content();
      const path = request.replace(/\{(\w+)\}/, (_, name) => paths[name]!);
      const sent = typeof body === "function" ? body() : body;
      const { status, json, headers } = await api(path, { ...as(who), body: sent });
      const { code, message } = json?.error ?? {};
      expect([who, status < 300 ? status : `${status} ${code} ${message}`]).toEqual([who, expected[i]]);
      if (status === 401) expect(headers.get("www-authenticate")).toBe("Bearer");
      if (status >= 300) expect(await content()).toEqual(before);
      if (request.startsWith("DELETE") && status < 300)
        expect((await api(path.replace(/^DELETE |\?.*/g, ""))).status).toBe(404);
    }
  });
}

const newUser = () => ({ name: "Grace", email: newEmail() });
const newUsers = () => [newUser(), newUser()];

// What every caller may do to users, whatever USERS_WRITE is.
const USERS: readonly Row[] = [
  ["GET /users", undefined, 200, 200, 200, 200, 200],
  ["GET /users/1", undefined, 200, 200, 200, 200, 200],
  ["POST /users", newUser, 201, 201, 201, 201, 201],
];

describe("with USERS_WRITE=open", () => {
  const client = useResources({ USERS_WRITE: "open" });
  expectAccess(client, [
    ...USERS,
    ["POST /users", newUsers, 201, 201, 201, 201, 201],
    ["PUT /users/1", ADA, 200, 200, CHANGE_USER, 200, 200],
    ["PATCH /users/1", ADA, 200, 200, CHANGE_USER, 200, 200],
    ["PATCH /users/999", ADA, NO_USER, NO_USER, NO_USER, NO_USER, NO_USER],
    ["PUT /users/999", newUser, NO_USER, NO_USER, NO_USER, NO_USER, NO_USER],
    ["DELETE /users/999", undefined, NO_USER, NO_USER, NO_USER, NO_USER, NO_USER],
    ["DELETE {user}", undefined, 204, denied("delete", "user"), denied("delete", "user"), 204, 204],
  ]);

  test("a user whom an anonymous caller deletes loses their account", async () => {
    const password = "Correct-Horse-7!";
    const { id, email } = await userMaker(client)({ password });
    expect((await client.api(`DELETE /users/${id}`)).status).toBe(204);
    expect((await client.api("POST /auth/login", { body: { username: email, password } })).status).toBe(401);
  });
});

describe("with USERS_WRITE=owner", () => {
  const client = useResources({ USERS_WRITE: "owner" });
  const PUBLISH = "403 PERMISSION_DENIED only the author may publish this article";
  expectAccess(client, [
    ...USERS,
    ["POST /users", newUsers, LOGIN, 201, 201, 201, 201],
    ["PUT /users/1", ADA, LOGIN, 200, CHANGE_USER, 200, 200],
    // The conflict of a taken e-mail comes later.
    ["PATCH /users/3", { email: "bob@example.com" }, LOGIN, CHANGE_USER, CHANGE_USER, TAKEN, TAKEN],
    ["PATCH /users/1", ADA, LOGIN, 200, CHANGE_USER, 200, 200],
    ["PATCH /users/999", ADA, LOGIN, NO_USER, NO_USER, NO_USER, NO_USER],
    ["PUT /users/999", newUser, LOGIN, NO_USER, NO_USER, NO_USER, NO_USER],
    ["DELETE /users/999", undefined, LOGIN, NO_USER, NO_USER, NO_USER, NO_USER],
    ["DELETE {user}", undefined, LOGIN, denied("delete", "user"), denied("delete", "user"), 204, 204],
    ["DELETE {writer}?cascade=true", undefined, LOGIN, denied("delete", "user"), denied("delete", "user"), 204, 204],

    ["POST /articles", ARTICLE, LOGIN, 201, 201, 201, NO_AUTHOR],
    ["PUT {article}", ARTICLE, LOGIN, 200, CHANGE_ARTICLE, 200, 200],
    ["PATCH {article}", { content: "Changed." }, LOGIN, 200, CHANGE_ARTICLE, 200, 200],
    ["POST {article}/publish", undefined, LOGIN, 200, PUBLISH, 200, 200],
    ["DELETE {article}", undefined, LOGIN, 204, denied("delete", "article"), 204, 204],
    ["PUT /articles/999", ARTICLE, LOGIN, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE],
    ["PATCH /articles/999", ARTICLE, LOGIN, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE],
    ["POST /articles/999/publish", undefined, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE],
    ["DELETE /articles/999", undefined, LOGIN, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE, NO_ARTICLE],

    ["POST /comments", { ...COMMENT, article_id: 1 }, LOGIN, 201, 201, 201, NO_AUTHOR],
    ["POST {article}/comments", COMMENT, LOGIN, 201, 201, 201, NO_AUTHOR],
    // Ada is the author of the article.
    ["PUT {comment}", { content: "x" }, LOGIN, CHANGE_COMMENT, 200, 200, 200],
    ["PATCH {comment}", { content: "x" }, LOGIN, CHANGE_COMMENT, 200, 200, 200],
    ["PATCH /articles/1/comments/1", { content: "x" }, LOGIN, CHANGE_COMMENT, 200, 200, 200],
    ["DELETE {comment}", undefined, LOGIN, denied("delete", "comment"), 204, 204, 204],
  ]);

  test("a user may delete their own account, which ends its sessions", async () => {
    const password = "Correct-Horse-7!";
    const { id, email } = await userMaker(client)({ password });
    const login = async () => client.api("POST /auth/login", { body: { username: email, password } });
    const { accessToken, refreshToken } = (await login()).json;
    const before = JSON.parse(await allUsers(client)).length;
    const headers = { authorization: `Bearer ${accessToken}` };
    expect((await client.api(`DELETE /users/${id}`, { headers })).status).toBe(204);
    expect(JSON.parse(await allUsers(client))).toHaveLength(before - 1);
    expect((await login()).status).toBe(401);
    expect((await client.api("POST /auth/refresh", { body: { refreshToken } })).status).toBe(401);
  });
});
