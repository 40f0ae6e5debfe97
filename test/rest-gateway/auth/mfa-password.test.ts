import { describe, expect, test } from "vitest";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";
import { wrongCode } from "../../support/totp.ts";

const { failure, enrol, login, codeOf, now, events, sql } = useFactors();

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

describe("POST /auth/password with a second factor", () => {
  test("requires a code of the app or a backup code, and spends it", () =>
    keepingPassword(async () => {
      const { secret, backupCodes } = await enrol("ada");
      for (const more of [{}, { code: null }]) expect(await change(more)).toEqual(CODE_NEEDED);
      expect(await change({ code: wrongCode(secret, now()) })).toEqual(WRONG);
      expect((await login("ada", { code: backupCodes[0] })).status).toBe(200);
      expect((await change({ code: codeOf(secret) }))[0]).toBe(200);
      for (const code of [codeOf(secret), backupCodes[0]])
        expect((await login("ada", { password: NEW, code })).status).toBe(401);
      expect((await login("ada", { password: NEW, code: backupCodes[1] })).status).toBe(200);
      expect((await events()).filter((event) => event === "password_changed")).toHaveLength(1);
    }));

  test("accepts a backup code, which must not have been used", () =>
    keepingPassword(async () => {
      const { backupCodes } = await enrol("ada");
      expect((await login("ada", { code: backupCodes[0] })).status).toBe(200);
      expect(await change({ code: backupCodes[0] })).toEqual(WRONG);
      expect((await change({ code: backupCodes[1] }))[0]).toBe(200);
    }));

  test("does not spend the code if the old password is wrong", () =>
    keepingPassword(async () => {
      const { secret } = await enrol("ada");
      expect((await change({ code: codeOf(secret) }, "Wrong-Horse-77!"))[0]).toBe(403);
      expect((await change({ code: codeOf(secret) }))[0]).toBe(200);
    }));

  test("counts wrong codes together with those at logins and at other changes", async () => {
    const { secret } = await enrol("ada");
    const code = wrongCode(secret, now());
    const confirm = (path: string, code: string) =>
      failure(`POST ${path}`, { as: "ada", body: { password: PASSWORD, code } });
    expect((await login("ada", { code })).status).toBe(401);
    for (let i = 0; i < 2; i++) expect(await change({ code })).toEqual(WRONG);
    for (const path of ["/api/mfa/disable", "/api/mfa/backup-codes"]) expect(await confirm(path, code)).toEqual(WRONG);
    expect((await change({ code: codeOf(secret) })).slice(0, 2)).toEqual([429, "RATE_LIMITED"]);
    for (const path of ["/api/mfa/disable", "/api/mfa/backup-codes"])
      expect((await confirm(path, codeOf(secret))).slice(0, 2)).toEqual([429, "RATE_LIMITED"]);
    expect((await login("ada", { code: codeOf(secret) })).status).toBe(429);
  });

  test("with a malformed code is 400, and does not count as an attempt", async () => {
    await enrol("ada");
    for (const code of ["abc", "12345", 123456, ""])
      expect((await change({ code })).slice(0, 2)).toEqual([400, "VALIDATION_ERROR"]);
    expect(await events()).toEqual(["mfa_enabled"]);
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
