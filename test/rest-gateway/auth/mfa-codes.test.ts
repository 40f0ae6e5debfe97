import { describe, expect, test } from "vitest";
import { BackupCodes, factorKeys, isBackupCode } from "../../../rest-gateway/auth/second-factor.ts";
import { deriveKey, SecretBox } from "../../../rest-gateway/auth/secret-box.ts";
import { newTotpSecret, stepOf, totpUri } from "../../../rest-gateway/auth/totp.ts";
import { appCode } from "../../support/totp.ts";

const SECRET = "a secret of the tests, long enough for keys";
const OTHER = `${SECRET}!`;
const keysOf = (mfaKey: string, mfaPreviousKey = "") => factorKeys({ mfaKey, mfaPreviousKey }, "of the service");

describe("a code of the app", () => {
  /** The ASCII text "12345678901234567890" in base32. */
  const RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

  // Source: RFC 6238, appendix B, SHA1; the last six of its eight digits.
  test.each([
    [59, "287082", 0x1],
    [1111111109, "081804", 0x23523ec],
    [1111111111, "050471", 0x23523ed],
    [1234567890, "005924", 0x273ef07],
    [2000000000, "279037", 0x3f940aa],
    [20000000000, "353130", 0x27bc86aa],
  ])("%d s after 1970 is %s", (seconds, code, step) => {
    expect(stepOf(RFC_SECRET, code, seconds * 1000)).toBe(step);
    expect(appCode(RFC_SECRET, seconds * 1000)).toBe(code);
  });

  test.each([
    [-60_001, null],
    [-60_000, null],
    [-30_001, null],
    [-30_000, 99],
    [-1, 99],
    [0, 100],
    [29_999, 100],
    [30_000, 101],
    [59_999, 101],
    [60_000, null],
  ])("that was read %d ms after the start of its step has the step %j", (shown, step) => {
    const start = 100 * 30_000;
    expect(stepOf(RFC_SECRET, appCode(RFC_SECRET, start + shown), start)).toBe(step);
  });

  test.each(["", "28708", "2870822", "28708a", "-87082", "+87082", "2870.2", "٢٨٧٠٨٢", "287082\0", "0x1234", "1e5   "])(
    "%j is none",
    (code) => expect(stepOf(RFC_SECRET, code, 59_000)).toBe(null),
  );

  test("has a random secret of 160 bits", () => {
    const secrets = Array.from({ length: 100 }, newTotpSecret);
    expect(new Set(secrets).size).toBe(100);
    for (const secret of secrets) expect(secret).toMatch(/^[A-Z2-7]{32}$/);
  });

  test.each([
    ["Content Service", "ada", "otpauth://totp/Content%20Service:ada?secret=ABCDEFGH&issuer=Content%20Service"],
    ["A&B?", "ä@b.example", "otpauth://totp/A%26B%3F:%C3%A4%40b.example?secret=ABCDEFGH&issuer=A%26B%3F"],
  ])("has a URI for the QR code with issuer and account: %s, %s", (issuer, account, uri) =>
    expect(totpUri("ABCDEFGH", issuer, account)).toBe(uri),
  );
});

describe("a secret box", () => {
  const box = new SecretBox(deriveKey(SECRET, "second factors"));

  test("opens what it has sealed, also after a restart, and seals differently each time", () => {
    const [one, other] = [box.seal("ABCDEFGH", "1"), box.seal("ABCDEFGH", "1")];
    expect(one).not.toEqual(other);
    expect(one.toString("latin1")).not.toContain("ABCDEFGH");
    for (const sealed of [one, other]) expect(keysOf(SECRET).box.open(sealed, "1")).toBe("ABCDEFGH");
  });

  test("does not open values of another owner or another key", () => {
    const sealed = box.seal("ABCDEFGH", "1");
    expect(box.open(sealed, "2")).toBe(null);
    expect(keysOf(OTHER).box.open(sealed, "1")).toBe(null);
    expect(new SecretBox(deriveKey(SECRET, "backup codes")).open(sealed, "1")).toBe(null);
  });

  test("does not open values that were changed or truncated anywhere", () => {
    const sealed = box.seal("ABCDEFGH", "1");
    for (let i = 0; i < sealed.length; i++) {
      const changed = Buffer.from(sealed);
      changed[i]! ^= 1;
      expect(box.open(changed, "1")).toBe(null);
      expect(box.open(sealed.subarray(0, i), "1")).toBe(null);
      expect(box.open(sealed.subarray(i + 1), "1")).toBe(null);
    }
    expect(box.open(Buffer.concat([sealed, Buffer.alloc(1)]), "1")).toBe(null);
  });

  test("with a previous key opens what that key has sealed, and seals with its own key", () => {
    const { box: both } = keysOf(OTHER, SECRET);
    expect(both.open(box.seal("ABCDEFGH", "1"), "1")).toBe("ABCDEFGH");
    expect(both.open(box.seal("ABCDEFGH", "2"), "1")).toBe(null);
    const sealed = both.seal("ABCDEFGH", "1");
    expect(keysOf(OTHER).box.open(sealed, "1")).toBe("ABCDEFGH");
    expect(box.open(sealed, "1")).toBe(null);
  });

  test("reseals what a previous key has sealed for the same owner, and leaves other values", () => {
    const { box: both } = keysOf(OTHER, SECRET);
    const before = box.seal("ABCDEFGH", "1");
    const resealed = both.reseal(before, "1")!;
    expect(keysOf(OTHER).box.open(resealed, "1")).toBe("ABCDEFGH");
    expect(both.reseal(resealed, "1")).toBe(resealed);
    expect(both.reseal(before, "2")).toBe(null);
    expect(both.reseal(Buffer.alloc(40), "1")).toBe(null);
  });
});

test("without MFA_KEY, keys are derived from the JWT secret", () => {
  const sealed = keysOf("").box.seal("ABCDEFGH", "1");
  expect(keysOf("of the service").box.open(sealed, "1")).toBe("ABCDEFGH");
});

describe("backup codes", () => {
  const codes = new BackupCodes(deriveKey(SECRET, "backup codes"));

  test("use all characters equally often", () => {
    const signs = Array.from({ length: 400 }, () => codes.make("1").codes.join("")).join("");
    const counts = new Map<string, number>();
    for (const sign of signs) counts.set(sign, (counts.get(sign) ?? 0) + 1);
    expect(counts.size).toBe(32);
    // 1000 are expected of each; six standard deviations are 187.
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(187);
  });

  test.each(["abcdefgh", "ABCD-EFGH", " abcd efgh ", "a-b-c-d-e-f-g-h"])("accept %j for ABCDEFGH", (code) => {
    expect(isBackupCode(code)).toBe(true);
    expect(codes.hashesOf(code, "1")).toEqual(codes.hashesOf("ABCDEFGH", "1"));
  });

  test.each(["", "ABCDEFG", "ABCDEFGHJ", "ABCDEFG0", "ABCDEFGI", "123456", "ÄBCDEFGH", "ABCDEFGſ", "ABCD_EFGH"])(
    "%j is none",
    (code) => expect(isBackupCode(code)).toBe(false),
  );

  test("have different hashes for different users and different keys", () => {
    const hashes = codes.hashesOf("ABCDEFGH", "1");
    expect(codes.hashesOf("ABCDEFGH", "2")).not.toEqual(hashes);
    expect(keysOf(OTHER).backupCodes.hashesOf("ABCDEFGH", "1")).not.toEqual(hashes);
  });

  test("that were created with a previous key remain valid, and new ones are created with the current key", () => {
    const { backupCodes } = keysOf(OTHER, SECRET);
    const { codes: made, hashes } = codes.make("1");
    expect(backupCodes.hashesOf(made[0]!, "1")).toContainEqual(hashes[0]);
    const renewed = backupCodes.make("1");
    expect(keysOf(OTHER).backupCodes.hashesOf(renewed.codes[0]!, "1")).toEqual([renewed.hashes[0]]);
  });
});
