import { describe, expect, test, vi } from "vitest";
import { argon2 } from "../../../rest-gateway/auth/password-hashes.ts";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { appCode } from "../../support/totp.ts";
import { visit } from "../../support/visit.ts";

const PASSWORD = "Correct-Horse-7!";
const MAIL_LIMITS = { mailsPerRecipient: 1000, mailsPerAddress: 1000 };
const server = await startMailServer();
const client = useService({ ...server.settings, ...MAIL_LIMITS, loginAttemptsPerAddress: 1000 });
/** With the usual limit on wrong codes, and without a worker. */
const strict = useService({
  ...server.settings,
  ...MAIL_LIMITS,
  loginAttemptsPerAddress: 6,
  TASK_CONCURRENCY: "0",
});

let count = 0;
/** A new user for one test, whose e-mail is confirmed. */
async function newUser(isConfirmed = true) {
  const email = `finn${++count}@test.example`;
  const { json } = await sendJson(client, "/auth/register", { name: "Finn", email, password: PASSWORD });
  const id = String(json.user.id);
  if (isConfirmed)
    await client.sql("update auth_private.accounts set email_confirmed_at = now() where user_id = $1", id);
  return { email, id, headers: { authorization: `Bearer ${json.accessToken}` } };
}

const post = (path: string, body: object, headers = {}) => sendJson(client, path, body, headers);
const login = async (email: string) => (await post("/auth/login", { username: email, password: PASSWORD })).status;

/** The link and the code of a new e-mail. */
async function received(path: string, email: string, more: object = {}) {
  expect((await post(path, { email, ...more })).status).toBe(202);
  const mail = await server.next(email);
  const [code = ""] = /^\d{6}$/m.exec(mail.text) ?? [];
  return { ...linkIn(mail), code, mail };
}

const sendForm = (fields: Record<string, string>) => visit(client, "/auth/link", fields);

/** Enables a second factor, and returns its backup codes. */
async function enableFactor(headers: Record<string, string>): Promise<string[]> {
  const { json } = await post("/api/mfa/enable", {}, headers);
  return (await post("/api/mfa/verify", { code: appCode(json.secret, Date.now()) }, headers)).json.backupCodes;
}

const wrongCode = (code: string) => (code === "000000" ? "111111" : "000000");

describe("a link to sign in", () => {
  test("returns tokens once, and shows the page before", async () => {
    const { email, id } = await newUser();
    const { url, token } = await received("/auth/login/mail", email);
    const page = await visit(client, url.slice(client.service().url.length));
    expect(page.text).toContain(`Sign in as ${email.replace("@", "@")} in this browser.`);
    const { status, json } = await post("/auth/login/link", { token });
    expect([status, json]).toEqual([200, expect.objectContaining({ tokenType: "Bearer", user: expect.anything() })]);
    expect(String(json.user.id)).toBe(id);
    expect((await post("/auth/refresh", { refreshToken: json.refreshToken })).status).toBe(200);
    expect((await post("/auth/login/link", { token })).status).toBe(401);
    expect(await login(email)).toBe(200);
  });

  test("is sent to a user whose ban has ended, and to no other disabled user", async () => {
    const { email, id } = await newUser();
    const ban = (until: string) =>
      client.sql(
        `update auth_private.accounts set disabled_at = now() - interval '1 hour', disabled_until = ${until} where user_id = $1`,
        id,
      );
    await ban("now() + interval '1 hour'");
    expect((await post("/auth/login/mail", { email })).status).toBe(202);
    expect((await server.next(email)).text).not.toContain("?token=");
    await ban("now()");
    const { token } = await received("/auth/login/mail", email);
    expect((await post("/auth/login/link", { token })).status).toBe(200);
  });

  test("sets the cookie of a session in a browser, and continues", async () => {
    const { email } = await newUser();
    const { token } = await received("/auth/login/mail", email, { returnTo: "/app" });
    const { status, location, cookie } = await sendForm({ token });
    expect([status, location]).toEqual([303, "/app"]);
    expect((await client.send("/api/auth/me", { headers: { cookie } })).status).toBe(200);
    expect((await sendForm({ token })).status).toBe(401);
  });

  test("still needs the second factor, for tokens and in a browser", async () => {
    const { email, headers } = await newUser();
    const [first, second] = await enableFactor(headers);
    const { token } = await received("/auth/login/mail", email);
    const { status, json } = await post("/auth/login/link", { token });
    expect([status, json.error.code]).toEqual([401, "MFA_REQUIRED"]);
    const completed = await post("/auth/login", { challenge: json.error.challenge ?? json.challenge, code: first });
    expect(completed.status).toBe(200);

    const other = await received("/auth/login/mail", email);
    const page = await sendForm({ token: other.token });
    expect([page.status, page.cookies]).toEqual([200, []]);
    const [, challenge = ""] = /name="challenge" value="([^"]+)"/.exec(page.text) ?? [];
    const done = await visit(client, "/auth/sign-in/code", { challenge, code: second! });
    expect([done.status, done.cookie]).toEqual([303, expect.stringMatching(/^SESSION=./)]);
  });

  test("of an e-mail that was not confirmed ends nothing of an account whose second factor is not proved", async () => {
    const { email, headers } = await newUser(false);
    const [code] = await enableFactor(headers);
    const key = await post("/auth/keys", { name: "nightly" }, headers);
    const { token } = await received("/auth/login/mail", email);
    const { status, json } = await post("/auth/login/link", { token });
    expect([status, json.error.code]).toEqual([401, "MFA_REQUIRED"]);
    const ways: Record<string, string>[] = [headers, { "x-api-key": key.json.key }];
    for (const headers of ways) expect((await client.send("/auth/me", { headers })).status).toBe(200);
    expect((await post("/auth/login", { username: email, password: PASSWORD, code })).status).toBe(200);
  });

  test("takes an account whose e-mail was not confirmed from the person who has registered it", async () => {
    const { email, id, headers } = await newUser(false);
    const key = await post("/auth/keys", { name: "hidden" }, headers);
    const { token } = await received("/auth/login/mail", email);
    expect((await post("/auth/login/link", { token })).status).toBe(200);
    expect(await login(email)).toBe(401);
    expect((await client.send("/users/1", { headers })).status).toBe(401);
    expect((await client.send("/users/1", { headers: { "x-api-key": key.json.key } })).status).toBe(401);
    const [account] = await client.sql("select email_confirmed_at from auth_private.accounts where user_id = $1", id);
    expect(account!.email_confirmed_at).not.toBeNull();
  });
});

describe("a code to sign in", () => {
  test("signs in once, with spaces and another spelling of the address too", async () => {
    const { email, id } = await newUser();
    const { code, token, mail } = await received("/auth/login/mail", email);
    expect(mail.html).toContain(code);
    const spaced = `${code.slice(0, 3)} ${code.slice(3)}`;
    const { status, json } = await post("/auth/login/code", { email: email.toUpperCase(), code: spaced });
    expect([status, String(json.user.id)]).toEqual([200, id]);
    expect((await post("/auth/login/code", { email, code })).status).toBe(401);
    expect((await post("/auth/login/link", { token })).status).toBe(401);
  });

  test("is no longer valid after 5 wrong ones, also at the same time; the link is", async () => {
    const { email } = await newUser();
    const { code, token } = await received("/auth/login/mail", email);
    const wrong = () => post("/auth/login/code", { email, code: wrongCode(code) });
    const statuses = (await Promise.all([1, 2, 3, 4, 5].map(wrong))).map(({ status }) => status);
    expect(statuses).toEqual([401, 401, 401, 401, 401]);
    expect((await post("/auth/login/code", { email, code })).status).toBe(401);
    expect((await post("/auth/login/link", { token })).status).toBe(200);
  });

  test("is valid after 4 wrong ones", async () => {
    const { email } = await newUser();
    const { code } = await received("/auth/login/mail", email);
    for (let i = 0; i < 4; i++) await post("/auth/login/code", { email, code: wrongCode(code) });
    expect((await post("/auth/login/code", { email, code })).status).toBe(200);
  });

  test("of an earlier e-mail, or for another address, is wrong", async () => {
    const [ann, bob] = [await newUser(), await newUser()];
    const first = await received("/auth/login/mail", ann.email);
    expect((await post("/auth/login/code", { email: bob.email, code: first.code })).status).toBe(401);
    const second = await received("/auth/login/mail", ann.email);
    if (first.code !== second.code)
      expect((await post("/auth/login/code", { email: ann.email, code: first.code })).status).toBe(401);
    expect((await post("/auth/login/code", { email: ann.email, code: second.code })).status).toBe(200);
  });

  test("gets the same answer with the same statements and no hash for every address, and counts in the network", async () => {
    const verify = vi.spyOn(argon2, "verify");
    const { database, service } = strict.service();
    // ada has a code, bob has none, carol is disabled, and there is no stranger.
    await database.owner.query(
      `insert into auth_private.one_time_tokens (token_hash, kind, user_id, email, code_hash, expires_at)
       values (sha256('t'), 'sign-in', 1, 'ada@example.com', sha256('c'), now() + interval '1 hour')`,
    );
    const answers = new Set<string>();
    for (const name of ["ada", "bob", "carol", "stranger"]) {
      const before = service.databaseWaits();
      const { status, json } = await sendJson(strict, "/auth/login/code", {
        email: `${name}@example.com`,
        code: "123456",
      });
      answers.add(JSON.stringify([status, json.error.code, json.error.message, service.databaseWaits() - before]));
    }
    expect(answers.size).toBe(1);
    const wrong = () => sendJson(strict, "/auth/login/code", { email: "bob@example.com", code: "123456" });
    expect([(await wrong()).status, (await wrong()).status, (await wrong()).status]).toEqual([401, 401, 429]);
    expect(verify.mock.calls).toEqual([]);
    vi.restoreAllMocks();
    const { rows } = await database.owner.query("select attempts from auth_private.one_time_tokens");
    expect(rows).toEqual([{ attempts: 1 }]);
  });

  test.each(["12345", "abcdef", "1234567", ""])("%j is not a code", async (code) => {
    expect((await post("/auth/login/code", { email: "ann@test.example", code })).status).toBe(400);
  });

  test("is stored as a keyed hash", async () => {
    const { email } = await newUser();
    const { code } = await received("/auth/login/mail", email);
    const [row] = await client.sql(
      "select code_hash = sha256($2) as plain, t::text as row from auth_private.one_time_tokens t where email = $1",
      email,
      Buffer.from(code),
    );
    expect([row!.plain, row!.row.includes(code)]).toEqual([false, false]);
  });
});

describe("confirmation of an e-mail", () => {
  const confirmedAt = async (id: string) =>
    (await client.sql("select email_confirmed_at as at from auth_private.accounts where user_id = $1", id))[0]!.at;

  test("takes the token once, keeps the password, and does not sign in", async () => {
    const { email, id, headers } = await newUser(false);
    const { token } = await received("/auth/confirm/send", email);
    const { status, json } = await post("/auth/confirm", { token, password: PASSWORD });
    expect([status, json]).toEqual([200, { message: "the e-mail is confirmed" }]);
    expect(await confirmedAt(id)).not.toBeNull();
    expect((await post("/auth/confirm", { token, password: PASSWORD })).status).toBe(401);
    expect(await login(email)).toBe(200);
    expect((await client.send("/auth/me", { headers })).json.emailConfirmed).toBe(true);
  });

  test("is done by the form of the page, and not by opening it", async () => {
    const { email, id } = await newUser(false);
    const { token } = await received("/auth/confirm/send", email);
    await client.send(`/auth/link?token=${token}`);
    expect(await confirmedAt(id)).toBeNull();
    const { status, location } = await sendForm({ token, password: PASSWORD });
    expect([status, location]).toEqual([303, "/auth/done?of=confirmed"]);
    expect(await confirmedAt(id)).not.toBeNull();
  });

  test("that was done before, or has no account, gets an e-mail that says so", async () => {
    const { email } = await newUser();
    const subjects = [];
    for (const address of [email, "nobody-there@test.example"]) {
      expect((await post("/auth/confirm/send", { email: address })).status).toBe(202);
      subjects.push((await server.next(address)).subject);
    }
    expect(subjects).toEqual(["Your e-mail is confirmed already", "There is no account with this address"]);
  });

  test("the token of one kind of e-mail does nothing else", async () => {
    const { email } = await newUser(false);
    const { token } = await received("/auth/confirm/send", email);
    expect((await post("/auth/login/link", { token })).status).toBe(401);
    expect((await post("/auth/reset", { token, password: "Another-Horse-9?" })).status).toBe(401);
    expect((await post("/auth/confirm", { token, password: PASSWORD })).status).toBe(200);
  });
});
