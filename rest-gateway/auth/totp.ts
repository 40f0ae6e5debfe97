import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** Milliseconds for which an app shows a code. Like SHA-1 and 6 digits, all apps support it. Source: RFC 6238. */
const PERIOD = 30_000;
/** The previous and the next code are accepted too: clocks differ, and typing takes time. */
const STEPS = [-1, 0, 1];
/** Of base32. Source: RFC 4648. */
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** 160 random bits, in base32: a random byte chooses each of 32 characters equally often. */
export const newTotpSecret = (): string => Array.from(randomBytes(32), (byte) => ALPHABET[byte % 32]).join("");

/**
 * The time step of a code: the number of 30 s periods since 1970. Null for a wrong code; `now` is milliseconds. The database
 * decides whether the step was already spent.
 */
export function stepOf(secret: string, code: string, now: number): number | null {
  if (!isAppCode(code)) return null;
  const key = bytesOf(secret);
  const sent = Buffer.from(digitsOf(code));
  const steps = STEPS.map((step) => Math.floor(now / PERIOD) + step);
  return steps.find((step) => timingSafeEqual(Buffer.from(codeAt(key, step)), sent)) ?? null;
}

/** Source: RFC 4226, 5.3. */
function codeAt(key: Buffer, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", key).update(counter).digest();
  const number = mac.readUInt32BE(mac.at(-1)! & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

/** Bits that do not fill a byte are left out. */
function bytesOf(base32: string): Buffer {
  const bits = Array.from(base32, (sign) => ALPHABET.indexOf(sign).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}

/** Whether the text has the form of a code. */
export const isAppCode = (code: string): boolean => /^[0-9]{6}$/.test(digitsOf(code));

/** Apps show codes as `123 456`. */
const digitsOf = (code: string) => code.replace(/\s/g, "");

/** The content of the QR code: `otpauth://totp/Content%20Service:ada?secret=…&issuer=Content%20Service` */
export function totpUri(secret: string, issuer: string, account: string): string {
  const [by, of] = [issuer, account].map(encodeURIComponent);
  return `otpauth://totp/${by}:${of}?secret=${secret}&issuer=${by}`;
}
