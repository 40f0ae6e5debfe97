import { describe, expect, test } from "vitest";
import { appCode } from "../../../support/totp.ts";
import { failureOf, PASSWORD, useAuth } from "./support.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());

describe.each(["bigint", "uuid"] as const)("with %s ids, supabase.auth.mfa", (kind) => {
  let now = Date.now();
  const { client, newUser, sql, send } = useAuth(kind, {}, () => now);
  const MINUTE = 60_000;

  /** A user with a verified factor, whose app shows a code that is not spent. */
  async function enrolled() {
    const { client: own, email } = await newUser();
    const { data: factor } = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "phone" });
    const { id, totp } = factor as { id: string; totp: { secret: string } };
    const code = () => appCode(totp.secret, now);
    const verified = await own.auth.mfa.challengeAndVerify({ factorId: id, code: code() });
    expect(verified.error).toBeNull();
    now += MINUTE;
    return { own, email, id, code };
  }
  const tokenOf = async (each: ReturnType<typeof client>) => (await each.auth.getSession()).data.session!.access_token;

  test("enrols a factor, which the first code verifies and which raises the session to aal2", async () => {
    const { client: own, id: user } = await newUser();
    const { data, error } = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "phone" });
    expect(error).toBeNull();
    expect(data).toMatchObject({
      ...{ id: expect.stringMatching(UUID), type: "totp", friendly_name: "phone" },
      totp: { secret: expect.stringMatching(/^[A-Z2-7]+$/), uri: expect.stringContaining("otpauth://totp/") },
    });
    const { totp, id } = data as { id: string; totp: { secret: string; qr_code: string } };
    expect(totp.qr_code).toMatch(/^data:image\/svg\+xml;utf-8,<svg /);
    const listed = await own.auth.mfa.listFactors();
    expect(listed.data!.all).toEqual([expect.objectContaining({ id, friendly_name: "phone", status: "unverified" })]);
    expect(JSON.stringify(listed)).not.toContain(totp.secret);

    const before = claimsOf(await tokenOf(own));
    const challenge = await own.auth.mfa.challenge({ factorId: id });
    expect(challenge.data).toMatchObject({ id: expect.stringMatching(UUID), expires_at: Math.floor(now / 1000) + 300 });
    const wrong = { factorId: id, challengeId: challenge.data!.id, code: "000000" };
    expect(failureOf(await own.auth.mfa.verify(wrong))).toEqual([422, "mfa_verification_failed"]);
    const verified = await own.auth.mfa.verify({ ...wrong, code: appCode(totp.secret, now) });
    expect(verified.error).toBeNull();
    const claims = claimsOf(verified.data!.access_token);
    expect(claims).toMatchObject({
      ...{ aal: "aal2", role: "authenticated", session_id: before.session_id, sub: before.sub },
      amr: [expect.objectContaining({ method: "totp" }), expect.objectContaining({ method: "password" })],
    });
    expect(verified.data!.user.id).toBe(user);
    expect((await own.auth.mfa.getAuthenticatorAssuranceLevel()).data).toMatchObject({
      currentLevel: "aal2",
      nextLevel: "aal2",
    });
    expect((await own.auth.refreshSession()).error).toBeNull();
    expect(claimsOf(await tokenOf(own)).aal).toBe("aal2");
  });

  test("asks for the code after the password: aal1 is anonymous, the code gives the role", async () => {
    const { email, id, code } = await enrolled();
    const own = client();
    await own.auth.signInWithPassword({ email, password: PASSWORD });
    const limited = await tokenOf(own);
    expect(claimsOf(limited)).toMatchObject({ aal: "aal1", role: "anon" });
    expect((await send("GET /auth/me", { token: limited })).status).toBe(401);
    expect((await own.auth.mfa.getAuthenticatorAssuranceLevel()).data).toMatchObject({
      currentLevel: "aal1",
      nextLevel: "aal2",
    });
    expect((await own.auth.mfa.challengeAndVerify({ factorId: id, code: code() })).error).toBeNull();
    expect(claimsOf(await tokenOf(own))).toMatchObject({ aal: "aal2", role: "authenticated" });
    expect((await send("GET /auth/me", { token: await tokenOf(own) })).json.mfaEnabled).toBe(true);
    expect((await own.auth.updateUser({ data: { a: 1 } })).error).toBeNull();
  });

  test("accepts a code once, and a challenge once, within five minutes and with its own factor and session", async () => {
    const { email, id, code } = await enrolled();
    const [one, other] = [client(), client()];
    for (const each of [one, other]) await each.auth.signInWithPassword({ email, password: PASSWORD });
    const challenge = (await one.auth.mfa.challenge({ factorId: id })).data!.id;
    const verify = (each: typeof one, challengeId: string) =>
      each.auth.mfa.verify({ factorId: id, challengeId, code: code() });
    expect(failureOf(await verify(other, challenge))).toEqual([422, "mfa_challenge_expired"]);
    expect((await verify(one, challenge)).error).toBeNull();
    expect(failureOf(await verify(one, challenge))).toEqual([422, "mfa_challenge_expired"]);
    const replayed = await other.auth.mfa.challengeAndVerify({ factorId: id, code: code() });
    expect(failureOf(replayed)).toEqual([422, "mfa_verification_failed"]);
    const late = (await other.auth.mfa.challenge({ factorId: id })).data!.id;
    now += 5 * MINUTE;
    expect(failureOf(await verify(other, late))).toEqual([422, "mfa_challenge_expired"]);
    await sql("delete from auth_private.attempts");
  });

  test("limits wrong codes, from all sessions together", async () => {
    const { email, id, code } = await enrolled();
    const own = client();
    await own.auth.signInWithPassword({ email, password: PASSWORD });
    const outcomes = [];
    for (let i = 0; i < 6; i++)
      outcomes.push(failureOf(await own.auth.mfa.challengeAndVerify({ factorId: id, code: "000000" }))[1]);
    expect(outcomes).toEqual([...Array(5).fill("mfa_verification_failed"), "over_request_rate_limit"]);
    const right = await own.auth.mfa.challengeAndVerify({ factorId: id, code: code() });
    expect(failureOf(right)).toEqual([429, "over_request_rate_limit"]);
    await sql("delete from auth_private.attempts");
  });

  test("ends the other sessions when a factor is verified, and replaces the refresh token", async () => {
    const { client: own, email } = await newUser();
    const other = client();
    await other.auth.signInWithPassword({ email, password: PASSWORD });
    const old = (await own.auth.getSession()).data.session!.refresh_token;
    const { data } = await own.auth.mfa.enroll({ factorType: "totp" });
    const { id, totp } = data as { id: string; totp: { secret: string } };
    await own.auth.mfa.challengeAndVerify({ factorId: id, code: appCode(totp.secret, now) });
    expect(failureOf(await other.auth.refreshSession())).toEqual([400, "refresh_token_not_found"]);
    now += MINUTE;
    expect(failureOf(await client().auth.refreshSession({ refresh_token: old }))).toEqual([
      400,
      "refresh_token_already_used",
    ]);
  });

  test("enrols only with a recent sign-in, and one factor", async () => {
    const { own } = await enrolled();
    expect(failureOf(await own.auth.mfa.enroll({ factorType: "totp" }))).toEqual([
      422,
      "too_many_enrolled_mfa_factors",
    ]);
    const { client: old } = await newUser();
    now += 11 * MINUTE;
    expect(failureOf(await old.auth.mfa.enroll({ factorType: "totp" }))).toEqual([400, "reauthentication_needed"]);
    const phone = { factorType: "phone", phone: "+4912345" } as const;
    expect(failureOf(await old.auth.mfa.enroll(phone))).toEqual([400, "validation_failed"]);
  });

  test("an unverified factor is no second factor, and is replaced by the next one", async () => {
    const { client: own, email } = await newUser();
    const first = (await own.auth.mfa.enroll({ factorType: "totp" })).data!.id;
    const second = (await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "tablet" })).data!.id;
    expect(failureOf(await own.auth.mfa.challenge({ factorId: first }))).toEqual([422, "mfa_factor_not_found"]);
    expect((await own.auth.mfa.listFactors()).data!.all.map(({ id }) => id)).toEqual([second]);
    const again = client();
    await again.auth.signInWithPassword({ email, password: PASSWORD });
    expect(claimsOf(await tokenOf(again)).role).toBe("authenticated");
    expect((await own.auth.mfa.unenroll({ factorId: second })).data).toEqual({ id: second });
    expect((await own.auth.mfa.listFactors()).data!.all).toEqual([]);
  });

  test("unenrols only with aal2 and a recent sign-in; then the password is enough", async () => {
    const { own, email, id } = await enrolled();
    const limited = client();
    await limited.auth.signInWithPassword({ email, password: PASSWORD });
    expect(failureOf(await limited.auth.mfa.unenroll({ factorId: id }))).toEqual([422, "insufficient_aal"]);
    expect(failureOf(await limited.auth.mfa.enroll({ factorType: "totp" }))).toEqual([403, "insufficient_aal"]);
    now += 11 * MINUTE;
    expect(failureOf(await own.auth.mfa.unenroll({ factorId: id }))).toEqual([400, "reauthentication_needed"]);
    now -= 11 * MINUTE;
    expect((await own.auth.mfa.unenroll({ factorId: id })).data).toEqual({ id });
    await own.auth.refreshSession();
    expect(claimsOf(await tokenOf(own))).toMatchObject({ aal: "aal1", role: "authenticated" });
    await limited.auth.refreshSession();
    expect(claimsOf(await tokenOf(limited)).role).toBe("authenticated");
  });

  test("finds no factor of another user", async () => {
    const [{ id }, { client: other }] = [await enrolled(), await newUser()];
    expect(failureOf(await other.auth.mfa.challenge({ factorId: id }))).toEqual([422, "mfa_factor_not_found"]);
    expect(failureOf(await other.auth.mfa.unenroll({ factorId: id }))).toEqual([422, "mfa_factor_not_found"]);
    expect((await send(`POST /auth/v1/factors/${id}/challenge`, { headers: { authorization: "" } })).status).toBe(401);
  });
});
