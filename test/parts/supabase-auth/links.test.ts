import { describe, expect, test } from "vitest";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { failureOf, PASSWORD, useAuth } from "./support.ts";

const server = await startMailServer();

describe("supabase.auth.admin.generateLink", () => {
  let now = Date.now();
  const { client, newUser, send, sql, service } = useAuth("bigint", {}, () => now);
  const { admin } = { admin: () => client("service_role").auth.admin };
  type Type = "magiclink" | "recovery" | "invite";
  const link = async (type: Type, email: string) => {
    const { data, error } = await admin().generateLink({ type, email });
    expect(error).toBeNull();
    return data;
  };

  test("magiclink: the link and the code each sign in, once", async () => {
    const { email, id } = await newUser();
    const { properties, user } = await link("magiclink", email);
    expect([user!.id, properties!.verification_type]).toEqual([id, "magiclink"]);
    const token = properties!.hashed_token;
    const query = new URLSearchParams({ token, type: "magiclink", redirect_to: `${service().url}/` });
    expect(properties!.action_link).toBe(`${service().url}/auth/v1/verify?${query}`);
    const signIn = () => client().auth.verifyOtp({ token_hash: token, type: "magiclink" });
    expect((await signIn()).data.user!.id).toBe(id);
    expect(failureOf(await signIn())).toEqual([403, "otp_expired"]);
    const other = await link("magiclink", email);
    const code = { email, token: other.properties!.email_otp, type: "email" } as const;
    expect((await client().auth.verifyOtp(code)).data.user!.id).toBe(id);
    expect(failureOf(await client().auth.verifyOtp(code))).toEqual([403, "otp_expired"]);
    expect(await sql("select operator from auth_private.security_events where event = 'link_created'")).toEqual([
      { operator: "role service_role" },
      { operator: "role service_role" },
    ]);
  });

  test("magiclink for an unknown address creates the user, whom the link signs up", async () => {
    const { properties, user } = await link("magiclink", "fresh@test.example");
    expect(properties!.verification_type).toBe("signup");
    const { data } = await client().auth.verifyOtp({ token_hash: properties!.hashed_token, type: "signup" });
    expect(data.user!.id).toBe(user!.id);
  });

  test("signup: the code confirms the e-mail, and the password stays if it is sent too", async () => {
    const email = "signup@test.example";
    const { data } = await admin().generateLink({ type: "signup", email, password: PASSWORD });
    const sent = { email, token: data.properties!.email_otp, type: "signup", password: PASSWORD } as const;
    const { data: signedIn } = await client().auth.verifyOtp(sent);
    expect(signedIn.user!.email).toBe(email);
    expect((await client().auth.signInWithPassword({ email, password: PASSWORD })).error).toBeNull();
    const again = await admin().generateLink({ type: "signup", email, password: PASSWORD });
    expect(failureOf(again)).toEqual([422, "email_exists"]);
  });

  test("invite: its code, which is valid for a week, does not hide a newer one", async () => {
    const email = "invited-twice@test.example";
    const invited = await link("invite", email);
    const newer = await link("magiclink", email);
    const verify = (token: string) => client().auth.verifyOtp({ email, token, type: "email" });
    const signedIn = await verify(newer.properties!.email_otp);
    expect([signedIn.error, signedIn.data.user!.id]).toEqual([null, invited.user!.id]);
  });

  test("recovery: the link signs in, so that the user can choose a password, with the event PASSWORD_RECOVERY", async () => {
    const { email } = await newUser();
    const { properties } = await link("recovery", email);
    const own = client();
    const events: string[] = [];
    own.auth.onAuthStateChange((event) => void events.push(event));
    const { error } = await own.auth.verifyOtp({ token_hash: properties!.hashed_token, type: "recovery" });
    expect(error).toBeNull();
    const password = "Another-Horse-8!";
    expect((await own.auth.updateUser({ password })).error).toBeNull();
    expect((await client().auth.signInWithPassword({ email, password })).error).toBeNull();
    expect(events).toContain("PASSWORD_RECOVERY");
    const unknown = await admin().generateLink({ type: "recovery", email: "nobody@test.example" });
    expect(failureOf(unknown)).toEqual([404, "user_not_found"]);
  });

  test("email_change_new: the link, or the code, changes the e-mail, and the new address alone confirms", async () => {
    const { email, id } = await newUser();
    const generate = (type: "email_change_new" | "email_change_current", newEmail: string, of = email) =>
      admin().generateLink({ type, email: of, newEmail });
    const newEmail = `new-${id}@test.example`;
    const { data, error } = await generate("email_change_new", newEmail);
    expect([error, data.user!.email, data.properties!.verification_type]).toEqual([null, email, "email_change_new"]);
    const { hashed_token, email_otp } = data.properties!;
    const verify = () => client().auth.verifyOtp({ token_hash: hashed_token, type: "email_change" });
    expect((await verify()).data.user).toMatchObject({ id, email: newEmail, email_confirmed_at: expect.any(String) });
    expect(failureOf(await verify())).toEqual([403, "otp_expired"]);
    expect(email_otp).toMatch(/^\d{6}$/);
    const other = await generate("email_change_new", email, newEmail);
    const code = { email, token: other.data.properties!.email_otp, type: "email_change" } as const;
    expect((await client().auth.verifyOtp(code)).data.user!.email).toBe(email);

    const taken = await generate("email_change_new", "bob@example.com");
    expect(failureOf(taken)).toEqual([422, "email_exists"]);
    expect(failureOf(await generate("email_change_new", "none"))).toEqual([400, "validation_failed"]);
    expect(failureOf(await generate("email_change_new", newEmail, "nobody@test.example"))).toEqual([
      ...[404, "user_not_found"],
    ]);
    const current = await generate("email_change_current", newEmail);
    expect([failureOf(current), current.error!.message]).toEqual([
      [400, "validation_failed"],
      "Enable secure email change to generate link for current email",
    ]);
  });

  test("a link is of its type only, and expires", async () => {
    const { email } = await newUser();
    const { properties } = await link("recovery", email);
    const verify = (type: "magiclink" | "recovery") =>
      client().auth.verifyOtp({ token_hash: properties!.hashed_token, type });
    expect(failureOf(await verify("magiclink"))).toEqual([403, "otp_expired"]);
    now += 3_600_000;
    expect(failureOf(await verify("recovery"))).toEqual([403, "otp_expired"]);
  });

  test("keeps a return URL that is allowed, and replaces another one", async () => {
    const { email } = await newUser();
    for (const [redirectTo, expected] of [
      ["/welcome", `${service().url}/welcome`],
      ["https://evil.example/", `${service().url}/`],
    ] as const) {
      const { data } = await admin().generateLink({ type: "magiclink", email, options: { redirectTo } });
      expect(data.properties!.redirect_to).toBe(expected);
    }
  });

  test("is refused without the service key, and for other types", async () => {
    const body = { type: "magiclink", email: "ada@example.com" };
    expect((await send("POST /auth/v1/admin/generate_link", { body })).status).toBe(403);
    expect((await send("POST /auth/v1/invite", { body })).status).toBe(403);
    const { client: own } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    expect((await send("POST /auth/v1/admin/generate_link", { body, token })).status).toBe(403);
    const wrong = await admin().generateLink({ type: "sms" as "magiclink", email: "ada@example.com" });
    expect(failureOf(wrong)).toEqual([400, "validation_failed"]);
  });

  test("inviteUserByEmail needs e-mails", async () => {
    expect(failureOf(await admin().inviteUserByEmail("ida@test.example"))).toEqual([422, "email_provider_disabled"]);
  });
});

describe("supabase.auth.admin.inviteUserByEmail", () => {
  const { client, newUser } = useAuth("bigint", { ...server.settings, EMAIL_CONFIRM: "required", SIGNUP: "off" });

  test("creates a user, whom the link of the e-mail signs in without a password", async () => {
    const { admin } = client("service_role").auth;
    const email = "invited@test.example";
    const { data, error } = await admin.inviteUserByEmail(email, { data: { name: "Ida" } });
    expect([error, data.user!.user_metadata]).toEqual([null, { name: "Ida" }]);
    expect(data.user).toMatchObject({
      ...{ invited_at: expect.any(String), confirmation_sent_at: expect.any(String) },
      ...{ app_metadata: { provider: "email", providers: ["email"] } },
      identities: [{ provider: "email", identity_data: { email, email_verified: false } }],
    });
    expect(data.user!.confirmed_at).toBeUndefined();
    expect(data.user!.email_confirmed_at).toBeUndefined();
    // As long as the user has not come, the invitation can be repeated.
    expect((await admin.inviteUserByEmail(email)).data.user!.id).toBe(data.user!.id);
    const { token } = linkIn(await server.next(email, /^You are invited/));
    const own = client();
    const signedIn = await own.auth.verifyOtp({ token_hash: token, type: "invite" });
    expect(signedIn.data.user).toMatchObject({ id: data.user!.id, email_confirmed_at: expect.any(String) });
    expect((await own.auth.updateUser({ password: PASSWORD })).error).toBeNull();
    expect((await client().auth.signInWithPassword({ email, password: PASSWORD })).error).toBeNull();
    expect(failureOf(await admin.inviteUserByEmail(email))).toEqual([422, "email_exists"]);
    await client().auth.signInWithOtp({ email: "closed@test.example" });
    expect((await server.next("closed@test.example")).text).not.toMatch(/^\d{6}$/m);
    await expect(newUser()).rejects.toMatchObject({ code: "signup_disabled" });
  });
});
