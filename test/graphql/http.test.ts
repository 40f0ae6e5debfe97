import { describe, expect, test } from "vitest";
import { errorTexts, useService } from "../support/http-client.ts";

const { content, gql, post, send } = useService();

const JSON_TYPE = "application/json; charset=utf-8";
const RESPONSE_TYPE = "application/graphql-response+json; charset=utf-8";
const QUERY = "{ user(id: 1) { id } }";
const DATA = { data: { user: { id: "1" } } };

const get = (parameters: Record<string, string>, headers: Record<string, string> = {}) =>
  send(`/graphql?${new URLSearchParams(parameters)}`, { headers });

describe("the media type in", () => {
  test.each([
    [undefined, JSON_TYPE],
    ["*/*", JSON_TYPE],
    ["application/*", JSON_TYPE],
    ["application/json", JSON_TYPE],
    ["text/html", JSON_TYPE],
    ["application/graphql-response+json", RESPONSE_TYPE],
    ["Application/GraphQL-Response+JSON", RESPONSE_TYPE],
    ["application/graphql-response+json; charset=utf-8", RESPONSE_TYPE],
    ["application/graphql-response+json, application/json", RESPONSE_TYPE],
    ["application/json, application/graphql-response+json", RESPONSE_TYPE],
    ["application/graphql-response+json, application/json;q=0.9", RESPONSE_TYPE],
    ["application/graphql-response+json;q=0.9, application/json", JSON_TYPE],
    ["application/graphql-response+json;q=0.5, application/json; q=0.4", RESPONSE_TYPE],
    ["application/graphql-response+json;q=0", JSON_TYPE],
    ["application/graphql-response+json;q=0, */*", JSON_TYPE],
    ["application/graphql-response+json;q=0.5, */*", JSON_TYPE],
    ["application/graphql-response+json, */*;q=0.1", RESPONSE_TYPE],
    ["text/html, application/json;q=0.9, */*;q=0.8", JSON_TYPE],
  ])("Accept: %s gives %s", async (accept, expected) => {
    // Without an Accept header, fetch sends */*.
    const { headers, json } = await post({ query: QUERY }, accept === undefined ? {} : { accept });
    expect(headers.get("content-type")).toBe(expected);
    expect(headers.get("vary")).toMatch(/\bAccept\b/);
    expect(json).toEqual(DATA);
  });

  test.each([
    ["a document that is executed", { query: QUERY }, 200, 200],
    ["a field that fails", { query: "{ me { id } }" }, 200, 200],
    ["no such row", { query: "{ user(id: 999999) { id } }" }, 200, 200],
    ["a syntax error", { query: "{" }, 200, 400],
    ["a validation error", { query: "{ nowhere }" }, 200, 400],
    ["a limit that is exceeded", { query: `{ ${"users { id } ".repeat(600)} }` }, 200, 400],
    ["a variable that does not fit", { query: "query ($id: ID!) { user(id: $id) { id } }" }, 200, 400],
    ["an unknown operation", { query: QUERY, operationName: "Other" }, 200, 400],
    ["no query", {}, 400, 400],
    ["an empty query", { query: "" }, 400, 400],
    ["a query that is not a string", { query: 7 }, 400, 400],
    ["variables that are a list", { query: QUERY, variables: [] }, 400, 400],
    ["variables that are text", { query: QUERY, variables: "{}" }, 400, 400],
    ["an operationName that is not a string", { query: QUERY, operationName: 7 }, 400, 400],
    ["a batch", [{ query: QUERY }], 400, 400],
    ["an empty batch", [], 400, 400],
    ["null", null, 400, 400],
    ["text", '"{ users { id } }"', 400, 400],
    ["invalid JSON", "{ users { id } }", 400, 400],
    ["an empty body", "", 400, 400],
    ["a subscription", { query: "subscription { onArticleCreated { id } }" }, 400, 400],
  ])(
    "%s: %3$i for application/json, %4$i for application/graphql-response+json",
    async (_, body, json, graphqlResponse) => {
      const asJson = await post(body);
      const asResponse = await post(body, { accept: "application/graphql-response+json" });
      expect([asJson.status, asResponse.status]).toEqual([json, graphqlResponse]);
      expect(asResponse.json).toEqual(asJson.json);
      if (json === 400 || graphqlResponse === 400) {
        expect(asJson.json).not.toHaveProperty("data");
        expect(asJson.json.errors[0]).toMatchObject({
          message: expect.any(String),
          extensions: { code: "VALIDATION_ERROR" },
        });
      }
    },
  );
});

describe("a GET request", () => {
  test("executes a query", async () => {
    expect(await get({ query: QUERY })).toMatchObject({ status: 200, json: DATA });
  });

  test("accepts variables and operationName", async () => {
    const query = "query A ($id: ID!) { user(id: $id) { id } } query B { users(limit: 1) { id } }";
    expect((await get({ query, variables: '{"id": 1}', operationName: "A" })).json).toEqual(DATA);
    expect((await get({ query, operationName: "B" })).json).toEqual({ data: { users: [{ id: "1" }] } });
    expect((await get({ query: QUERY, variables: "null" })).json).toEqual(DATA);
    expect((await get({ query: QUERY, extensions: "{}", other: "x" })).json).toEqual(DATA);
  });

  test.each([
    [{}, "query must be a GraphQL document"],
    [{ query: "" }, "query must be a GraphQL document"],
    [{ query: QUERY, variables: "[]" }, "variables must be an object"],
    [{ query: QUERY, variables: "7" }, "variables must be an object"],
    [{ query: QUERY, extensions: "7" }, "extensions must be an object"],
    [{ query: QUERY, extensions: '{"persistedQuery":7}' }, "extensions.persistedQuery must be an object"],
    [
      { query: QUERY, extensions: '{"changePosition":"yes"}' },
      "extensions.changePosition must be true, false or the changePosition of a write",
    ],
  ])("with %j is 400", async (parameters, message) => {
    expect(await get(parameters)).toMatchObject({ status: 400, json: { errors: [{ message }] } });
  });

  test.each(["{", "{id: 1}", "", `${"[".repeat(200)}${"]".repeat(200)}`])(
    "with the variables %.20s is 400",
    async (variables) => {
      expect((await get({ query: QUERY, variables })).status).toBe(400);
    },
  );

  test("with a mutation is 405 with Allow: POST, and nothing is written", async () => {
    const before = await content();
    const query = 'mutation { createUser(input: { name: "X", email: "x@y.example" }) { id } }';
    const answer = await get({ query });
    expect(answer).toMatchObject({ status: 405, json: { errors: [{ message: "a mutation must be sent with POST" }] } });
    expect(answer.headers.get("allow")).toBe("POST");
    const several = await get({
      query: `query A { users { id } } ${query.replace("mutation", "mutation B")}`,
      operationName: "B",
    });
    expect(several.status).toBe(405);
    expect(await content()).toBe(before);
  });

  test("with a subscription is 400", async () => {
    expect((await get({ query: "subscription { onArticleCreated { id } }" })).status).toBe(400);
  });

  test.each([
    ["PUT", 405],
    ["PATCH", 405],
    ["DELETE", 405],
    ["HEAD", 405],
    ["OPTIONS", 204],
  ])("that uses %s instead is %i with Allow: GET, POST, OPTIONS", async (method, expected) => {
    const { status, headers } = await send("/graphql", { method });
    expect([status, headers.get("allow")]).toEqual([expected, "GET, POST, OPTIONS"]);
  });
});

describe("another member of the body", () => {
  test.each([
    [{ query: QUERY, documentId: "abc", extensions: { persistedQuery: { version: 1, sha256Hash: "abc" } } }],
    [{ query: QUERY, variables: null, operationName: null, other: [1, 2] }],
    [{ query: QUERY, operationName: "" }],
  ])("is ignored: %j", async (body) => {
    expect(await post(body)).toMatchObject({ status: 200, json: DATA });
  });

  test("id does not replace the query", async () => {
    expect(await post({ id: "abc" })).toMatchObject({
      status: 400,
      json: { errors: [{ message: "query must be a GraphQL document" }] },
    });
  });
});

describe("the header", () => {
  test.each(["abc", "my-request.7:x_Y", "x".repeat(128)])("X-Request-Id %s is echoed", async (id) => {
    expect((await post({ query: QUERY }, { "x-request-id": id })).headers.get("x-request-id")).toBe(id);
  });

  test.each([undefined, "two words", "x".repeat(129), "<script>", "ä"])("X-Request-Id %s is replaced", async (id) => {
    const { headers } = await post({ query: QUERY }, id === undefined ? {} : { "x-request-id": id });
    expect(headers.get("x-request-id")).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });
});

test("/graphiql is not served with DATABASE_URL", async () => {
  expect((await send("/graphiql")).status).toBe(404);
});

describe("with DATABASE_URL, errors do not suggest names of the schema", () => {
  test.each([
    ["{ user(id: 1) { nam } }"],
    ["{ usr(id: 1) { name } }"],
    ["{ user(idd: 1) { name } }"],
    ["{ articles(status: DRAFTT) { totalCount } }"],
    ["{ user(id: 1) { ... on Usr { id } } }"],
    ["{ user(id: 1) { id @includ(if: true) } }"],
    ['mutation { createUser(input: { nam: "X", email: "x@y.example" }) { id } }'],
    ["query ($s: ArticleStatu) { articles(status: $s) { totalCount } }"],
  ])("%s", async (query) => {
    const answer = await gql(query);
    expect(errorTexts(answer).join()).toMatch(/^VALIDATION_ERROR/);
    expect(errorTexts(answer).join()).not.toMatch(/did you mean/i);
  });

  test.each([
    ["query ($v: ArticleStatus) { articles(status: $v) { totalCount } }", "draft"],
    ["mutation ($v: CreateUserInput!) { createUser(input: $v) { id } }", { nam: "X" }],
    ["query ($v: ArticleFilterInput) { articles(filter: $v) { totalCount } }", { stats: "DRAFT" }],
  ])("for variables: %s with %j", async (query, v) => {
    expect(errorTexts(await gql(query, { variables: { v } })).join()).not.toMatch(/did you mean/i);
  });
});
