import { createClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { type Client, useService } from "../support/http-client.ts";
import { sendJson } from "../support/json.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";
import { visit } from "../support/visit.ts";

// A person has the service send a confirmation to the address of another one, who has no account, and presses the link. It proves whose the
// mailbox is, and not whose the account: the other person gets nothing by it.

const THEIRS = "Mallorys-Horse-7!";
const OWN = "Correct-Horse-7!";
const server = await startMailServer();
const settings = {
  ...server.settings,
  SIGNUP: "anonymous",
  mailsPerRecipient: 100,
  mailsPerAddress: 1000,
  registrationsPerAddress: 1000,
  loginAttemptsPerAddress: 1000,
};
const SERVICES = {
  required: useService({ ...settings, EMAIL_CONFIRM: "required" }),
  claim: useService({ ...settings, EMAIL_CONFIRM: "claim" }),
} as const;
const EACH = ["required", "claim"] as const;

let count = 0;
const address = (name = "vera") => `${name}${++count}@test.example`;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const supabaseOf = (client: Client) => {
  const { url, service } = client.service();
  return createClient(url, service.tokens.issueKey("anon"), {
    auth: { persistSession: false, autoRefreshToken: false },
  });
};

type Stranger = Awaited<ReturnType<typeof anonymousUser>>;

/** The request of an anonymous user for the address: what it has, and the token of the link. */
async function anonymousUser(client: Client, email: string) {
  const { auth } = supabaseOf(client);
  const { data } = await auth.signInAnonymously();
  expect((await auth.updateUser({ email, password: THEIRS })).error).toBeNull();
  const { access_token: token, refresh_token: refreshToken } = (await auth.getSession()).data.session ?? data.session!;
  return { auth, token, refreshToken, password: THEIRS, previous: null, link: await linkTo(email) };
}

/** The same of a user with an account, an API key and an e-mail that is confirmed. */
async function otherUser(client: Client, email: string) {
  const previous = address("mallory");
  await sendJson(client, "/auth/register", { name: "Mallory", email: previous, password: THEIRS });
  await sendJson(client, "/auth/confirm", { token: (await linkTo(previous)).token, password: THEIRS });
  const { auth } = supabaseOf(client);
  const { data } = await auth.signInWithPassword({ email: previous, password: THEIRS });
  expect((await auth.updateUser({ email })).error).toBeNull();
  const { access_token: token, refresh_token: refreshToken } = data.session!;
  return { auth, token, refreshToken, password: THEIRS, previous, link: await linkTo(email) };
}

async function linkTo(email: string) {
  const mail = await server.next(email, /^Confirm/);
  return { ...mail, ...linkIn(mail) };
}

async function confirm(client: Client, body: object, headers = {}) {
  const { status, json } = await sendJson(client, "/auth/confirm", body, headers);
  return status === 200 ? [200] : [status, Object.keys(json.error.fields ?? {})];
}
const login = async (client: Client, username: string, password: string) =>
  (await sendJson(client, "/auth/login", { username, password })).status;
const page = (client: Client, { token }: { readonly token: string }, headers = {}) =>
  visit(client, `/auth/link?token=${token}`, null, headers);
async function press(client: Client, { token }: { readonly token: string }, fields = {}, headers = {}) {
  const { status, location } = await visit(client, "/auth/link", { token, ...fields }, headers);
  return [status, location];
}
const fieldsOf = (text: string) => [...text.matchAll(/<(?:input|button)[^>]* name="(\w+)"/g)].map(([, name]) => name);

/** Whether the stranger can still use what they had before. */
async function traces(client: Client, email: string, { token, refreshToken, password }: Stranger) {
  const signedIn = (await client.send("/auth/me", { headers: bearer(token) })).status === 200;
  const refreshes = (await sendJson(client, "/auth/refresh", { refreshToken })).status === 200;
  return { signedIn, refreshes, signsIn: (await login(client, email, password)) === 200 };
}
const NOTHING = { signedIn: false, refreshes: false, signsIn: false };

describe.each(EACH)("with EMAIL_CONFIRM=%s, the link to an address that an anonymous user has entered", (mode) => {
  const client = SERVICES[mode];

  test("confirms with a new password alone, which ends the password and the sign-ins of that user", async () => {
    const email = address();
    const stranger = await anonymousUser(client, email);
    expect(await confirm(client, { token: stranger.link.token })).toEqual([400, ["password"]]);
    expect(await login(client, email, THEIRS)).toBe(401);
    expect(await confirm(client, { token: stranger.link.token, newPassword: OWN })).toEqual([200]);
    expect(await traces(client, email, stranger)).toEqual(NOTHING);
    expect(await login(client, email, OWN)).toBe(200);
  });

  test("so does its page, which has a button for those who do not know the account", async () => {
    const email = address();
    const stranger = await anonymousUser(client, email);
    expect(fieldsOf((await page(client, stranger.link)).text)).toEqual([
      ...["token", "username", "password", "newPassword", "decline"],
    ]);
    expect((await press(client, stranger.link))[0]).toBe(400);
    expect(await press(client, stranger.link, { newPassword: OWN })).toEqual([303, "/auth/done?of=confirmed"]);
    expect(await traces(client, email, stranger)).toEqual(NOTHING);
    expect(await login(client, email, OWN)).toBe(200);
  });

  test("with verifyOtp, it signs in, and the password and the sign-ins of that user end", async () => {
    const email = address();
    const stranger = await anonymousUser(client, email);
    const sent = { token_hash: stranger.link.token, type: "email_change" } as const;
    const owner = supabaseOf(client);
    const { data, error } = await owner.auth.verifyOtp(sent);
    expect([error, data.user?.email, data.user?.is_anonymous]).toEqual([null, email, false]);
    expect(data.user!.email_confirmed_at).toBeTypeOf("string");
    expect(await traces(client, email, stranger)).toEqual(NOTHING);
    expect((await owner.auth.updateUser({ password: OWN })).error).toBeNull();
    expect(await login(client, email, OWN)).toBe(200);
  });

  test("keeps all of it with the session of that user, or the password", async () => {
    for (const way of ["session", "password", "verifyOtp"] as const) {
      const email = address("guest");
      const { auth, link, token } = await anonymousUser(client, email);
      const sent = { token_hash: link.token, type: "email_change", ...{ password: THEIRS } } as const;
      if (way === "session") expect(await confirm(client, { token: link.token }, bearer(token))).toEqual([200]);
      else if (way === "password")
        expect(await confirm(client, { token: link.token, password: THEIRS })).toEqual([200]);
      else expect((await supabaseOf(client).auth.verifyOtp(sent)).error).toBeNull();
      expect((await auth.getUser()).data.user).toMatchObject({ email, is_anonymous: false });
      expect(await login(client, email, THEIRS)).toBe(200);
    }
  });
});

describe.each(EACH)(
  "with EMAIL_CONFIRM=%s, the link to an address that a user has requested as the new one",
  (mode) => {
    const client = SERVICES[mode];

    test("moves no account: not by the API, not by its page, and not with verifyOtp", async () => {
      const email = address();
      const stranger = await otherUser(client, email);
      const { token } = stranger.link;
      expect(await confirm(client, { token })).toEqual([400, ["password"]]);
      expect(await confirm(client, { token, newPassword: OWN })).toEqual([400, ["newPassword"]]);
      expect((await press(client, stranger.link))[0]).toBe(400);
      expect((await press(client, stranger.link, { newPassword: OWN }))[0]).toBe(400);
      for (const type of ["email_change", "email"] as const) {
        const { error } = await supabaseOf(client).auth.verifyOtp({ token_hash: token, type });
        expect([error?.status, error?.code]).toEqual([400, "reauthentication_needed"]);
      }
      expect((await client.send("/auth/me", { headers: bearer(stranger.token) })).json.email).toBe(stranger.previous);
      expect(await client.sql("select from auth_private.login_emails where email = $1", email)).toEqual([]);
      expect(await client.sql("select from auth_private.one_time_tokens where kind = 'email-changed'")).toEqual([]);

      // The owner of the address gets an account of their own, which the other person cannot take.
      await sendJson(client, "/auth/register", { name: "Vera", email, password: OWN });
      const own = await linkTo(email);
      expect(await confirm(client, { token: own.token, password: OWN })).toEqual([200]);
      expect(await login(client, email, OWN)).toBe(200);
      expect((await confirm(client, { token, password: THEIRS }))[0]).toBe(401);
    });

    test("has an e-mail that says so, and a page for the password of the account, or for those who do not know it", async () => {
      const email = address();
      const stranger = await otherUser(client, email);
      const { subject, text } = stranger.link;
      expect(subject).toBe("Confirm your new e-mail");
      expect(text).toContain("If the account is not yours, do not confirm");
      expect(text).not.toContain("take the account over");
      const { text: form } = await page(client, stranger.link);
      expect(fieldsOf(form)).toEqual(["token", "username", "password", "decline"]);
      expect(form).toContain("This is not my account");
      expect(await press(client, stranger.link, { decline: "true" })).toEqual([303, "/auth/done?of=declined"]);
      expect((await press(client, stranger.link, { password: THEIRS }))[0]).toBe(401);
      const kept = "select from auth_private.one_time_tokens where email = $1";
      expect(await client.sql(kept, email)).toEqual([]);
      const events = await client.sql(
        `select detail from auth_private.security_events where event = 'confirmation_declined' and detail ->> 'email' = $1`,
        email,
      );
      expect(events).toHaveLength(1);
    });

    test("moves the account with its session or its password, and the previous address undoes it", async () => {
      for (const way of ["session", "password", "verifyOtp", "page"] as const) {
        const email = address("moved");
        const { link, token, previous } = await otherUser(client, email);
        const sent = { token_hash: link.token, type: "email_change", ...{ password: THEIRS } } as const;
        if (way === "session") expect(await confirm(client, { token: link.token }, bearer(token))).toEqual([200]);
        else if (way === "password")
          expect(await confirm(client, { token: link.token, password: THEIRS })).toEqual([200]);
        else if (way === "page") expect((await press(client, link, { password: THEIRS }))[0]).toBe(303);
        else expect((await supabaseOf(client).auth.verifyOtp(sent)).error).toBeNull();
        expect(await login(client, email, THEIRS)).toBe(200);
        const undo = linkIn(await server.next(previous!, /has changed$/));
        expect((await sendJson(client, "/auth/email/undo", { token: undo.token })).status).toBe(200);
      }
    });

    test("moves it with one click in the browser that is signed in to the account", async () => {
      const email = address("moved");
      const { link, previous } = await otherUser(client, email);
      const { cookie } = await visit(client, "/auth/sign-in", { username: previous!, password: THEIRS });
      expect(fieldsOf((await page(client, link, { cookie })).text)).toEqual(["token"]);
      expect(await press(client, link, {}, { cookie })).toEqual([303, "/auth/done?of=confirmed"]);
      expect(await login(client, email, THEIRS)).toBe(200);
    });

    test("of an account without a password is for the browser that is signed in, or for those who do not know it", async () => {
      const email = address("moved");
      const { link, token, previous } = await otherUser(client, email);
      // As for users who sign in by e-mail; it ends no sign-in.
      await client.sql(
        `do $$ begin set local request.same_password = 'on'; update auth_private.accounts as a set password_hash = null
       from auth_private.login_emails as e where e.user_id = a.user_id and e.email = '${previous}'; end $$`,
      );
      const { text } = await page(client, link);
      expect(fieldsOf(text)).toEqual(["token", "decline"]);
      expect(text).toContain(`href="/auth/sign-in?return_to=`);
      expect(await confirm(client, { token: link.token })).toEqual([400, ["password"]]);
      expect(await confirm(client, { token: link.token }, bearer(token))).toEqual([200]);
    });
  },
);

test("the person who presses the link of a registration that another person has made can end it too", async () => {
  const email = address();
  await sendJson(SERVICES.claim, "/auth/register", { name: "Vera", email, password: THEIRS });
  const link = await linkTo(email);
  expect(fieldsOf((await page(SERVICES.claim, link)).text)).toContain("decline");
  const declined = await sendJson(SERVICES.claim, "/auth/confirm", { token: link.token, decline: true });
  expect([declined.status, declined.json.message]).toEqual([
    200,
    "the request is ended: no account gets your address by it",
  ]);
  expect(await confirm(SERVICES.claim, { token: link.token, password: THEIRS })).toEqual([401, []]);
});
