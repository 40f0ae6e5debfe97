import { expect, test } from "vitest";
import { pngOf } from "../../../rest-gateway/auth/qr-code.ts";
import { readQrCode } from "../../support/qr-code.ts";
import { useFactors } from "../../support/second-factor.ts";

const { api, sql } = useFactors({ MFA_ISSUER: "Ink & Paper" });

test("the QR code contains the secret, the issuer and the account", async () => {
  const { json } = await api("POST /api/mfa/enable", { as: "ada" });
  expect(readQrCode(json.qrCode)).toBe(
    `otpauth://totp/Ink%20%26%20Paper:ada?secret=${json.secret}&issuer=Ink%20%26%20Paper`,
  );
});

test("the account is the e-mail if the user has no username", async () => {
  await sql("update auth_private.accounts set username = null where user_id = 2");
  const { json } = await api("POST /api/mfa/enable", { as: "bob" });
  expect(new URL(readQrCode(json.qrCode)).pathname).toBe("/Ink%20%26%20Paper:bob%40example.com");
});

test.each([
  `otpauth://totp/a:${"b".repeat(10)}?secret=ABCDEFGH234567ABCDEFGH234567ABCD&issuer=a`,
  `otpauth://totp/a:${"bÄ".repeat(15)}?secret=ABCDEFGH234567ABCDEFGH234567ABCD&issuer=a`,
  `otpauth://totp/a:${"b7".repeat(40)}?secret=ABCDEFGH234567ABCDEFGH234567ABCD&issuer=a`,
  `otpauth://totp/0123456789012345:${"b".repeat(50)}?secret=ABCDEFGH234567ABCDEFGH234567ABCD&issuer=a`,
])("the QR code of %s is read", async (text) => expect(readQrCode(await pngOf(text))).toBe(text));
