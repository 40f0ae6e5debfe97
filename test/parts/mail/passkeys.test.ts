import { beforeEach, expect, test } from "vitest";
import { Authenticator } from "../../support/authenticator.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";

const OTHER = "Another-Horse-9?";
const REFUSED_AT_LOGIN = [401, "AUTH_REQUIRED", "the passkey was not accepted: try again, or sign in in another way"];

const mails = await startMailServer();
const { service, api, failure, sql } = useFactors({
  ...mails.settings,
  EMAIL_CONFIRM: "required",
  mailsPerAddress: 1000,
});

let count = 0;
let email: string;
let id: string;
let headers: Record<string, string>;
let key: Authenticator;
let backupCodes: readonly string[];

/** A new user, whose e-mail is confirmed, with a passkey. */
beforeEach(async () => {
  email = `erin${++count}@test.example`;
  await api("POST /auth/register", { body: { name: "Erin", email, password: PASSWORD } });
  await api("POST /auth/confirm", { body: { token: await tokenIn(email, /^Confirm/), password: PASSWORD } });
  const { json } = await api("POST /auth/login", { body: { username: email, password: PASSWORD } });
  id = String(json.user.id);
  headers = { authorization: `Bearer ${json.accessToken}` };
  key = new Authenticator(origin());
  const options = (await api("POST /auth/passkeys/options", { headers })).json;
  const added = await api("POST /auth/passkeys", { headers, body: { credential: key.create(options) } });
  backupCodes = added.json.backupCodes;
});

/** Browsers allow passkeys on localhost, not on 127.0.0.1. */
const origin = () => service().url.replace("127.0.0.1", "localhost");
const tokenIn = async (address: string, subject: RegExp) => linkIn(await mails.next(address, subject)).token;
const signature = async (of = key) => of.get((await api("POST /auth/passkeys/challenge", { body: {} })).json);
const signIn = async () => failure("POST /auth/login", { body: { passkey: await signature() } });
const login = (password: string, more = {}) =>
  failure("POST /auth/login", { body: { username: email, password, ...more } });
const me = async () => (await api("GET /auth/me", { headers })).status;
const operator = () => ({ authorization: `Bearer ${service().service.tokens.issueKey("service_role")}` });
const resetToken = async () => {
  await api("POST /auth/forgot", { body: { email } });
  return tokenIn(email, /^Reset/);
};
const eventsOfUser = async () =>
  (await sql("select event from auth_private.security_events where user_id = $1 order by id", id)).map(
    ({ event }) => event,
  );

test("after an operator has changed the e-mail, a passkey signs in only when the new one is confirmed", async () => {
  expect((await signIn())[0]).toBe(200);
  const changed = `new${email}`;
  const { status } = await api(`PATCH /auth/admin/users/${id}`, { headers: operator(), body: { email: changed } });
  expect(status).toBe(200);
  expect(await signIn()).toEqual([
    401,
    "AUTH_REQUIRED",
    expect.stringMatching(/^the e-mail of the account is not confirmed/),
  ]);
  const apikey = { apikey: service().service.tokens.issueKey("anon") };
  const v1 = (request: string, body: object) => api(`POST /auth/v1/passkeys/${request}`, { headers: apikey, body });
  const { challenge_id, options } = (await v1("authentication/options", {})).json;
  const refused = await v1("authentication/verify", { challenge_id, credential: key.get(options) });
  expect([refused.status, refused.json.error_code]).toEqual([400, "email_not_confirmed"]);
  await api("POST /auth/confirm/send", { body: { email: changed } });
  await api("POST /auth/confirm", { body: { token: await tokenIn(changed, /^Confirm/), password: PASSWORD } });
  expect((await signIn())[0]).toBe(200);
});

test("a user with a passkey changes the e-mail and keeps it, and an undo of that change ends it", async () => {
  const changed = `new${email}`;
  expect((await api("POST /auth/email", { headers, body: { email: changed } })).status).toBe(202);
  await api("POST /auth/confirm", { body: { token: await tokenIn(changed, /^Confirm/), password: PASSWORD } });
  expect((await signIn())[0]).toBe(200);

  const undo = await tokenIn(email, /e-mail/i);
  expect((await api("POST /auth/email/undo", { body: { token: undo } })).status).toBe(200);
  expect([await signIn(), await me()]).toEqual([REFUSED_AT_LOGIN, 401]);
  expect(await sql("select from auth_private.backup_codes where user_id = $1", id)).toEqual([]);
  // No factor is left, so that the link alone is enough.
  const token = await tokenIn(email, /^Reset/);
  expect((await api("POST /auth/reset", { body: { token, password: OTHER } })).status).toBe(200);
  expect(await login(OTHER)).toEqual([200, undefined, undefined]);
});

test("a reset of the password needs the passkey or a backup code, and keeps the passkey", async () => {
  const token = await resetToken();
  const reset = (more: object) => failure("POST /auth/reset", { body: { token, password: OTHER, ...more } });
  expect((await reset({})).slice(0, 2)).toEqual([401, "MFA_REQUIRED"]);
  const stranger = new Authenticator(origin());
  stranger.create((await api("POST /auth/passkeys/options", { headers })).json);
  expect((await reset({ passkey: await signature(stranger) })).slice(0, 2)).toEqual([400, "VALIDATION_ERROR"]);
  const used = await signature();
  expect((await failure("POST /auth/login", { body: { passkey: used } }))[0]).toBe(200);
  expect((await reset({ passkey: used })).slice(0, 2)).toEqual([400, "VALIDATION_ERROR"]);
  expect((await reset({ code: "ABCDEFGH" })).slice(0, 2)).toEqual([400, "VALIDATION_ERROR"]);
  // The link has stayed valid.
  expect((await reset({ passkey: await signature() }))[0]).toBe(200);
  expect(await me()).toBe(401);
  expect((await login(OTHER)).slice(0, 2)).toEqual([401, "MFA_REQUIRED"]);
  expect((await signIn())[0]).toBe(200);

  const again = { token: await resetToken(), password: PASSWORD, code: backupCodes[0] };
  expect((await api("POST /auth/reset", { body: again })).status).toBe(200);
  expect((await login(PASSWORD, { code: backupCodes[0] }))[0]).toBe(401);
  expect((await login(PASSWORD, { code: backupCodes[1] }))[0]).toBe(200);
});

test("a sign-in by e-mail is completed with the passkey", async () => {
  await api("POST /auth/login/mail", { body: { email } });
  const token = await tokenIn(email, /sign in/i);
  const { status, json } = await api("POST /auth/login/link", { body: { token } });
  expect([status, json.error.code, json.factors]).toEqual([401, "MFA_REQUIRED", ["passkey"]]);
  const { challenge } = json;
  const options = (await api("POST /auth/passkeys/challenge", { body: { challenge } })).json;
  expect(options.allowCredentials).toMatchObject([{ id: key.id.toString("base64url") }]);
  expect((await api("POST /auth/login", { body: { challenge, passkey: key.get(options) } })).status).toBe(200);
});

test("when an operator resets the factors, the passkey ends with all sign-ins, and the user gets an e-mail", async () => {
  const { status } = await api(`DELETE /auth/admin/users/${id}/factors`, { headers: operator() });
  expect([status, await me(), await signIn()]).toEqual([204, 401, REFUSED_AT_LOGIN]);
  expect((await mails.next(email, /factor/i)).text).toContain(email);
  expect(await login(PASSWORD)).toEqual([200, undefined, undefined]);
  expect(await sql("select from auth_private.backup_codes where user_id = $1", id)).toEqual([]);
  expect(await eventsOfUser()).toEqual(expect.arrayContaining(["passkey_added", "mfa_enabled", "mfa_disabled"]));
});
