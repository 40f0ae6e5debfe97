import { randomUUID } from "node:crypto";
import jwt from "jsonwebtoken";
import { beforeAll, describe, expect, test } from "vitest";
import { type Enrolled, PASSWORD, useFactors } from "../../support/second-factor.ts";
import { JWT_SECRET } from "../../support/service.ts";
import { wrongCode } from "../../support/totp.ts";

// X-Forwarded-For sets the IP address of a client. mfaAttempts is 5.
const settings = { TRUST_PROXY: "127.0.0.1", LOGIN_ATTEMPTS: "4" };
const client = useFactors(settings);
const { service, api, failure, login, codeOf, now, pass, events, sql } = client;

/** What ada and bob have enabled before the tests, each of which begins without it. */
const USERS = { ada: 1, bob: 2 };
const enrolled = {} as Record<keyof typeof USERS, Enrolled>;
const rows: Record<string, string> = {};
beforeAll(async () => {
  for (const user of ["ada", "bob"] as const) enrolled[user] = await client.enrol(user);
  for (const table of ["auth_private.factors", "auth_private.backup_codes"])
    rows[table] = JSON.stringify((await sql(`select json_agg(t) as rows from ${table} as t`))[0].rows);
});
async function enrol(user: keyof typeof USERS): Promise<Enrolled> {
  for (const [table, all] of Object.entries(rows)) {
    const ofUser = `select * from json_populate_recordset(null::${table}, $1) where user_id = $2`;
    await sql(`insert into ${table} ${ofUser}`, all, USERS[user]);
  }
  return enrolled[user];
}

const MINUTE = 60_000;
const from = (address: string) => ({ "x-forwarded-for": address });
const challengeOf = async () => (await login("ada")).json.challenge;
/** The challenge for a login of ada. */
const newChallenge = async () =>
  service().service.tokens.issueChallenge({ id: "1", epoch: await client.epochOf("ada") });
const answer = async (challenge: string | Promise<string>, code: string, headers = {}) =>
  api("POST /auth/login", { body: { challenge: await challenge, code }, headers });

/** Each way to sign in, by name; a body without a password is one with a challenge. */
const VARIANTS = ["/auth/login", "/api/auth/login"];

describe.each(VARIANTS)("POST %s", (path) => {
  const signIn = (more: object = {}) => api(`POST ${path}`, { body: { username: "ada", password: PASSWORD, ...more } });

  test("without a code is 401 with a challenge, and issues no credential", async () => {
    await enrol("ada");
    const { status, headers, json } = await signIn();
    expect([status, json.error.code]).toEqual([401, "MFA_REQUIRED"]);
    expect(json.challenge).toEqual(expect.any(String));
    expect(headers.get("set-cookie")).toBe(null);
    expect(JSON.stringify(json)).not.toContain('oken":');
  });

  test("accepts the password with a code of the app or a backup code, with or without separators", async () => {
    const { secret, backupCodes } = await enrol("ada");
    const typed = `${backupCodes[4]!.slice(0, 4)}-${backupCodes[4]!.slice(4)}`.toLowerCase();
    for (const code of [codeOf(secret), backupCodes[3], typed])
      expect([code, (await signIn({ code })).status]).toEqual([code, 200]);
  });

  test("accepts a challenge once, with any code and from any IP address", async () => {
    const { secret, backupCodes } = await enrol("ada");
    const { challenge } = (await signIn()).json;
    const complete = (at: string, code: string) => failure(`POST ${at}`, { body: { challenge, code } });
    expect(await complete(path, wrongCode(secret, now()))).toEqual([401, "AUTH_REQUIRED", expect.any(String)]);
    const twice = await Promise.all([complete(path, codeOf(secret)), complete(path, backupCodes[0]!)]);
    const spent = [401, "INVALID_TOKEN", "the challenge is not valid: sign in with the password again"];
    expect(twice).toContainEqual([200, undefined, undefined]);
    expect(twice).toContainEqual(spent);
    for (const [i, at] of VARIANTS.entries()) expect(await complete(at, backupCodes[i + 1]!)).toEqual(spent);
    expect((await login("ada", { code: backupCodes[3] })).status).toBe(200);
  });

  test("rejects a wrong code and records it, and then accepts the right one", async () => {
    const { secret } = await enrol("ada");
    expect((await signIn({ code: wrongCode(secret, now()) })).status).toBe(401);
    expect((await signIn({ code: codeOf(secret) })).status).toBe(200);
    expect(await events()).toEqual(["code_failed", "login"]);
  });

  test("reports a wrong code only if the password is right", async () => {
    const { secret } = await enrol("ada");
    const { challenge } = (await signIn()).json;
    const wrong = wrongCode(secret, now());
    const outcome = async (body: object) => (await failure(`POST ${path}`, { body })).slice(0, 3);
    const WRONG_CODE = "the code is wrong, or was used before: enter the code that the app shows now";
    expect(await outcome({ challenge, code: wrong })).toEqual([401, "AUTH_REQUIRED", WRONG_CODE]);
    expect(await outcome({ username: "ada", password: PASSWORD, code: wrong })).toEqual([
      401,
      "AUTH_REQUIRED",
      WRONG_CODE,
    ]);
    for (const [username, code] of [
      ["ada", wrong],
      ["ada", codeOf(secret)],
      ["unknown", wrong],
    ])
      expect(await outcome({ username, password: "Wrong-Horse-77!", code })).toEqual([
        401,
        "AUTH_REQUIRED",
        "wrong username or password",
      ]);
  });

  test("with a malformed code is 400, and does not count as an attempt", async () => {
    const { secret } = await enrol("ada");
    const { challenge } = (await signIn()).json;
    const malformed = ["VALIDATION_ERROR", "code must be the 6 digits that the app shows, or a backup code"];
    for (const code of ["abc", "12345", "ABCDEFG0"]) {
      expect(await failure(`POST ${path}`, { body: { challenge, code } })).toEqual([400, ...malformed]);
      expect(await failure(`POST ${path}`, { body: { username: "ada", password: PASSWORD, code } })).toEqual([
        400,
        ...malformed,
      ]);
    }
    expect((await signIn({ code: codeOf(secret) })).status).toBe(200);
    expect(await events()).toEqual(["login"]);
  });

  test("does not spend a code if the password is wrong", async () => {
    const { secret, backupCodes } = await enrol("ada");
    for (const code of [codeOf(secret), backupCodes[0]])
      expect((await signIn({ password: "Wrong-Horse-77!", code })).status).toBe(401);
    for (const code of [codeOf(secret), backupCodes[0]]) expect((await signIn({ code })).status).toBe(200);
  });
});

describe("a code of the app", () => {
  test("is valid once, for all logins together", async () => {
    const { secret } = await enrol("ada");
    const code = codeOf(secret);
    const body = { username: "ada", password: PASSWORD, code };
    const challenge = await challengeOf();
    expect((await api("POST /api/auth/login", { body })).status).toBe(200);
    for (const [i, path] of VARIANTS.entries()) {
      const headers = from(`203.0.113.${i}`);
      expect((await api(`POST ${path}`, { body, headers })).status).toBe(401);
      expect((await api(`POST ${path}`, { body: { challenge, code }, headers })).status).toBe(401);
    }
    pass(30_000);
    expect((await login("ada", { code })).status).toBe(401);
    expect((await login("ada", { code: codeOf(secret) })).status).toBe(429);
  });

  test("completes one of two logins at the same time", async () => {
    const { secret } = await enrol("ada");
    const body = { username: "ada", password: PASSWORD, code: codeOf(secret) };
    const replies = await Promise.all([...VARIANTS, ...VARIANTS].map((path) => api(`POST ${path}`, { body })));
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401]);
  });

  test("that has enabled the factor does not sign in", async () => {
    const { secret } = (await api("POST /api/mfa/enable", { as: "ada" })).json;
    const code = codeOf(secret);
    expect((await api(`POST /api/mfa/verify?code=${code}`, { as: "ada" })).status).toBe(200);
    expect((await login("ada", { code })).status).toBe(401);
    expect((await login("ada", { code: codeOf(secret, 1) })).status).toBe(200);
  });

  test("may be one step early or late, but not older than the last accepted one", async () => {
    const { secret } = await enrol("ada");
    for (const [steps, status] of [
      [-2, 401],
      [2, 401],
      [-1, 200],
      [1, 200],
      [0, 401],
    ] as const)
      expect([steps, (await answer(newChallenge(), codeOf(secret, steps))).status]).toEqual([steps, status]);
  });

  test("of another user is rejected", async () => {
    await enrol("ada");
    const bob = await enrol("bob");
    expect((await login("ada", { code: codeOf(bob.secret) })).status).toBe(401);
    expect((await login("ada", { code: bob.backupCodes[0] })).status).toBe(401);
    expect((await login("bob", { code: bob.backupCodes[0] })).status).toBe(200);
  });

  test("is not required without a factor", async () => {
    expect((await login("ada", { code: "123456" })).status).toBe(200);
  });
});

describe("a backup code", () => {
  test("is valid once, and the others remain valid", async () => {
    const { backupCodes } = await enrol("ada");
    expect((await answer(newChallenge(), backupCodes[0]!)).status).toBe(200);
    expect((await answer(newChallenge(), backupCodes[0]!)).status).toBe(401);
    for (const code of backupCodes.slice(1)) expect((await answer(newChallenge(), code)).status).toBe(200);
    expect((await events()).filter((event) => event === "backup_code_used")).toHaveLength(10);
  });

  test("completes one of two logins at the same time", async () => {
    const { backupCodes } = await enrol("ada");
    const replies = await Promise.all([1, 2, 3, 4].map(() => answer(newChallenge(), backupCodes[0]!)));
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401]);
  });
});

describe("guessing codes", () => {
  test("is rejected after five attempts within 15 minutes from any IP addresses, and other users still sign in", async () => {
    const bob = await enrol("bob");
    const { secret, backupCodes } = await enrol("ada");
    const guess = (i: number, code: string) =>
      api("POST /auth/login", { headers: from(`203.0.113.${i}`), body: { username: "ada", password: PASSWORD, code } });
    const wrong = wrongCode(secret, now());
    for (let i = 1; i <= 5; i++) expect((await guess(i, wrong)).status).toBe(401);
    for (const code of [wrong, codeOf(secret), backupCodes[0]!]) {
      const { status, headers, json } = await guess(6, code);
      expect([status, json.error.code]).toEqual([429, "RATE_LIMITED"]);
      expect(Number(headers.get("retry-after"))).toBe(900);
    }
    expect((await login("bob", { code: codeOf(bob.secret) })).status).toBe(200);
    pass(15 * MINUTE);
    expect((await guess(7, codeOf(secret))).status).toBe(200);
  });

  test("allows five of twelve attempts at the same time", async () => {
    const { secret } = await enrol("ada");
    const code = wrongCode(secret, now());
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, i) => answer(newChallenge(), code, from(`203.0.113.${i}`))),
    );
    expect(replies.filter(({ status }) => status === 401)).toHaveLength(5);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(7);
    expect((await events()).filter((event) => event === "code_failed")).toHaveLength(5);
  });

  test("counts wrong codes as failed logins too, also with another mfaAttempts", async () => {
    const { secret, backupCodes } = await enrol("ada");
    const challenge = await challengeOf();
    const code = wrongCode(secret, now());
    for (let i = 0; i < 2; i++) {
      expect((await answer(challenge, code)).status).toBe(401);
      expect((await login("ada", { code })).status).toBe(401);
    }
    expect((await login("ada", { code: backupCodes[0] })).status).toBe(429);
    expect((await answer(challenge, backupCodes[0]!)).status).toBe(429);
    expect((await answer(challenge, backupCodes[0]!, from("203.0.113.1"))).status).toBe(200);
  });
});

describe("a challenge", () => {
  test("is valid for five minutes", async () => {
    const { backupCodes } = await enrol("ada");
    const { iat, exp } = jwt.decode(await challengeOf()) as jwt.JwtPayload;
    expect(exp! - iat!).toBe(300);
    const epoch = (await sql("select epoch from auth_private.accounts where user_id = 1"))[0].epoch;
    const sign = (expiresIn: number) => {
      const claims = { type: "challenge", epoch, sub: "1", jti: randomUUID() };
      return jwt.sign(claims, JWT_SECRET, { issuer: "content-service", expiresIn });
    };
    expect((await answer(sign(-1), backupCodes[0]!)).status).toBe(401);
    expect((await answer(sign(10), backupCodes[0]!)).status).toBe(200);
  });

  test("cannot be replaced by an access or refresh token", async () => {
    const { accessToken, refreshToken } = (await login("ada")).json;
    const { backupCodes } = await enrol("ada");
    for (const token of [accessToken, refreshToken, "", "garbage"]) {
      const { status, json } = await answer(token, backupCodes[0]!);
      const refused = token === "" ? [400, "VALIDATION_ERROR"] : [401, "INVALID_TOKEN"];
      expect([status, json.error.code]).toEqual(refused);
    }
  });

  test("becomes invalid when the account is disabled, its role changes, or the user signs out everywhere", async () => {
    const { backupCodes } = await enrol("ada");
    for (const change of [
      "update auth_private.accounts set disabled_at = now() where user_id = 1",
      "update auth_private.accounts set role = 'admin' where user_id = 1",
      "select auth_api.sign_out(1, null, 'global', 'token', null, now())",
    ]) {
      const challenge = await challengeOf();
      await sql(change);
      expect([change, (await answer(challenge, backupCodes[0]!)).status]).toEqual([change, 401]);
      await sql("update auth_private.accounts set disabled_at = null, role = 'authenticated' where user_id = 1");
      await sql("update auth_private.accounts set epoch = 0 where user_id = 1");
    }
  });

  test("becomes invalid when the factor is disabled", async () => {
    const { secret, backupCodes } = await enrol("ada");
    const challenge = await challengeOf();
    const body = { password: PASSWORD, code: backupCodes[1] };
    expect((await api("POST /api/mfa/disable", { as: "ada", body })).status).toBe(200);
    for (const code of [codeOf(secret), backupCodes[0]!]) expect((await answer(challenge, code)).status).toBe(401);
  });
});
