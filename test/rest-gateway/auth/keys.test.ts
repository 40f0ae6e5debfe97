import { createHash } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const client = useResources({ GRAPHQL_DOCUMENTS: "any" });
const narrow = useResources({ apiKeysMax: 3 });
const { api, body, failure, sql } = client;

/** The password of the demo accounts. */
const PASSWORD = "Correct-Horse-7!";
const basic = (username: string) => ({
  authorization: `Basic ${Buffer.from(`${username}:${PASSWORD}`).toString("base64")}`,
});

type Sent = { readonly name?: unknown; readonly expiresIn?: unknown };
const create = (given: Sent = {}, as: "ada" | "bob" = "ada") =>
  body("POST /auth/keys", { as, body: { name: "a program", ...given } });

beforeEach(() => sql("delete from auth_private.api_keys"));

test("POST /auth/keys returns a new key of at least 32 characters, which is not shown again", async () => {
  const { status, headers, json } = await api("POST /auth/keys", { as: "ada", body: { name: "nightly import" } });
  expect(status).toBe(201);
  expect(json).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    key: expect.stringMatching(/^cs_user_[A-Za-z0-9_-]{43}$/),
    prefix: json.key.slice(0, "cs_user_".length + 6),
    name: "nightly import",
    createdAt: expect.any(String),
    expiresAt: null,
    lastUsedAt: null,
  });
  expect(headers.get("location")).toBe(`/auth/keys/${json.id}`);
  expect(headers.get("cache-control")).toBe("no-store");
  const { key: _, ...described } = json;
  expect(await body("/auth/keys", { as: "ada" })).toEqual({ data: [described] });
  expect(await body(`/auth/keys/${json.id}`, { as: "ada" })).toEqual(described);
});

test("the database stores only the SHA-256 of a key", async () => {
  const { key, prefix } = await create();
  const [row] = await sql("select to_jsonb(k) as row, key_hash from auth_private.api_keys as k");
  expect(row.key_hash).toEqual(createHash("sha256").update(key).digest());
  expect(JSON.stringify(row.row).replaceAll(prefix, "")).not.toContain(key.slice(prefix.length, prefix.length + 8));
});

test("a key expires expiresIn seconds after its creation", async () => {
  const { createdAt, expiresAt } = await create({ expiresIn: 3600 });
  expect(Math.round((Date.parse(expiresAt) - Date.parse(createdAt)) / 1000)).toBe(3600);
});

test("GET /auth/keys lists the keys of the user only, newest first", async () => {
  await create({ name: "of bob" }, "bob");
  for (const name of ["first", "second"]) await create({ name });
  const { data } = await body("/auth/keys", { as: "ada" });
  expect(data.map(({ name }: { name: string }) => name)).toEqual(["second", "first"]);
});

describe.each([60, 365 * 24 * 3600, null, undefined])("expiresIn %j", (expiresIn) =>
  test("is accepted", async () => expect((await create({ expiresIn })).expiresAt === null).toBe(!expiresIn)),
);

const OF_NAME = "name must be a string of 1 to 100 characters";
const OF_END = "expiresIn must be a whole number of seconds from 60 to 31536000, or null for no expiry";
test.each<[unknown, string, string]>([
  [{}, "MISSING_FIELD", "name is required"],
  [{ name: null }, "VALIDATION_ERROR", OF_NAME],
  [{ name: " \u00a0\u0085\u3000\t" }, "VALIDATION_ERROR", OF_NAME],
  [{ name: "😀".repeat(101) }, "VALIDATION_ERROR", OF_NAME],
  [{ name: "x", expiresIn: 59 }, "VALIDATION_ERROR", OF_END],
  [{ name: "x", expiresIn: 31_536_001 }, "VALIDATION_ERROR", OF_END],
  [{ name: "x", expiresIn: 60.5 }, "VALIDATION_ERROR", OF_END],
  [{ name: "x", expiresIn: "3600" }, "VALIDATION_ERROR", OF_END],
  [{ name: "x", expiresIn: false }, "VALIDATION_ERROR", OF_END],
  [{ name: "x", expiresIn: 1e300 }, "VALIDATION_ERROR", OF_END],
  [{ name: 5, expiresIn: 0 }, "VALIDATION_ERROR", `${OF_NAME}; ${OF_END}`],
  [
    { name: "x", expires_in: 60 },
    "VALIDATION_ERROR",
    "there is no field expires_in: use name, expiresIn, password, code and passkey",
  ],
  [
    { name: "x", ["y".repeat(60)]: 1 },
    "VALIDATION_ERROR",
    `there is no field ${"y".repeat(50)}: use name, expiresIn, password, code and passkey`,
  ],
])("POST /auth/keys with %j is 400 %s", async (sent, code, message) => {
  expect(await failure("POST /auth/keys", { as: "ada", body: sent })).toEqual([400, code, message]);
  expect(await sql("select from auth_private.api_keys")).toEqual([]);
});

test("names of keys may be in any script", async () => {
  for (const name of ["Übernacht", "夜間", "😀", "x".repeat(100), "😀".repeat(100)])
    expect((await create({ name })).name).toBe(name);
});

test("a user has at most apiKeysMax keys, even if several are created at once", async () => {
  const creations = Array.from({ length: 8 }, () =>
    narrow.api("POST /auth/keys", { as: "bob", body: { name: "one of many" } }),
  );
  const statuses = (await Promise.all(creations)).map(({ status }) => status);
  expect(statuses.sort()).toEqual([201, 201, 201, 409, 409, 409, 409, 409]);
  expect(await narrow.failure("POST /auth/keys", { as: "bob", body: { name: "x" } })).toEqual([
    409,
    "RESOURCE_CONFLICT",
    "the user has 3 keys already: delete one first",
  ]);
  const { data } = await narrow.body("/auth/keys", { as: "bob" });
  await narrow.api(`DELETE /auth/keys/${data[0].id}`, { as: "bob" });
  expect((await narrow.api("POST /auth/keys", { as: "bob", body: { name: "x" } })).status).toBe(201);
  expect((await narrow.api("POST /auth/keys", { as: "ada", body: { name: "x" } })).status).toBe(201);
});

test("expired keys are listed, and do not count towards apiKeysMax", async () => {
  for (const name of ["one", "two", "three"])
    await narrow.body("POST /auth/keys", { as: "admin", body: { name, expiresIn: 60 } });
  await narrow.sql("update auth_private.api_keys set expires_at = now() where user_id = 3 and name = 'two'");
  expect((await narrow.api("POST /auth/keys", { as: "admin", body: { name: "four" } })).status).toBe(201);
  expect((await narrow.api("POST /auth/keys", { as: "admin", body: { name: "five" } })).status).toBe(409);
  const { data } = await narrow.body("/auth/keys", { as: "admin" });
  expect(data.map(({ name }: { name: string }) => name)).toEqual(["four", "three", "two", "one"]);
});

describe("managing keys", () => {
  test("without credentials is 401", async () => {
    const refused = [401, "AUTH_REQUIRED", "login required"];
    expect(await failure("/auth/keys")).toEqual(refused);
    expect(await failure("POST /auth/keys", { body: { name: "x" } })).toEqual(refused);
    expect(await failure("DELETE /auth/keys/00000000-0000-4000-8000-000000000000")).toEqual(refused);
    expect(await failure("/auth/keys", { as: "service" })).toEqual(refused);
  });

  test("with Basic credentials is allowed", async () => {
    const { status, json } = await api("POST /auth/keys", { headers: basic("bob"), body: { name: "by password" } });
    expect(status).toBe(201);
    expect((await body("/auth/keys", { as: "bob" })).data).toMatchObject([{ id: json.id }]);
  });

  test.each([
    ["X-API-Key", (key: string) => ({ "x-api-key": key })],
    ["Bearer", (key: string) => ({ authorization: `Bearer ${key}` })],
    ["apikey", (key: string) => ({ apikey: key })],
  ])("with a key as %s is 403", async (_name, headersOf) => {
    const { id, key } = await create();
    const headers = headersOf(key);
    const refused = [
      403,
      "PERMISSION_DENIED",
      "a key cannot manage the account: sign in with a token, a session or the password",
    ];
    expect(await failure("POST /auth/keys", { headers, body: { name: "another" } })).toEqual(refused);
    expect(await failure("/auth/keys", { headers })).toEqual(refused);
    expect(await failure(`DELETE /auth/keys/${id}`, { headers })).toEqual(refused);
    expect((await body("/auth/keys", { as: "ada" })).data).toHaveLength(1);
  });
});

describe("DELETE /auth/keys/{id}", () => {
  test("is 204, and 404 from then on", async () => {
    const { id } = await create();
    const { status, text } = await api(`DELETE /auth/keys/${id.toUpperCase()}`, { as: "ada" });
    expect([status, text]).toEqual([204, ""]);
    const gone = [404, "RESOURCE_NOT_FOUND", "there is no key with this id"];
    expect(await failure(`DELETE /auth/keys/${id}`, { as: "ada" })).toEqual(gone);
    expect(await failure(`/auth/keys/${id}`, { as: "ada" })).toEqual(gone);
    expect(await body("/auth/keys", { as: "ada" })).toEqual({ data: [] });
  });

  test("of a key of another user is 404, and the key remains valid", async () => {
    const { id } = await create({}, "bob");
    const gone = [404, "RESOURCE_NOT_FOUND", "there is no key with this id"];
    expect(await failure(`DELETE /auth/keys/${id}`, { as: "ada" })).toEqual(gone);
    expect(await failure(`/auth/keys/${id}`, { as: "ada" })).toEqual(gone);
    expect((await body("/auth/keys", { as: "bob" })).data).toHaveLength(1);
  });

  test.each(["1", "abc", "00000000-0000-4000-8000-00000000000g", "%00", "'%20or%201=1"])(
    "of %s is 400 INVALID_ID",
    async (id) =>
      expect((await failure(`DELETE /auth/keys/${id}`, { as: "ada" })).slice(0, 2)).toEqual([400, "INVALID_ID"]),
  );
});

/** A request that requires a user, on each interface, with the key in each place where it is accepted. */
const INTERFACES: readonly [name: string, request: string, headersOf: (key: string) => Record<string, string>][] = [
  ["resources, X-API-Key", "/tasks", (key) => ({ "x-api-key": key })],
  ["resources, Bearer", "/tasks", (key) => ({ authorization: `Bearer ${key}` })],
  ["tables, apikey", "/rest/v1/articles?limit=1", (key) => ({ apikey: key })],
  ["tables, X-API-Key", "/rest/v1/articles?limit=1", (key) => ({ "x-api-key": key })],
];

const statusesWith = (key: string) =>
  Promise.all(
    INTERFACES.map(
      async ([name, request, headersOf]) => `${name}: ${(await api(request, { headers: headersOf(key) })).status}`,
    ),
  );
const all = (status: number) => INTERFACES.map(([name]) => `${name}: ${status}`);

const me = async (key: string) => {
  const { json } = await api("POST /graphql", { headers: { "x-api-key": key }, body: { query: "{ me { id } }" } });
  return json.data?.me?.id ?? json.errors[0].extensions.code;
};

/** Polls for a second, the delay that the contract allows. */
const soon = { timeout: 120_000, interval: 50 };

describe("a key", () => {
  test("that is revoked is 401, on every interface", async () => {
    const { id, key } = await create();
    expect(await statusesWith(key)).toEqual(all(200));
    expect(await me(key)).toBe("1");
    await api(`DELETE /auth/keys/${id}`, { as: "ada" });
    await expect.poll(() => statusesWith(key), soon).toEqual(all(401));
    await expect.poll(() => me(key), soon).toBe("AUTH_REQUIRED");
  });

  test("that has expired is 401, on every interface", async () => {
    const { key } = await create({ expiresIn: 60 });
    expect(await statusesWith(key)).toEqual(all(200));
    await sql("update auth_private.api_keys set expires_at = now() - interval '1 second'");
    await expect.poll(() => statusesWith(key), soon).toEqual(all(401));
    await expect.poll(() => me(key), soon).toBe("AUTH_EXPIRED");
    expect(await failure("/tasks", { headers: { "x-api-key": key } })).toEqual([
      401,
      "TOKEN_EXPIRED",
      "the API key has expired",
    ]);
  });

  test("of an account that is disabled is 401, and works again when it is enabled", async () => {
    const { key } = await create({}, "bob");
    expect(await statusesWith(key)).toEqual(all(200));
    await sql("update auth_private.accounts set disabled_at = now() where user_id = 2");
    await expect.poll(() => statusesWith(key), soon).toEqual(all(401));
    await expect.poll(() => me(key), soon).toBe("AUTH_REQUIRED");
    await sql("update auth_private.accounts set disabled_at = null where user_id = 2");
    await expect.poll(() => statusesWith(key), soon).toEqual(all(200));
  });

  test("remains valid when its user signs out", async () => {
    const { key } = await create();
    await sql("update auth_private.accounts set epoch = epoch + 1 where user_id = 1");
    expect(await statusesWith(key)).toEqual(all(200));
    await sql("update auth_private.accounts set epoch = 0 where user_id = 1");
  });

  test.each(["cs_user_", `cs_user_${"x".repeat(43)}`, "x", `cs_admin_${"x".repeat(43)}`])(
    "that is not one is 401: %s",
    async (key) => {
      expect(await statusesWith(key)).toEqual(all(401));
      expect(await failure("/tasks", { headers: { "x-api-key": key } })).toEqual([
        401,
        "INVALID_TOKEN",
        "the API key is not valid",
      ]);
    },
  );
});

test("creating and revoking a key are recorded as events, without the key", async () => {
  const { id, key } = await create();
  await api(`DELETE /auth/keys/${id}`, { as: "ada" });
  const events = await sql(
    "select event, user_id::int, host(address) as address, detail from security_events where detail ->> 'key' = $1 order by id",
    id,
  );
  const recorded = { user_id: 1, address: "127.0.0.1", detail: { key: id } };
  expect(events).toEqual([
    { event: "key_created", ...recorded },
    { event: "key_revoked", ...recorded },
  ]);
  expect(JSON.stringify(events)).not.toContain(key.slice("cs_user_".length + 6));
});
