import { describe, expect, test } from "vitest";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { appCode } from "../../support/totp.ts";
import { claimsOf, failureOf, PASSWORD, useAuth } from "./support.ts";

const server = await startMailServer();
const LIMITS = { mailsPerRecipient: 3, mailsPerAddress: 1000 };

describe("supabase.auth by e-mail", () => {
  const { client, newUser, send, sql } = useAuth("bigint", { ...server.settings, ...LIMITS });

  /** The e-mail that a user has requested: its code, and the token of its link. */
  async function received(email: string) {
    const mail = await server.next(email);
    const [code = ""] = /^\d{6}$/m.exec(mail.text) ?? [];
    return { code, ...linkIn(mail) };
  }
  async function codeFor(email: string) {
    expect((await client().auth.signInWithOtp({ email })).error).toBeNull();
    return received(email);
  }
  const wrong = (code: string) => (code === "000000" ? "111111" : "000000");

  test("signs in with the code of an e-mail, once", async () => {
    const { email, id } = await newUser();
    const { code } = await codeFor(email);
    const own = client();
    const signIn = (token: string) => own.auth.verifyOtp({ email, token, type: "email" });
    expect(failureOf(await signIn(wrong(code)))).toEqual([403, "otp_expired"]);
    const { data, error } = await signIn(code);
    expect([error, data.user!.id]).toEqual([null, id]);
    expect(claimsOf(data.session!.access_token)).toMatchObject({ amr: [{ method: "otp" }], aal: "aal1" });
    expect((await own.auth.refreshSession()).error).toBeNull();
    expect(failureOf(await signIn(code))).toEqual([403, "otp_expired"]);
  });

  test("the e-mail does not replace the second factor", async () => {
    const { client: own, email } = await newUser();
    await sql(
      `update auth_private.accounts set email_confirmed_at = now()
       where user_id = (select user_id from auth_private.login_emails where email = $1)`,
      email,
    );
    const { data } = await own.auth.mfa.enroll({ factorType: "totp" });
    const { id, totp } = data as { id: string; totp: { secret: string } };
    await own.auth.mfa.challengeAndVerify({ factorId: id, code: appCode(totp.secret, Date.now()) });
    const { code } = await codeFor(email);
    const signedIn = await client().auth.verifyOtp({ email, token: code, type: "email" });
    expect(claimsOf(signedIn.data.session!.access_token)).toMatchObject({ aal: "aal1", role: "anon" });
  });

  test("creates a user with the first code of an unknown address, and not before", async () => {
    const email = "first@test.example";
    const options = { data: { name: "Ida", theme: "dark" } };
    const { email: known } = await newUser();
    const answers = [];
    for (const each of [email, known]) answers.push(await client().auth.signInWithOtp({ email: each, options }));
    expect(answers[0]).toEqual(answers[1]);
    // The e-mails are the same, too.
    const [mail, other] = [await server.next(email), await server.next(known)];
    expect(mail.subject).toBe(other.subject);
    const rowsOf = () => sql("select email_confirmed_at from auth_private.accounts where name = 'Ida'");
    expect(await rowsOf()).toEqual([]);
    const [code = ""] = /^\d{6}$/m.exec(mail.text) ?? [];
    const verify = (token: string) => client().auth.verifyOtp({ email, token, type: "email" });
    expect(failureOf(await verify(wrong(code)))).toEqual([403, "otp_expired"]);
    const { data } = await verify(code);
    expect(data.user).toMatchObject({ email, user_metadata: options.data });
    expect(await rowsOf()).toEqual([{ email_confirmed_at: expect.any(Date) }]);
    expect(failureOf(await verify(code))).toEqual([403, "otp_expired"]);
    await client().auth.signInWithOtp({ email });
    expect((await verify((await received(email)).code)).data.user!.id).toBe(data.user!.id);
  });

  test.each([{ a: "\0" }, { "\0": 1 }, { name: "\ud800" }, { a: [{ b: "\\\0" }] }])(
    "refuses data that the database cannot store: %j",
    async (data) => {
      const email = "stored@test.example";
      const requests = ["/otp", "/signup"].map((path) =>
        send(`POST /auth/v1${path}`, { body: { email, password: PASSWORD, data } }),
      );
      for (const { status, json } of await Promise.all(requests))
        expect([status, json.error_code]).toEqual([400, "validation_failed"]);
    },
  );

  test("stores data with a backslash", async () => {
    const { data } = await client().auth.signUp({
      ...{ email: "backslash@test.example", password: PASSWORD },
      options: { data: { path: "C:\\u0000" } },
    });
    expect(data.user!.user_metadata).toEqual({ path: "C:\\u0000" });
  });

  test("a code to sign up signs in to the account that the address has got meanwhile", async () => {
    const email = "meanwhile@test.example";
    const { code } = await codeFor(email);
    const { data } = await client().auth.signUp({ email, password: PASSWORD });
    const signedIn = await client().auth.verifyOtp({ email, token: code, type: "email" });
    expect(signedIn.data.user!.id).toBe(data.user!.id);
    // The person who signed up without the mailbox has chosen the password.
    const byPassword = await client().auth.signInWithPassword({ email, password: PASSWORD });
    expect(failureOf(byPassword)).toEqual([400, "invalid_credentials"]);
  });

  test("answers the same for an unknown address, and makes no user with shouldCreateUser: false", async () => {
    const email = "unknown@test.example";
    const sent = { email, options: { shouldCreateUser: false } };
    expect(await client().auth.signInWithOtp(sent)).toMatchObject({ error: null, data: { user: null } });
    expect((await server.next(email)).text).not.toMatch(/^\d{6}$/m);
    expect(await client().auth.resetPasswordForEmail(email)).toEqual({ data: {}, error: null });
    expect(await sql("select from auth_private.login_emails where email = $1", email)).toEqual([]);
  });

  test("sends the link that resets the password, which ends the sessions, and the one that confirms the e-mail", async () => {
    const { client: own, email } = await newUser();
    const redirectTo = new URL("/welcome", (own as any).supabaseUrl).href;
    expect(await own.auth.resetPasswordForEmail(email, { redirectTo })).toEqual({ data: {}, error: null });
    const { token } = await received(email);
    expect((await send("POST /auth/reset", { body: { token, password: "Another-Horse-8!" } })).status).toBe(200);
    expect((await own.auth.refreshSession()).error).not.toBeNull();
    const signIn = (password: string) => client().auth.signInWithPassword({ email, password });
    expect([(await signIn("Another-Horse-8!")).error, failureOf(await signIn(PASSWORD))[1]]).toEqual([
      null,
      "invalid_credentials",
    ]);
    const { email: other } = await newUser();
    expect((await client().auth.resend({ type: "signup", email: other })).error).toBeNull();
    const body = { token: (await received(other)).token, password: PASSWORD };
    const confirmed = await send("POST /auth/confirm", { body });
    expect(confirmed.status).toBe(200);
  });

  test("keeps only return URLs that are allowed", async () => {
    const { email } = await newUser();
    const own = client();
    const here = new URL("/welcome", (own as any).supabaseUrl).href;
    for (const emailRedirectTo of ["https://evil.example/", here]) {
      await own.auth.signInWithOtp({ email, options: { emailRedirectTo } });
      await server.next(email);
    }
    const text =
      "select data ->> 'returnTo' as url from auth_private.one_time_tokens where email = $1 order by expires_at";
    expect((await sql(text, email)).map(({ url }) => url)).toEqual([null, here]);
  });

  test("limits the e-mails to an address, and refuses other types and phones", async () => {
    const email = "often@test.example";
    for (let i = 0; i < 3; i++) expect((await client().auth.signInWithOtp({ email })).error).toBeNull();
    expect(failureOf(await client().auth.signInWithOtp({ email }))).toEqual([429, "over_email_send_rate_limit"]);
    const verify = (body: object) => send("POST /auth/v1/verify", { body });
    for (const body of [{ type: "sms", token_hash: "x" }, { type: "email" }, { type: "email", token: "123456" }])
      expect((await verify(body)).json.error_code).toBe("validation_failed");
    expect(failureOf(await client().auth.signInWithOtp({ phone: "+4912345" }))).toEqual([
      400,
      "phone_provider_disabled",
    ]);
  });
});

describe("with EMAIL_CONFIRM=required and a closed sign-up", () => {
  const { client, send } = useAuth("bigint", { ...server.settings, EMAIL_CONFIRM: "required", SIGNUP: "off" });

  test("the settings say so, and a user whose e-mail is not confirmed is shown so", async () => {
    const { json } = await send("GET /auth/v1/settings");
    expect(json).toMatchObject({ disable_signup: true, mailer_autoconfirm: false });
    const { admin } = client("service_role").auth;
    const made = async (email: string, email_confirm: boolean) =>
      (await admin.createUser({ email, email_confirm })).data.user!.email_confirmed_at;
    expect(await made("open@test.example", false)).toBeUndefined();
    expect(await made("sure@test.example", true)).toEqual(expect.any(String));
  });
});

describe("without MAIL_URL", () => {
  const { client } = useAuth("bigint");
  test("no e-mail can be requested", async () => {
    const { error } = await client().auth.signInWithOtp({ email: "ada@example.com" });
    expect(failureOf({ error })).toEqual([422, "email_provider_disabled"]);
  });
});
