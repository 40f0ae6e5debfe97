import jwt from "jsonwebtoken";
import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { JWT_SECRET } from "../../support/service.ts";
import { allUsers, newEmail } from "./users.ts";

// Each wrong password is sent with every method.
const client = useResources({ LOGIN_ATTEMPTS: "100" });
const { api, failure, service } = client;

const sign = (claims: object, options: jwt.SignOptions = {}) =>
  jwt.sign(claims, JWT_SECRET, { issuer: "content-service", expiresIn: 3600, ...options });
const ADA = { sub: "1", role: "authenticated", type: "access" };

type Expected = readonly [code: string, message: string, challenge: string];
const challengeTo = (message: string) => `Bearer error="invalid_token", error_description="${message}"`;
const invalid = (code: string, message: string): Expected => [code, message, challengeTo(message)];
const BASIC = 'Basic realm="content-service", charset="UTF-8"';
const EXPIRED = invalid("TOKEN_EXPIRED", "the access token has expired: refresh it, or sign in again");
const INVALID = invalid("INVALID_TOKEN", "the access token is not valid: sign in again");
const BAD_KEY = invalid("INVALID_TOKEN", "the API key is not valid");
const EXPIRED_KEY = invalid("TOKEN_EXPIRED", "the API key has expired");
const UNREADABLE = invalid("VERIFICATION_FAILED", "the header Authorization must be Bearer or Basic, with credentials");
const UNREADABLE_BASIC: Expected = [UNREADABLE[0], UNREADABLE[1], BASIC];
const REVOKED = invalid("VERIFICATION_FAILED", "the access token has been revoked: sign in again");
const WRONG_PASSWORD: Expected = ["AUTH_REQUIRED", "wrong username or password", BASIC];
const NO_SESSION: Expected = ["AUTH_REQUIRED", "the session has ended: sign in again", "Bearer"];
const DISAGREE = [401, "VERIFICATION_FAILED", "all credentials must identify the same caller"];
const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;

const refused = ([code, message]: Expected) => [401, code, message];

const METHODS = [
  "GET /users",
  "GET /users/1",
  "HEAD /users/1",
  "POST /users",
  "PUT /users/1",
  "PATCH /users/1",
  "DELETE /users/4",
];

describe("an invalid credential is 401 and is never ignored for a weaker one", () => {
  test.each<[what: string, headers: Readonly<Record<string, string>>, received: Expected]>([
    ["an expired token", { authorization: `Bearer ${sign(ADA, { expiresIn: -1 })}` }, EXPIRED],
    ["a token that is none", { authorization: "Bearer garbage" }, INVALID],
    ["nothing behind Bearer", { authorization: "Bearer " }, UNREADABLE],
    ["another scheme", { authorization: "Digest username=ada" }, UNREADABLE],
    ["a refresh token", { authorization: `Bearer ${sign({ sub: "1", type: "refresh" })}` }, INVALID],
    ["a bad key in X-API-Key", { "x-api-key": "garbage" }, BAD_KEY],
    ["a bad key in apikey", { apikey: "garbage" }, BAD_KEY],
    ["an expired key", { "x-api-key": sign({ role: "anon" }, { expiresIn: -1 }) }, EXPIRED_KEY],
    ["a user's token as a key", { "x-api-key": sign(ADA) }, BAD_KEY],
    ["an unknown key in our format", { "x-api-key": `cs_user_${"x".repeat(43)}` }, BAD_KEY],
    ["such a key as a token", { authorization: `Bearer cs_user_${"x".repeat(43)}` }, INVALID],
    ["the token of an older epoch", { authorization: `Bearer ${sign({ ...ADA, epoch: -1 })}` }, REVOKED],
    ["the token of another role", { authorization: `Bearer ${sign({ ...ADA, role: "admin" })}` }, REVOKED],
    ["the token of a deleted user", { authorization: `Bearer ${sign({ ...ADA, sub: "4711" })}` }, REVOKED],
    ["Basic without a colon", { authorization: basic("ada") }, UNREADABLE_BASIC],
    ["Basic that is not base64", { authorization: "Basic %%%" }, UNREADABLE_BASIC],
    ["Basic with a NUL in the name", { authorization: basic("a\0da:x") }, UNREADABLE_BASIC],
    ["Basic of an unknown user", { authorization: basic("nobody:Correct-Horse-7!") }, WRONG_PASSWORD],
    ["an unknown session", { cookie: "SESSION=garbage" }, NO_SESSION],
  ])("%s", async (_, headers, [code, message, challenge]) => {
    const before = await allUsers(client);
    for (const request of METHODS) {
      const body = /^P/.test(request) ? { body: { name: "Eve", email: newEmail() } } : {};
      const answer = await api(request, { ...body, headers });
      expect([request, answer.status, answer.headers.get("www-authenticate")]).toEqual([request, 401, challenge]);
      if (!request.startsWith("HEAD")) expect(answer.json.error).toMatchObject({ code, message });
    }
    expect(await allUsers(client)).toBe(before);
  });

  test("in the URL", async () => {
    expect(await failure("/users?api_key=garbage")).toEqual(refused(BAD_KEY));
    expect(await failure("DELETE /users/4?api_key=garbage")).toEqual(refused(BAD_KEY));
  });

  test("beside a valid one", async () => {
    const anon = service().service.tokens.issueKey("anon");
    expect(await failure("/users/1", { headers: { apikey: anon, "x-api-key": "garbage" } })).toEqual(refused(BAD_KEY));
    expect(await failure("/users/1?api_key=garbage", { headers: { apikey: anon } })).toEqual(refused(BAD_KEY));
    expect(await failure(`/users/1?api_key=garbage`, { headers: { "x-api-key": anon } })).toEqual(refused(BAD_KEY));
    expect(await failure("/users/1", { as: "ada", headers: { "x-api-key": "garbage" } })).toEqual(refused(BAD_KEY));
    expect(await failure("/users/1", { headers: { apikey: anon, authorization: "Bearer garbage" } })).toEqual(
      refused(INVALID),
    );
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

  test.each(["service_role", "anon"] as const)("of %s is accepted in every place", async (role) => {
    for (const [path, headers] of inEachPlace(service().service.tokens.issueKey(role)))
      expect((await api(`PATCH ${path}`, { body: { age: 41 }, headers })).status).toBe(200);
  });

  test("for anonymous callers does not conflict with a user's token", async () => {
    const headers = { "x-api-key": service().service.tokens.issueKey("anon") };
    expect((await api("PATCH /users/1", { as: "ada", body: { age: 36 }, headers })).status).toBe(200);
    expect((await api("PATCH /users/2", { as: "ada", body: { age: 36 }, headers })).status).toBe(403);
  });

  test("of the service beside an anonymous one in a stronger place is 401 VERIFICATION_FAILED", async () => {
    const { tokens } = service().service;
    const headers = { apikey: tokens.issueKey("service_role"), "x-api-key": tokens.issueKey("anon") };
    expect(await failure("/users/1", { headers })).toEqual(DISAGREE);
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

test("a token in a browser is accepted", async () => {
  expect(
    (await api("PATCH /users/1", { as: "ada", body: {}, headers: { origin: "https://app.example" } })).status,
  ).toBe(200);
});
