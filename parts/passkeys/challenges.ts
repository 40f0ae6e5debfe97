import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../identity/account.ts";
import { deriveKey } from "../../rest-gateway/auth/secret-box.ts";

/** Seconds in which a passkey must sign a challenge. */
const CHALLENGE_SECONDS = 300;

const ID_BYTES = 16;
const TIME_BYTES = 6;
const MAC_BYTES = 16;

/**
 * Challenges that passkeys sign: an id, the time at which it expires, and a MAC of both and of what the challenge is for. So a request
 * for a challenge writes nothing; the database records the id when the challenge is used, and refuses it from then on.
 */
export class PasskeyChallenges {
  readonly #key: Buffer;
  readonly #clock: Clock;

  constructor(secret: string, clock: Clock) {
    this.#key = deriveKey(secret, "passkey challenges");
    this.#clock = clock;
  }

  issue(purpose: string): Buffer {
    const id = Buffer.from(randomUUID().replaceAll("-", ""), "hex");
    const time = Buffer.alloc(TIME_BYTES);
    time.writeUIntBE(this.#clock() + CHALLENGE_SECONDS * 1000, 0, TIME_BYTES);
    const begun = Buffer.concat([id, time]);
    return Buffer.concat([begun, this.#macOf(begun, purpose)]);
  }

  /** The id of a challenge in base64url. Null if it was issued for another purpose, or has expired. */
  idOf(challenge: string, purpose: string): string | null {
    const bytes = Buffer.from(challenge, "base64url");
    if (bytes.length !== ID_BYTES + TIME_BYTES + MAC_BYTES) return null;
    const begun = bytes.subarray(0, -MAC_BYTES);
    if (!timingSafeEqual(bytes.subarray(-MAC_BYTES), this.#macOf(begun, purpose))) return null;
    const { id, expiresAt } = readChallenge(challenge);
    return expiresAt <= this.#clock() ? null : id;
  }

  #macOf(begun: Buffer, purpose: string): Buffer {
    return createHmac("sha256", this.#key).update(begun).update(purpose).digest().subarray(0, MAC_BYTES);
  }
}

/** The id of a challenge and when it expires, in milliseconds since 1970, without a check. */
export function readChallenge(challenge: string): { readonly id: string; readonly expiresAt: number } {
  const bytes = Buffer.from(challenge, "base64url");
  const id = bytes.toString("hex", 0, ID_BYTES).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  return { id, expiresAt: bytes.readUIntBE(ID_BYTES, TIME_BYTES) };
}

/** What a passkey signs to sign in, and to confirm a change. */
export const SIGN_IN = "sign-in";
