import { expect, test } from "vitest";
import { pngOf } from "../../../rest-gateway/auth/qr-code.ts";
import { readQrCode } from "../../support/qr-code.ts";
import { useFactors } from "../../support/second-factor.ts";

const { api, sql } = useFactors();

test("the QR code contains the secret, the host name of the service and the account", async () => {
  const { json } = await api("POST /api/mfa/enable", { as: "ada" });
  expect(readQrCode(json.qrCode)).toBe(`otpauth://totp/127.0.0.1:ada?secret=${json.secret}&issuer=127.0.0.1`);
});

test("the account is the e-mail if the user has no username", async () => {
  await sql("update auth_private.accounts set username = null where user_id = 2");
  const { json } = await api("POST /api/mfa/enable", { as: "bob" });
  expect(new URL(readQrCode(json.qrCode)).pathname).toBe("/127.0.0.1:bob%40example.com");
});

test.each([
  `otpauth://totp/a:${"b".repeat(10)}?secret=ABCDEFGH234567ABCDEFGH234567ABCD&issuer=a`,
  `otpauth://totp/a:${"bÄ".repeat(15)}?secret=ABCDEFGH234567ABCDEFGH234567ABCD&issuer=a`,
  `otpauth://totp/a:${"b7".repeat(40)}?secret=ABCDEFGH234567ABCDEFGH234567ABCD&issuer=a`,
  `otpauth://totp/0123456789012345:${"b".repeat(50)}?secret=ABCDEFGH234567ABCDEFGH234567ABCD&issuer=a`,
])("the QR code of %s is read", async (text) => expect(readQrCode(await pngOf(text))).toBe(text));
