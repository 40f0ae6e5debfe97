import { createHash, createPrivateKey, createPublicKey, createSecretKey, type KeyObject } from "node:crypto";
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import { isJwk, type Key, readJwks } from "../config/json-web-keys.ts";
import { isPem } from "../config/setting-types.ts";
import { keepSecret } from "../db/cluster/data-directory.ts";

export type { Key } from "../config/json-web-keys.ts";

export type SigningKey = Key & { readonly sign: KeyObject; readonly kid: string };

/** The secret of the settings, or the one stored with the embedded database; "" when there is none. */
export async function secretOf({ jwtSecret, jwtPrivateKey, embedded, dataDir }: Config): Promise<string> {
  return jwtSecret || jwtPrivateKey || (embedded ? keepSecret(join(dataDir, "secret")) : "");
}

/** HS256. */
export function secretKey(secret: string): SigningKey {
  const key = createSecretKey(secret, "utf8");
  return { algorithm: "HS256", sign: key, verify: key, kid: fingerprint(secret) };
}

/** RS256, from the PEM of a private key. */
export function rsaKey(pem: string): SigningKey {
  return { ...rsaPublicKey(pem), sign: createPrivateKey(pem) };
}

/** RS256, from the PEM of a public key, or of a private key, which contains the public one. */
function rsaPublicKey(pem: string): Key & { readonly kid: string } {
  const verify = createPublicKey(pem);
  return { algorithm: "RS256", verify, kid: fingerprint(verify.export({ format: "der", type: "spki" })) };
}

/** The key of tokens that were issued before the key was changed: a secret or a PEM, "" for none. */
export const previousKeys = (key: string): Key[] =>
  key === "" ? [] : [isPem(key) ? rsaPublicKey(key) : secretKey(key)];

/**
 * The keys of another service that issues the tokens: a secret, a JSON Web Key or a set of them, or the PEM of an RSA key.
 * Without key ids, because the other service does not use ours. Empty when both are "".
 */
export function foreignKeys(secret: string, privateKey: string): Key[] {
  if (privateKey !== "") return [{ ...rsaKey(privateKey), kid: null }];
  if (secret === "") return [];
  return isJwk(secret) ? readJwks(secret) : [{ ...secretKey(secret), kid: null }];
}

/** A name for a key that reveals nothing about it. */
const fingerprint = (key: string | Buffer) =>
  createHash("sha256").update("kid").update(key).digest("base64url").slice(0, 16);

/** Milliseconds between two writes. */
const INTERVAL = 60_000;

type KeyUsesOptions = {
  /** Stores that these keys have been used. */
  write(ids: readonly string[]): Promise<void>;
  /** Called when a write has failed; the next one includes its keys. */
  onError(error: unknown): void;
};

type KeyRole = "anon" | "service_role";
type KeyIssuer = { issueKey(role: KeyRole, claims: { readonly iat: number; readonly jti: string }): string };

/** The key that the service shows: the same for a whole year, so that a restart does not seem to replace it. */
export function shownKey(tokens: KeyIssuer, role: KeyRole): string {
  const year = new Date().getUTCFullYear();
  return tokens.issueKey(role, { iat: Date.UTC(year) / 1000, jti: `${role} of ${year}` });
}

/** Collects the API keys that are used and stores their use together, once a minute. */
export class KeyUses {
  readonly #options: KeyUsesOptions;
  readonly #timer: NodeJS.Timeout;
  #used = new Set<string>();

  constructor(options: KeyUsesOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.flush(), INTERVAL).unref();
  }

  add(id: string): void {
    this.#used.add(id);
  }

  async flush(): Promise<void> {
    if (this.#used.size === 0) return;
    const ids = this.#used;
    this.#used = new Set();
    try {
      await this.#options.write([...ids]);
    } catch (error) {
      for (const id of ids) this.#used.add(id);
      this.#options.onError(error);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
