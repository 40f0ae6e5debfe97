import { randomUUID } from "node:crypto";
import jwt from "jsonwebtoken";
import type { Caller } from "../../db/caller.ts";
import { rsaKey, type SigningKey, secretKey } from "./keys.ts";
import { TokenError, VerifiedTokens, type Verifier } from "./verified-tokens.ts";

/** Claims of one of our tokens. `permissions` are the application's own words. */
type Claims = {
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

export const ACCESS_SECONDS = 3600;
export const REFRESH_SECONDS = 7 * 24 * 3600;
const KEY_SECONDS = 10 * 365 * 24 * 3600;
const ISSUER = "content-service";

/** Roles of API keys; a key stands for nobody in particular. */
const KEY_ROLES: ReadonlySet<string> = new Set(["anon", "service_role"]);

export type TokenOptions = {
  /** At least 32 bytes. Ignored when there is a private key. */
  readonly secret: string;
  /** PEM of an RSA key, or "". */
  readonly privateKey: string;
  /** Audience to give and to ask for, or "". */
  readonly audience: string;
  /** The Postgres role of those who come with the key for everybody, whose claim says `anon`. */
  readonly anonymousRole: string;
};

/**
 * Issues our tokens and verifies them: the one algorithm of the key, our name as issuer, an end, a role, and for users a
 * subject and the type "access".
 */
export class Tokens implements Verifier {
  readonly #key: SigningKey;
  readonly #audience: string;
  readonly #anonymousRole: string;
  readonly #verified = new VerifiedTokens((token) => this.#check(token));

  constructor({ secret, privateKey, audience, anonymousRole }: TokenOptions) {
    this.#key = privateKey === "" ? secretKey(secret) : rsaKey(privateKey);
    this.#audience = audience;
    this.#anonymousRole = anonymousRole;
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

  verify(token: string): Caller {
    return this.#verified.callerOf(token);
  }

  verifyKey(token: string): Caller {
    const caller = this.verify(token);
    if (!KEY_ROLES.has(caller.claims.role as string)) throw new TokenError("invalid");
    return caller;
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

  #check(token: string): Caller {
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
    const role = claims.role === "anon" ? this.#anonymousRole : claims.role;
    return { role, claims, expiresAt: claims.exp * 1000, refused: null };
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
