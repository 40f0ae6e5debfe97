import { createHash, createPrivateKey, createPublicKey, createSecretKey, type KeyObject } from "node:crypto";
import { isJwk, type Key, readJwks } from "../config/json-web-keys.ts";

export type { Key } from "../config/json-web-keys.ts";

export type SigningKey = Key & { readonly sign: KeyObject; readonly kid: string };

/** HS256. */
export function secretKey(secret: string): SigningKey {
  const key = createSecretKey(secret, "utf8");
  return { algorithm: "HS256", sign: key, verify: key, kid: fingerprint(secret) };
}

/** RS256, from the PEM of a private key. */
export function rsaKey(pem: string): SigningKey {
  return { ...rsaPublicKey(pem), sign: createPrivateKey(pem) };
}

/** RS256, from the PEM of a public key, or of a private one, which has both halves. */
export function rsaPublicKey(pem: string): Key & { readonly kid: string } {
  const verify = createPublicKey(pem);
  return { algorithm: "RS256", verify, kid: fingerprint(verify.export({ format: "der", type: "spki" })) };
}

/** Those that were in use before; "" is none. */
export const previousKeys = (secret: string, publicKey: string): Key[] => [
  ...(secret === "" ? [] : [secretKey(secret)]),
  ...(publicKey === "" ? [] : [rsaPublicKey(publicKey)]),
];

/**
 * The keys of those who sign tokens for a database that isn't ours: a secret, a JSON Web Key or a set of them, or else the
 * PEM of an RSA key. Our names for a secret and a PEM are none of theirs. None when both are "".
 */
export function foreignKeys(secret: string, privateKey: string): Key[] {
  if (privateKey !== "") return [{ ...rsaKey(privateKey), kid: null }];
  if (secret === "") return [];
  return isJwk(secret) ? readJwks(secret) : [{ ...secretKey(secret), kid: null }];
}

/** Says which key it was, and nothing about it. */
const fingerprint = (key: string | Buffer) =>
  createHash("sha256").update("kid").update(key).digest("base64url").slice(0, 16);
