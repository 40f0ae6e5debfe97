import { describe, expect, test } from "vitest";
import { appCode } from "../../support/totp.ts";
import { claimsOf, failureOf, PASSWORD, useAuth } from "./support.ts";

describe("after the password of an account with a second factor", () => {
  const { client, newUser, send } = useAuth("bigint");

  /** A session of a user who has enabled a second factor with the routes of this service. */
  async function passwordOnly() {
    const { client: own, email } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    const { secret } = (await send("POST /api/mfa/enable", { token })).json;
    await send(`POST /api/mfa/verify?code=${appCode(secret, Date.now())}`, { token });
    const limited = client();
    const { data, error } = await limited.auth.signInWithPassword({ email, password: PASSWORD });
    expect(error).toBeNull();
    return { own, limited, session: data.session! };
  }

  test("the session has aal1 and the anonymous role, and opens the user and the logout only", async () => {
    const { limited, session } = await passwordOnly();
    expect(claimsOf(session.access_token)).toMatchObject({ aal: "aal1", role: "anon" });
    expect((await limited.auth.getUser()).data.user!.id).toBe(session.user.id);
    for (const changes of [{ data: { a: 1 } }, { password: "Another-Horse-8!" }, { email: "else@test.example" }])
      expect(failureOf(await limited.auth.updateUser(changes))).toEqual([401, "insufficient_aal"]);
    const { error } = await limited.from("articles").insert({ title: "On looms", content: "x" });
    expect(error!.code).toBe("42501");
    for (const path of ["/auth/me", "/auth/keys", "/auth/sessions"])
      expect([path, (await send(`GET ${path}`, { token: session.access_token })).status]).toEqual([path, 401]);
    expect((await limited.auth.signOut()).error).toBeNull();
    expect((await send("GET /auth/v1/user", { token: session.access_token })).json.error_code).toBe(
      "session_not_found",
    );
  });

  test("a refreshed session is as limited, and the other wire asks for the code", async () => {
    const { limited, session } = await passwordOnly();
    const { data } = await limited.auth.refreshSession();
    expect(claimsOf(data.session!.access_token)).toMatchObject({ aal: "aal1", role: "anon" });
    const { status, json } = await send("POST /auth/refresh", { body: { refreshToken: data.session!.refresh_token } });
    expect([status, json.error.code, typeof json.challenge]).toEqual([401, "MFA_REQUIRED", "string"]);
    expect(session.user.id).toBe(data.user!.id);
  });

  test("the session that has enabled the factor has proved it", async () => {
    const { own } = await passwordOnly();
    const { data, error } = await own.auth.refreshSession();
    expect([error, claimsOf(data.session!.access_token)]).toEqual([
      null,
      expect.objectContaining({
        ...{ aal: "aal2", role: "authenticated" },
        amr: [expect.objectContaining({ method: "totp" }), expect.objectContaining({ method: "password" })],
      }),
    ]);
  });
});

describe("with MFA_AAL1=full", () => {
  const { client, newUser, send } = useAuth("bigint", { MFA_AAL1: "full" });

  test("the password alone enables no factor that was begun before another one was enabled", async () => {
    const { client: owner, email } = await newUser();
    const tokenOf = async () => {
      const { data } = await client().auth.signInWithPassword({ email, password: PASSWORD });
      return data.session!.access_token;
    };
    const { secret } = (await send("POST /api/mfa/enable", { token: await tokenOf() })).json;
    const { data } = await owner.auth.mfa.enroll({ factorType: "totp", friendlyName: "phone" });
    const { id, totp } = data as { id: string; totp: { secret: string } };
    await owner.auth.mfa.challengeAndVerify({ factorId: id, code: appCode(totp.secret, Date.now()) });
    const verified = await send(`POST /api/mfa/verify?code=${appCode(secret, Date.now())}`, { token: await tokenOf() });
    expect([verified.status, verified.json.error?.code]).toEqual([400, "BAD_REQUEST"]);
  });

  test("the password alone opens everything but changes of the user, as with Supabase", async () => {
    const { client: own, email } = await newUser();
    const token = (await own.auth.getSession()).data.session!.access_token;
    const { secret } = (await send("POST /api/mfa/enable", { token })).json;
    await send(`POST /api/mfa/verify?code=${appCode(secret, Date.now())}`, { token });
    const full = client();
    const { data } = await full.auth.signInWithPassword({ email, password: PASSWORD });
    expect(claimsOf(data.session!.access_token)).toMatchObject({ aal: "aal1", role: "authenticated" });
    expect((await full.from("articles").insert({ title: "On looms", content: "x" })).error).toBeNull();
    expect(failureOf(await full.auth.updateUser({ data: { a: 1 } }))).toEqual([401, "insufficient_aal"]);
    const changes = {
      ...{ "POST /auth/keys": { name: "cron" }, "POST /auth/email": { email: "else@test.example" } },
      ...{ "POST /auth/passkeys/options": {}, "POST /api/mfa/disable": { password: PASSWORD } },
    };
    for (const [path, body] of Object.entries(changes)) {
      const { status, json } = await send(path, { token: data.session!.access_token, body });
      expect([path, status, json.error?.code]).toEqual([
        ...[path, 401, path === "POST /api/mfa/disable" ? "MFA_REQUIRED" : "PASSWORD_REQUIRED"],
      ]);
    }
  });
});
