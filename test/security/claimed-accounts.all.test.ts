import { createClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { oidcEntry, useFederated } from "../parts/federated/support.ts";
import { Authenticator } from "../support/authenticator.ts";
import { type Client, useService } from "../support/http-client.ts";
import { sendJson } from "../support/json.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";
import { appCode } from "../support/totp.ts";
import { visit } from "../support/visit.ts";
import { WebClient } from "../support/web-client.ts";

// A person creates an account for the e-mail of another one, and waits until its owner signs in to it.

const server = await startMailServer();
const { service, signIn } = useFederated({
  entries: (idp) => [oidcEntry(idp, { signUp: true })],
  settings: { ...server.settings, EMAIL_CONFIRM: "claim" },
});

async function post(path: string, body: object, headers = {}) {
  const sent = { "content-type": "application/json", ...headers };
  const response = await fetch(service().url + path, { method: "POST", headers: sent, body: JSON.stringify(body) });
  return { status: response.status, json: (await response.json()) as any };
}

test("an attacker who has created an account at a provider, without a password, keeps nothing of it when the owner of its e-mail signs in", async () => {
  const email = "mary@acme.example";
  const { json: theirs } = await signIn(new WebClient(), "/auth/oidc/acme?mode=token");
  expect(theirs.user).toMatchObject({ email, emailConfirmed: false, hasPassword: false });
  const headers = { authorization: `Bearer ${theirs.accessToken}` };
  const other = "mallory@test.example";
  expect((await post("/auth/email", { email: other }, headers)).status).toBe(202);
  const change = linkIn(await server.next(other)).token;

  expect((await post("/auth/login/mail", { email })).status).toBe(202);
  const { status, json: owner } = await post("/auth/login/link", { token: linkIn(await server.next(email)).token });
  expect([status, owner.user.id]).toEqual([200, theirs.user.id]);

  expect((await fetch(`${service().url}/auth/me`, { headers })).status).toBe(401);
  expect((await post("/auth/refresh", { refreshToken: theirs.refreshToken })).status).toBe(401);
  expect((await post("/auth/confirm", { token: change })).status).toBe(401);
  expect((await signIn(new WebClient(), "/auth/oidc/acme?mode=token")).status).toBe(409);
  expect((await post("/auth/refresh", { refreshToken: owner.refreshToken })).status).toBe(200);
});

const THEIRS = "Mallorys-Horse-7!";
const OWN = "Correct-Horse-7!";
const LIMITS = {
  mailsPerRecipient: 100,
  mailsPerAddress: 1000,
  registrationsPerAddress: 1000,
  loginAttemptsPerAddress: 1000,
};
const required = useService({ ...server.settings, ...LIMITS, EMAIL_CONFIRM: "required" });
const off = useService({ ...server.settings, ...LIMITS });
const claim = useService({ ...server.settings, ...LIMITS, EMAIL_CONFIRM: "claim" });

let count = 0;
const address = () => `vera${++count}@test.example`;
const confirmation = async (email: string) => linkIn(await server.next(email, /^Confirm/)).token;
const register = (client: Client, email: string, password = THEIRS, headers = {}) =>
  sendJson(client, "/auth/register", { name: "Vera", email, password }, headers);
const confirm = async (client: Client, body: object, headers = {}) => {
  const { status, json } = await sendJson(client, "/auth/confirm", body, headers);
  return [status, status === 200 ? null : Object.keys(json.error.fields)];
};
const login = async (client: Client, username: string, password: string) =>
  (await sendJson(client, "/auth/login", { username, password })).status;

describe("a person presses the link that confirms an account which another person has registered for their address", () => {
  test("the password of the other person does not become theirs: a new one replaces it", async () => {
    const email = address();
    expect((await register(required, email)).status).toBe(202);
    const token = await confirmation(email);
    expect(await confirm(required, { token })).toEqual([400, ["password"]]);
    expect(await confirm(required, { token, password: OWN })).toEqual([400, ["password"]]);
    expect(await confirm(required, { token, newPassword: "short" })).toEqual([400, ["newPassword"]]);
    expect(await login(required, email, THEIRS)).toBe(401);
    expect(await confirm(required, { token, newPassword: OWN })).toEqual([200, null]);
    expect([await login(required, email, THEIRS), await login(required, email, OWN)]).toEqual([401, 200]);
    expect((await sendJson(required, "/auth/confirm", { token, newPassword: THEIRS })).status).toBe(401);
  });

  test("tokens, API keys and links from before end with the new password", async () => {
    const email = address();
    const { json: theirs } = await register(off, email);
    const headers = { authorization: `Bearer ${theirs.accessToken}` };
    const { json: key } = await sendJson(off, "/auth/keys", { name: "kept" }, headers);
    await sendJson(off, "/auth/login/mail", { email });
    const link = linkIn(await server.next(email, /^Sign in/)).token;
    await sendJson(off, "/auth/confirm/send", { email });
    expect(await confirm(off, { token: await confirmation(email), newPassword: OWN })).toEqual([200, null]);
    const me = async (sent: Record<string, string>) => (await off.send("/auth/me", { headers: sent })).status;
    expect([await me(headers), await me({ "x-api-key": key.key })]).toEqual([401, 401]);
    expect((await sendJson(off, "/auth/refresh", { refreshToken: theirs.refreshToken })).status).toBe(401);
    expect((await sendJson(off, "/auth/login/link", { token: link })).status).toBe(401);
    expect([await login(off, email, THEIRS), await login(off, email, OWN)]).toEqual([401, 200]);
  });

  test("an account that was moved to their address a moment ago needs its own password", async () => {
    const { json: theirs } = await register(off, address());
    const headers = { authorization: `Bearer ${theirs.accessToken}` };
    const email = address();
    expect((await sendJson(off, "/auth/email", { email }, headers)).status).toBe(200);
    await sendJson(off, "/auth/confirm/send", { email });
    const token = await confirmation(email);
    expect(await confirm(off, { token, newPassword: OWN })).toEqual([400, ["newPassword"]]);
    expect(await confirm(off, { token, password: THEIRS })).toEqual([200, null]);
  });

  test("on /auth/v1, verifyOtp with an empty password signs them in, and the password of the other person ends", async () => {
    const email = address();
    const supabase = clientOf(required);
    expect((await supabase().auth.signUp({ email, password: THEIRS })).error).toBeNull();
    const owner = supabase();
    const sent = { token_hash: await confirmation(email), type: "signup", ...{ password: null } } as const;
    const { data, error } = await owner.auth.verifyOtp(sent);
    expect([error, data.user?.email]).toEqual([null, email]);
    const signIn = async (password: string) =>
      (await supabase().auth.signInWithPassword({ email, password })).error?.code;
    expect(await signIn(THEIRS)).toBe("invalid_credentials");
    expect((await owner.auth.updateUser({ password: OWN })).error).toBeNull();
    expect([await signIn(THEIRS), await signIn(OWN)]).toEqual(["invalid_credentials", undefined]);
    expect((await supabase().auth.verifyOtp(sent)).error?.code).toBe("otp_expired");
  });

  test("on /auth/v1, a session of the other person ends too", async () => {
    const email = address();
    const supabase = clientOf(off);
    const other = supabase();
    expect((await other.auth.signUp({ email, password: THEIRS })).data.session).not.toBeNull();
    await supabase().auth.resend({ type: "signup", email });
    const { error } = await supabase().auth.verifyOtp({ token_hash: await confirmation(email), type: "email" });
    expect(error).toBeNull();
    expect([(await other.auth.getUser()).error?.status, (await other.auth.refreshSession()).error?.status]).toEqual([
      400, 400,
    ]);
  });
});

describe("a second factor that another person has enabled before the e-mail was confirmed", () => {
  /** The account of another person, with a second factor. */
  async function withFactor(kind: "totp" | "passkey", client = claim) {
    const email = address();
    const { json } = await register(client, email);
    const headers = { authorization: `Bearer ${json.accessToken}` };
    const post = async (path: string, body: object = {}) => (await sendJson(client, path, body, headers)).json;
    if (kind === "totp") {
      const { secret } = await post("/api/mfa/enable");
      const { backupCodes } = await post("/api/mfa/verify", { code: appCode(secret, Date.now()) });
      return { email, headers, backupCodes };
    }
    const key = new Authenticator(client.service().url.replace("127.0.0.1", "localhost"));
    const credential = key.create(await post("/auth/passkeys/options"));
    return { email, headers, backupCodes: (await post("/auth/passkeys", { credential })).backupCodes };
  }
  const resetToken = async (email: string) => {
    await sendJson(claim, "/auth/forgot", { email });
    return linkIn(await server.next(email, /^Reset/)).token;
  };
  const reset = async (token: string, more = {}) => {
    const { status, json } = await sendJson(claim, "/auth/reset", { token, password: OWN, ...more });
    return [status, json.error?.code ?? null];
  };

  test.each(["totp", "passkey"] as const)("ends with a reset of the password, its sign-ins too: %s", async (kind) => {
    const { email, headers } = await withFactor(kind);
    expect(await reset(await resetToken(email))).toEqual([200, null]);
    expect((await server.next(email, /second factor/)).subject).toBe("Your second factor is removed");
    expect((await claim.send("/auth/me", { headers })).status).toBe(401);
    expect([await login(claim, email, THEIRS), await login(claim, email, OWN)]).toEqual([401, 200]);
    const events = await claim.sql(
      `select e.detail from auth_private.security_events e join auth_private.login_emails l using (user_id)
       where l.email = $1 and e.event = 'mfa_disabled'`,
      email,
    );
    expect(events).toEqual([{ detail: { by: "e-mail" } }]);
  });

  test("ends with a new password at the confirmation", async () => {
    const { email, headers } = await withFactor("totp");
    await sendJson(claim, "/auth/confirm/send", { email });
    expect(await confirm(claim, { token: await confirmation(email), newPassword: OWN })).toEqual([200, null]);
    expect((await claim.send("/auth/me", { headers })).status).toBe(401);
    expect(await login(claim, email, OWN)).toBe(200);
  });

  test("ends with the form of the page that resets the password, whose field for the code may be empty", async () => {
    const { email } = await withFactor("totp");
    const token = await resetToken(email);
    const page = await visit(claim, `/auth/link?token=${token}`);
    expect(/<input id="code"[^>]*>/.exec(page.text)![0]).not.toContain("required");
    const { status, location } = await visit(claim, "/auth/link", { token, password: OWN, code: "" });
    expect([status, location]).toEqual([303, "/auth/done?of=reset"]);
    expect(await login(claim, email, OWN)).toBe(200);
  });

  test("ends on /auth/v1 with the link of resetPasswordForEmail", async () => {
    const { email } = await withFactor("totp");
    const supabase = clientOf(claim);
    await supabase().auth.resetPasswordForEmail(email);
    const owner = supabase();
    const token_hash = linkIn(await server.next(email, /^Reset/)).token;
    const { data } = await owner.auth.verifyOtp({ token_hash, type: "recovery" });
    expect([data.user?.email, data.user?.factors]).toEqual([email, undefined]);
    expect((await owner.auth.updateUser({ password: OWN })).error).toBeNull();
    expect((await supabase().auth.signInWithPassword({ email, password: OWN })).error).toBeNull();
  });

  test("ends when a change of the e-mail is undone: the person who has moved the account may have enabled it", async () => {
    const email = address();
    const { json } = await register(off, email);
    const headers = { authorization: `Bearer ${json.accessToken}` };
    expect((await sendJson(off, "/auth/email", { email: address() }, headers)).status).toBe(200);
    const { secret } = (await sendJson(off, "/api/mfa/enable", {}, headers)).json;
    await sendJson(off, "/api/mfa/verify", { code: appCode(secret, Date.now()) }, headers);
    const { token } = linkIn(await server.next(email, /has changed$/));
    // An e-mail may be sent long after the change.
    await off.sql(
      "update auth_private.one_time_tokens set created_at = now() + interval '1 hour' where kind = 'email-changed' and email = $1",
      email,
    );
    expect((await sendJson(off, "/auth/email/undo", { token })).status).toBe(200);
    const { token: again } = linkIn(await server.next(email, /^Reset/));
    expect((await sendJson(off, "/auth/reset", { token: again, password: OWN })).status).toBe(200);
    expect(await login(off, email, OWN)).toBe(200);
  });

  test("is asked for by a sign-in by e-mail, which ends nothing", async () => {
    const { email, headers } = await withFactor("totp");
    await sendJson(claim, "/auth/login/mail", { email });
    const { token } = linkIn(await server.next(email, /^Sign in/));
    expect((await sendJson(claim, "/auth/login/link", { token })).json.error.code).toBe("MFA_REQUIRED");
    expect((await claim.send("/auth/me", { headers })).status).toBe(200);
  });

  test("stays if its code is sent, or after its user has confirmed the e-mail", async () => {
    for (const way of ["code", "confirmation"]) {
      const { email, backupCodes } = await withFactor("totp");
      if (way === "code") expect(await reset(await resetToken(email), { code: backupCodes[0] })).toEqual([200, null]);
      else {
        await sendJson(claim, "/auth/confirm/send", { email });
        expect(await confirm(claim, { token: await confirmation(email), password: THEIRS })).toEqual([200, null]);
      }
      expect(await reset(await resetToken(email))).toEqual([401, "MFA_REQUIRED"]);
      expect(await reset(await resetToken(email), { code: backupCodes[1] })).toEqual([200, null]);
    }
  });

  test("stays with EMAIL_CONFIRM=off, where users are not asked to confirm: it protects from a person who reads the e-mails", async () => {
    const { email } = await withFactor("totp", off);
    await sendJson(off, "/auth/forgot", { email });
    const { token } = linkIn(await server.next(email, /^Reset/));
    const { status, json } = await sendJson(off, "/auth/reset", { token, password: OWN });
    expect([status, json.error.code]).toEqual([401, "MFA_REQUIRED"]);
  });
});

describe("a user who has registered confirms", () => {
  test("with the password, on any device", async () => {
    const email = address();
    await register(required, email, OWN);
    expect(await confirm(required, { token: await confirmation(email), password: OWN })).toEqual([200, null]);
    expect(await login(required, email, OWN)).toBe(200);
  });

  test("without it in the browser that has registered, and in no other one", async () => {
    const email = address();
    const { headers } = await register(required, email, OWN);
    const cookies = [
      headers,
      (await register(required, email, OWN)).headers,
      (await register(required, address())).headers,
    ];
    const [own, taken, other] = cookies.map((sent) => /^__Host-registered=[^;]+/.exec(sent.get("set-cookie")!)![0]);
    // The response for an address that is taken looks the same.
    expect([taken!.length, taken]).toEqual([own!.length, expect.not.stringContaining(own!)]);
    const foreign = await register(required, address(), OWN, { origin: "https://elsewhere.example" });
    expect(foreign.headers.get("set-cookie")).toBeNull();
    const token = await confirmation(email);
    for (const cookie of [taken!, other!])
      expect(await confirm(required, { token }, { cookie })).toEqual([400, ["password"]]);
    expect(await confirm(required, { token }, { cookie: own! })).toEqual([200, null]);
    expect(await login(required, email, OWN)).toBe(200);
  });

  test("without it while signed in, and keeps the tokens", async () => {
    const email = address();
    const { json } = await register(off, email, OWN);
    const headers = { authorization: `Bearer ${json.accessToken}` };
    await sendJson(off, "/auth/confirm/send", { email });
    const token = await confirmation(email);
    const of = (user: "ada") => ({ authorization: `Bearer ${off.token(user)}` });
    expect(await confirm(off, { token }, of("ada"))).toEqual([400, ["password"]]);
    expect(await confirm(off, { token }, headers)).toEqual([200, null]);
    expect((await off.send("/auth/me", { headers })).json.emailConfirmed).toBe(true);
  });

  test.each(["signup", "email"] as const)(
    "on /auth/v1 with verifyOtp alone, as %s, and keeps the password",
    async (type) => {
      const email = address();
      const supabase = clientOf(required);
      await supabase().auth.signUp({ email, password: OWN });
      const sent = { type, token_hash: await confirmation(email) };
      expect((await supabase().auth.verifyOtp(sent)).data.user?.email).toBe(email);
      expect((await supabase().auth.signInWithPassword({ email, password: OWN })).error).toBeNull();
    },
  );

  test("on /auth/v1 with the password beside the token, which keeps it", async () => {
    const email = address();
    const supabase = clientOf(required);
    await supabase().auth.signUp({ email, password: OWN });
    const sent = { token_hash: await confirmation(email), type: "signup" } as const;
    const verify = async (password: string) =>
      (await supabase().auth.verifyOtp({ ...sent, ...{ password } })).error?.code;
    expect(await verify("Wrong-Horse-7!")).toBe("invalid_credentials");
    expect(await verify(OWN)).toBeUndefined();
    expect((await supabase().auth.signInWithPassword({ email, password: OWN })).error).toBeNull();
  });
});

function clientOf(client: Client) {
  const { url, service: of } = client.service();
  const auth = { persistSession: false, autoRefreshToken: false };
  return () => createClient(url, of.tokens.issueKey("anon"), { auth });
}
