import {
  createHash,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  type JsonWebKey,
  type KeyObject,
} from "node:crypto";
import type { Algorithm } from "jsonwebtoken";

/** What the signature of a token is verified with: one key, one algorithm. */
export type Key = {
  readonly algorithm: Algorithm;
  readonly verify: KeyObject;
  /** What tokens call the key by; null is a key for all names. */
  readonly kid: string | null;
};

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

/** The fields of a JSON Web Key that matter here. Source: RFC 7517, RFC 7518. */
type Jwk = {
  readonly kty?: unknown;
  readonly crv?: unknown;
  readonly alg?: unknown;
  readonly use?: unknown;
  readonly key_ops?: unknown;
  readonly kid?: unknown;
  readonly k?: unknown;
};

/** The algorithms of each kind of key; the first is that of a key which names none. */
const ALGORITHMS: Readonly<Record<string, readonly Algorithm[]>> = {
  oct: ["HS256", "HS384", "HS512"],
  RSA: ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  "EC P-256": ["ES256"],
  "EC P-384": ["ES384"],
  "EC P-521": ["ES512"],
};

const MIN_SECRET_BYTES = 32;
const MIN_RSA_BITS = 2048;
/** With one everybody could sign; two is no exponent of RSA. */
const MIN_RSA_EXPONENT = 3n;

/** Whether the text is a JSON Web Key or a set of them, and no secret in itself. */
export function isJwk(text: string): boolean {
  const value = parseJson(text);
  return typeof value === "object" && value !== null && ("kty" in value || "keys" in value);
}

/**
 * The keys of a JSON Web Key or of a set, whose keys of other kinds and for other uses are passed over. Throws an Error
 * with a message for the operator when a key is weak or broken, or when none is left.
 */
export function readJwks(text: string): Key[] {
  const value = parseJson(text) as { readonly keys?: unknown };
  const jwks: readonly unknown[] = Array.isArray(value.keys) ? value.keys : [value];
  const keys = jwks.map((jwk) => readJwk(jwk as Jwk)).filter((key) => key !== null);
  if (keys.length === 0) throw new Error("holds no key that verifies tokens");
  return keys;
}

function readJwk(jwk: Jwk | null): Key | null {
  const kind = jwk?.kty === "EC" ? `EC ${jwk.crv}` : String(jwk?.kty);
  const algorithms = Object.hasOwn(ALGORITHMS, kind) ? ALGORITHMS[kind]! : [];
  const algorithm = jwk?.alg === undefined ? algorithms[0] : algorithms.find((name) => name === jwk.alg);
  if (!jwk || algorithm === undefined || !isToVerify(jwk)) return null;
  const verify = jwk.kty === "oct" ? importSecret(jwk.k) : importPublicKey(jwk);
  return { algorithm, verify, kid: typeof jwk.kid === "string" ? jwk.kid : null };
}

const isToVerify = ({ use, key_ops: operations }: Jwk) =>
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
    throw new Error("holds a key that is broken");
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
