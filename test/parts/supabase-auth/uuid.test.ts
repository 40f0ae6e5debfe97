import { describe, expect, test } from "vitest";
import { Authenticator } from "../../support/authenticator.ts";
import { appCode } from "../../support/totp.ts";
import { claimsOf, failureOf, PASSWORD, useAuth } from "./support.ts";

/** Longer than another process takes to hear of an end. */
const SOON = { timeout: 120_000, interval: 20 };

// What the other files show with bigint ids, whose public ids are UUIDs of their own.
describe("with uuid ids", () => {
  let now = Date.now();
  const { client, newUser, sql, send, service } = useAuth("uuid", { SIGNUP: "anonymous" }, () => now);
  const tokenOf = async (own: ReturnType<typeof client>) => (await own.auth.getSession()).data.session!.access_token;
  const signIn = (email: string, password = PASSWORD) => client().auth.signInWithPassword({ email, password });
  const eventsOf = async (id: string) =>
    (await sql("select event from auth_private.security_events where user_id = $1 order by id", id)).map(
      ({ event }) => event,
    );

  test("the id of a user is the one in the database and in tokens, and stays in every session", async () => {
    const { client: own, id, email } = await newUser();
    const [account] = await sql("select user_id, public_id from auth_private.accounts where public_id = $1", id);
    expect(account).toEqual({ user_id: id, public_id: id });
    expect(claimsOf(await tokenOf(own)).sub).toBe(id);
    expect((await own.auth.getUser()).data.user!.id).toBe(id);
    expect((await own.auth.refreshSession()).data.user!.id).toBe(id);
    expect((await send("GET /auth/me", { token: await tokenOf(own) })).json).toMatchObject({ email });
    expect((await signIn(email)).data.user!.id).toBe(id);
    expect((await own.auth.signOut({ scope: "global" })).error).toBeNull();
    expect(failureOf(await client().auth.signUp({ email, password: PASSWORD }))).toEqual([422, "user_already_exists"]);
  });

  test("a user changes metadata, e-mail and password, and a spent refresh token ends the session", async () => {
    const [{ client: own, id, email }, { client: other, email: taken }] = [await newUser(), await newUser()];
    expect(failureOf(await own.auth.updateUser({ email: taken }))).toEqual([422, "email_exists"]);
    const changed = await own.auth.updateUser({ data: { a: 1 }, email: `new-${email}`, password: "Another-Horse-8!" });
    expect(changed.data.user).toMatchObject({ id, email: `new-${email}`, user_metadata: { a: 1 } });
    expect((await signIn(`new-${email}`, "Another-Horse-8!")).error).toBeNull();
    const { refresh_token } = (await other.auth.getSession()).data.session!;
    await other.auth.refreshSession();
    await other.auth.refreshSession();
    now += 60_000;
    expect(failureOf(await client().auth.refreshSession({ refresh_token }))).toEqual([
      ...[400, "refresh_token_already_used"],
    ]);
    expect(failureOf(await other.auth.refreshSession())).toEqual([400, "refresh_token_not_found"]);
  });

  test("a factor and a passkey sign the user in, and only the user", async () => {
    const { client: own, id, email } = await newUser();
    const { data } = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "phone" });
    const { id: factor, totp } = data as { id: string; totp: { secret: string } };
    const verified = await own.auth.mfa.challengeAndVerify({ factorId: factor, code: appCode(totp.secret, now) });
    expect([verified.error, claimsOf(await tokenOf(own))]).toMatchObject([null, { aal: "aal2", sub: id }]);
    const key = new Authenticator(service().url.replace("127.0.0.1", "localhost"));
    const token = await tokenOf(own);
    const { json } = await send("POST /auth/v1/passkeys/registration/options", { token, body: {} });
    const made = { challenge_id: json.challenge_id, credential: key.create(json.options) };
    const added = await send("POST /auth/v1/passkeys/registration/verify", { token, body: made });
    expect(added.json).toMatchObject({ friendly_name: "node" });
    const { json: begun } = await send("POST /auth/v1/passkeys/authentication/options", { body: {} });
    const used = { challenge_id: begun.challenge_id, credential: key.get(begun.options) };
    const byKey = await send("POST /auth/v1/passkeys/authentication/verify", { body: used });
    expect([byKey.status, byKey.json.user.id]).toEqual([200, id]);
    const limited = (await signIn(email)).data.session!.access_token;
    expect(claimsOf(limited)).toMatchObject({ aal: "aal1", role: "anon" });
    const { client: other } = await newUser();
    expect(failureOf(await other.auth.mfa.challenge({ factorId: factor }))).toEqual([422, "mfa_factor_not_found"]);
    const { admin } = client("service_role").auth;
    expect((await admin.passkey.deletePasskey({ userId: id, passkeyId: added.json.id })).error).toBeNull();
    expect((await admin.mfa.deleteFactor({ userId: id, id: factor })).error).toBeNull();
    expect(await eventsOf(id)).toContain("mfa_disabled");
    expect(claimsOf((await signIn(email)).data.session!.access_token).aal).toBe("aal1");
  });

  test("an administrator creates, finds, changes, bans, lists and deletes users", async () => {
    const { admin } = client("service_role").auth;
    const { data } = await admin.createUser({ email: "mary@uuid.example", password: PASSWORD, email_confirm: true });
    const { id } = data.user!;
    const { data: signedIn } = await signIn("mary@uuid.example");
    const changed = await admin.updateUserById(id, { role: "admin", app_metadata: { plan: "gold" } });
    expect(changed.data.user).toMatchObject({ id, role: "admin", app_metadata: { plan: "gold" } });
    expect((await admin.getUserById(id)).data.user).toEqual(changed.data.user);
    expect((await admin.listUsers({ page: 1, perPage: 1 })).data.users.map((user) => user.id)).toEqual([id]);
    await admin.updateUserById(id, { ban_duration: "876000h" });
    expect(failureOf(await signIn("mary@uuid.example"))).toEqual([400, "user_banned"]);
    const token = signedIn.session!.access_token;
    await expect.poll(async () => (await send("GET /auth/v1/user", { token })).status, SOON).toBe(403);
    expect(await eventsOf(id)).toEqual([
      ...["registered", "login", "role_changed", "account_disabled", "login_refused"],
    ]);
    expect((await admin.deleteUser(id)).error).toBeNull();
    expect(failureOf(await admin.getUserById(id))).toEqual([404, "user_not_found"]);
    expect(failureOf(await admin.getUserById("00000000-0000-4000-8000-000000000000"))).toEqual([404, "user_not_found"]);
  });

  test("an anonymous user becomes an account like any other, with the same id", async () => {
    const own = client();
    const { id } = (await own.auth.signInAnonymously()).data.user!;
    expect(claimsOf(await tokenOf(own))).toMatchObject({ sub: id, is_anonymous: true });
    const { data } = await own.auth.updateUser({ email: "upgraded@uuid.example", password: PASSWORD });
    expect(data.user).toMatchObject({ id, is_anonymous: false });
    expect((await signIn("upgraded@uuid.example")).data.user!.id).toBe(id);
  });
});
