import jwt from "jsonwebtoken";
import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { JWT_SECRET } from "../../support/service.ts";
import { allUsers, newEmail } from "./users.ts";

const client = useResources();
const { api, failure, service } = client;

const sign = (claims: object, options: jwt.SignOptions = {}) =>
  jwt.sign(claims, JWT_SECRET, { issuer: "content-service", expiresIn: 60, ...options });
const ADA = { sub: "1", role: "authenticated", type: "access" };

const EXPIRED = ["TOKEN_EXPIRED", "the access token has expired: sign in again"] as const;
const INVALID = ["INVALID_TOKEN", "the access token is not valid: sign in again"] as const;
const SEVERAL = [401, "VERIFICATION_FAILED", "the request has several API keys: send one"];
const BAD_KEY = ["INVALID_TOKEN", "the API key is not valid"] as const;

const METHODS = [
  "GET /users",
  "GET /users/1",
  "HEAD /users/1",
  "POST /users",
  "PUT /users/1",
  "PATCH /users/1",
  "DELETE /users/4",
];

describe("a credential that is not good is 401, and never passed over for a weaker one", () => {
  test.each<[what: string, headers: Readonly<Record<string, string>>, told: readonly [code: string, message: string]]>([
    ["an expired token", { authorization: `Bearer ${sign(ADA, { expiresIn: -1 })}` }, EXPIRED],
    ["a token that is none", { authorization: "Bearer garbage" }, INVALID],
    ["nothing behind Bearer", { authorization: "Bearer " }, INVALID],
    ["another scheme", { authorization: "Digest username=ada" }, INVALID],
    ["a refresh token", { authorization: `Bearer ${sign({ sub: "1", type: "refresh" })}` }, INVALID],
    [
      "somebody else's token",
      { authorization: `Bearer ${jwt.sign(ADA, "x".repeat(32), { issuer: "content-service" })}` },
      INVALID,
    ],
    ["a token that nobody signed", { authorization: `Bearer ${jwt.sign(ADA, "", { algorithm: "none" })}` }, INVALID],
    ["a bad key in X-API-Key", { "x-api-key": "garbage" }, BAD_KEY],
    ["a bad key in apikey", { apikey: "garbage" }, BAD_KEY],
    ["an expired key", { "x-api-key": sign({ role: "anon" }, { expiresIn: -1 }) }, BAD_KEY],
    ["a user's token as a key", { "x-api-key": sign(ADA) }, BAD_KEY],
  ])("%s", async (_, headers, [code, message]) => {
    const before = await allUsers(client);
    for (const request of METHODS) {
      const body = /^P/.test(request) ? { body: { name: "Eve", email: newEmail() } } : {};
      const answer = await api(request, { ...body, headers });
      expect([request, answer.status, answer.headers.get("www-authenticate")]).toEqual([request, 401, "Bearer"]);
      if (!request.startsWith("HEAD")) expect(answer.json.error).toMatchObject({ code, message });
    }
    expect(await allUsers(client)).toBe(before);
  });

  test("in the address", async () => {
    expect(await failure("/users?api_key=garbage")).toEqual([401, ...BAD_KEY]);
    expect(await failure("DELETE /users/4?api_key=garbage")).toEqual([401, ...BAD_KEY]);
  });

  test("beside one that is good", async () => {
    const anon = service().service.tokens.issueKey("anon");
    expect(await failure("/users/1", { headers: { apikey: anon, "x-api-key": "garbage" } })).toEqual(SEVERAL);
    expect(await failure("/users/1?api_key=garbage", { headers: { apikey: anon } })).toEqual(SEVERAL);
    expect(await failure("/users/1", { as: "ada", headers: { "x-api-key": "garbage" } })).toEqual([401, ...BAD_KEY]);
    expect(await failure("/users/1", { headers: { apikey: anon, authorization: "Bearer garbage" } })).toEqual([
      401,
      ...INVALID,
    ]);
  });
});

describe("an API key", () => {
  const inEachPlace = (key: string): readonly [path: string, headers: Readonly<Record<string, string>>][] => [
    ["/users/2", { "x-api-key": key }],
    ["/users/2", { apikey: key }],
    [`/users/2?api_key=${key}`, {}],
    ["/users/2", { apikey: "", "x-api-key": key }],
    [`/users/2?api_key=${key}`, { apikey: key, "x-api-key": key }],
    ["/users/2", { apikey: key, authorization: `Bearer ${key}` }],
  ];

  test("of the service may do everything, wherever it is sent", async () => {
    for (const [path, headers] of inEachPlace(service().service.tokens.issueKey("service_role"))) {
      expect((await api(`PATCH ${path}`, { body: { age: 41 }, headers })).status).toBe(200);
    }
  });

  test("for everybody is as good as none", async () => {
    for (const [path, headers] of inEachPlace(service().service.tokens.issueKey("anon"))) {
      expect((await api(`PATCH ${path}`, { body: { age: 41 }, headers })).status).toBe(200);
    }
  });

  test("for everybody lets a user's token say who it is", async () => {
    const headers = { "x-api-key": service().service.tokens.issueKey("anon") };
    expect((await api("PATCH /users/1", { as: "ada", body: { age: 36 }, headers })).status).toBe(200);
    expect((await api("PATCH /users/2", { as: "ada", body: { age: 36 }, headers })).status).toBe(403);
  });

  test("and a token of two different callers are 401 VERIFICATION_FAILED", async () => {
    const headers = { "x-api-key": service().service.tokens.issueKey("service_role") };
    const message = "the API key and the access token are of different callers";
    expect(await failure("/users/1", { as: "ada", headers })).toEqual([401, "VERIFICATION_FAILED", message]);
  });

  test("and another one are 401 VERIFICATION_FAILED", async () => {
    const { tokens } = service().service;
    const headers = { "x-api-key": tokens.issueKey("service_role"), apikey: tokens.issueKey("anon") };
    expect(await failure("/users/1", { headers })).toEqual(SEVERAL);
  });

  test("of the service in a browser is 403", async () => {
    const key = service().service.tokens.issueKey("service_role");
    const message = "the service key must not be used in browsers";
    for (const [path, headers] of inEachPlace(key)) {
      const answer = await failure(path, { headers: { ...headers, origin: "https://app.example" } });
      expect(answer).toEqual([403, "PERMISSION_DENIED", message]);
    }
  });
});

test("a token in a browser is fine", async () => {
  expect(
    (await api("PATCH /users/1", { as: "ada", body: {}, headers: { origin: "https://app.example" } })).status,
  ).toBe(200);
});

test("the token of a user who is gone changes nobody", async () => {
  const authorization = `Bearer ${sign({ ...ADA, sub: "4711" })}`;
  expect((await failure("PATCH /users/1", { body: { age: 1 }, headers: { authorization } })).slice(0, 2)).toEqual([
    403,
    "PERMISSION_DENIED",
  ]);
  expect((await failure("PATCH /users/4711", { body: { age: 1 }, headers: { authorization } })).slice(0, 2)).toEqual([
    404,
    "USER_NOT_FOUND",
  ]);
});
