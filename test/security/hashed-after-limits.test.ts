import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { argon2 } from "../../rest-gateway/auth/password-hashes.ts";
import { failureOf, PASSWORD, useAuth } from "../parts/supabase-auth/support.ts";

// A hash of a password takes time: no request causes one beyond the limits, and for an address or a code that it does not know.

const LIMIT = 3;
const { client, newUser, send, sql } = useAuth("bigint", {
  LOGIN_ATTEMPTS: String(LIMIT),
  loginAttemptsPerAddress: LIMIT,
  registrationsPerAddress: 1000,
});
beforeEach(() => sql("delete from auth_private.attempts"));

/** How many passwords are hashed from now on. */
function countHashes(): () => number {
  const spies = [vi.spyOn(argon2, "verify"), vi.spyOn(argon2, "hash")];
  onTestFinished(() => void vi.restoreAllMocks());
  return () => spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
}

describe("POST /auth/v1/verify with a password", () => {
  const verify = async (email: string, token: string, password = PASSWORD) => {
    const { status, json } = await send("POST /auth/v1/verify", { body: { type: "email", email, token, password } });
    return [status, json.error_code];
  };
  /** Of a user who has chosen the password. With a link for a new one, that of the service key needs no proof. */
  const signUpLink = async (email: string) => {
    await client().auth.signUp({ email, password: PASSWORD });
    const link = { type: "signup", email, password: PASSWORD } as const;
    return (await client("service_role").auth.admin.generateLink(link)).data.properties!;
  };

  test("hashes none with a wrong code, whether the address has an account or not", async () => {
    const { email } = await newUser();
    const hashes = countHashes();
    for (const each of [email, "unknown@test.example"])
      expect(await verify(each, "000000")).toEqual([403, "otp_expired"]);
    expect(hashes()).toBe(0);
  });

  test("hashes none beyond loginAttemptsPerAddress", async () => {
    const { email } = await newUser();
    const hashes = countHashes();
    for (let i = 0; i < LIMIT; i++) await verify(email, "000000");
    expect(await verify(email, "000000")).toEqual([429, "over_request_rate_limit"]);
    expect(hashes()).toBe(0);
  });

  test("counts a wrong one beside the right code as a failed login, and the code stays valid", async () => {
    const email = "coded@test.example";
    const { email_otp: code } = await signUpLink(email);
    for (let i = 0; i < LIMIT; i++)
      expect(await verify(email, code, "Wrong-Horse-7!")).toEqual([400, "invalid_credentials"]);
    const hashes = countHashes();
    expect(await verify(email, code)).toEqual([429, "over_request_rate_limit"]);
    expect(hashes()).toBe(0);
    await sql("delete from auth_private.attempts");
    expect((await verify(email, code))[0]).toBe(200);
  });
});

test("PUT /auth/v1/user hashes no new password beyond LOGIN_ATTEMPTS", async () => {
  const { client: own, email } = await newUser();
  for (let i = 0; i < LIMIT; i++) await client().auth.signInWithPassword({ email, password: "Wrong-Horse-7!" });
  const hashes = countHashes();
  const refused = await own.auth.updateUser({ password: "Another-Horse-9?" });
  expect([failureOf(refused), hashes()]).toEqual([[429, "over_request_rate_limit"], 0]);
  await sql("delete from auth_private.attempts");
  expect(failureOf(await own.auth.updateUser({ password: PASSWORD }))).toEqual([422, "same_password"]);
  expect((await own.auth.updateUser({ password: "Another-Horse-9?" })).error).toBeNull();
});
