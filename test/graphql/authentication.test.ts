import jwt from "jsonwebtoken";
import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { JWT_SECRET } from "../support/service.ts";

const { article, content, data, errors, gql, token, service } = useService();

const ME = "{ me { id } }";
const authorized = (authorization: string) => ({ headers: { authorization } });
const bearer = (accessToken: string) => authorized(`Bearer ${accessToken}`);

describe("rule 1, the Authorization header", () => {
  test.each(["Bearer", "bearer", "BEARER", "Bearer  "])(
    "%s <ACCESS_TOKEN> authenticates the caller",
    async (scheme) => {
      expect(await data(ME, authorized(`${scheme} ${token("ada")}`))).toEqual({ me: { id: "1" } });
    },
  );

  test.each(["Basic YWRhOng=", "Bearer", "Bearer ", "Token x", "ada"])(
    "%s leaves the caller anonymous",
    async (authorization) => {
      expect(await gql(ME, authorized(authorization))).toMatchObject({
        status: 200,
        errors: [{ extensions: { code: "AUTH_REQUIRED" } }],
      });
    },
  );
});

test("rule 2: a valid token identifies the current user for the whole operation", async () => {
  const query = `mutation {
    one: createArticle(input: { title: "Title", content: "Some content." }) { article { author { id } } }
    two: createArticle(input: { title: "Title", content: "Some content." }) { article { author { id } } }
    three: createComment(articleId: 1, content: "Hm.") { author { id } }
  }`;
  expect(await data(query, { as: "bob" })).toEqual({
    one: { article: { author: { id: "2" } } },
    two: { article: { author: { id: "2" } } },
    three: { author: { id: "2" } },
  });
});

/** Claims of ada's access tokens, as the service issues them. */
const CLAIMS = { name: "Ada Lovelace", role: "authenticated", permissions: [], type: "access" };
const OPTIONS = { issuer: "content-service", subject: "1", expiresIn: 3600, jwtid: "x" } as const;
const sign = (claims: object = {}, options: object = {}, secret: jwt.Secret = JWT_SECRET) =>
  jwt.sign({ ...CLAIMS, ...claims }, secret, { ...OPTIONS, ...options });
const without = (name: string, from: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(from).filter(([key]) => key !== name));

describe("rule 3, a missing or invalid token does not reject the request", () => {
  test("the unmodified test token is accepted", async () => {
    expect(await data(ME, bearer(sign()))).toEqual({ me: { id: "1" } });
  });

  test.each([
    ["no token at all", () => ""],
    ["without exp", () => jwt.sign(CLAIMS, JWT_SECRET, without("expiresIn", OPTIONS))],
    ["of type refresh", () => sign({ type: "refresh" })],
    [
      "a refresh token that the service has issued",
      () => service().service.tokens.issuePair({ id: "1", ...CLAIMS }).refreshToken,
    ],
    ["without type", () => jwt.sign(without("type", CLAIMS), JWT_SECRET, OPTIONS)],
    ["without role", () => jwt.sign(without("role", CLAIMS), JWT_SECRET, OPTIONS)],
    ["without sub", () => jwt.sign(CLAIMS, JWT_SECRET, without("subject", OPTIONS))],
    ["of another issuer", () => sign({}, { issuer: "another-service" })],
    ["of a role that is not a valid name", () => sign({ role: 'anon"; drop table users' })],
    ["not valid yet", () => sign({}, { notBefore: 3600 })],
    ["with a sub that is not a number", () => sign({}, { subject: "ada" })],
    ["whose claims are a string", () => jwt.sign("ada", JWT_SECRET)],
    ["of 10 kB", () => "x".repeat(10_000)],
  ])("%s runs the operation as an anonymous caller", async (_, make) => {
    expect(await gql(ME, bearer(make()))).toMatchObject({
      status: 200,
      data: null,
      errors: [{ message: expect.stringMatching(/^login required: /), extensions: { code: "AUTH_REQUIRED" } }],
    });
    expect(await data("{ user(id: 1) { id } }", bearer(make()))).toEqual({ user: { id: "1" } });
  });

  test("an expired token gives AUTH_EXPIRED for fields that need a login and data for the others", async () => {
    const expired = bearer(sign({}, { expiresIn: -10 }));
    expect(await gql(ME, expired)).toMatchObject({
      status: 200,
      errors: [
        { message: "the access token has expired: refresh it, or sign in again", extensions: { code: "AUTH_EXPIRED" } },
      ],
    });
    expect(await errors("mutation { publishArticle(id: 1) { id } }", expired)).toEqual([
      "AUTH_EXPIRED: the access token has expired: refresh it, or sign in again",
    ]);
    expect(await data("{ user(id: 1) { id } }", expired)).toEqual({ user: { id: "1" } });
  });

  test("a response to an operation that ran without the caller of its token says so in extensions", async () => {
    const answerTo = async (token: string, query: string) => {
      const headers = { "content-type": "application/json", ...bearer(token).headers };
      const response = await fetch(`${service().url}/graphql`, {
        method: "POST",
        headers,
        body: JSON.stringify({ query }),
      });
      return response.json();
    };
    const query = "{ user(id: 1) { id } }";
    expect(await answerTo(sign(), query)).toEqual({ data: { user: { id: "1" } } });
    const message = "the access token has expired: refresh it, or sign in again";
    const expired = { auth: { code: "AUTH_EXPIRED", message } };
    expect(await answerTo(sign({}, { expiresIn: -10 }), query)).toEqual({
      data: { user: { id: "1" } },
      extensions: expired,
    });
    expect(await answerTo(sign({}, { expiresIn: -10 }), ME)).toMatchObject({ data: null, extensions: expired });
    expect(await answerTo("invalid", query)).toMatchObject({ extensions: { auth: { code: "AUTH_REQUIRED" } } });
  });

  test("a token that is expired and forged is treated as forged", async () => {
    const token = sign({}, { expiresIn: -10 }, "another secret, that is just as long as the first");
    expect(await errors(ME, bearer(token))).toEqual(["AUTH_REQUIRED: login required: the access token is not valid"]);
  });

  test.each(["admin", "postgres", "auth_owner", "no_such_role"])(
    "a token with the role %s, which differs from the role of the account, leaves the caller anonymous",
    async (role) => {
      expect(await errors(ME, bearer(sign({ role })))).toEqual([
        "AUTH_REQUIRED: login required: the access token has been revoked",
      ]);
      expect(await data("{ user(id: 1) { id } }", bearer(sign({ role })))).toEqual({ user: { id: "1" } });
    },
  );
});

const NEED_LOGIN = [
  ["me", ME],
  ["updateArticle", 'mutation { updateArticle(id: 1, input: { title: "Title" }) { id } }'],
  ["deleteArticle", "mutation { deleteArticle(id: 1) }"],
  ["publishArticle", "mutation { publishArticle(id: 1) { id } }"],
  ["createComment", 'mutation { createComment(articleId: 1, content: "Hm.") { id } }'],
] as const;

describe("rule 4, operations that need an authenticated user", () => {
  test.each(NEED_LOGIN)("%s gives AUTH_REQUIRED to an anonymous caller", async (_, query) => {
    const before = await content();
    expect(await errors(query)).toEqual(["AUTH_REQUIRED: login required"]);
    expect(await content()).toBe(before);
  });

  test("createArticle reports the missing login in its result", async () => {
    const query = 'mutation { createArticle(input: { title: "Title", content: "Some content." }) { success message } }';
    expect(await data(query)).toEqual({ createArticle: { success: false, message: "login required" } });
  });
});

describe("rule 5, only the author or an admin may update, publish or delete an article", () => {
  test("a service key may do the same and is not a user", async () => {
    const key = bearer(service().service.tokens.issueKey("service_role"));
    const id = await article({ author: 1 });
    const update = `mutation { updateArticle(id: ${id}, input: { title: "By the service" }) { title author { id } } }`;
    expect(await data(update, key)).toEqual({ updateArticle: { title: "By the service", author: { id: "1" } } });
    expect(await data(`mutation { deleteArticle(id: ${id}) }`, key)).toEqual({ deleteArticle: true });
    expect(await errors(ME, key)).toEqual(["AUTH_REQUIRED: login required"]);
  });

  test("an anon key gives the same rights as no key", async () => {
    const key = bearer(service().service.tokens.issueKey("anon"));
    expect(await data("{ user(id: 1) { id } }", key)).toEqual({ user: { id: "1" } });
    expect(await errors("mutation { publishArticle(id: 1) { id } }", key)).toEqual(["AUTH_REQUIRED: login required"]);
  });
});

test("rule 6, user, users, article, articles, search and createUser need no authentication", async () => {
  const query =
    '{ user(id: 1) { id } users(limit: 1) { id } article(id: 1) { id } articles { totalCount } search(keyword: "engine") { id } }';
  expect(await errors(query)).toEqual([]);
  expect(await errors('mutation { createUser(input: { name: "New", email: "new@example.com" }) { id } }')).toEqual([]);
});
