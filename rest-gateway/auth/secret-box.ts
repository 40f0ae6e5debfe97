import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import type pg from "pg";
import type { Logger } from "pino";

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = "aes-256-gcm";

/** Derives a key for one purpose from a secret that serves several. Source: RFC 5869. */
export const deriveKey = (secret: string, purpose: string): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, "", `content-service ${purpose}`, KEY_BYTES));

/** Encrypts values so that the database stores but cannot read them: nonce, AES-256-GCM, tag. */
export class SecretBox {
  readonly #key: Buffer;
  readonly #previousKeys: readonly Buffer[];

  /** Keys have 32 bytes. Previous keys only decrypt. */
  constructor(key: Buffer, previousKeys: readonly Buffer[] = []) {
    this.#key = key;
    this.#previousKeys = previousKeys;
  }

  /** A value that is sealed for one owner cannot be opened for another, even if it is copied to another row. */
  seal(text: string, owner: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(Buffer.from(owner));
    return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  }

  /** Returns null if the value was sealed with another key or for another owner, or was changed. */
  open(sealed: Buffer, owner: string): string | null {
    for (const key of [this.#key, ...this.#previousKeys]) {
      const text = openWith(key, sealed, owner);
      if (text !== null) return text;
    }
    return null;
  }

  /** The value sealed with the current key: the same object if it already is, null if it cannot be opened. */
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

type Row = { readonly id: string; readonly secret: Buffer };

/** Encrypts second factors with the current key, so that the previous one can be removed from the settings. */
export async function resealFactors(client: pg.Client, box: SecretBox, log: Logger): Promise<void> {
  const rows = await readFactors(client);
  const read = rows.map(({ id, secret }) => ({ id, secret, sealed: box.reseal(secret, id) }));
  const changed = read.filter(({ secret, sealed }) => sealed !== null && sealed !== secret);
  // A factor that was removed or replaced in the meantime is not touched.
  const { rowCount } = await client.query(
    `update auth_private.factors as f set secret = r.sealed
     from unnest($1::text[], $2::bytea[], $3::bytea[]) as r (user_id, secret, sealed)
     where f.user_id::text = r.user_id and f.secret = r.secret`,
    [changed.map(({ id }) => id), changed.map(({ secret }) => secret), changed.map(({ sealed }) => sealed)],
  );
  log.info({ factors: rowCount }, "second factors were encrypted with the current key");
  const unreadable = read.filter(({ sealed }) => sealed === null).length;
  if (unreadable > 0) log.warn({ factors: unreadable }, UNREADABLE);
}

export const UNREADABLE = "second factors cannot be decrypted with MFA_KEY or MFA_PREVIOUS_KEY";

export const readFactors = async (client: pg.Client): Promise<readonly Row[]> =>
  (await client.query<Row>("select user_id::text as id, secret from auth_private.factors where secret is not null"))
    .rows;
