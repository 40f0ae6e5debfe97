import { describe, expect, test } from "vitest";
import { type ApiReply, useResources } from "../../support/resource-client.ts";

const { api, failure } = useResources();

describe("an error has the general envelope", () => {
  test("with code, message, request id, time, status and documentation", async () => {
    const { status, json, headers } = await api("/users/999");
    expect(status).toBe(404);
    expect(json).toEqual({
      error: {
        code: "USER_NOT_FOUND",
        message: "there is no user with this id",
        requestId: headers.get("x-request-id"),
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        documentation: "/docs/errors",
      },
      timestamp: json.error.timestamp,
      status: 404,
    });
    expect(Math.abs(Date.now() - Date.parse(json.timestamp))).toBeLessThan(60_000);
  });

  test("and its documentation URL exists and explains the code", async () => {
    const { json } = await api("/users/999");
    const { status, text } = await api(json.error.documentation);
    expect([status, text.includes("USER_NOT_FOUND")]).toEqual([200, true]);
  });

  test("with the client's own request id", async () => {
    const { json, headers } = await api("/users/x", { headers: { "x-request-id": "trace-7" } });
    expect([json.error.requestId, headers.get("x-request-id")]).toEqual(["trace-7", "trace-7"]);
  });

  test("as JSON that is not cached, whatever Accept says", async () => {
    const { headers } = await api("/users/999", { headers: { accept: "text/html" } });
    expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-store");
  });
});

describe("Prefer: dialect selects another form of errors", () => {
  test("detail", async () => {
    const { json, headers } = await api("/users/999", { prefer: "dialect=detail" });
    expect(json).toEqual({ detail: { code: "USER_NOT_FOUND", message: "there is no user with this id" } });
    expect(headers.get("preference-applied")).toBe("dialect=detail");
  });

  test("flat, with the first field with a fault", async () => {
    const { json } = await api("POST /users", { body: { name: 7, email: "x" }, prefer: "dialect=flat" });
    expect(json).toEqual({
      error: "VALIDATION_ERROR",
      message: "name must be a text; email must be a valid address",
      field: "name",
    });
    expect((await api("/users/999", { prefer: "dialect=flat" })).json).toEqual({
      error: "USER_NOT_FOUND",
      message: "there is no user with this id",
      field: null,
    });
  });

  test.each([
    ["/users/999", 'dialect="detail flat"', "dialect=detail"],
    ["/users/999", "dialect=case, dialect=detail", "dialect=case, dialect=detail"],
    ["/users/999", 'dialect="case detail"', "dialect=case, dialect=detail"],
    ["/users/999", "dialect=detail;foo=bar, dialect=case", "dialect=detail, dialect=case"],
    ["/users/999", "Dialect=detail,handling=lenient,,dialect=detail", "dialect=detail, handling=lenient"],
    ["/users/999", "return=minimal, dialect=detail", "dialect=detail"],
    ["/users/1", "dialect=detail, handling=strict", "handling=strict"],
    ["/users?skip=1", "dialect=envelope", "dialect=envelope"],
    ["/users?page=0&size=2", "dialect=envelope", null],
    ["/users?page=1&limit=2", "dialect=envelope", null],
    ["/users/1", "dialect=envelope", null],
    ["/api/v2/users", 'dialect="envelope case"', null],
    ["/users/1", 'dialect="partial case"', "dialect=case"],
    ["/api/v2/users/999", 'dialect="flat case"', "dialect=flat"],
    ["PATCH /users/4", "dialect=partial", null],
    ["PUT /api/v2/users/4", "dialect=partial", "dialect=partial"],
  ])("%s with %s has applied %s", async (request, prefer, applied) => {
    const sent = request.startsWith("P") ? { prefer, body: { age: 5 } } : { prefer };
    const { headers, json } = await api(request, sent);
    expect(headers.get("preference-applied")).toBe(applied);
    if (applied?.includes("dialect=detail")) expect(Object.keys(json)).toEqual(["detail"]);
  });

  test("case, with fields in camelCase in responses, bodies and errors", async () => {
    const prefer = "dialect=case";
    const { json } = await api("/users/1", { prefer });
    expect(Object.keys(json)).toEqual(["id", "name", "email", "age", "createdAt", "updatedAt"]);
    const { json: made } = await api("POST /users", { body: { name: "Grace", email: "case@test.example" }, prefer });
    expect(made.createdAt).toBe(made.updatedAt);
    expect((await api("/users?limit=1", { prefer })).json).toEqual([json]);
    expect((await api("/users?fields=createdAt,updated_at&limit=1", { prefer })).json).toEqual([
      { createdAt: json.createdAt, updatedAt: json.updatedAt },
    ]);
  });

  test("unknown preferences are ignored unless handling is strict", async () => {
    expect((await api("/users/1", { prefer: "dialect=klingon, cheese=blue" })).status).toBe(200);
    const { status, json } = await api("/users/1", { prefer: "handling=strict, dialect=klingon, cheese=blue" });
    expect([status, json.error.code]).toEqual([400, "BAD_REQUEST"]);
    expect(json.error.message).toBe("unknown preferences: dialect=klingon, cheese=blue");
  });

  test("the response has Vary: Prefer", async () => {
    for (const path of ["/users/1", "/users/999"]) {
      expect((await api(path)).headers.get("vary")).toMatch(/\bPrefer\b/);
    }
  });
});

describe("every error has a body in the dialect, its status and its headers", () => {
  test.each<[request: string, status: number, code: string, body?: unknown]>([
    ["/users/x", 400, "INVALID_ID"],
    ["/users?limit=x", 400, "BAD_REQUEST"],
    ["/users?version=9", 400, "UNSUPPORTED_VERSION"],
    ["/users/1/nothing", 404, "RESOURCE_NOT_FOUND"],
    ["/users/", 404, "RESOURCE_NOT_FOUND"],
    ["DELETE /users", 405, "VALIDATION_ERROR"],
    ["POST /users", 400, "INVALID_JSON", "{"],
    ["POST /users", 409, "RESOURCE_CONFLICT", { name: "Ada", email: "ada@example.com" }],
    ["DELETE /users/1", 409, "RESOURCE_CONFLICT"],
  ])("%s: %i %s", async (request, status, code, body) => {
    const sent = body === undefined ? {} : { body };
    const received = async (prefer: string) => {
      const answer: ApiReply = await api(request, { ...sent, prefer });
      expect(answer.status).toBe(status);
      return answer.json;
    };
    const { error } = await received("dialect=none");
    expect(error.code).toBe(code);
    expect((await received("dialect=detail")).detail).toEqual({ code, message: error.message });
    expect(await received("dialect=flat")).toMatchObject({ error: code, message: error.message });
  });
});

describe("handling=strict", () => {
  const prefer = "handling=strict";

  test("rejects unknown fields by name", async () => {
    const input = { name: "Grace", email: "strict@test.example", nickname: "Amazing", id: 7, created_at: "x" };
    const { status, json, headers } = await api("POST /users", { body: input, prefer });
    expect([status, json.error.code, headers.get("preference-applied")]).toEqual([400, "BAD_REQUEST", prefer]);
    expect(json.error.fields).toEqual({ nickname: "unknown field" });
    expect(json.error.message).toBe(
      "unknown field nickname: the writable fields are name, email, age, password, username",
    );
    expect((await api("PATCH /users/1", { body: { nick: 1, Name: "x" }, prefer })).json.error.fields).toEqual({
      nick: "unknown field",
      Name: "unknown field",
    });
  });

  test.each<[request: string, names: string, body?: unknown]>([
    ["POST /users", "name, email, age", [{ nope: 1 }]],
    ["POST /articles", "title, content, status, tags"],
    ["PATCH /articles/1", "title, content, status, tags"],
    ["POST /comments", "article_id, content"],
    ["POST /api/v2/comments", "articleId, content"],
    ["POST /articles/1/comments", "content"],
    ["PATCH /comments/1", "content"],
    ["PUT /users/1", "name, email, age"],
  ])("lists the writable fields of %s: %s", async (request, names, body = { nope: 1 }) => {
    const [status, , message] = await failure(request, { body, prefer, as: "admin" });
    expect([status, message]).toEqual([400, `unknown field nope: the writable fields are ${names}`]);
  });

  test("accepts what the service has returned", async () => {
    const { json: read } = await api("/users/1");
    expect((await api("PUT /users/1", { body: read, prefer })).status).toBe(200);
    const { json: linked } = await api("/api/v2/users/1");
    expect((await api("PUT /users/1", { body: linked, prefer })).status).toBe(200);
  });
});

test("no error reveals details of the database", async () => {
  const texts = [];
  for (const request of ["DELETE /users/1", "/users/x", "PATCH /users/1", "/users?sort=password"]) {
    texts.push((await api(request, request.startsWith("P") ? { body: { email: "bob@example.com" } } : {})).text);
  }
  expect(texts.join()).not.toMatch(/constraint|fkey|_key|public\.|select |postgres/i);
});
