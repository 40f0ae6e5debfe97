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
  readonly #previousKeys: readonly Buffer[];

  /** Keys have 32 bytes; those of before open what was sealed with them, and seal nothing. */
  constructor(key: Buffer, previousKeys: readonly Buffer[] = []) {
    this.#key = key;
    this.#previousKeys = previousKeys;
  }

  /** What is sealed for one owner can't be opened as another's, wherever in the database it is copied to. */
  seal(text: string, owner: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(Buffer.from(owner));
    return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  }

  /** Null for what was sealed with another key, for another owner, or has been changed. */
  open(sealed: Buffer, owner: string): string | null {
    for (const key of [this.#key, ...this.#previousKeys]) {
      const text = openWith(key, sealed, owner);
      if (text !== null) return text;
    }
    return null;
  }

  /** The same sealed with the present key, as it is where it was so already; null for what can't be opened. */
  reseal(sealed: Buffer, owner: string): Buffer | null {
    if (openWith(this.#key, sealed, owner) !== null) return sealed;
    const text = this.open(sealed, owner);
    return text === null ? null : this.seal(text, owner);
  }
}

function openWith(key: Buffer, sealed: Buffer, owner: string): string | null {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return null;
  const options = { authTagLength: TAG_BYTES };
  const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES), options);
  decipher.setAAD(Buffer.from(owner)).setAuthTag(sealed.subarray(-TAG_BYTES));
  const text = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
  try {
    return Buffer.concat([text, decipher.final()]).toString();
  } catch {
    return null;
  }
}
