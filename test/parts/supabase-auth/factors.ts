import { expect, test } from "vitest";
import { MAX_FACTORS } from "../../../rest-gateway/auth/factors.ts";
import { appCode } from "../../support/totp.ts";
import { claimsOf, failureOf, type Kind, PASSWORD, useAuth } from "./support.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** With users of this type of ids. */
export function testFactors(kind: Kind): void {
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
    const { data, error } = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "phone", issuer: "My App" });
    expect(error).toBeNull();
    expect(data).toMatchObject({
      ...{ id: expect.stringMatching(UUID), type: "totp", friendly_name: "phone" },
      totp: {
        secret: expect.stringMatching(/^[A-Z2-7]+$/),
        uri: expect.stringMatching(/^otpauth:\/\/totp\/My%20App:.*issuer=My%20App/),
      },
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

  test("enrols several factors, each with its own name, and a code of each signs in", async () => {
    const { own, email, id: phone, code } = await enrolled();
    const taken = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "phone" });
    expect(failureOf(taken)).toEqual([422, "mfa_factor_name_conflict"]);
    expect(taken.error!.message).toBe('A factor with the friendly name "phone" for this user already exists');
    const { data } = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "tablet" });
    const { id: tablet, totp } = data as { id: string; totp: { secret: string } };
    const verified = await own.auth.mfa.challengeAndVerify({ factorId: tablet, code: appCode(totp.secret, now) });
    expect(verified.error).toBeNull();
    expect((await own.auth.mfa.listFactors()).data!.totp).toEqual([
      expect.objectContaining({ id: phone, friendly_name: "phone", status: "verified" }),
      expect.objectContaining({ id: tablet, friendly_name: "tablet", status: "verified" }),
    ]);
    now += MINUTE;
    // A code belongs to the factor that the client names.
    const again = client();
    await again.auth.signInWithPassword({ email, password: PASSWORD });
    const tabletCode = appCode(totp.secret, now);
    expect(failureOf(await again.auth.mfa.challengeAndVerify({ factorId: phone, code: tabletCode }))).toEqual([
      422,
      "mfa_verification_failed",
    ]);
    expect((await again.auth.mfa.challengeAndVerify({ factorId: tablet, code: tabletCode })).error).toBeNull();
    // The routes of this service have no names: a code of any factor is accepted.
    for (const each of [code(), appCode(totp.secret, now + MINUTE / 2)]) {
      const body = { username: email, password: PASSWORD, code: each };
      expect((await send("POST /auth/login", { body })).status).toBe(200);
    }
  });

  test("enrols at most ten factors", async () => {
    const { own } = await enrolled();
    for (let i = 2; i <= MAX_FACTORS; i++)
      expect((await own.auth.mfa.enroll({ factorType: "totp", friendlyName: `app ${i}` })).error).toBeNull();
    expect(MAX_FACTORS).toBe(10);
    const last = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "one more" });
    expect(failureOf(last)).toEqual([422, "too_many_enrolled_mfa_factors"]);
  });

  test("one of two factors can be unenrolled: the session stays, the others have to send a code again", async () => {
    const { own, email, id: phone, code } = await enrolled();
    const other = client();
    await other.auth.signInWithPassword({ email, password: PASSWORD });
    await other.auth.mfa.challengeAndVerify({ factorId: phone, code: code() });
    now += MINUTE;
    const { data } = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "tablet" });
    const { id: tablet, totp } = data as { id: string; totp: { secret: string } };
    await own.auth.mfa.challengeAndVerify({ factorId: tablet, code: appCode(totp.secret, now) });
    // A further factor ends no session.
    expect((await other.auth.refreshSession()).error).toBeNull();
    expect(claimsOf(await tokenOf(other)).aal).toBe("aal2");

    expect((await own.auth.mfa.unenroll({ factorId: phone })).data).toEqual({ id: phone });
    for (const each of [own, other]) await each.auth.refreshSession();
    expect(claimsOf(await tokenOf(own))).toMatchObject({ aal: "aal2", role: "authenticated" });
    expect(claimsOf(await tokenOf(other))).toMatchObject({ aal: "aal1", role: "anon" });
  });

  test("/api/mfa manages one factor, and keeps the others", async () => {
    const { own, id: phone, code } = await enrolled();
    const token = await tokenOf(own);
    expect((await send("POST /api/mfa/enable", { token })).status).toBe(409);
    const { data } = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "tablet" });
    const { id: tablet, totp } = data as { id: string; totp: { secret: string } };
    await own.auth.mfa.challengeAndVerify({ factorId: tablet, code: appCode(totp.secret, now) });
    const disable = (each: string) =>
      send("POST /api/mfa/disable", { token, body: { password: PASSWORD, code: each } });
    expect((await disable(code())).json).toEqual({
      message: "this second factor is disabled: another one is still enabled",
    });
    expect((await own.auth.mfa.listFactors()).data!.all.map(({ id }) => id)).toEqual([tablet]);
    expect(phone).not.toBe(tablet);
    now += MINUTE;
    expect((await disable(appCode(totp.secret, now))).json).toEqual({ message: "the second factor is disabled" });
    expect((await own.auth.mfa.listFactors()).data!.all).toEqual([]);
  });

  test("a factor that a thief has begun is not enabled with the password alone, once another one is", async () => {
    const { client: owner, email } = await newUser();
    const signIn = async () => {
      const thief = client();
      await thief.auth.signInWithPassword({ email, password: PASSWORD });
      return thief;
    };
    const enrol = async (each: typeof owner, friendlyName: string) => {
      const { data } = await each.auth.mfa.enroll({ factorType: "totp", friendlyName });
      const { id: factorId, totp } = data as { id: string; totp: { secret: string } };
      return { factorId, code: appCode(totp.secret, now) };
    };
    const begun = await enrol(await signIn(), "of a thief");
    expect((await owner.auth.mfa.challengeAndVerify(await enrol(owner, "phone"))).error).toBeNull();
    const refused = await (await signIn()).auth.mfa.challengeAndVerify(begun);
    expect(failureOf(refused)).toEqual([403, "insufficient_aal"]);
  });

  test("enrols only with a recent sign-in", async () => {
    const { client: old } = await newUser();
    now += 11 * MINUTE;
    expect(failureOf(await old.auth.mfa.enroll({ factorType: "totp" }))).toEqual([400, "reauthentication_needed"]);
    const phone = { factorType: "phone", phone: "+4912345" } as const;
    expect(failureOf(await old.auth.mfa.enroll(phone))).toEqual([400, "validation_failed"]);
  });

  test("an unverified factor is no second factor, keeps its name, and expires after ten minutes", async () => {
    const { client: own, email } = await newUser();
    const second = (await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "tablet" })).data!.id;
    const taken = await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "tablet" });
    expect(failureOf(taken)).toEqual([422, "mfa_factor_name_conflict"]);
    expect((await own.auth.mfa.listFactors()).data!.all.map(({ id }) => id)).toEqual([second]);
    const again = client();
    await again.auth.signInWithPassword({ email, password: PASSWORD });
    expect(claimsOf(await tokenOf(again)).role).toBe("authenticated");
    expect((await own.auth.mfa.unenroll({ factorId: second })).data).toEqual({ id: second });
    expect((await own.auth.mfa.listFactors()).data!.all).toEqual([]);

    await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "tablet" });
    now += 10 * MINUTE;
    expect((await own.auth.mfa.enroll({ factorType: "totp", friendlyName: "tablet" })).error).toBeNull();
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
}
