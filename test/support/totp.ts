import { createHmac } from "node:crypto";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** The code that an authenticator app shows for the secret (base32) at this time (milliseconds). Source: RFC 4226, RFC 6238. */
export function appCode(secret: string, time: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(time / 30_000)));
  const mac = createHmac("sha1", bytesOf(secret)).update(counter).digest();
  const number = mac.readUInt32BE(mac.at(-1)! & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

/** A code that is not accepted at this time. */
export function wrongCode(secret: string, time: number): string {
  const right = [-30_000, 0, 30_000].map((drift) => appCode(secret, time + drift));
  return ["000000", "000001", "000002", "000003"].find((code) => !right.includes(code))!;
}

function bytesOf(secret: string): Buffer {
  const bits = [...secret].map((sign) => ALPHABET.indexOf(sign).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
