import { createClient } from "@supabase/supabase-js";
import { expect, test, vi } from "vitest";
import { hashOf, newKey } from "../../../identity/secrets.ts";
import { argon2 } from "../../../rest-gateway/auth/password-hashes.ts";
import { claimsOf, failureOf, type Kind, PASSWORD, useAuth } from "./support.ts";

const NEW = "Another-Horse-8!";
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Longer than another process takes to hear of an end. */
const SOON = { timeout: 120_000, interval: 20 };

/** With users of this type of ids. */
export function testSessions(kind: Kind): void {
  let now = Date.now();
  const { client, newUser, sql, send, service } = useAuth(kind, {}, () => now);

  test("signs a user up, with metadata", async () => {
    const data = { name: "Grace Hopper", theme: { dark: true }, nothing: null };
    const email = "Grace@Test.Example";
    const { data: made, error } = await client().auth.signUp({ email, password: PASSWORD, options: { data } });
    expect(error).toBeNull();
    expect(made.user).toMatchObject({
      ...{ id: expect.stringMatching(UUID), aud: "authenticated", role: "authenticated", phone: "" },
      ...{ email: "grace@test.example", last_sign_in_at: expect.any(String) },
      ...{ created_at: expect.any(String), updated_at: expect.any(String), is_anonymous: false },
      ...{ user_metadata: data, app_metadata: { provider: "email", providers: ["email"] } },
      identities: [{ provider: "email", user_id: made.user!.id, identity_data: { email: "grace@test.example" } }],
    });
    expect(made.session).toMatchObject({ token_type: "bearer", expires_in: 3600, expires_at: expect.any(Number) });
    const [account] = await sql(
      `select a.user_id::text as id, a.public_id, a.name from auth_private.accounts as a
       join auth_private.login_emails as e using (user_id) where e.email = 'grace@test.example'`,
    );
    expect(account).toMatchObject({ public_id: made.user!.id, name: "Grace Hopper" });
    expect(account.id === account.public_id).toBe(kind === "uuid");
    expect(claimsOf(made.session!.access_token)).toMatchObject({
      ...{ sub: account.id, role: "authenticated", email: "grace@test.example", phone: "", aal: "aal1" },
      ...{ amr: [{ method: "password", timestamp: expect.any(Number) }], aud: "authenticated" },
      ...{ session_id: expect.stringMatching(UUID), user_metadata: data, is_anonymous: false },
    });
  });

  test("refuses an e-mail that is registered or malformed, a weak password, and a user without them", async () => {
    const { email } = await newUser();
    const signUp = (email: string, password: string) => client().auth.signUp({ email, password });
    expect(failureOf(await signUp(email.toUpperCase(), PASSWORD))).toEqual([422, "user_already_exists"]);
    expect(failureOf(await signUp("no address", PASSWORD))).toEqual([400, "validation_failed"]);
    const weak = await signUp("weak@test.example", "short");
    expect([...failureOf(weak), (weak.error as any).reasons]).toEqual([422, "weak_password", ["length", "characters"]]);
    expect(failureOf(await client().auth.signInAnonymously())).toEqual([422, "anonymous_provider_disabled"]);
    expect((await send("POST /auth/v1/signup", { body: { email: 1 } })).status).toBe(400);
    expect((await send("POST /auth/v1/signup", { body: { email: "x@test.example" } })).status).toBe(400);
    const phone = await client().auth.signUp({ phone: "+4912345", password: PASSWORD });
    expect(failureOf(phone)).toEqual([400, "phone_provider_disabled"]);
  });

  test("refuses metadata that would not fit into a token", async () => {
    const data = { text: "x".repeat(5000) };
    const large = await client().auth.signUp({ email: "large@test.example", password: PASSWORD, options: { data } });
    expect(failureOf(large)).toEqual([400, "validation_failed"]);
    const { client: own } = await newUser();
    expect(failureOf(await own.auth.updateUser({ data }))).toEqual([400, "validation_failed"]);
    expect((await own.auth.getUser()).data.user!.user_metadata).toEqual({});
  });

  test("signs a user in, and gives one answer for unknown users and wrong passwords", async () => {
    const { email, id } = await newUser();
    const signIn = (email: string, password: string) => client().auth.signInWithPassword({ email, password });
    expect((await signIn(email.toUpperCase(), PASSWORD)).data.user!.id).toBe(id);
    const [wrong, unknown] = [await signIn(email, "Wrong-Horse-7!"), await signIn("nobody@test.example", PASSWORD)];
    expect(failureOf(wrong)).toEqual([400, "invalid_credentials"]);
    expect([unknown.error!.message, ...failureOf(unknown)]).toEqual([wrong.error!.message, ...failureOf(wrong)]);
    await sql("update auth_private.accounts set disabled_at = now() where public_id = $1", id);
    expect(failureOf(await signIn(email, PASSWORD))).toEqual([400, "user_banned"]);
    expect(failureOf(await signIn(email, "Wrong-Horse-7!"))).toEqual([400, "invalid_credentials"]);
  });

  test("signs a user in with the username in place of the e-mail", async () => {
    const { email, id } = await newUser();
    await sql("update auth_private.accounts set username = 'grace.hopper' where public_id = $1", id);
    const signIn = (email: string) => client().auth.signInWithPassword({ email, password: PASSWORD });
    const { data } = await signIn("grace.hopper");
    expect([data.user!.id, data.user!.email]).toEqual([id, email]);
    expect(failureOf(await signIn("grace"))).toEqual([400, "invalid_credentials"]);
  });

  test("hashes once for a sign-in, also of an unknown user", async () => {
    const { email } = await newUser();
    const hash = vi.spyOn(argon2, "hash");
    const verify = vi.spyOn(argon2, "verify");
    for (const address of [email, "nobody@test.example"]) {
      verify.mockClear();
      await client().auth.signInWithPassword({ email: address, password: PASSWORD });
      expect([address, verify.mock.calls.length, hash.mock.calls.length]).toEqual([address, 1, 0]);
    }
    hash.mockRestore();
    verify.mockRestore();
  });

  test("refuses further attempts after five wrong passwords, with Retry-After", async () => {
    const { email } = await newUser();
    const body = { email, password: "Wrong-Horse-7!" };
    for (let i = 0; i < 5; i++) await send("POST /auth/v1/token?grant_type=password", { body });
    const { status, json, headers } = await send("POST /auth/v1/token?grant_type=password", { body });
    expect([status, json.error_code]).toEqual([429, "over_request_rate_limit"]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    await sql("delete from auth_private.attempts");
  });

  test("reads the user of the session, and refuses every other token", async () => {
    const { client: own, id } = await newUser();
    const { access_token } = (await own.auth.getSession()).data.session!;
    expect((await own.auth.getUser()).data.user!.id).toBe(id);
    const user = (token?: string) => send("GET /auth/v1/user", token === undefined ? {} : { token });
    // The anon key has no user.
    expect([(await user()).status, (await user()).json.error_code]).toEqual([403, "bad_jwt"]);
    const forged = `${access_token.slice(0, -4)}AAAA`;
    for (const token of [forged, "garbage"]) {
      const { status, json } = await user(token);
      expect([status, json.error_code, json.msg]).toEqual([
        ...[403, "bad_jwt", expect.stringMatching(/^invalid JWT: unable to parse or verify signature/)],
      ]);
    }
    const without = await send("GET /auth/v1/user", { headers: { authorization: "" } });
    expect([without.status, without.json.error_code]).toEqual([401, "no_authorization"]);
  });

  test("has errors in the format of the version that the client names", async () => {
    const body = { email: "nobody@test.example", password: PASSWORD };
    const request = "POST /auth/v1/token?grant_type=password";
    const old = await send(request, { body });
    expect(old.json).toEqual({ code: 400, error_code: "invalid_credentials", msg: "Invalid login credentials" });
    const headers = { "x-supabase-api-version": "2024-01-01" };
    const { json, headers: answered } = await send(request, { body, headers });
    expect(json).toEqual({ code: "invalid_credentials", message: "Invalid login credentials" });
    expect(answered.get("x-supabase-api-version")).toBe("2024-01-01");
    expect(answered.get("x-sb-error-code")).toBe("invalid_credentials");
    expect((await send("POST /auth/v1/token?grant_type=web3", { body })).json.error_code).toBe("validation_failed");
    expect((await send("GET /auth/v1/token")).status).toBe(405);
    expect((await send("GET /auth/v1/unknown")).status).toBe(404);
  });

  test("refreshes the session, whose tokens work at the other interfaces", async () => {
    const { client: own, id } = await newUser();
    const before = (await own.auth.getSession()).data.session!;
    const { data, error } = await own.auth.refreshSession();
    expect(error).toBeNull();
    expect(data.session!.refresh_token).not.toBe(before.refresh_token);
    expect([data.user!.id, claimsOf(data.session!.access_token).session_id]).toEqual([
      id,
      claimsOf(before.access_token).session_id,
    ]);
    const me = await send("GET /auth/me", { token: data.session!.access_token });
    expect([me.status, me.json.session.isCurrent]).toEqual([200, true]);
  });

  test("refuses refresh tokens that are unknown or of no token", async () => {
    const refresh = (refresh_token: unknown) =>
      send("POST /auth/v1/token?grant_type=refresh_token", { body: { refresh_token } });
    for (const token of ["garbage", service().service.tokens.issueRefresh("1")]) {
      const { status, json } = await refresh(token);
      expect([status, json.error_code]).toEqual([400, "refresh_token_not_found"]);
      expect(json.msg).toContain("Invalid Refresh Token");
    }
    expect((await refresh(undefined)).json.error_code).toBe("validation_failed");
  });

  test("accepts a spent refresh token for ten seconds, and the parent of an unused one; then the session ends", async () => {
    const { client: own } = await newUser();
    const first = (await own.auth.getSession()).data.session!.refresh_token;
    const refresh = async (refresh_token: string) =>
      (await send("POST /auth/v1/token?grant_type=refresh_token", { body: { refresh_token } })).json;
    const lost = (await refresh(first)).refresh_token;
    expect(await refresh(first)).toMatchObject({ token_type: "bearer" });
    now += 60_000;
    // The client has received neither answer.
    const second = (await refresh(first)).refresh_token;
    const again = (await refresh(first)).refresh_token;
    expect([typeof second, typeof again]).toEqual(["string", "string"]);
    const third = (await refresh(again)).refresh_token;
    now += 60_000;
    // Of the tokens that replaced each other, only the last one counts.
    expect((await refresh(lost)).error_code).toBe("refresh_token_already_used");
    expect((await refresh(third)).error_code).toBe("refresh_token_not_found");
  });

  test("ends the session if a token before the parent of the active one is used", async () => {
    const { client: own, id } = await newUser();
    const first = (await own.auth.getSession()).data.session!.refresh_token;
    await own.auth.refreshSession();
    await own.auth.refreshSession();
    now += 60_000;
    const stolen = await client().auth.refreshSession({ refresh_token: first });
    expect(failureOf(stolen)).toEqual([400, "refresh_token_already_used"]);
    expect(failureOf(await own.auth.refreshSession())).toEqual([400, "refresh_token_not_found"]);
    await expect.poll(async () => failureOf(await own.auth.getUser()), SOON).toEqual([400, undefined]);
    const events = await sql(
      "select event from auth_private.security_events join auth_private.accounts using (user_id) where public_id = $1 and event = 'token_reused'",
      id,
    );
    expect(events).toHaveLength(1);
  });

  test.each([
    ["local", [false, true]],
    ["others", [true, false]],
    ["global", [false, false]],
  ] as const)("signs out with the scope %s", async (scope, stay) => {
    const { client: here, email } = await newUser();
    const there = client();
    await there.auth.signInWithPassword({ email, password: PASSWORD });
    const sessions = [here, there].map(async (each) => (await each.auth.getSession()).data.session!.access_token);
    const tokens = await Promise.all(sessions);
    expect((await here.auth.signOut({ scope })).error).toBeNull();
    for (const [i, token] of tokens.entries()) {
      const { status, json } = await send("GET /auth/v1/user", { token });
      expect([status, json.error_code]).toEqual(stay[i] ? [200, undefined] : [403, "session_not_found"]);
    }
  });

  test("refuses an unknown scope", async () => {
    const { client: own } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    expect((await send("POST /auth/v1/logout?scope=all", { token })).json.error_code).toBe("validation_failed");
    expect((await send("POST /auth/v1/logout", { token })).status).toBe(204);
  });

  test("changes the metadata: keys are merged, and null deletes one", async () => {
    const { client: own } = await newUser();
    await own.auth.updateUser({ data: { a: 1, b: { c: null }, d: "x" } });
    const { data, error } = await own.auth.updateUser({ data: { a: null, d: "y" } });
    expect([error, data.user!.user_metadata]).toEqual([null, { b: { c: null }, d: "y" }]);
    const token = (await own.auth.getSession()).data.session!.access_token;
    const { status, json: refused } = await send("PUT /auth/v1/user", { token, body: { app_metadata: { role: "x" } } });
    expect([status, refused.error_code]).toEqual([403, "not_admin"]);
  });

  test("keeps the digits of numbers in the metadata, also in tokens and for policies", async () => {
    const numbers = '{"id": 9007199254740993, "deep": [{"pi": 3.14159265358979323846}], "huge": 1e400}';
    const stored = '"id":9007199254740993,"deep":[{"pi":3.14159265358979323846}]';
    const body = { email: "digits@test.example", password: PASSWORD, data: {} };
    const { access_token: first } = (await send("POST /auth/v1/signup", { body })).json;
    const headers = { authorization: `Bearer ${first}`, apikey: service().service.tokens.issueKey("anon") };
    const changed = await fetch(`${service().url}/auth/v1/user`, {
      ...{ method: "PUT", body: `{"data": ${numbers}}` },
      headers: { ...headers, "content-type": "application/json" },
    });
    expect((await changed.text()).replaceAll(/\s/g, "")).toContain(stored);
    const token = (await send("POST /auth/v1/token?grant_type=password", { body })).json.access_token;
    expect(Buffer.from(token.split(".")[1]!, "base64url").toString()).toContain(stored);
    const { claims } = service().service.tokens.verify(token);
    expect(JSON.stringify(claims)).toContain(stored);
  });

  test("changes the password with a recent sign-in, and ends the other sessions", async () => {
    const { client: own, email } = await newUser();
    const other = client();
    await other.auth.signInWithPassword({ email, password: PASSWORD });
    expect(failureOf(await own.auth.updateUser({ password: PASSWORD }))).toEqual([422, "same_password"]);
    expect(failureOf(await own.auth.updateUser({ password: "short" }))).toEqual([422, "weak_password"]);
    expect((await own.auth.updateUser({ password: NEW })).error).toBeNull();
    expect((await own.auth.getUser()).error).toBeNull();
    expect((await own.auth.refreshSession()).error).toBeNull();
    const { refresh_token } = (await other.auth.getSession()).data.session!;
    expect(failureOf(await client().auth.refreshSession({ refresh_token }))).toEqual([400, "refresh_token_not_found"]);
    expect((await other.auth.getUser()).error).not.toBeNull();
    expect((await client().auth.signInWithPassword({ email, password: NEW })).error).toBeNull();
    expect((await client().auth.signInWithPassword({ email, password: PASSWORD })).error).not.toBeNull();
  });

  test("needs the current password to change the password or the e-mail with an older sign-in", async () => {
    const { client: own, email } = await newUser();
    now += 11 * 60_000;
    const change = (changes: object) => own.auth.updateUser(changes);
    expect(failureOf(await change({ password: NEW }))).toEqual([400, "reauthentication_needed"]);
    expect(failureOf(await change({ email: `new-${email}` }))).toEqual([400, "reauthentication_needed"]);
    expect(failureOf(await change({ password: NEW, current_password: "wrong" }))).toEqual([
      400,
      "current_password_invalid",
    ]);
    expect((await change({ email: `new-${email}`, current_password: PASSWORD })).data.user!.email).toBe(`new-${email}`);
    expect((await change({ password: NEW, current_password: PASSWORD })).error).toBeNull();
    expect((await client().auth.signInWithPassword({ email: `new-${email}`, password: NEW })).error).toBeNull();
  });

  test("refuses an e-mail of another account", async () => {
    const [{ client: own }, { email }] = [await newUser(), await newUser()];
    expect(failureOf(await own.auth.updateUser({ email }))).toEqual([422, "email_exists"]);
  });

  test.skipIf(kind === "uuid")("opens the rows of the user, and only these", async () => {
    const { client: own } = await newUser();
    const { data } = await own.auth.getClaims();
    expect(data!.claims.role).toBe("authenticated");
    const { data: article, error } = await own.from("articles").insert({ title: "On looms", content: "x" }).select();
    expect([error, String(article![0].author_id)]).toEqual([null, data!.claims.sub]);
  });

  test("refuses a wrong API key, also where an access token decides, and needs none", async () => {
    const { client: own, email } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    const { url, service: of } = service();
    const made = newKey("anon");
    await sql(
      "insert into auth_private.api_keys (kind, name, prefix, key_hash, revoked_at) values ('anon', 'old', $1, $2, now())",
      ...[made.prefix, hashOf(made.key)],
    );
    const signed = of.tokens.issueKey("anon");
    for (const key of ["wrong", `${signed.slice(0, -4)}AAAA`, made.key, newKey("service").key]) {
      const wrong = createClient(url, key, { auth: { persistSession: false } });
      const refused = [
        await wrong.auth.signInWithPassword({ email, password: PASSWORD }),
        await wrong.auth.signUp({ email: `other-${email}`, password: PASSWORD }),
        await wrong.auth.getUser(token),
      ];
      for (const { error } of refused)
        expect([error?.status, error?.code, error?.message]).toEqual([401, "no_authorization", "Invalid API key"]);
    }
    const requests = ["GET /user", "PUT /user", "POST /logout", "POST /factors", "GET /settings", "GET /passkeys"];
    for (const request of requests) {
      const { status, json } = await send(request.replace(" ", " /auth/v1"), { token, headers: { apikey: "wrong" } });
      expect([request, status, json.msg]).toEqual([request, 401, "Invalid API key"]);
    }
    const bare = await fetch(`${url}/auth/v1/user`, { headers: { authorization: `Bearer ${token}` } });
    expect([bare.status, ((await bare.json()) as any).email]).toEqual([200, email]);
    expect((await fetch(`${url}/auth/v1/.well-known/jwks.json`)).status).toBe(200);
    const headers = { apikey: of.tokens.issueKey("service_role"), origin: "https://page.example" };
    expect((await send("GET /auth/v1/user", { token, headers })).status).toBe(403);
  });

  test("answers with the settings, its health and the public keys", async () => {
    const settings = await send("GET /auth/v1/settings");
    expect(settings.json).toMatchObject({
      external: { email: true, phone: false },
      disable_signup: false,
      saml_enabled: false,
    });
    expect((await send("GET /auth/v1/health")).json).toMatchObject({ name: "content-service" });
    const keys = await send("GET /auth/v1/.well-known/jwks.json");
    expect([keys.json, keys.headers.get("cache-control")]).toEqual([{ keys: [] }, "public, max-age=600"]);
  });
}
