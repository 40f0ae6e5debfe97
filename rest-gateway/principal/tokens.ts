import {
  createHash,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  type KeyObject,
  randomUUID,
} from "node:crypto";
import jwt from "jsonwebtoken";

/** Claims of a verified token. `permissions` are the application's own words. */
export type Claims = {
  readonly sub?: string;
  readonly name?: string;
  readonly role: string;
  readonly permissions?: readonly string[];
  readonly type?: "access";
  /** Seconds since 1970. */
  readonly exp: number;
  readonly [claim: string]: unknown;
};

export type TokenUser = {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly permissions: readonly string[];
};

export type TokenPair = {
  readonly accessToken: string;
  readonly refreshToken: string;
  /** Seconds until the access token ends. */
  readonly expiresIn: number;
  readonly tokenType: "Bearer";
};

export class TokenError extends Error {
  readonly reason: "expired" | "invalid";
  constructor(reason: "expired" | "invalid") {
    super(`token ${reason}`);
    this.reason = reason;
  }
}

export const ACCESS_SECONDS = 3600;
export const REFRESH_SECONDS = 7 * 24 * 3600;
const KEY_SECONDS = 10 * 365 * 24 * 3600;
const ISSUER = "content-service";
const MAX_CACHED = 10_000;

/** Roles of API keys; a key stands for nobody in particular. */
const KEY_ROLES: ReadonlySet<string> = new Set(["anon", "service_role"]);

type Key = {
  readonly algorithm: "HS256" | "RS256";
  readonly sign: KeyObject;
  readonly verify: KeyObject;
  readonly kid: string;
};

export type TokenOptions = {
  /** At least 32 bytes. Ignored when there is a private key. */
  readonly secret: string;
  /** PEM of an RSA key, or "". */
  readonly privateKey: string;
  /** Audience to give and to ask for, or "". */
  readonly audience: string;
};

/**
 * Issues and verifies tokens: the one algorithm of the key, an end, a role, and for users a subject and the type
 * "access". What was verified is remembered until it ends.
 */
export class Tokens {
  readonly #key: Key;
  readonly #audience: string;
  readonly #verified = new Map<string, Claims>();

  constructor({ secret, privateKey, audience }: TokenOptions) {
    this.#key = privateKey === "" ? secretKey(secret) : rsaKey(privateKey);
    this.#audience = audience;
  }

  issuePair(user: TokenUser): TokenPair {
    const claims = { name: user.name, role: user.role, permissions: user.permissions };
    return {
      accessToken: this.#sign({ ...claims, type: "access" }, ACCESS_SECONDS, user.id),
      refreshToken: this.#sign({ type: "refresh" }, REFRESH_SECONDS, user.id),
      expiresIn: ACCESS_SECONDS,
      tokenType: "Bearer",
    };
  }

  /** A key for programs: public for `anon`, secret for `service_role`. */
  issueKey(role: "anon" | "service_role"): string {
    return this.#sign({ role }, KEY_SECONDS);
  }

  /** Throws TokenError. */
  verify(token: string): Claims {
    const known = this.#verified.get(token);
    if (known) {
      if (known.exp * 1000 > Date.now()) return known;
      this.#verified.delete(token);
      throw new TokenError("expired");
    }
    const claims = this.#check(token);
    if (this.#verified.size >= MAX_CACHED) this.#verified.delete(this.#verified.keys().next().value as string);
    this.#verified.set(token, claims);
    return claims;
  }

  /** Public keys for others who verify our tokens; none when they are signed with a secret. */
  jwks(): { keys: object[] } {
    if (this.#key.algorithm === "HS256") return { keys: [] };
    return { keys: [{ ...this.#key.verify.export({ format: "jwk" }), kid: this.#key.kid, alg: "RS256", use: "sig" }] };
  }

  #sign(claims: object, expiresIn: number, subject?: string): string {
    const { algorithm, sign, kid } = this.#key;
    return jwt.sign(claims, sign, {
      algorithm,
      keyid: kid,
      issuer: ISSUER,
      expiresIn,
      jwtid: randomUUID(),
      ...(subject === undefined ? null : { subject }),
      ...(this.#audience === "" ? null : { audience: this.#audience }),
    });
  }

  #check(token: string): Claims {
    let claims: unknown;
    try {
      claims = jwt.verify(token, this.#key.verify, {
        algorithms: [this.#key.algorithm],
        issuer: ISSUER,
        ...(this.#audience === "" ? null : { audience: this.#audience }),
      });
    } catch (error) {
      throw new TokenError(error instanceof jwt.TokenExpiredError ? "expired" : "invalid");
    }
    if (!isComplete(claims)) throw new TokenError("invalid");
    return claims;
  }
}

/** jsonwebtoken accepts a token without end, without claims, or of another type. */
function isComplete(claims: unknown): claims is Claims {
  if (typeof claims !== "object" || claims === null) return false;
  const { exp, role, sub, type } = claims as Record<string, unknown>;
  if (typeof exp !== "number" || typeof role !== "string" || !/^[a-z_][a-z0-9_]{0,62}$/.test(role)) return false;
  if (KEY_ROLES.has(role)) return type === undefined;
  return type === "access" && typeof sub === "string" && /^[0-9]{1,18}$/.test(sub);
}

function secretKey(secret: string): Key {
  const key = createSecretKey(secret, "utf8");
  return { algorithm: "HS256", sign: key, verify: key, kid: fingerprint(secret) };
}

function rsaKey(pem: string): Key {
  const sign = createPrivateKey(pem);
  const verify = createPublicKey(sign);
  return { algorithm: "RS256", sign, verify, kid: fingerprint(verify.export({ format: "der", type: "spki" })) };
}

/** Says which key it was, and nothing about it. */
const fingerprint = (key: string | Buffer) =>
  createHash("sha256").update("kid").update(key).digest("base64url").slice(0, 16);
