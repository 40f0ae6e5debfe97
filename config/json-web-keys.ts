import { createPublicKey, createSecretKey, type JsonWebKey, type KeyObject } from "node:crypto";
import type { Algorithm } from "jsonwebtoken";
import { tryJson } from "./json-file.ts";

/** A key that verifies signatures: one key, one algorithm. */
export type Key = {
  readonly algorithm: Algorithm;
  readonly verify: KeyObject;
  /** The key id in the header of tokens; null matches every id. */
  readonly kid: string | null;
};

/** The fields of a JSON Web Key that are read. Source: RFC 7517, RFC 7518. */
type Jwk = {
  readonly kty?: unknown;
  readonly crv?: unknown;
  readonly alg?: unknown;
  readonly use?: unknown;
  readonly key_ops?: unknown;
  readonly kid?: unknown;
  readonly k?: unknown;
};

/** The algorithms of each kind of key. The first is the default for a key without `alg`. */
const ALGORITHMS: Readonly<Record<string, readonly Algorithm[]>> = {
  oct: ["HS256", "HS384", "HS512"],
  RSA: ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  "EC P-256": ["ES256"],
  "EC P-384": ["ES384"],
  "EC P-521": ["ES512"],
};

const MIN_SECRET_BYTES = 32;
const MIN_RSA_BITS = 2048;
/** With exponent 1 anyone could sign; 2 is not a valid RSA exponent. */
const MIN_RSA_EXPONENT = 3n;

/** Whether the text is a JSON Web Key or a set of them, rather than a plain secret. */
export function isJwk(text: string): boolean {
  const value = tryJson(text);
  return typeof value === "object" && value !== null && ("kty" in value || "keys" in value);
}

/**
 * The keys of a JSON Web Key or of a key set. Keys of other kinds and for other uses are skipped. Throws an Error with a
 * message for the operator when a key is weak or malformed, or when no key is left.
 */
export function readJwks(text: string): Key[] {
  const value = tryJson(text) as { readonly keys?: unknown };
  const jwks: readonly unknown[] = Array.isArray(value.keys) ? value.keys : [value];
  const keys = jwks.map((jwk) => readJwk(jwk as Jwk)).filter((key) => key !== null);
  if (keys.length === 0) throw new Error("has no key that verifies tokens");
  return keys;
}

function readJwk(jwk: Jwk | null): Key | null {
  const kind = jwk?.kty === "EC" ? `EC ${jwk.crv}` : String(jwk?.kty);
  const algorithms = Object.hasOwn(ALGORITHMS, kind) ? ALGORITHMS[kind]! : [];
  const algorithm = jwk?.alg === undefined ? algorithms[0] : algorithms.find((name) => name === jwk.alg);
  if (!jwk || algorithm === undefined || !isForVerifying(jwk)) return null;
  const verify = jwk.kty === "oct" ? importSecret(jwk.k) : importPublicKey(jwk);
  return { algorithm, verify, kid: typeof jwk.kid === "string" ? jwk.kid : null };
}

const isForVerifying = ({ use, key_ops: operations }: Jwk) =>
  (use === undefined || use === "sig") && (!Array.isArray(operations) || operations.includes("verify"));

function importSecret(k: unknown): KeyObject {
  const secret = Buffer.from(typeof k === "string" ? k : "", "base64url");
  if (secret.length < MIN_SECRET_BYTES) throw new Error(`must have at least ${MIN_SECRET_BYTES} bytes in each secret`);
  return createSecretKey(secret);
}

function importPublicKey(jwk: Jwk): KeyObject {
  const key = parseKey(jwk);
  const { modulusLength = MIN_RSA_BITS, publicExponent = MIN_RSA_EXPONENT } = key.asymmetricKeyDetails ?? {};
  if (modulusLength < MIN_RSA_BITS) throw new Error(`must have at least ${MIN_RSA_BITS} bits in each RSA key`);
  if (publicExponent < MIN_RSA_EXPONENT) {
    throw new Error(`must have an exponent of at least ${MIN_RSA_EXPONENT} in each RSA key`);
  }
  return key;
}

function parseKey(jwk: Jwk): KeyObject {
  try {
    return createPublicKey({ key: jwk as JsonWebKey, format: "jwk" });
  } catch {
    throw new Error("has a malformed key");
  }
}
