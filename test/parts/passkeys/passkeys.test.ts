import { describe, expect, test } from "vitest";
import { Authenticator, type Deviation } from "../../support/authenticator.ts";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";
import type { DemoUser } from "../../support/service.ts";

const { service, api, failure, enrol, login, codeOf, pass, events, sql, signIn, epochOf } = useFactors();

const MINUTE = 60_000;
/** Browsers allow passkeys on localhost, not on 127.0.0.1. */
const origin = () => service().url.replace("127.0.0.1", "localhost");
const REFUSED_AT_LOGIN = [401, "AUTH_REQUIRED", "the passkey was not accepted: try again, or sign in in another way"];
const REFUSED = [400, "VALIDATION_ERROR", "the passkey was not accepted: try again with one of this account"];
const TOKENS = { accessToken: expect.any(String), refreshToken: expect.any(String), user: expect.anything() };

const optionsFor = async (user: DemoUser, body?: object) =>
  (await api("POST /auth/passkeys/options", { as: user, body })).json;

/** Adds a passkey, and returns it with its authenticator. */
async function add(user: DemoUser, key = new Authenticator(origin())) {
  const credential = key.create(await optionsFor(user));
  const { status, json, text, headers } = await api("POST /auth/passkeys", { as: user, body: { credential } });
  if (status !== 201) throw new Error(text);
  return { key, id: json.id as string, backupCodes: json.backupCodes as string[], headers, json };
}

const challenge = async (more: object = {}) => (await api("POST /auth/passkeys/challenge", { body: more })).json;
const signatureOf = async (key: Authenticator, deviation?: Deviation) => key.get(await challenge(), deviation);
const signInWith = (passkey: object) => failure("POST /auth/login", { body: { passkey } });

test("POST /auth/passkeys/options returns options for the domain of the service, an authenticator that verifies its user, and no name that others know", async () => {
  const options = await optionsFor("ada");
  expect(options).toMatchObject({
    rp: { id: "localhost", name: "localhost" },
    user: { name: "ada", displayName: "Ada Lovelace" },
    attestation: "none",
    excludeCredentials: [],
    authenticatorSelection: { residentKey: "required", userVerification: "required" },
  });
  const [{ public_id: handle }] = await sql("select public_id from auth_private.accounts where user_id = 1");
  expect(Buffer.from(options.user.id, "base64url").toString("hex")).toBe(handle.replaceAll("-", ""));
  const { key } = await add("ada");
  expect((await optionsFor("ada")).excludeCredentials).toEqual([
    { id: key.id.toString("base64url"), type: "public-key", transports: ["internal"] },
  ]);
});

test("a passkey is listed, renamed and deleted with the password and a signature", async () => {
  const { id, key, backupCodes, headers } = await add("ada", new Authenticator(origin(), { isSynced: true }));
  expect(headers.get("location")).toBe(`/auth/passkeys/${id}`);
  expect(backupCodes).toHaveLength(10);
  const passkey = { id, name: expect.any(String), isSynced: true, createdAt: expect.any(String), lastUsedAt: null };
  expect((await api("GET /auth/passkeys", { as: "ada" })).json).toEqual({ data: [passkey] });
  const renamed = await api(`PATCH /auth/passkeys/${id}`, { as: "ada", body: { name: "My phone" } });
  expect(renamed.json).toEqual({ ...passkey, name: "My phone" });
  expect((await api("GET /auth/me", { as: "ada" })).json.mfaEnabled).toBe(true);

  const path = `POST /auth/passkeys/${id}/delete`;
  expect((await failure(path, { as: "ada", body: { password: PASSWORD } }))[1]).toBe("MFA_REQUIRED");
  const passkeyOf = async () => ({ password: PASSWORD, passkey: await signatureOf(key) });
  expect((await failure(path, { as: "ada", body: { ...(await passkeyOf()), password: "wrong" } }))[0]).toBe(403);
  expect(await failure(path, { as: "ada", body: await passkeyOf() })).toEqual([204, undefined, undefined]);
  expect((await api("GET /auth/me", { as: "ada" })).json.mfaEnabled).toBe(false);
  expect(await sql("select from auth_private.backup_codes")).toEqual([]);
  expect(await events()).toEqual([
    ...["passkey_added", "mfa_enabled", "password_failed", "passkey_removed", "mfa_disabled"],
  ]);
  expect((await login("ada")).status).toBe(200);
});

test("a backup code deletes a lost passkey", async () => {
  const { id, key, backupCodes } = await add("ada");
  const body = { password: PASSWORD, code: backupCodes[0] };
  expect((await api(`POST /auth/passkeys/${id}/delete`, { as: "ada", body })).status).toBe(204);
  expect(await signInWith(await signatureOf(key))).toEqual(REFUSED_AT_LOGIN);
});

describe("the removal of a second factor", () => {
  const refresh = (refreshToken: string) => failure("POST /auth/refresh", { body: { refreshToken } });
  const me = async (headers: Record<string, string>) => (await api("GET /auth/me", { headers })).status;
  /** Sign-ins of ada, who has an app and a passkey: the passkey alone, the code of the app, and a cookie. */
  async function signIns(key: Authenticator, secret: string) {
    const { json: byPasskey } = await api("POST /auth/login", { body: { passkey: await signatureOf(key) } });
    const { json: byCode } = await login("ada", { code: codeOf(secret) });
    pass(MINUTE);
    const body = { username: "ada", password: PASSWORD, code: codeOf(secret) };
    const { headers } = await api("POST /api/auth/login", { body });
    pass(MINUTE);
    return { byPasskey, byCode, cookie: { cookie: headers.get("set-cookie")!.split(";", 1)[0]! } };
  }

  test("asks all other sign-ins for the factor that is left, and ends a session that cannot prove it", async () => {
    const { secret } = await enrol("ada");
    const { key } = await add("ada");
    const { byPasskey, byCode, cookie } = await signIns(key, secret);
    const body = { password: PASSWORD, code: codeOf(secret) };
    expect((await api("POST /api/mfa/disable", { as: "ada", body })).status).toBe(200);
    for (const { refreshToken } of [byPasskey, byCode])
      expect((await refresh(refreshToken)).slice(0, 2)).toEqual([401, "MFA_REQUIRED"]);
    await expect.poll(() => me(cookie)).toBe(401);
    expect((await api("GET /auth/me", { as: "ada" })).status).toBe(200);
  });

  test("ends the sign-ins that began with a passkey, if it is one", async () => {
    const { secret } = await enrol("ada");
    const { key, id } = await add("ada");
    const { byPasskey, byCode, cookie } = await signIns(key, secret);
    const body = { password: PASSWORD, passkey: await signatureOf(key) };
    expect((await api(`POST /auth/passkeys/${id}/delete`, { as: "ada", body })).status).toBe(204);
    expect(await me({ authorization: `Bearer ${byPasskey.accessToken}` })).toBe(401);
    expect((await refresh(byPasskey.refreshToken)).slice(0, 2)).toEqual([401, "VERIFICATION_FAILED"]);
    expect((await refresh(byCode.refreshToken)).slice(0, 2)).toEqual([401, "MFA_REQUIRED"]);
    await expect.poll(() => me(cookie)).toBe(401);
    expect((await api("GET /auth/me", { as: "ada" })).status).toBe(200);
  });

  test("keeps sign-ins with the password if no factor is left", async () => {
    const { key, id } = await add("ada");
    const { json } = await login("ada", { passkey: await signatureOf(key) });
    const body = { password: PASSWORD, passkey: await signatureOf(key) };
    expect((await api(`POST /auth/passkeys/${id}/delete`, { as: "ada", body })).status).toBe(204);
    expect((await refresh(json.refreshToken))[0]).toBe(200);
  });
});

test("passkeys of others are unknown", async () => {
  const { id } = await add("ada");
  await add("bob");
  const unknown = [404, "RESOURCE_NOT_FOUND", "there is no passkey with this id"];
  expect(await failure(`PATCH /auth/passkeys/${id}`, { as: "bob", body: { name: "x" } })).toEqual(unknown);
  expect(await failure(`POST /auth/passkeys/${id}/delete`, { as: "bob", body: { password: PASSWORD } })).toEqual(
    unknown,
  );
  expect((await api("GET /auth/passkeys", { as: "ada" })).json.data).toHaveLength(1);
});

test("the first passkey ends all other sign-ins, and a further one does not", async () => {
  const other = await signIn("ada");
  const me = async (token: string) =>
    (await api("GET /auth/me", { headers: { authorization: `Bearer ${token}` } })).status;
  await add("ada");
  expect(await me(other)).toBe(401);
  expect((await api("GET /auth/me", { as: "ada" })).status).toBe(200);
  const epoch = await epochOf("ada");
  expect((await add("ada")).backupCodes).toBe(null);
  expect(await epochOf("ada")).toBe(epoch);
});

test("an authenticator app and a passkey are both second factors, and share the backup codes", async () => {
  const { secret } = await enrol("ada");
  const { key, backupCodes } = await add("ada");
  expect(backupCodes).toBe(null);
  const { json } = await login("ada");
  expect(json).toMatchObject({ error: { code: "MFA_REQUIRED" }, factors: ["totp", "passkey"] });
  expect((await login("ada", { code: codeOf(secret) })).status).toBe(200);
  expect((await login("ada", { passkey: await signatureOf(key) })).status).toBe(200);
  pass(MINUTE);
  expect(
    (await api("POST /api/mfa/disable", { as: "ada", body: { password: PASSWORD, code: codeOf(secret) } })).json
      .message,
  ).toMatch(/still enabled/);
  expect(
    await failure("POST /api/mfa/disable", {
      as: "ada",
      body: { password: PASSWORD, passkey: await signatureOf(key) },
    }),
  ).toEqual([409, "RESOURCE_CONFLICT", "no second factor is enabled"]);
  expect((await login("ada")).json.factors).toEqual(["passkey"]);
});

test("the beginning of an enrolment does not forget wrong codes of a user who has a passkey", async () => {
  const { id } = await add("ada");
  const remove = () =>
    api(`POST /auth/passkeys/${id}/delete`, { as: "ada", body: { password: PASSWORD, code: "AAAAAAAA" } });
  for (let i = 0; i < 5; i++) expect((await remove()).status).toBe(400);
  expect((await remove()).status).toBe(429);
  expect((await api("POST /api/mfa/enable", { as: "ada" })).status).toBe(200);
  expect((await remove()).status).toBe(429);
});

test("an app can be enabled beside a passkey, which confirms it if the sign-in is old", async () => {
  const { key } = await add("ada");
  pass(11 * MINUTE);
  const body = { password: PASSWORD, passkey: await signatureOf(key) };
  expect((await api("POST /api/mfa/enable", { as: "ada", body })).status).toBe(200);
  pass(-11 * MINUTE);
  const { backupCodes } = await enrol("ada");
  expect(backupCodes).toHaveLength(10);
});

test("a passkey signs in without a name and a password, for tokens and for a session, and counts as two factors", async () => {
  const { key } = await add("ada");
  const options = await challenge();
  expect(options).toMatchObject({ rpId: "localhost", userVerification: "required" });
  expect(options.allowCredentials ?? []).toEqual([]);
  const { status, json } = await api("POST /auth/login", { body: { passkey: key.get(options) } });
  expect([status, json]).toMatchObject([200, { ...TOKENS, user: { username: "ada", mfaEnabled: true } }]);
  const [session] = await sql("select aal, methods from auth_private.sessions order by started_at desc, id limit 1");
  expect(
    await sql('select from auth_private.sessions where aal = 2 and methods @> \'[{"method": "passkey"}]\''),
  ).toHaveLength(1);
  expect(session.aal).toBe(2);
  const cookie = await api("POST /api/auth/login", { body: { passkey: await signatureOf(key) } });
  expect([cookie.status, cookie.json.username]).toEqual([200, "ada"]);
  expect(cookie.headers.get("set-cookie")).toMatch(/^SESSION=/);
  const refreshed = await api("POST /auth/refresh", { body: { refreshToken: json.refreshToken } });
  expect(refreshed.status).toBe(200);
  expect((await api("GET /auth/passkeys", { as: "ada" })).json.data[0].lastUsedAt).toEqual(expect.any(String));
});

test("a passkey completes a login that needs a second factor, and its challenge names the passkeys of the account", async () => {
  const { key } = await add("ada");
  await add("bob");
  const { json } = await login("ada");
  expect(json.error.message).toMatch(/a passkey as passkey/);
  const options = await challenge({ challenge: json.challenge });
  expect(options.allowCredentials).toEqual([
    { id: key.id.toString("base64url"), type: "public-key", transports: ["internal"] },
  ]);
  const body = { challenge: json.challenge, passkey: key.get(options) };
  expect((await api("POST /auth/login", { body })).json).toMatchObject(TOKENS);
  expect(await failure("POST /auth/login", { body: { ...body, passkey: await signatureOf(key) } })).toEqual([
    ...[401, "INVALID_TOKEN", "the challenge is not valid: sign in with the password again"],
  ]);
  expect((await failure("POST /auth/passkeys/challenge", { body: { challenge: "x" } }))[0]).toBe(401);
});

test("a backup code completes a login of a user who has only a passkey", async () => {
  const { backupCodes } = await add("ada");
  expect((await login("ada", { code: backupCodes[0] })).status).toBe(200);
  expect((await login("ada", { code: backupCodes[0] })).status).toBe(401);
});

test("a passkey of another user does not complete a login", async () => {
  await add("ada");
  const { key } = await add("bob");
  const { status, json } = await login("ada", { passkey: await signatureOf(key) });
  expect([status, json.error.code, json.error.message]).toEqual(REFUSED_AT_LOGIN);
});

test("a passkey confirms a new password and an old sign-in", async () => {
  const { key } = await add("ada");
  pass(11 * MINUTE);
  const path = "POST /auth/passkeys/options";
  expect((await failure(path, { as: "ada" }))[1]).toBe("PASSWORD_REQUIRED");
  expect((await failure(path, { as: "ada", body: { password: PASSWORD } }))[1]).toBe("MFA_REQUIRED");
  const { key: other } = await add("bob");
  expect(await failure(path, { as: "ada", body: { password: PASSWORD, passkey: await signatureOf(other) } })).toEqual(
    REFUSED,
  );
  const body = { password: PASSWORD, passkey: await signatureOf(key) };
  expect((await api(path, { as: "ada", body })).status).toBe(200);
  const passwords = { oldPassword: PASSWORD, newPassword: "Correct-Horse-8!" };
  expect(
    (await api("POST /auth/password", { as: "ada", body: { ...passwords, passkey: await signatureOf(key) } })).status,
  ).toBe(200);
  await sql(
    "update auth_private.accounts set password_hash = (select password_hash from auth_private.accounts where user_id = 2) where user_id = 1",
  );
});

test("a signature is accepted once, within five minutes, and only of the challenge that it is for", async () => {
  const { key } = await add("ada");
  const signature = await signatureOf(key);
  expect((await signInWith(signature))[0]).toBe(200);
  expect(await signInWith(signature)).toEqual(REFUSED_AT_LOGIN);
  const options = await challenge();
  pass(5 * MINUTE);
  expect(await signInWith(key.get(options))).toEqual(REFUSED_AT_LOGIN);
  expect(await signInWith(key.get(await optionsFor("ada")))).toEqual(REFUSED_AT_LOGIN);
  expect(await signInWith(key.get({ challenge: "AAAA" }))).toEqual(REFUSED_AT_LOGIN);
});

test("two parallel uses of a signature have one success", async () => {
  const { key } = await add("ada");
  const signature = await signatureOf(key);
  const statuses = (await Promise.all(Array.from({ length: 4 }, () => signInWith(signature)))).map(
    ([status]) => status,
  );
  expect(statuses.sort()).toEqual([200, 401, 401, 401]);
});

test.each<[string, Deviation]>([
  ["without the verification of the user", { isUnverified: true }],
  ["for another domain", { domain: "evil.example" }],
  ["of another type", { type: "webauthn.create" }],
  ["of another user", { userHandle: Buffer.alloc(16).toString("base64url") }],
  ["in a frame of another site", { crossOrigin: true }],
])("a signature %s is refused", async (_what, deviation) => {
  const { key } = await add("ada");
  expect(await signInWith(await signatureOf(key, deviation))).toEqual(REFUSED_AT_LOGIN);
  expect((await events()).at(-1)).toBe("passkey_failed");
});

test("a signature of a page of another origin is refused with the reason", async () => {
  const { key } = await add("ada");
  const [status, code, message] = await signInWith(await signatureOf(key, { origin: "https://evil.example" }));
  expect([status, code]).toEqual([403, "PERMISSION_DENIED"]);
  expect(message).toMatch(/pages of https:\/\/evil\.example may not use the passkeys/);
});

test("an unknown passkey, and a wrong signature of a known one, get the same error and count as failed logins", async () => {
  const { key } = await add("ada");
  const stranger = new Authenticator(origin());
  stranger.create(await optionsFor("ada"));
  expect(await signInWith(await signatureOf(stranger))).toEqual(REFUSED_AT_LOGIN);
  const signature = await signatureOf(key);
  const forged = { ...signature.response, signature: (await signatureOf(key)).response.signature };
  expect(await signInWith({ ...signature, response: forged })).toEqual(REFUSED_AT_LOGIN);
  expect(await sql("select from auth_private.attempts where counts")).not.toEqual([]);
});

test("a counter that does not grow is refused and reported: the passkey was copied", async () => {
  const { key } = await add("ada");
  key.counter = 5;
  expect((await signInWith(await signatureOf(key)))[0]).toBe(200);
  const copy = await signatureOf(key, { counter: 6 });
  expect(await signInWith(copy)).toEqual(REFUSED_AT_LOGIN);
  expect((await events()).slice(-2)).toEqual(["passkey_copied", "passkey_failed"]);
  expect((await signInWith(await signatureOf(key)))[0]).toBe(200);
});

test("a disabled account does not sign in with a passkey", async () => {
  const { key } = await add("bob");
  await sql("update auth_private.accounts set disabled_at = now() where user_id = 2");
  expect(await signInWith(await signatureOf(key))).toEqual([403, "PERMISSION_DENIED", "this account is disabled"]);
  await sql("update auth_private.accounts set disabled_at = null where user_id = 2");
});

test("a credential is added once, by the session that has asked for it, and needs the verification of the user", async () => {
  const key = new Authenticator(origin());
  const options = await optionsFor("ada");
  const post = (credential: object, as: DemoUser = "ada") =>
    failure("POST /auth/passkeys", { as, body: { credential } });
  const invalid = (why: RegExp) => [400, "VALIDATION_ERROR", expect.stringMatching(why)];
  expect(await post(key.create(options), "bob")).toEqual(invalid(/its challenge is unknown or has expired/));
  expect(await post(key.create(options, { isUnverified: true }))).toEqual(invalid(/user could not be verified/));
  expect((await post(key.create(options)))[0]).toBe(201);
  expect(await post(new Authenticator(origin()).create(options))).toEqual(invalid(/was used before/));
  expect(await post(key.create(await optionsFor("ada")))).toEqual([
    ...[409, "RESOURCE_CONFLICT", "this passkey is registered already"],
  ]);
});

test("a credential of another domain, or of a page of another origin, is not added", async () => {
  const post = async (deviation: Deviation) => {
    const credential = new Authenticator(origin()).create(await optionsFor("ada"), deviation);
    return (await failure("POST /auth/passkeys", { as: "ada", body: { credential } })).slice(0, 2);
  };
  expect(await post({ domain: "evil.example" })).toEqual([400, "VALIDATION_ERROR"]);
  expect(await post({ crossOrigin: true })).toEqual([400, "VALIDATION_ERROR"]);
  expect(await post({ type: "webauthn.get" })).toEqual([400, "VALIDATION_ERROR"]);
  expect(await post({ origin: "https://evil.example" })).toEqual([403, "PERMISSION_DENIED"]);
  expect(await sql("select from auth_private.passkeys")).toEqual([]);
});

test("a challenge is the same for everyone until a password is right, and is not stored", async () => {
  const { key } = await add("ada");
  const spent = () => sql("select id from auth_private.spent_challenges order by id");
  const before = await spent();
  const options = await challenge();
  expect(options).toMatchObject({ allowCredentials: [], userVerification: "required" });
  const { status, json } = await api("POST /auth/passkeys/challenge", { body: { challenge: "x".repeat(40) } });
  expect([status, json.error.code]).toEqual([401, "INVALID_TOKEN"]);
  expect(await spent()).toEqual(before);
  expect((await signInWith(key.get(options)))[0]).toBe(200);
});

test("a user has at most 20 passkeys", async () => {
  await sql(
    `insert into auth_private.passkeys (user_id, name, credential_id, public_key, counter, transports, is_synced, created_at)
     select 1, 'key', sha256(n::text::bytea), '\\x00', 0, '{}', false, now() from generate_series(1, 20) as n`,
  );
  const credential = new Authenticator(origin()).create(await optionsFor("ada"));
  await sql("update auth_private.sessions set aal = 2");
  expect(await failure("POST /auth/passkeys", { as: "ada", body: { credential } })).toEqual([
    ...[409, "RESOURCE_CONFLICT", "the user has 20 passkeys already: delete one first"],
  ]);
});

test.each<[string, object]>([
  ["a text", { passkey: "x" }],
  ["no response", { passkey: { id: "AA", rawId: "AA", type: "public-key" } }],
  ["bytes that are not base64url", { passkey: { id: "A A", rawId: "AA", type: "public-key", response: {} } }],
])("a login with %s in place of a credential is a validation error", async (_what, body) => {
  const [status, code, message] = await failure("POST /auth/login", { body });
  expect([status, code, message]).toEqual([
    ...[400, "VALIDATION_ERROR", "passkey must be the JSON of a credential, as navigator.credentials returns it"],
  ]);
});

test("client data that is not JSON, and authenticator data that is too short, are refused", async () => {
  const { key } = await add("ada");
  const signature = await signatureOf(key);
  const withData = (more: object) => ({ ...signature, response: { ...signature.response, ...more } });
  for (const more of [{ clientDataJSON: "AA" }, { authenticatorData: "AA" }, { signature: "AA" }])
    expect(await signInWith(withData(more))).toEqual(REFUSED_AT_LOGIN);
});

test("an API key does not manage passkeys", async () => {
  const { json } = await api("POST /auth/keys", { as: "ada", body: { name: "k" } });
  const headers = { "x-api-key": json.key };
  expect((await failure("POST /auth/passkeys/options", { headers }))[0]).toBe(403);
  expect((await failure("GET /auth/passkeys", { headers }))[0]).toBe(403);
});
