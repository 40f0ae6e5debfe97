import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { type ApiSent, useResources } from "../../support/resource-client.ts";
import { samples } from "../../support/samples.ts";

const client = useResources({ LOGIN_ATTEMPTS: "1000", loginAttemptsPerAddress: 1_000_000, mfaAttempts: 1000 });
const { api } = client;

/** Routes with a body, and a valid body for each. */
const BODIES: Readonly<Record<string, object>> = {
  "/auth/login": { username: "ada", password: "wrong" },
  "/auth/refresh": { refreshToken: "x" },
  "/auth/register": { name: "Dora", email: "dora@test.example", password: "Correct-Horse-8!" },
  "/auth/email": { email: "ada" },
  "/auth/password": { oldPassword: "wrong", newPassword: "Correct-Horse-8!" },
  "/auth/keys": { name: "a program", expiresIn: 3600 },
  "/api/auth/login": { username: "ada", password: "wrong" },
  "/api/mfa/verify": { code: "123456" },
  "/api/mfa/backup-codes": { password: "wrong" },
  "/api/mfa/disable": { password: "wrong" },
};
const PATHS = Object.keys(BODIES);
const OTHERS = [
  ...["POST /auth/logout", "GET /auth/keys", "GET /auth/keys/x", "DELETE /auth/keys/x", "POST /api/auth/logout"],
  ...["GET /api/auth/me", "GET /csrf-token", "POST /api/mfa/enable", "GET /.well-known/jwks.json"],
];

/** Ada's. */
let bearer: Readonly<Record<string, string>>;
let before: unknown;
const written = () =>
  client.sql(`
    select (select count(*) from users) as users, (select count(*) from auth_private.api_keys) as keys,
      (select json_agg(a order by user_id) from auth_private.accounts as a) as accounts,
      (select count(*) from auth_private.factors where enabled_at is not null) as factors`);
beforeAll(async () => {
  bearer = { authorization: `Bearer ${client.service().token("ada")}` };
  before = await written();
  return async () => expect(await written()).toEqual(before);
});

describe.each(PATHS)("POST %s", (path) => {
  const body = BODIES[path]!;
  const fields = Object.keys(body);
  const outcome = async (sent: unknown) => {
    const { status, json } = await api(`POST ${path}`, { body: sent, headers: bearer });
    return `${status} ${json.error.code}`;
  };

  test.each(fields)("with another type as %s is 400", async (field) => {
    for (const value of [5, true, [], {}, ["a"], { a: 1 }])
      expect([value, await outcome({ ...body, [field]: value })]).toEqual([value, "400 VALIDATION_ERROR"]);
  });

  // An impossible password is a wrong password, and without a second factor there is nothing to confirm.
  const isConfirmed = ["/api/mfa/backup-codes", "/api/mfa/disable"].includes(path);
  const refusal = isConfirmed ? "409 RESOURCE_CONFLICT" : "400 VALIDATION_ERROR";
  test.each(fields)(
    `with an empty string, a NUL, an unpaired surrogate or too many characters as %s is ${refusal}`,
    async (field) => {
      for (const value of ["", "a\0b", "a\ud800", "x".repeat(100_000)])
        expect([value, await outcome({ ...body, [field]: value })]).toEqual([value, refusal]);
    },
  );

  test("does not accept properties of Object.prototype as fields", async () =>
    expect(await outcome('{"__proto__":{"username":"ada","password":"x"},"constructor":1}')).toMatch(/^400 /));
});

/** No credentials, invalid ones, and those of a user. */
const CREDENTIALS: readonly ApiSent[] = [
  {},
  { as: "ada" },
  { as: "service" },
  { headers: { authorization: "Bearer x.y.z" } },
  { headers: { authorization: "Basic Og==" } },
  { headers: { authorization: "Basic bm9ib2R5Ong=" } },
  { headers: { authorization: "\u00e4" } },
  { headers: { cookie: "SESSION=x; SESSION=y" } },
  { headers: { "x-api-key": "cs_user_x", apikey: "y" } },
];

/** An almost valid JSON object: some fields of the route and some unknown ones, with random values. */
const anyBody = (path: string) =>
  fc.oneof(
    fc.json(),
    fc.record(
      Object.fromEntries(
        [...Object.keys(BODIES[path]!), "code", "challenge", "age", "username"].map((field) => [
          field,
          fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue()),
        ]),
      ),
      { requiredKeys: [] },
    ),
  );
const anyRequest = fc
  .constantFrom(...PATHS)
  .chain((path) => fc.tuple(fc.constant(`POST ${path}`), anyBody(path), fc.constantFrom(...CREDENTIALS)));

test("random bodies never cause a 5xx response", () =>
  fc.assert(
    fc.asyncProperty(anyRequest, async ([request, body, credentials]) => {
      const sent = typeof body === "string" ? body : JSON.stringify(body);
      const { status, headers } = await api(request, { ...credentials, body: sent });
      expect([request, sent, status]).toEqual([request, sent, expect.toSatisfy((code) => code >= 400 && code < 500)]);
      expect(headers.get("cache-control")).toBe("no-store");
    }),
    { numRuns: samples(150) },
  ));

const anySearch = fc.oneof(
  fc.webQueryParameters(),
  fc.constantFrom(
    "code=%00",
    "code=%ff",
    "code[]=1",
    "code=1&code=2",
    "code[a]=1",
    "api_key=%00",
    "api_key=x",
    "_csrf=%00",
  ),
);

test("random URLs and credentials never cause a 5xx response", () =>
  fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...OTHERS, ...PATHS.map((path) => `POST ${path}`)),
      anySearch,
      fc.constantFrom(...CREDENTIALS.filter(({ as }) => as !== "ada")),
      async (request, search, credentials) => {
        const { status } = await api(`${request}?${search}`, credentials);
        expect([request, search, status]).toEqual([request, search, expect.toSatisfy((code) => code < 500)]);
      },
    ),
    { numRuns: samples(100) },
  ));

test.each<[string, number]>([
  ...["/auth/keys/%", "/auth/keys/%zz", "/auth/keys/%ff", "/auth/keys/a%2fb", "/auth/keys/%00"].map(
    (path): [string, number] => [path, 400],
  ),
  ...["/auth//keys", "/auth/login/", "/AUTH/login", "/auth/keys/", "/api/auth", "/api/mfa/", "/auth/keys/x/y"].map(
    (path): [string, number] => [path, 404],
  ),
])("GET %s is %i", async (path, status) => expect((await api(path, { as: "ada" })).status).toBe(status));
