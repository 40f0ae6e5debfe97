import { describe, expect, test } from "vitest";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";
import { wrongCode } from "../../support/totp.ts";

const { service, api, failure, enrol, login, codeOf, now, pass, events, sql } = useFactors();

const MINUTE = 60_000;
const NOTHING_PENDING = [
  400,
  "BAD_REQUEST",
  "no second factor is pending, or its 10 minutes have passed: begin with POST /api/mfa/enable",
];
const WRONG = [400, "VALIDATION_ERROR", "the code is wrong: enter the code that the app shows now"];
const ENABLED = [
  409,
  "RESOURCE_CONFLICT",
  "a second factor is already enabled: disable it first at POST /api/mfa/disable",
];
const NOT_ENABLED = [409, "RESOURCE_CONFLICT", "no second factor is enabled"];

const begin = async () => (await api("POST /api/mfa/enable", { as: "ada" })).json.secret;
const verify = (code: string) => failure(`POST /api/mfa/verify?code=${code}`, { as: "ada" });
/** The number of connections to this database that wait for a lock. */
const waiting = async () => {
  await sql("select pg_stat_clear_snapshot()");
  const text =
    "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and backend_type = 'client backend'";
  return (await sql(text)).length;
};
const hasFactor = async () => (await sql("select from auth_private.factors where enabled_at is not null")).length > 0;

describe("POST /api/mfa/enable", () => {
  test("returns the secret, a QR code and a message, which may not be cached", async () => {
    const { status, headers, json } = await api("POST /api/mfa/enable", { as: "ada" });
    expect(status).toBe(200);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(json).toEqual({
      secret: expect.stringMatching(/^[A-Z2-7]{32}$/),
      qrCode: expect.stringMatching(/^data:image\/png;base64,[A-Za-z0-9+/]+=*$/),
      message: expect.any(String),
    });
    expect(await hasFactor()).toBe(false);
    expect((await login("ada")).status).toBe(200);
  });

  test("returns a new secret each time, and only the latest is valid", async () => {
    const [first, second] = [await begin(), await begin()];
    expect(second).not.toBe(first);
    expect(await verify(codeOf(first))).toEqual(WRONG);
    expect(await verify(codeOf(second))).toEqual([200, undefined, undefined]);
  });

  test("is rejected while a factor is enabled, and does not change it", async () => {
    const { secret } = await enrol("ada");
    expect(await failure("POST /api/mfa/enable", { as: "ada" })).toEqual(ENABLED);
    expect((await login("ada", { code: codeOf(secret) })).status).toBe(200);
  });
});

describe("POST /api/mfa/verify", () => {
  test("enables the factor with its first code, and returns ten backup codes of eight characters", async () => {
    const secret = await begin();
    const { status, headers, json } = await api(`POST /api/mfa/verify?code=${codeOf(secret)}`, { as: "ada" });
    expect(status).toBe(200);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(json).toEqual({ message: expect.any(String), backupCodes: expect.any(Array), warning: expect.any(String) });
    expect(json.backupCodes).toHaveLength(10);
    expect(new Set(json.backupCodes).size).toBe(10);
    for (const code of json.backupCodes) expect(code).toMatch(/^[ABCDEFGHJKLMNPQRSTUVWXYZ23456789]{8}$/);
    expect(await hasFactor()).toBe(true);
    expect(await sql("select pending, pending_until from auth_private.factors")).toEqual([
      { pending: null, pending_until: null },
    ]);
    expect(await events()).toEqual(["mfa_enabled"]);
  });

  test.each([
    ["in a JSON body", (code: string) => ["POST /api/mfa/verify", { as: "ada", body: { code } }] as const],
    [
      "as apps show it",
      (code: string) => [`POST /api/mfa/verify?code=${code.slice(0, 3)}%20${code.slice(3)}`] as const,
    ],
  ])("accepts the code %s", async (_how, sent) => {
    const [request, more = { as: "ada" as const }] = sent(codeOf(await begin()));
    expect((await api(request, more)).status).toBe(200);
  });

  test("rejects a wrong code, and the enrolment stays pending", async () => {
    const secret = await begin();
    expect(await verify(wrongCode(secret, now()))).toEqual(WRONG);
    expect(await hasFactor()).toBe(false);
    expect(await verify(codeOf(secret))).toEqual([200, undefined, undefined]);
    expect(await events()).toEqual(["code_failed", "mfa_enabled"]);
  });

  test("is rejected without a pending enrolment, and after it has succeeded", async () => {
    expect(await verify("123456")).toEqual(NOTHING_PENDING);
    const { secret } = await enrol("ada");
    expect(await verify(codeOf(secret))).toEqual(NOTHING_PENDING);
  });

  test("rejects a code of another user", async () => {
    const secret = await begin();
    const bobs = (await api("POST /api/mfa/enable", { as: "bob" })).json.secret;
    expect(await verify(codeOf(bobs))).toEqual(WRONG);
    expect(await failure(`POST /api/mfa/verify?code=${codeOf(secret)}`, { as: "bob" })).toEqual(WRONG);
  });

  test("is rejected ten minutes after the start of the enrolment", async () => {
    const secret = await begin();
    pass(10 * MINUTE);
    expect(await verify(codeOf(secret))).toEqual(NOTHING_PENDING);
    const again = (await api("POST /api/mfa/enable", { as: "ada", body: { password: PASSWORD } })).json.secret;
    pass(10 * MINUTE - 1);
    expect(await verify(codeOf(again))).toEqual([200, undefined, undefined]);
  });

  test("succeeds for one of two requests at the same time", async () => {
    const code = codeOf(await begin());
    // Both requests read the pending factor before either enables it.
    await sql("begin");
    await sql("select from auth_private.factors for update");
    const verified = [verify(code), verify(code)];
    await expect.poll(waiting).toBe(2);
    await sql("commit");
    const outcomes = await Promise.all(verified);
    expect(outcomes.filter(([status]) => status === 200)).toHaveLength(1);
    for (const outcome of outcomes.filter(([status]) => status !== 200)) expect(outcome).toEqual(NOTHING_PENDING);
    expect(await events()).toEqual(["mfa_enabled"]);
    expect(await sql("select count(*)::integer from auth_private.backup_codes")).toEqual([{ count: 10 }]);
  });

  test("with a malformed code is 400, which names the field and does not count as an attempt", async () => {
    const secret = await begin();
    const malformed = [400, "VALIDATION_ERROR", "code must be the 6 digits that the app shows"];
    for (const code of ["1".repeat(21), "12345", "abc", "abcdef", "%D9%A1%D9%A2%D9%A3%D9%A4%D9%A5%D9%A6", "12345%00"])
      expect([code, await verify(code)]).toEqual([code, malformed]);
    for (const code of ["", "ABCDEFGH", "123456&code=123456"])
      expect([code, await verify(code)]).toEqual([code, malformed]);
    for (const body of [{ code: 123456 }, { code: null }])
      expect(await failure("POST /api/mfa/verify", { as: "ada", body })).toEqual(malformed);
    for (const body of [undefined, {}])
      expect((await failure("POST /api/mfa/verify", { as: "ada", body }))[1]).toBe("MISSING_FIELD");
    expect(await events()).toEqual([]);
    expect(await verify(codeOf(secret))).toEqual([200, undefined, undefined]);
  });

  test("starts a new secret without attempts, and keeps those of other users", async () => {
    const old = await begin();
    const bobs = (await api("POST /api/mfa/enable", { as: "bob" })).json.secret;
    const wrong = wrongCode(old, now());
    for (let i = 0; i < 5; i++) expect(await verify(wrong)).toEqual(WRONG);
    for (let i = 0; i < 5; i++) await api(`POST /api/mfa/verify?code=${wrongCode(bobs, now())}`, { as: "bob" });
    const { status, headers, json } = await api(`POST /api/mfa/verify?code=${codeOf(old)}`, { as: "ada" });
    expect([status, json.error.code, headers.get("retry-after")]).toEqual([429, "RATE_LIMITED", "900"]);
    const secret = await begin();
    expect(await verify(wrongCode(secret, now()))).toEqual(WRONG);
    expect(await verify(codeOf(secret))).toEqual([200, undefined, undefined]);
    expect((await api(`POST /api/mfa/verify?code=${codeOf(bobs)}`, { as: "bob" })).status).toBe(429);
  });

  test("keeps the attempts at an enabled factor when another enrolment is rejected", async () => {
    const { secret } = await enrol("ada");
    const disable = (code: string) =>
      failure("POST /api/mfa/disable", { as: "ada", body: { password: PASSWORD, code } });
    for (let i = 0; i < 5; i++) expect((await disable(wrongCode(secret, now())))[0]).toBe(400);
    expect(await failure("POST /api/mfa/enable", { as: "ada" })).toEqual(ENABLED);
    expect((await disable(codeOf(secret)))[0]).toBe(429);
  });
});

describe.each(["/api/mfa/enable", "/api/mfa/verify?code=123456", "/api/mfa/backup-codes", "/api/mfa/disable"])(
  "%s",
  (path) => {
    const anon = () => service().service.tokens.issueKey("anon");
    const serviceKey = () => service().service.tokens.issueKey("service_role");
    test.each<[string, () => Record<string, string>]>([
      ["anonymous callers", () => ({})],
      ["the public key", () => ({ authorization: `Bearer ${anon()}` })],
      ["the service key", () => ({ authorization: `Bearer ${serviceKey()}` })],
    ])("is not for %s: 401", async (_who, headers) => {
      const body = { password: PASSWORD };
      expect(await failure(`POST ${path}`, { headers: headers(), body })).toEqual([
        401,
        "AUTH_REQUIRED",
        "login required",
      ]);
    });

    test("allows only POST", async () => {
      const { status, headers } = await api(path, { as: "ada" });
      expect([status, headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
    });
  },
);

test("a key may not enable a factor: a thief could lock the user out", async () => {
  const made = await api("POST /auth/keys", { as: "ada", body: { name: "mfa" } });
  const headers = { "x-api-key": made.json.key };
  expect((await failure("POST /api/mfa/enable", { headers })).slice(0, 2)).toEqual([403, "PERMISSION_DENIED"]);
});

test("Basic credentials may enable a factor", async () => {
  const headers = { authorization: `Basic ${Buffer.from(`ada:${PASSWORD}`).toString("base64")}` };
  const { status, json } = await api("POST /api/mfa/enable", { headers });
  expect(status).toBe(200);
  expect((await api(`POST /api/mfa/verify?code=${codeOf(json.secret)}`, { headers })).status).toBe(200);
});

test("every process is notified once of an enabled factor", async () => {
  const { owner } = service().database;
  const heard: unknown[] = [];
  owner.on("notification", ({ payload }) => heard.push(payload));
  await owner.query("listen accounts");
  await enrol("bob");
  await login("bob", { code: "123456" });
  await expect.poll(() => heard).toEqual(['{"user" : 2}']);
  await owner.query("unlisten accounts");
});

describe("POST /api/mfa/disable", () => {
  const disable = (body: unknown) => failure("POST /api/mfa/disable", { as: "ada", body });

  test("removes the factor and its backup codes", async () => {
    const { secret } = await enrol("ada");
    const body = { password: PASSWORD, code: codeOf(secret) };
    const { status, json } = await api("POST /api/mfa/disable", { as: "ada", body });
    expect([status, json]).toEqual([200, { message: "the second factor is disabled" }]);
    expect((await login("ada")).status).toBe(200);
    expect(await sql("select from auth_private.backup_codes")).toEqual([]);
    expect(await events()).toEqual(["mfa_enabled", "mfa_disabled", "login"]);
    expect((await api("POST /api/mfa/enable", { as: "ada" })).status).toBe(200);
  });

  test("rejects a wrong password, which counts as a failed login", async () => {
    await enrol("ada");
    const refused = [403, "PERMISSION_DENIED", "wrong password"];
    for (let i = 0; i < 5; i++) expect(await disable({ password: "Wrong-Horse-77!" })).toEqual(refused);
    expect((await disable({ password: PASSWORD })).slice(0, 2)).toEqual([429, "RATE_LIMITED"]);
    expect((await login("ada")).status).toBe(429);
    expect(await hasFactor()).toBe(true);
  });

  test("succeeds for one of several requests at once, with the same code or with different ones", async () => {
    const { backupCodes } = await enrol("ada");
    const same = await Promise.all([1, 2, 3].map(() => disable({ password: PASSWORD, code: backupCodes[0] })));
    expect(same.filter(([status]) => status === 200)).toHaveLength(1);
    for (const [status] of same) expect([200, 400, 409]).toContain(status);
    const again = await enrol("ada");
    const different = await Promise.all(
      [1, 2, 3].map((i) => disable({ password: PASSWORD, code: again.backupCodes[i] })),
    );
    expect(different.filter(([status]) => status === 200)).toHaveLength(1);
    expect(different.filter((outcome) => String(outcome) === String(NOT_ENABLED))).toHaveLength(2);
    expect((await events()).filter((event) => event === "mfa_disabled")).toHaveLength(2);
  });

  test("rejects an impossible password as a wrong one", async () => {
    await enrol("ada");
    expect((await disable({}))[1]).toBe("MISSING_FIELD");
    expect((await disable({ password: null }))[1]).toBe("VALIDATION_ERROR");
    for (const password of ["", "x".repeat(5000), "a\0b", "\ud800"])
      expect([password, (await disable({ password }))[0]]).toEqual([password, 403]);
  });

  test("is rejected if no factor is enabled or one is only pending", async () => {
    expect(await disable({ password: PASSWORD })).toEqual(NOT_ENABLED);
    await begin();
    expect(await disable({ password: PASSWORD })).toEqual(NOT_ENABLED);
  });
});

describe("POST /api/mfa/backup-codes", () => {
  const renew = (body: unknown) => api("POST /api/mfa/backup-codes", { as: "ada", body });

  test("returns ten new codes, and the old ones become invalid", async () => {
    const { backupCodes: old, secret } = await enrol("ada");
    const { status, headers, json } = await renew({ password: PASSWORD, code: codeOf(secret) });
    expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
    expect(json).toEqual({ message: expect.any(String), backupCodes: expect.any(Array), warning: expect.any(String) });
    expect(new Set([...json.backupCodes, ...old]).size).toBe(20);
    expect((await login("ada", { code: old[0] })).status).toBe(401);
    expect((await login("ada", { code: json.backupCodes[0] })).status).toBe(200);
    expect(await events()).toContain("backup_codes_renewed");
  });

  test("may be repeated: a right password does not count as a failed login", async () => {
    let [code] = (await enrol("ada")).backupCodes;
    for (let i = 0; i < 7; i++) {
      const { status, json } = await renew({ password: PASSWORD, code });
      expect(status).toBe(200);
      code = json.backupCodes[i];
    }
  });

  test("is rejected with a wrong password, and without a factor", async () => {
    expect((await renew({ password: PASSWORD })).status).toBe(409);
    await enrol("ada");
    expect((await renew({ password: "Wrong-Horse-77!" })).status).toBe(403);
    expect((await renew({})).status).toBe(400);
  });
});

test("of two factors, the one whose code was sent is removed; the sign-in and the backup codes stay until the last", async () => {
  const { secret, backupCodes } = await enrol("ada");
  const apikey = service().service.tokens.issueKey("anon");
  const wire = (path: string, body: object) =>
    api(`POST /auth/v1/factors${path}`, { as: "ada", headers: { apikey }, body });
  const { id, totp } = (await wire("", { factor_type: "totp", friendly_name: "phone" })).json;
  const { id: challenge } = (await wire(`/${id}/challenge`, {})).json;
  const verified = await wire(`/${id}/verify`, { challenge_id: challenge, code: codeOf(totp.secret) });
  expect(verified.status, verified.text).toBe(200);
  pass(2 * MINUTE);
  const disable = (code: string) => api("POST /api/mfa/disable", { as: "ada", body: { password: PASSWORD, code } });
  expect((await disable(codeOf(totp.secret))).status).toBe(200);
  expect((await login("ada", { code: codeOf(totp.secret) })).status).toBe(401);
  for (const code of [codeOf(secret), backupCodes[0]]) expect((await login("ada", { code })).status).toBe(200);
  expect((await disable(backupCodes[1]!)).status).toBe(200);
  expect(await sql("select from auth_private.backup_codes")).toEqual([]);
});
