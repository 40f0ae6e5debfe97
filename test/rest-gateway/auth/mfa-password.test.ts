import { describe, expect, test } from "vitest";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";
import { wrongCode } from "../../support/totp.ts";

const { failure, enrol, login, codeOf, now, pass, events, sql } = useFactors();

const NEW = "Another-Horse-9?";
const CODE_NEEDED = [401, "MFA_REQUIRED", "the code of the second factor is required: send it as code"];
const WRONG = [400, "VALIDATION_ERROR", "the code is wrong: enter the code that the app shows now"];
const hashOfAda = async () =>
  (await sql("select password_hash from auth_private.accounts where user_id = 1"))[0].password_hash;

/** Each test ends with the password that it began with. */
async function keepingPassword(test: () => Promise<void>): Promise<void> {
  const hash = await hashOfAda();
  await test().finally(() => sql("update auth_private.accounts set password_hash = $1 where user_id = 1", hash));
}
const change = (more: object = {}, oldPassword = PASSWORD, newPassword = NEW) =>
  failure("POST /auth/password", { as: "ada", body: { oldPassword, newPassword, ...more } });

/** What the password and a code confirm, with the names of the fields that the request needs. */
const DOORS: readonly (readonly [request: string, password: string, more: object, success: number])[] = [
  ["POST /auth/password", "oldPassword", { newPassword: NEW }, 200],
  ["POST /api/mfa/disable", "password", {}, 200],
  ["POST /api/mfa/backup-codes", "password", {}, 200],
  // After an older sign-in.
  ["POST /auth/keys", "password", { name: "import" }, 201],
];

describe.each(DOORS)("with a second factor, %s", (request, field, more, success) => {
  const send = async (sent: object, password = PASSWORD) =>
    failure(request, { as: "ada", body: { [field]: password, ...more, ...sent } });
  const begin = async () => {
    const enrolled = await enrol("ada");
    pass(601_000);
    return enrolled;
  };

  test.each(["app", "backup"])("requires a right code, which is then spent: of the %s", (kind) =>
    keepingPassword(async () => {
      const { secret, backupCodes } = await begin();
      for (const none of [{}, { code: null }]) expect(await send(none)).toEqual(CODE_NEEDED);
      for (const code of ["abc", "12345", 123456])
        expect((await send({ code })).slice(0, 2)).toEqual([400, "VALIDATION_ERROR"]);
      expect(await events()).toEqual(["mfa_enabled"]);
      expect(await send({ code: wrongCode(secret, now()) })).toEqual(WRONG);
      const code = kind === "app" ? codeOf(secret) : backupCodes[0];
      // The code is not spent if the password is wrong.
      expect((await send({ code }, "Wrong-Horse-77!"))[0]).toBe(403);
      const before = await hashOfAda();
      expect((await send({ code }))[0]).toBe(success);
      expect(await events()).toContain("code_failed");
      const password = (await hashOfAda()) === before ? PASSWORD : NEW;
      if (request !== "POST /api/mfa/disable") expect((await login("ada", { password, code })).status).toBe(401);
    }),
  );

  test("rejects a backup code that was used at a login", async () => {
    const { backupCodes } = await begin();
    expect((await login("ada", { code: backupCodes[0] })).status).toBe(200);
    expect(await send({ code: backupCodes[0] })).toEqual(WRONG);
  });

  test("counts wrong codes together with those at logins and at other changes", async () => {
    const { secret } = await begin();
    const code = wrongCode(secret, now());
    for (let i = 0; i < 2; i++) expect((await login("ada", { code })).status).toBe(401);
    for (let i = 0; i < 3; i++) expect(await send({ code })).toEqual(WRONG);
    expect((await send({ code: codeOf(secret) })).slice(0, 2)).toEqual([429, "RATE_LIMITED"]);
    expect((await login("ada", { code: codeOf(secret) })).status).toBe(429);
  });
});

test("one code confirms one of two changes at the same time", () =>
  keepingPassword(async () => {
    const { backupCodes } = await enrol("ada");
    const body = { password: PASSWORD, code: backupCodes[0] };
    const outcomes = await Promise.all([
      change({ code: backupCodes[0] }),
      failure("POST /api/mfa/disable", { as: "ada", body }),
      failure("POST /api/mfa/backup-codes", { as: "ada", body }),
    ]);
    // After the factor is disabled, a change of the password needs no code. After the change, the old password is wrong.
    const [changed, disabled, renewed] = outcomes.map(([status]) => status === 200);
    const factors = await sql("select from auth_private.factors where enabled_at is not null");
    expect(factors).toHaveLength(disabled ? 0 : 1);
    expect(Number(disabled) + Number(renewed)).toBeLessThanOrEqual(1);
    if (changed && !disabled) expect(renewed).toBe(false);
    expect([changed, disabled, renewed]).toContain(true);
    for (const [status] of outcomes) expect([200, 400, 401, 403, 409]).toContain(status);
  }));

test("a code that is tried while the factor is removed is not accepted for another factor", async () => {
  const { secret } = await enrol("ada");
  const disable = (code: string) => failure("POST /api/mfa/disable", { as: "ada", body: { password: PASSWORD, code } });
  expect((await disable(codeOf(secret)))[0]).toBe(200);
  const again = await enrol("ada");
  expect(await disable(codeOf(secret))).toEqual(WRONG);
  expect((await disable(codeOf(again.secret)))[0]).toBe(200);
});
