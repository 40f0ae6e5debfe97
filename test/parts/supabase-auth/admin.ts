import type { AdminUserAttributes } from "@supabase/supabase-js";
import { expect, test } from "vitest";
import { appCode } from "../../support/totp.ts";
import { failureOf, type Kind, PASSWORD, useAuth } from "./support.ts";

const UNKNOWN = "00000000-0000-4000-8000-000000000000";
/** Longer than another process takes to hear of an end. */
const SOON = { timeout: 120_000, interval: 20 };

/** Of "Correct horse 9!". */
const BCRYPT = "$2b$04$EheqwDJ9UXXLrXtEwSB/teFK6K6uoDaqUDovcqKPP6sUDJEWjsrhC";

/** With users of this type of ids. */
export function testAdmin(kind: Kind): void {
  const { client, newUser, sql, send, service } = useAuth(kind);
  const admin = () => client("service_role").auth.admin;
  const serviceKey = () => service().service.tokens.issueKey("service_role");
  const eventsOf = async (id: string) =>
    (
      await sql(
        `select e.event, e.operator from auth_private.security_events as e
         join auth_private.accounts as a using (user_id) where a.public_id = $1 order by e.id`,
        id,
      )
    ).map(({ event, operator }) => [event, operator]);

  test("creates a user, with metadata and without the rules for passwords, who then signs in", async () => {
    const { data, error } = await admin().createUser({
      ...{ email: "Mary@Test.Example", password: "short", email_confirm: true },
      user_metadata: { name: "Mary Jackson", theme: "dark" },
      app_metadata: { plan: "gold" },
    });
    expect(error).toBeNull();
    expect(data.user).toMatchObject({
      ...{ email: "mary@test.example", role: "authenticated", user_metadata: { name: "Mary Jackson", theme: "dark" } },
      app_metadata: { plan: "gold", provider: "email", providers: ["email"] },
    });
    const [account] = await sql(
      "select name, email_confirmed_at is not null as confirmed from auth_private.accounts where public_id = $1",
      data.user!.id,
    );
    expect(account).toEqual({ name: "Mary Jackson", confirmed: true });
    expect(await eventsOf(data.user!.id)).toEqual([["registered", "role service_role"]]);
    const signedIn = await client().auth.signInWithPassword({ email: "mary@test.example", password: "short" });
    expect(signedIn.data.user!.app_metadata.plan).toBe("gold");
  });

  type Made = { readonly email: string; readonly id: string };
  const created = async (attributes: AdminUserAttributes): Promise<Made> => {
    const email = `made${++made}@test.example`;
    const { data, error } = await admin().createUser({ email, password: PASSWORD, ...attributes });
    expect(error).toBeNull();
    return { email, id: data.user!.id };
  };
  let made = 0;
  const WAYS: readonly [string, () => Promise<Made>, boolean][] = [
    ["a sign-up", newUser, false],
    ["createUser", () => created({}), false],
    ["createUser with email_confirm: false", () => created({ email_confirm: false }), false],
    ["createUser with email_confirm: true", () => created({ email_confirm: true }), true],
    [
      "updateUserById with email_confirm: true",
      async () => {
        const user = await created({});
        await admin().updateUserById(user.id, { email_confirm: true });
        return user;
      },
      true,
    ],
    [
      "an invitation",
      async () => {
        const email = `made${++made}@test.example`;
        const { data } = await admin().generateLink({ type: "invite", email });
        expect((data.user as { invited_at?: string }).invited_at).toEqual(expect.any(String));
        return { email, id: data.user!.id };
      },
      false,
    ],
  ];

  test.each(WAYS)("%s: all answers agree whether the e-mail is confirmed", async (_what, make, isConfirmed) => {
    const { email, id } = await make();
    const headers = { apikey: serviceKey(), authorization: `Bearer ${serviceKey()}` };
    const [{ own }] = await sql("select user_id::text as own from auth_private.accounts where public_id = $1", id);
    const users = [
      (await admin().getUserById(id)).data.user!,
      (await admin().listUsers({ perPage: 1000 })).data.users.find((user) => user.id === id)!,
      (await admin().generateLink({ type: "magiclink", email })).data.user!,
    ];
    const seen = [
      ...users.flatMap((user) => [user.email_confirmed_at !== undefined, user.confirmed_at !== undefined]),
      ...users.flatMap(({ identities }) => identities!.map((each) => each.identity_data!.email_verified)),
      (await send(`GET /auth/admin/users/${own}`, { headers })).json.emailConfirmed,
      failureOf(await admin().generateLink({ type: "signup", email, password: PASSWORD }))[1] === "email_exists",
    ];
    expect(new Set(seen)).toEqual(new Set([isConfirmed]));
  });

  test("creates a user without a password, who cannot sign in with one", async () => {
    const { data } = await admin().createUser({ email: "invited@test.example" });
    expect(data.user!.identities).toMatchObject([{ provider: "email", identity_data: { email_verified: false } }]);
    const signedIn = await client().auth.signInWithPassword({ email: "invited@test.example", password: PASSWORD });
    expect(failureOf(signedIn)).toEqual([400, "invalid_credentials"]);
  });

  test.each([
    ["jos\u00e9@test.example", "Jose\u0301@test.example"],
    ["jose\u0301-2@test.example", "jos\u00e9-2@test.example"],
    ["ann@xn--bcher-kva.example", "ann@b\u00fccher.example"],
    ["bob@B\u00dcCHER.example", "bob@xn--bcher-kva.example"],
  ])("%s and %s are one e-mail", async (one, other) => {
    const signedUp = await client().auth.signUp({ email: one, password: PASSWORD });
    const signedIn = await client().auth.signInWithPassword({ email: other, password: PASSWORD });
    expect(signedIn.data.user?.id).toBe(signedUp.data.user!.id);
    expect(failureOf(await client().auth.signUp({ email: other, password: PASSWORD }))[1]).toBe("user_already_exists");
    expect(failureOf(await admin().createUser({ email: other }))[1]).toBe("email_exists");
  });

  test("creates a user with the hash of a password from elsewhere", async () => {
    const email = "moved-hash@test.example";
    const hashed = { email, email_confirm: true, password_hash: BCRYPT };
    expect((await admin().createUser(hashed)).error).toBeNull();
    const signIn = () => client().auth.signInWithPassword({ email, password: "Correct horse 9!" });
    const { data } = await signIn();
    expect(data.user!.email).toBe(email);
    const changed = await admin().updateUserById(data.user!.id, { password: "another" } as never);
    expect([changed.error, failureOf(await signIn())]).toEqual([null, [400, "invalid_credentials"]]);
    await admin().updateUserById(data.user!.id, { password_hash: BCRYPT } as never);
    expect((await signIn()).error).toBeNull();
  });

  test.each([
    ["a text that is no hash", { email: "hash@test.example", password_hash: "not a hash" }, [400, "validation_failed"]],
    [
      "a password and a hash",
      { email: "hash@test.example", password: PASSWORD, password_hash: BCRYPT },
      [400, "validation_failed"],
    ],
    ["a field that has no effect", { email: "data@test.example", data: { a: 1 } }, [400, "validation_failed"]],
    ["an e-mail that is registered", { email: "mary@test.example" }, [422, "email_exists"]],
    ["a malformed e-mail", { email: "mary" }, [400, "validation_failed"]],
    ["no e-mail", { password: PASSWORD }, [400, "validation_failed"]],
    ["a phone", { email: "phone@test.example", phone: "+4912345" }, [400, "phone_provider_disabled"]],
    ["an unknown role", { email: "role@test.example", role: "postgres" }, [400, "validation_failed"]],
    ["an id", { email: "id@test.example", id: UNKNOWN }, [400, "validation_failed"]],
    ["a ban of no duration", { email: "ban@test.example", ban_duration: "soon" }, [400, "validation_failed"]],
  ])("does not create a user with %s", async (_what, attributes, failure) => {
    expect(failureOf(await admin().createUser(attributes))).toEqual(failure);
  });

  test("finds a user, and changes metadata, e-mail and role", async () => {
    const { id } = await newUser();
    await admin().updateUserById(id, { user_metadata: { a: 1, b: 2 }, app_metadata: { plan: "gold", old: true } });
    const { data, error } = await admin().updateUserById(id, {
      ...{ email: "moved@test.example", role: "admin" },
      ...{ user_metadata: { a: null }, app_metadata: { old: null } },
    });
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ email: "moved@test.example", role: "admin", user_metadata: { b: 2 } });
    expect(data.user!.app_metadata).toEqual({ plan: "gold", provider: "email", providers: ["email"] });
    expect((await admin().getUserById(id)).data.user).toEqual(data.user);
    expect(await eventsOf(id)).toEqual(
      expect.arrayContaining([
        ["login_email_changed", "role service_role"],
        ["role_changed", "role service_role"],
      ]),
    );
  });

  test("sets a password, which ends all sessions", async () => {
    const { client: own, id, email } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    expect((await admin().updateUserById(id, { password: "another" })).error).toBeNull();
    await expect.poll(async () => (await send("GET /auth/v1/user", { token })).status, SOON).toBe(403);
    expect((await client().auth.signInWithPassword({ email, password: "another" })).error).toBeNull();
  });

  test("bans a user without an end, and lifts the ban", async () => {
    const { client: own, id, email } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    const banned = await admin().updateUserById(id, { ban_duration: "876000h" });
    expect(banned.data.user).toMatchObject({ banned_until: expect.any(String) });
    await expect.poll(async () => (await send("GET /auth/v1/user", { token })).status, SOON).toBe(403);
    const signIn = () => client().auth.signInWithPassword({ email, password: PASSWORD });
    expect(failureOf(await signIn())).toEqual([400, "user_banned"]);
    await admin().updateUserById(id, { ban_duration: "none" });
    expect((await signIn()).error).toBeNull();
  });

  test("bans a user for a time, after which the password signs in again", async () => {
    const { id, email } = await newUser();
    const { data } = await admin().updateUserById(id, { ban_duration: "1h30m" });
    const until = Date.parse((data.user as any).banned_until);
    expect(Math.abs(until - Date.now() - 5_400_000)).toBeLessThan(60_000);
    const signIn = () => client().auth.signInWithPassword({ email, password: PASSWORD });
    expect(failureOf(await signIn())).toEqual([400, "user_banned"]);
    await sql("update auth_private.accounts set disabled_until = now() where disabled_until is not null");
    expect((await signIn()).error).toBeNull();
    expect((await admin().getUserById(id)).data.user).not.toHaveProperty("banned_until");
  });

  test("lists users by page, newest first", async () => {
    const [older, newer] = [await newUser(), await newUser()];
    const { data } = await admin().listUsers({ page: 1, perPage: 2 });
    expect(data.users.map(({ id }) => id)).toEqual([newer.id, older.id]);
    expect(data).toMatchObject({ nextPage: 2, total: expect.any(Number) });
    const all = await admin().listUsers({ page: 1, perPage: 1000 });
    expect(all.data.users).toHaveLength((data as any).total);
    const { status, json } = await send("GET /auth/v1/admin/users?page=-1", { token: serviceKey() });
    expect([status, json.error_code]).toEqual([400, "validation_failed"]);
  });

  test("deletes an account, with its sessions", async () => {
    const { client: own, id, email } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    expect(failureOf(await admin().deleteUser(id, true))).toEqual([400, "validation_failed"]);
    expect((await admin().deleteUser(id)).error).toBeNull();
    expect(failureOf(await admin().getUserById(id))).toEqual([404, "user_not_found"]);
    await expect.poll(async () => (await send("GET /auth/v1/user", { token })).status, SOON).toBe(403);
    expect((await client().auth.signInWithPassword({ email, password: PASSWORD })).error).not.toBeNull();
  });

  test("does not delete an account that other rows refer to, and says so", async () => {
    const { id } = await newUser();
    await sql("create table public.badges (owner uuid references auth_private.accounts (public_id))");
    await sql("insert into public.badges values ($1)", id);
    const { error } = await admin().deleteUser(id);
    expect([...failureOf({ error }), error!.message]).toEqual([409, "conflict", "other data refers to this record"]);
    await sql("drop table public.badges");
    expect((await admin().deleteUser(id)).error).toBeNull();
  });

  test("lists and removes the factors of a user", async () => {
    const { client: own, id } = await newUser();
    const { data } = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "lost" });
    const { id: factor, totp } = data as { id: string; totp: { secret: string } };
    await own.auth.mfa.challengeAndVerify({ factorId: factor, code: appCode(totp.secret, Date.now()) });
    const listed = await admin().mfa.listFactors({ userId: id });
    expect(listed.data!.factors).toEqual([expect.objectContaining({ id: factor, friendly_name: "lost" })]);
    expect((await admin().mfa.deleteFactor({ userId: id, id: factor })).error).toBeNull();
    expect((await admin().getUserById(id)).data.user!.factors).toBeUndefined();
    expect(await eventsOf(id)).toContainEqual(["mfa_disabled", "role service_role"]);
    expect((await own.auth.refreshSession()).error).not.toBeNull();
  });

  test("is refused to every caller but the service key, and to browsers", async () => {
    const { client: own } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    const requests = [
      ...["GET /auth/v1/admin/users", "POST /auth/v1/admin/users", `GET /auth/v1/admin/users/${UNKNOWN}`],
      ...[`PUT /auth/v1/admin/users/${UNKNOWN}`, `DELETE /auth/v1/admin/users/${UNKNOWN}`],
      ...[`GET /auth/v1/admin/users/${UNKNOWN}/factors`, `DELETE /auth/v1/admin/users/${UNKNOWN}/factors/${UNKNOWN}`],
    ];
    for (const request of requests) {
      const byUser = await send(request, { token });
      expect([request, byUser.status, byUser.json.error_code]).toEqual([request, 403, "not_admin"]);
      const headers = {
        apikey: serviceKey(),
        authorization: `Bearer ${serviceKey()}`,
        origin: "https://page.example",
      };
      const inBrowser = await send(request, { headers });
      expect([request, inBrowser.status]).toEqual([request, 403]);
    }
    for (const id of ["1", UNKNOWN]) {
      const headers = { apikey: serviceKey(), authorization: `Bearer ${serviceKey()}` };
      const unknown = await send(`GET /auth/v1/admin/users/${id}`, { headers });
      expect([unknown.status, unknown.json.error_code]).toEqual([404, "user_not_found"]);
    }
  });
}
