import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = "aes-256-gcm";

/** A key for one purpose, from a secret that has others too. Source: RFC 5869. */
export const deriveKey = (secret: string, purpose: string): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, "", `content-service ${purpose}`, KEY_BYTES));

/** Encrypts what the database keeps and must not be able to read: nonce, AES-256-GCM, tag. */
export class SecretBox {
  readonly #key: Buffer;

  /** `key` has 32 bytes. */
  constructor(key: Buffer) {
    this.#key = key;
  }

  /** What is sealed for one owner can't be opened as another's, wherever in the database it is copied to. */
  seal(text: string, owner: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(Buffer.from(owner));
    return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  }

  /** Null for what was sealed with another key, for another owner, or has been changed. */
  open(sealed: Buffer, owner: string): string | null {
    if (sealed.length < NONCE_BYTES + TAG_BYTES) return null;
    const options = { authTagLength: TAG_BYTES };
    const decipher = createDecipheriv(CIPHER, this.#key, sealed.subarray(0, NONCE_BYTES), options);
    decipher.setAAD(Buffer.from(owner)).setAuthTag(sealed.subarray(-TAG_BYTES));
    const text = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
    try {
      return Buffer.concat([text, decipher.final()]).toString();
    } catch {
      return null;
    }
  }
}
