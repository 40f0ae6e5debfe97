import { describe, expect, test } from "vitest";
import { ANONYMOUS_SECONDS } from "../../../rest-gateway/auth/housekeeping.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { claimsOf, failureOf, KINDS, PASSWORD, useAuth } from "./support.ts";

const ON = { SIGNUP: "anonymous" };
const server = await startMailServer();

describe.each(KINDS)("SIGNUP=anonymous with %s ids", (kind) => {
  const { client, newUser, send, sql } = useAuth(kind, ON);

  async function anonymous(options?: { data: object }) {
    const own = client();
    const { data, error } = await own.auth.signInAnonymously(options && { options });
    expect(error).toBeNull();
    return { own, user: data.user!, session: data.session! };
  }
  const tokenOf = async (own: ReturnType<typeof client>) => (await own.auth.getSession()).data.session!.access_token;
  const addresses = (name: string) => `${name}@upgrade.example`;

  test("signInAnonymously creates a user without an e-mail, whose tokens say so on both wires", async () => {
    const { own, user, session } = await anonymous({ data: { theme: "dark" } });
    expect(user).toMatchObject({
      ...{ is_anonymous: true, email: "", role: "authenticated", user_metadata: { theme: "dark" }, identities: [] },
    });
    expect(user.email_confirmed_at).toBeUndefined();
    expect(claimsOf(session.access_token)).toMatchObject({
      ...{ is_anonymous: true, role: "authenticated", aal: "aal1", email: "" },
      amr: [expect.objectContaining({ method: "anonymous" })],
    });
    expect((await own.auth.getUser()).data.user!.id).toBe(user.id);
    const { data } = await own.auth.refreshSession();
    expect(claimsOf(data.session!.access_token).is_anonymous).toBe(true);
    const other = await send("POST /auth/refresh", { body: { refreshToken: data.session!.refresh_token } });
    expect(claimsOf(other.json.accessToken).is_anonymous).toBe(true);
    expect((await send("GET /auth/me", { token: other.json.accessToken })).json).toMatchObject({
      ...{ name: "Anonymous", email: "", hasPassword: false },
    });
    expect((await send("GET /auth/v1/settings")).json.external.anonymous_users).toBe(true);
  });

  test("updateUser with an e-mail and a password makes it an account like any other, with the same id", async () => {
    const { own, user } = await anonymous();
    const email = addresses("upgraded");
    const { data, error } = await own.auth.updateUser({ email, password: PASSWORD });
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ id: user.id, email, is_anonymous: false, app_metadata: { provider: "email" } });
    await own.auth.refreshSession();
    expect(claimsOf(await tokenOf(own))).toMatchObject({ is_anonymous: false, email });
    const signedIn = await client().auth.signInWithPassword({ email, password: PASSWORD });
    expect(signedIn.data.user!.id).toBe(user.id);
    const events = await sql(
      "select e.event from auth_private.security_events as e join auth_private.accounts as a using (user_id) where a.public_id = $1 order by id",
      user.id,
    );
    const names = events.map(({ event }) => event).filter((event) => event !== "email_changed");
    expect(names).toEqual(["registered", "account_upgraded", "password_changed", "login"]);
  });

  test("the e-mail of another account is refused, and a password needs an e-mail", async () => {
    const { email } = await newUser();
    const { own } = await anonymous();
    expect(failureOf(await own.auth.updateUser({ email, password: PASSWORD }))).toEqual([422, "email_exists"]);
    expect(failureOf(await own.auth.updateUser({ password: PASSWORD }))).toEqual([422, "validation_failed"]);
    expect((await own.auth.updateUser({ data: { name: "Ida" } })).data.user).toMatchObject({
      ...{ is_anonymous: true, user_metadata: { name: "Ida" } },
    });
  });

  test("has no second factor, and an administrator finds it, upgrades it and deletes it", async () => {
    const { own, user } = await anonymous();
    expect(failureOf(await own.auth.mfa.enroll({ factorType: "totp" }))).toEqual([403, "no_authorization"]);
    const { admin } = client("service_role").auth;
    expect((await admin.getUserById(user.id)).data.user!.is_anonymous).toBe(true);
    const email = addresses("given");
    const { data } = await admin.updateUserById(user.id, { email, password: PASSWORD });
    expect(data.user).toMatchObject({ email, is_anonymous: false });
    expect((await admin.deleteUser(user.id)).error).toBeNull();
  });
});

describe("an anonymous user", () => {
  let now = Date.now();
  const { client, sql } = useAuth("bigint", { ...ON, registrationsPerAddress: 3 }, () => now);

  test("counts as a registration of its network, and hooks see it with an address without a mailbox", async () => {
    const outcomes = [];
    for (let i = 0; i < 4; i++) outcomes.push(failureOf(await client().auth.signInAnonymously())[1]);
    expect(outcomes).toEqual([undefined, undefined, undefined, "over_request_rate_limit"]);
    await sql("delete from auth_private.attempts");
    const [{ email }] = await sql("select email from users order by id desc limit 1");
    expect(email).toMatch(/@anonymous\.invalid$/);

    await sql(`create function internal.refuse(fields jsonb) returns jsonb language plpgsql as
      $$ begin raise exception 'no guests' using errcode = 'CS403'; end $$`);
    await sql("grant execute on function internal.refuse(jsonb) to auth_owner");
    await sql("select auth.use_hook('before_sign_up', 'internal.refuse(jsonb)')");
    expect(failureOf(await client().auth.signInAnonymously())).toEqual([422, "signup_disabled"]);
    await sql("select auth.use_hook('before_sign_up', null)");
    await sql("delete from auth_private.attempts");
  });

  test("is deleted 30 days after its last session has ended, unless it was upgraded", async () => {
    const [unused, upgraded, used] = [client(), client(), client()];
    for (const each of [unused, upgraded]) await each.auth.signInAnonymously();
    await upgraded.auth.updateUser({ email: "kept@test.example" });
    const purge = () =>
      sql("select auth_api.purge_anonymous($1, $2 * interval '1 second')", new Date(now), ANONYMOUS_SECONDS);
    const left = async () =>
      (await sql("select name from auth_private.accounts where is_anonymous order by created_at")).length;
    const before = await left();
    now += (ANONYMOUS_SECONDS - 60) * 1000;
    await purge();
    expect(await left()).toBe(before);
    await used.auth.signInAnonymously();
    now += 8 * 24 * 3_600_000;
    await purge();
    expect(await left()).toBe(1);
    expect(await sql("select from auth_private.login_emails where email = 'kept@test.example'")).toHaveLength(1);
    expect(ANONYMOUS_SECONDS).toBe(30 * 24 * 3600);
  });
});

describe("with EMAIL_CONFIRM=required, an anonymous user", () => {
  const { client, send, sql } = useAuth("bigint", { ...server.settings, ...ON, EMAIL_CONFIRM: "required" });

  test("gets the e-mail when its owner confirms it, and learns nothing of one that is taken", async () => {
    const answers = [];
    const clients = [client(), client()] as const;
    for (const [i, email] of ["guest@test.example", "ada@example.com"].entries()) {
      const own = clients[i]!;
      await own.auth.signInAnonymously();
      const changed = await own.auth.updateUser({ email, password: PASSWORD });
      const { id, created_at, updated_at, last_sign_in_at, ...user } = changed.data.user!;
      answers.push(JSON.stringify([user, changed.error]));
      expect([user.email, user.is_anonymous]).toEqual(["", true]);
    }
    expect(answers[0]).toBe(answers[1]);
    expect((await server.next("ada@example.com")).subject).not.toMatch(/^Confirm/);

    const { token } = linkIn(await server.next("guest@test.example", /^Confirm/));
    const session = { token: (await clients[0].auth.getSession()).data.session!.access_token };
    expect((await send("POST /auth/confirm", { body: { token }, ...session })).status).toBe(200);
    const { data } = await clients[0].auth.getUser();
    expect(data.user).toMatchObject({ email: "guest@test.example", is_anonymous: false });
    expect(data.user!.email_confirmed_at).toBeTypeOf("string");
    const signIn = { email: "guest@test.example", password: PASSWORD };
    expect((await client().auth.signInWithPassword(signIn)).error).toBeNull();
    expect((await sql("select from auth_private.accounts where is_anonymous")).length).toBe(1);
    expect((await send("GET /auth/v1/settings")).json.mailer_autoconfirm).toBe(false);
  });
});

describe("anonymous users", () => {
  const off = useAuth("bigint");
  const closed = useAuth("bigint", { SIGNUP: "off" });

  test("are off by default, and with SIGNUP=off", async () => {
    const refused = await off.client().auth.signInAnonymously();
    expect(failureOf(refused)).toEqual([422, "anonymous_provider_disabled"]);
    expect(refused.error!.message).toContain("Anonymous sign-ins are disabled");
    expect(failureOf(await closed.client().auth.signInAnonymously())).toEqual([422, "anonymous_provider_disabled"]);
  });
});

describe("at the own routes, an anonymous user", () => {
  const { send, sql } = useAuth("bigint", { ...ON, ...server.settings });
  const signIn = async () => (await send("POST /auth/v1/signup", { body: {} })).json.access_token as string;

  test.each([
    ["a password", "POST /auth/password", { newPassword: PASSWORD }],
    ["an API key", "POST /auth/keys", { name: "the build" }],
    ["a second factor", "POST /api/mfa/enable", {}],
    ["a passkey", "POST /auth/passkeys/options", {}],
  ])("gets no %s, and the error says to add an e-mail first", async (_, request, body) => {
    const token = await signIn();
    const { status, json } = await send(request, { token, body });
    expect([status, json.error.code, json.error.message]).toEqual([
      ...[
        403,
        "PERMISSION_DENIED",
        "an anonymous user needs an e-mail first: POST /auth/email, then POST /auth/refresh",
      ],
    ]);
    const left =
      "select from auth_private.api_keys union all select from auth_private.factors union all select from auth_private.passkeys";
    expect([(await send("GET /auth/me", { token })).json.hasPassword, await sql(left)]).toEqual([false, []]);
  });

  test("sees and ends its session, and has no keys, passkeys and identities", async () => {
    const token = await signIn();
    for (const path of ["keys", "passkeys", "identities"])
      expect((await send(`GET /auth/${path}`, { token })).json).toEqual({ data: [] });
    expect((await send("GET /auth/sessions", { token })).json.data).toHaveLength(1);
    expect((await send("POST /auth/logout", { token, body: {} })).status).toBe(200);
    expect((await send("GET /auth/me", { token })).status).toBe(401);
  });

  test("adds an e-mail, and is then an account like any other: a refreshed token sets the password", async () => {
    const { access_token: token, refresh_token: refreshToken } = (await send("POST /auth/v1/signup", { body: {} }))
      .json;
    const email = "own-route@test.example";
    expect((await send("POST /auth/email", { token, body: { email } })).status).toBe(200);
    const { accessToken } = (await send("POST /auth/refresh", { body: { refreshToken } })).json;
    const body = { newPassword: PASSWORD };
    expect((await send("POST /auth/password", { token: accessToken, body })).status).toBe(200);
    const login = await send("POST /auth/login", {
      body: { email, password: PASSWORD },
      headers: { authorization: "" },
    });
    expect([login.status, login.json.user?.email]).toEqual([200, email]);
  });
});
