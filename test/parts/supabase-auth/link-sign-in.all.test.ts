import type { SupabaseClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { visit } from "../../support/visit.ts";
import { continuationOf } from "../federated/support.ts";
import { type AuthService, claimsOf, failureOf, flowClient, PASSWORD, useAuth } from "./support.ts";

// The links of e-mails that supabase-js has requested with a URL to return to: they sign the application in there.

const PAGE = "https://app.example";
const WELCOME = `${PAGE}/welcome?a=b`;
const server = await startMailServer();
const SETTINGS = {
  ...server.settings,
  AUTH_RETURN_ORIGINS: `${PAGE},https://other.example`,
  mailsPerRecipient: 1000,
  mailsPerAddress: 1000,
  registrationsPerAddress: 1000,
};
const off = useAuth("bigint", SETTINGS);
const required = useAuth("bigint", { ...SETTINGS, EMAIL_CONFIRM: "required", SIGNUP: "anonymous" });

type Flow = "pkce" | "implicit";
const FLOWS = ["pkce", "implicit"] as const;
const clientOf = ({ service }: AuthService, flowType: Flow) => flowClient(service(), flowType);

let count = 0;
const address = () => `lea${++count}@test.example`;
const received = async (email: string, subject?: RegExp) => linkIn(await server.next(email, subject));

/** Opens a URL as a browser does, and follows redirects within the service. */
async function open(url: string, headers = {}): Promise<Opened> {
  const answer = await fetch(url, { redirect: "manual", headers: { accept: "text/html", ...headers } });
  const location = answer.headers.get("location");
  const next = location && new URL(location, url);
  return next && next.origin === new URL(url).origin && next.pathname === "/auth/link"
    ? open(next.href, headers)
    : { status: answer.status, location, text: await answer.text() };
}
type Opened = { readonly status: number; readonly location: string | null; readonly text: string };

const fieldsOf = ({ text }: Pick<Opened, "text">) =>
  [...text.matchAll(/<(?:input|button)[^>]* name="(\w+)"/g)].map(([, name]) => name);

/** Presses the button of the page, with what the user enters, and returns the URL at which the browser continues. */
async function press(at: AuthService, { text }: Pick<Opened, "text">, entered = {}, headers = {}) {
  const hidden = [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [
    name!,
    value!.replaceAll("&#38;", "&").replaceAll("&amp;", "&"),
  ]);
  const page = await visit(at, "/auth/link", { ...Object.fromEntries(hidden), ...entered }, headers);
  return { ...page, url: continuationOf(page as never) ?? page.location };
}

/** What the application finds in its URL. */
const found = (url: string | null) => {
  const { origin, pathname, searchParams, hash } = new URL(url!);
  return { page: origin + pathname, query: searchParams, fragment: new URLSearchParams(hash.slice(1)) };
};

/** Signs an application in as supabase-js does with its URL. */
async function signInAt(client: SupabaseClient, flow: Flow, url: string | null, type: string) {
  const { page, query, fragment } = found(url);
  expect([page, query.get("a")]).toEqual([`${PAGE}/welcome`, "b"]);
  if (flow === "pkce") {
    expect([...fragment.keys()]).toEqual([]);
    return client.auth.exchangeCodeForSession(query.get("code")!);
  }
  expect(fragment.get("type")).toBe(type);
  expect(Number(fragment.get("expires_at")) * 1000).toBeGreaterThan(Date.now());
  expect([Number(fragment.get("expires_in")) > 0, fragment.get("token_type")]).toEqual([true, "bearer"]);
  const [access_token, refresh_token] = [fragment.get("access_token")!, fragment.get("refresh_token")!];
  return client.auth.setSession({ access_token, refresh_token });
}

describe.each(FLOWS)("with the flow %s, the application is signed in at redirectTo", (flow) => {
  test("after a magic link, which is opened as often as scanners like, and signs a new user up too", async () => {
    for (const email of [(await off.newUser()).email, address()]) {
      const isNew = email.startsWith("lea");
      const client = clientOf(off, flow);
      await client.auth.signInWithOtp({ email, options: { emailRedirectTo: WELCOME } });
      const { url } = await received(email);
      for (const method of ["HEAD", "GET", "GET"]) expect((await fetch(url, { method })).status).toBe(200);
      const page = await open(url);
      expect(page.text).toContain(`Sign in as ${email} at app.example.`);
      // The page and the e-mail say what a first sign-in by e-mail ends.
      expect(page.text.includes("The address was never confirmed: the password of the account")).toBe(!isNew);
      const pressed = await press(off, page);
      expect(pressed.headers.get("set-cookie")).toBeNull();
      const { data, error } = await signInAt(client, flow, pressed.url, isNew ? "signup" : "magiclink");
      expect([error, data.user!.email]).toEqual([null, email]);
      expect(claimsOf(data.session!.access_token)).toMatchObject({ amr: [{ method: "otp" }], aal: "aal1" });
      expect((await client.auth.refreshSession()).error).toBeNull();
      // The link is spent.
      const { fragment } = found((await open(url)).location);
      expect([fragment.get("error"), fragment.get("error_code")]).toEqual(["access_denied", "otp_expired"]);
      expect(fragment.get("error_description")).toBe("Email link is invalid or has expired");
      expect(found((await press(off, page)).url).fragment.get("error_code")).toBe("otp_expired");
    }
  });

  test("after the confirmation of a sign-up, with the password of the registration", async () => {
    const email = address();
    const client = clientOf(required, flow);
    const signUp = await client.auth.signUp({ email, password: PASSWORD, options: { emailRedirectTo: WELCOME } });
    expect([signUp.error, signUp.data.session]).toEqual([null, null]);
    const { url } = await received(email, /^Confirm/);
    const page = await open(url);
    // It may be the registration of another person.
    expect(fieldsOf(page)).toEqual(["token", "wire", "redirect_to", "username", "password", "newPassword", "decline"]);
    const refused = await press(required, page);
    expect([refused.status, fieldsOf(refused)]).toEqual([400, fieldsOf(page)]);
    const { url: next } = await press(required, page, { password: PASSWORD });
    expect(
      await required.sql(
        "select must_confirm, email_confirmed_at from auth_private.accounts a join auth_private.login_emails e using (user_id) where e.email = $1",
        email,
      ),
    ).toEqual([{ must_confirm: true, email_confirmed_at: expect.any(Date) }]);
    const { data, error } = await signInAt(client, flow, next, "signup");
    expect([error, data.user!.email, typeof data.user!.email_confirmed_at]).toEqual([null, email, "string"]);
    expect((await client.auth.signInWithPassword({ email, password: PASSWORD })).error).toBeNull();
    expect(found((await open(url)).location).fragment.get("error_code")).toBe("otp_expired");
  });

  test("after a new password at the confirmation, which ends that of another person", async () => {
    const email = address();
    await required
      .client()
      .auth.signUp({ email, password: "Mallorys-Horse-7!", options: { emailRedirectTo: WELCOME } });
    await received(email, /^Confirm/);
    const client = clientOf(required, flow);
    await client.auth.resend({ type: "signup", email, options: { emailRedirectTo: WELCOME } });
    const page = await open((await received(email, /^Confirm/)).url);
    const { url } = await press(required, page, { newPassword: PASSWORD });
    // resend has no challenge of its own if the client has stored none.
    const isCode = found(url).query.has("code");
    const { data, error } = await signInAt(client, isCode ? "pkce" : "implicit", url, "signup");
    expect([error, data.user!.email]).toEqual([null, email]);
    const signIn = async (password: string) =>
      (await required.client().auth.signInWithPassword({ email, password })).error?.code;
    expect([await signIn("Mallorys-Horse-7!"), await signIn(PASSWORD)]).toEqual(["invalid_credentials", undefined]);
  });

  test("after resetPasswordForEmail, so that its page asks for the password", async () => {
    const { email } = await off.newUser();
    const client = clientOf(off, flow);
    const events: string[] = [];
    client.auth.onAuthStateChange((event) => void events.push(event));
    await client.auth.resetPasswordForEmail(email, { redirectTo: WELCOME });
    const page = await open((await received(email, /^Reset/)).url);
    expect(fieldsOf(page)).toEqual(["token", "wire", "redirect_to"]);
    const { error } = await signInAt(client, flow, (await press(off, page)).url, "recovery");
    expect(error).toBeNull();
    if (flow === "pkce") expect(events).toContain("PASSWORD_RECOVERY");
    expect((await client.auth.updateUser({ password: "Another-Horse-8!" })).error).toBeNull();
    expect((await off.client().auth.signInWithPassword({ email, password: "Another-Horse-8!" })).error).toBeNull();
  });

  test("after a change of the e-mail, with the password of the account", async () => {
    const { email: previous } = await confirmedUser();
    const client = clientOf(required, flow);
    await client.auth.signInWithPassword({ email: previous, password: PASSWORD });
    const email = address();
    const changed = await client.auth.updateUser({ email }, { emailRedirectTo: WELCOME });
    expect(changed.error).toBeNull();
    const page = await open((await received(email, /^Confirm/)).url);
    expect(fieldsOf(page)).toEqual(["token", "wire", "redirect_to", "username", "password", "decline"]);
    expect((await press(required, page)).status).toBe(400);
    const { url } = await press(required, page, { password: PASSWORD });
    const { data, error } = await signInAt(client, flow, url, "email_change");
    expect([error, data.user!.email]).toEqual([null, email]);
  });
});

/** A user who has confirmed the e-mail. */
async function confirmedUser() {
  const email = address();
  await required.client().auth.signUp({ email, password: PASSWORD });
  const { token } = await received(email, /^Confirm/);
  await required.send("POST /auth/confirm", { body: { token, password: PASSWORD } });
  return { email };
}

test("an invitation signs the application in, which then asks for a password", async () => {
  const email = address();
  const { admin } = off.client("service_role").auth;
  expect((await admin.inviteUserByEmail(email, { redirectTo: WELCOME })).error).toBeNull();
  const { url } = await press(off, await open((await received(email, /^You are invited/)).url));
  const client = clientOf(off, "implicit");
  const { data, error } = await signInAt(client, "implicit", url, "invite");
  expect([error, data.user!.email]).toEqual([null, email]);
  expect((await client.auth.updateUser({ password: PASSWORD })).error).toBeNull();
});

describe("with a challenge", () => {
  test("a link can be pressed again until a code of it was exchanged, and only the client that has begun exchanges one", async () => {
    const { email } = await off.newUser();
    const [client, thief] = [clientOf(off, "pkce"), clientOf(off, "pkce")];
    await client.auth.signInWithOtp({ email, options: { emailRedirectTo: WELCOME } });
    const page = await open((await received(email)).url);
    const codes = [];
    for (let i = 0; i < 3; i++) codes.push(found((await press(off, page)).url).query.get("code")!);
    await thief.auth.signInWithOtp({ email: address(), options: { emailRedirectTo: WELCOME } });
    expect(failureOf(await thief.auth.exchangeCodeForSession(codes[0]!))).toEqual([404, "flow_state_not_found"]);
    const exchange = async (code: string) =>
      (
        await fetch(`${off.service().url}/auth/v1/token?grant_type=pkce`, {
          ...{ method: "POST", headers: { "content-type": "application/json" } },
          body: JSON.stringify({ auth_code: code, code_verifier: verifier }),
        })
      ).status;
    const { storageKey, storage } = client.auth as any;
    const verifier = JSON.parse(await storage.getItem(`${storageKey}-code-verifier`)).split("/")[0];
    expect((await client.auth.exchangeCodeForSession(codes[1]!)).error).toBeNull();
    // Neither the same code, nor another one of the link.
    expect([await exchange(codes[1]!), await exchange(codes[2]!)]).toEqual([404, 404]);
    expect(found((await press(off, page)).url).fragment.get("error_code")).toBe("otp_expired");
  });

  test("a confirmation that was pressed on a device without the verifier has confirmed, and leads to the application again", async () => {
    const email = address();
    const client = clientOf(required, "pkce");
    await client.auth.signUp({ email, password: PASSWORD, options: { emailRedirectTo: WELCOME } });
    const { url, token } = await received(email, /^Confirm/);
    const first = await press(required, await open(url), { password: PASSWORD });
    expect(
      failureOf(
        await clientOf(required, "implicit").auth.exchangeCodeForSession(found(first.url).query.get("code")!),
      )[0],
    ).not.toBe(200);
    expect((await required.client().auth.signInWithPassword({ email, password: PASSWORD })).error).toBeNull();
    // It signs in nowhere else.
    for (const type of ["email", "signup", "magiclink"] as const)
      expect(failureOf(await required.client().auth.verifyOtp({ token_hash: token, type }))).toEqual([
        403,
        "otp_expired",
      ]);
    for (const path of ["/auth/login/link", "/auth/confirm"])
      expect((await required.send(`POST ${path}`, { body: { token } })).status).toBe(401);
    const again = await open(url);
    expect(again.text).toContain(`Sign in as ${email} at app.example.`);
    const { url: next } = await press(required, again);
    expect((await signInAt(client, "pkce", next, "signup")).data.user!.email).toBe(email);
    expect(found((await open(url)).location).fragment.get("error_code")).toBe("otp_expired");
  });

  test("a link that verifyOtp has used is spent", async () => {
    const email = address();
    const client = clientOf(required, "pkce");
    await client.auth.signUp({ email, password: PASSWORD, options: { emailRedirectTo: WELCOME } });
    const { url, token } = await received(email, /^Confirm/);
    expect((await client.auth.verifyOtp({ token_hash: token, type: "signup" })).error).toBeNull();
    expect(found((await open(url)).location).fragment.get("error_code")).toBe("otp_expired");
    expect(await required.sql("select from auth_private.one_time_tokens where email = $1", email)).toEqual([]);
  });

  test.each([
    { code_challenge: "short", code_challenge_method: "s256" },
    { code_challenge: "a".repeat(43), code_challenge_method: "plain" },
  ])("%j is refused", async (sent) => {
    const body = { email: address(), ...sent };
    const { status, json } = await off.send("POST /auth/v1/otp", { body });
    expect([status, json.error_code]).toEqual([400, "validation_failed"]);
  });
});

describe("GET /auth/v1/verify", () => {
  const verify = ({ service }: AuthService, query: Record<string, string>) =>
    `${service().url}/auth/v1/verify?${new URLSearchParams(query)}`;

  test("of a template of the application leads to the page of the link, and then to the application", async () => {
    const { email } = await off.newUser();
    const client = clientOf(off, "pkce");
    await client.auth.signInWithOtp({ email, options: { emailRedirectTo: WELCOME } });
    const { token } = await received(email);
    const url = verify(off, { token, type: "magiclink", redirect_to: "https://other.example/app" });
    for (const method of ["HEAD", "GET"]) expect((await fetch(url, { method })).status).toBe(200);
    const next = found((await press(off, await open(url))).url);
    expect(next.page).toBe("https://other.example/app");
    expect((await client.auth.exchangeCodeForSession(next.query.get("code")!)).error).toBeNull();
    const { page, fragment } = found((await open(url)).location);
    expect([page, Object.fromEntries(fragment)]).toEqual([
      "https://other.example/app",
      {
        error: "access_denied",
        error_code: "otp_expired",
        error_description: "Email link is invalid or has expired",
        sb: "",
      },
    ]);
  });

  test("keeps the page of a confirmation that needs a proof, and of a link without a URL to return to", async () => {
    const email = address();
    await required.client().auth.signUp({ email, password: PASSWORD });
    const { token } = await received(email, /^Confirm/);
    const page = await open(verify(required, { token, type: "signup", redirect_to: WELCOME }));
    expect(fieldsOf(page)).toContain("decline");
    expect((await press(required, page)).status).toBe(400);
    expect(fieldsOf(await open(verify(required, { token, type: "signup" })))).not.toContain("redirect_to");
    // Another type of link.
    const { fragment } = found(
      (await open(verify(required, { token, type: "recovery", redirect_to: WELCOME }))).location,
    );
    expect(fragment.get("error_code")).toBe("otp_expired");
    const { location } = await open(verify(required, { token, type: "sms", redirect_to: WELCOME }));
    expect(found(location).fragment.get("error_code")).toBe("validation_failed");
  });

  test.each(["magiclink", "recovery", "invite", "signup", "email_change_new"] as const)(
    "of admin.generateLink signs in at once: %s",
    async (type) => {
      const isNew = type === "invite" || type === "signup";
      const email = isNew ? address() : (await off.newUser()).email;
      const { data, error } = await off.client("service_role").auth.admin.generateLink({
        ...{ type: type as "signup", email, options: { redirectTo: WELCOME } },
        ...(type === "signup" ? { password: PASSWORD } : ({} as { password: string })),
        ...(type === "email_change_new" && { newEmail: address() }),
      });
      expect(error).toBeNull();
      const { action_link: url } = data.properties!;
      // Scanners that do not read the answer spend nothing.
      await fetch(url, { method: "HEAD", redirect: "manual" });
      const { status, location } = await open(url);
      expect(status).toBe(303);
      const client = clientOf(off, "implicit");
      const ofLink = type === "email_change_new" ? "email_change" : type;
      const signedIn = await signInAt(client, "implicit", location, ofLink);
      expect([signedIn.error, signedIn.data.user!.id]).toEqual([null, data.user!.id]);
      expect(signedIn.data.user!.email_confirmed_at).toBeTypeOf("string");
      expect(found((await open(url)).location).fragment.get("error_code")).toBe("otp_expired");
      if (type === "signup")
        expect((await off.client().auth.signInWithPassword({ email, password: PASSWORD })).error).toBeNull();
    },
  );

  test("of admin.generateLink goes to no other origin", async () => {
    const { email } = await off.newUser();
    const options = { redirectTo: "https://evil.example/" };
    const { data } = await off.client("service_role").auth.admin.generateLink({ type: "magiclink", email, options });
    const url = new URL(data.properties!.action_link);
    expect(url.searchParams.get("redirect_to")).toBe(`${off.service().url}/`);
    url.searchParams.set("redirect_to", "https://evil.example/");
    const { page, fragment } = found((await open(url.href)).location);
    expect([page, fragment.has("access_token")]).toEqual([`${off.service().url}/`, true]);
  });

  test("of admin.generateLink keeps nothing that another person has registered for the address", async () => {
    const email = address();
    const theirs = off.client();
    await theirs.auth.signUp({ email, password: "Mallorys-Horse-7!" });
    const { data } = await off
      .client("service_role")
      .auth.admin.generateLink({ type: "signup", email, password: PASSWORD });
    const { location } = await open(data.properties!.action_link);
    expect(found(location).fragment.has("access_token")).toBe(true);
    expect((await theirs.auth.getUser()).error).not.toBeNull();
    const signIn = await off.client().auth.signInWithPassword({ email, password: "Mallorys-Horse-7!" });
    expect(failureOf(signIn)).toEqual([400, "invalid_credentials"]);
  });
});

describe("a stranger's", () => {
  test("URL to return to gets no session, wherever it is named", async () => {
    const { email } = await off.newUser();
    const client = clientOf(off, "implicit");
    await client.auth.signInWithOtp({ email, options: { emailRedirectTo: "https://evil.example/" } });
    const { url, token } = await received(email);
    expect(url).toBe(`${off.service().url}/auth/link?token=${token}`);
    for (const target of [
      "https://evil.example/",
      "//evil.example",
      "https://app.example@evil.example/",
      "javascript:alert(1)",
    ]) {
      const query = new URLSearchParams({ token, wire: "v1", redirect_to: target });
      const page = await open(`${off.service().url}/auth/link?${query}`);
      expect([page.status, page.location]).toEqual([200, null]);
      expect(page.text).not.toContain("evil");
      const verify = new URLSearchParams({ token: "unknown", type: "magiclink", redirect_to: target });
      const refused = await open(`${off.service().url}/auth/v1/verify?${verify}`);
      expect([refused.status, refused.location]).toEqual([403, null]);
      const expired = await open(
        `${off.service().url}/auth/link?${new URLSearchParams({ token: "x", wire: "v1", redirect_to: target })}`,
      );
      expect([expired.status, expired.location]).toEqual([401, null]);
    }
    const query = new URLSearchParams({ token, wire: "v1", redirect_to: "https://evil.example/" });
    const pressed = await press(off, { text: "" }, Object.fromEntries(query));
    expect(pressed.url).toBe("/auth/account");
  });

  test("session in the browser confirms nothing of another account", async () => {
    const email = address();
    await required.client().auth.signUp({ email, password: PASSWORD, options: { emailRedirectTo: WELCOME } });
    const { url } = await received(email, /^Confirm/);
    const { email: other } = await confirmedUser();
    const { cookie } = await visit(required, "/auth/sign-in", { username: other, password: PASSWORD });
    const page = await open(url, { cookie });
    expect(fieldsOf(page)).toContain("decline");
    expect((await press(required, page, {}, { cookie })).status).toBe(400);
    expect(await press(required, page, { decline: "true" })).toMatchObject({
      status: 303,
      url: "/auth/done?of=declined",
    });
  });

  test("page cannot press a link, and a browser without a press gets no session", async () => {
    const { email } = await off.newUser();
    await clientOf(off, "implicit").auth.signInWithOtp({ email, options: { emailRedirectTo: WELCOME } });
    const page = await open((await received(email)).url);
    expect((await press(off, page, {}, { origin: "https://evil.example" })).status).toBe(403);
    expect(found((await press(off, page)).url).fragment.get("access_token")).not.toBeNull();
  });
});

test("a hook that refuses the sign-in is the reason that the application gets, and the link stays valid", async () => {
  const { email } = await off.newUser();
  await off.sql(`do $do$ begin
    create schema if not exists internal;
    create function internal.not_today(id bigint, sign_in jsonb) returns void language plpgsql as
      $$ begin raise exception using errcode = 'AB001', message = 'not today'; end $$;
    grant usage on schema internal to auth_owner;
    grant execute on function internal.not_today(bigint, jsonb) to auth_owner;
    perform auth.use_hook('after_sign_in', 'internal.not_today(bigint, jsonb)');
  end $do$`);
  await clientOf(off, "implicit").auth.signInWithOtp({ email, options: { emailRedirectTo: WELCOME } });
  const page = await open((await received(email)).url);
  const { fragment } = found((await press(off, page)).url);
  expect(fragment.get("error_description")).toBe("not today");
  await off.sql("select auth.use_hook('after_sign_in', null)");
  expect(found((await press(off, page)).url).fragment.get("access_token")).not.toBeNull();
});

describe("with AUTH_PAGES_URL", () => {
  const own = useAuth("bigint", { ...SETTINGS, EMAIL_CONFIRM: "claim", AUTH_PAGES_URL: `${PAGE}/auth` });
  const { client } = own;

  test("links lead to /confirm with token_hash, type, redirect_to and next, as the guides of Supabase expect", async () => {
    const email = address();
    const { auth } = client();
    const page = async (subject: RegExp, type: string, redirectTo: string, next: string | null) => {
      const { url } = await received(email, subject);
      const { page: path, query } = found(url);
      expect([path, Object.fromEntries(query)]).toEqual([
        `${PAGE}/auth/confirm`,
        { token_hash: query.get("token_hash"), type, redirect_to: redirectTo, ...(next !== null && { next }) },
      ]);
      return { token_hash: query.get("token_hash")!, type: type as "email" };
    };
    await auth.signUp({ email, password: PASSWORD, options: { emailRedirectTo: WELCOME } });
    const signUp = await page(/^Confirm/, "signup", WELCOME, "/welcome?a=b");
    const confirmed = await client().auth.verifyOtp({ ...signUp, ...{ password: PASSWORD } });
    expect([confirmed.error, confirmed.data.user!.email]).toEqual([null, email]);

    await auth.signInWithOtp({ email, options: { emailRedirectTo: "https://other.example/app" } });
    const magic = await page(/^Sign in/, "email", "https://other.example/app", null);
    expect((await client().auth.verifyOtp(magic)).error).toBeNull();

    await auth.resetPasswordForEmail(email, { redirectTo: WELCOME });
    const reset = await page(/^Reset/, "recovery", WELCOME, "/welcome?a=b");
    const recovered = client();
    expect((await recovered.auth.verifyOtp(reset)).error).toBeNull();

    const previous = email;
    const changed = address();
    await recovered.auth.updateUser({ email: changed }, { emailRedirectTo: WELCOME });
    const { url } = await received(changed, /^Confirm/);
    const { token_hash, type } = Object.fromEntries(found(url).query) as { token_hash: string; type: "email_change" };
    const sent = { token_hash, type, ...{ password: PASSWORD } };
    expect([type, (await client().auth.verifyOtp(sent)).data.user?.email]).toEqual(["email_change", changed]);
    expect(previous).not.toBe(changed);
  });

  test("links of other requests keep the page of their kind, and have token_hash and type too", async () => {
    const { email } = await own.newUser();
    for (const [path, subject, kind, type] of [
      ["/auth/login/mail", /^Sign in/, "sign-in", "email"],
      ["/auth/forgot", /^Reset/, "reset", "recovery"],
    ] as const) {
      await own.send(`POST ${path}`, { body: { email, returnTo: WELCOME } });
      const { url, token } = await received(email, subject);
      const query = { token, token_hash: token, type, redirect_to: WELCOME, next: "/welcome?a=b" };
      expect([found(url).page, Object.fromEntries(found(url).query)]).toEqual([`${PAGE}/auth/${kind}`, query]);
    }
  });
});
