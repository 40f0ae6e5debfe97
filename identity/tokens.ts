import { randomUUID } from "node:crypto";
import jwt from "jsonwebtoken";
import type { Config } from "../config/config.ts";
import type { Caller } from "../db/caller.ts";
import { type Key, previousKeys, rsaKey, type SigningKey, secretKey } from "./keys.ts";
import { headerOf, TokenError, VerifiedTokens, type Verifier } from "./verifier.ts";

/** The issuer and verifier of the service's own tokens. `secret` as from `secretOf`. */
export const createTokens = (config: Config, secret: string): Tokens =>
  new Tokens({
    secret,
    privateKey: config.jwtPrivateKey,
    previousKeys: previousKeys(config.jwtPreviousSecret, config.jwtPreviousKey),
    audience: config.jwtAudience,
    anonymousRole: config.anonymousRole,
  });

/** Claims of the service's tokens. The application defines `permissions`. */
type Claims = {
  readonly sub?: string;
  readonly name?: string;
  readonly role: string;
  readonly permissions?: readonly string[];
  readonly type?: "access";
  /** That of the account when the token was issued; 0 where there is none. */
  readonly epoch?: number;
  /** The id of the family of tokens: all that came of one sign-in. */
  readonly sid?: string;
  /** Seconds since 1970. */
  readonly exp: number;
  readonly [claim: string]: unknown;
};

export type TokenUser = {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly permissions: readonly string[];
  /** Of the account; 0 when it is not given. */
  readonly epoch?: number;
};

/** What a pair has in common with those that came before it. */
export type TokenFamily = {
  readonly family?: string;
  readonly refreshToken: string;
};

export type TokenPair = {
  readonly accessToken: string;
  readonly refreshToken: string;
  /** Seconds until the access token ends. */
  readonly expiresIn: number;
  readonly tokenType: "Bearer";
};

/** Of which account, and of which epoch of it. */
export type Challenge = { readonly id: string; readonly userId: string; readonly epoch: number };

export const ACCESS_SECONDS = 3600;
export const REFRESH_SECONDS = 7 * 24 * 3600;
const CHALLENGE_SECONDS = 300;
const KEY_SECONDS = 10 * 365 * 24 * 3600;
const ISSUER = "content-service";

/** Roles of API keys; a key stands for nobody in particular. */
const KEY_ROLES: ReadonlySet<string> = new Set(["anon", "service_role"]);

export type TokenOptions = {
  /** At least 32 bytes. Ignored when there is a private key. */
  readonly secret: string;
  /** PEM of an RSA key, or "". */
  readonly privateKey: string;
  /** Keys that were in use before: their tokens are good until they end, and no new ones are signed. */
  readonly previousKeys?: readonly Key[];
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
  /** By their name in the header of a token. */
  readonly #keys: ReadonlyMap<string | undefined, Key>;
  readonly #audience: string;
  readonly #anonymousRole: string;
  readonly #verified = new VerifiedTokens((token) => this.#check(token));

  constructor({ secret, privateKey, previousKeys = [], audience, anonymousRole }: TokenOptions) {
    this.#key = privateKey === "" ? secretKey(secret) : rsaKey(privateKey);
    const known = [...previousKeys, this.#key].map((key) => [key.kid ?? undefined, key] as const);
    // A token that names no key is of the present one.
    this.#keys = new Map<string | undefined, Key>([...known, [undefined, this.#key]]);
    this.#audience = audience;
    this.#anonymousRole = anonymousRole;
  }

  /** Those of no family can be revoked with the user alone. */
  issuePair(user: TokenUser, of: TokenFamily = { refreshToken: this.issueRefresh(user.id) }): TokenPair {
    const { name, role, permissions, epoch = 0 } = user;
    const { family: sid, refreshToken } = of;
    const claims = { name, role, permissions, epoch, sid };
    return {
      accessToken: this.#sign({ ...claims, type: "access" }, ACCESS_SECONDS, user.id),
      refreshToken,
      expiresIn: ACCESS_SECONDS,
      tokenType: "Bearer",
    };
  }

  /** The half of a pair that is spent for the next. */
  issueRefresh(userId: string): string {
    return this.#sign({ type: "refresh" }, REFRESH_SECONDS, userId);
  }

  /** What shows that somebody has given the right password, and lacks the code of his second factor. */
  issueChallenge({ id, epoch = 0 }: Pick<TokenUser, "id" | "epoch">): string {
    return this.#sign({ type: "challenge", epoch }, CHALLENGE_SECONDS, id);
  }

  /** Throws TokenError. */
  verifyChallenge(token: string): Challenge {
    const { sub, epoch, jti } = this.#claimsOf(token, "challenge");
    return { id: String(jti), userId: String(sub), epoch: Number(epoch) };
  }

  /**
   * Whose refresh token it is; null for a token of ours that is another one. Throws TokenError for what is none of ours;
   * whether it is still good the database knows.
   */
  verifyRefresh(token: string): string | null {
    const { type, sub } = (this.#verify(token) ?? {}) as { readonly type?: unknown; readonly sub?: unknown };
    return type === "refresh" ? String(sub) : null;
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

  known(token: string): Caller | null {
    return this.#verified.known(token);
  }

  /** Public keys for others who verify our tokens; none when they are signed with a secret. */
  jwks(): { keys: object[] } {
    const shown = new Set([...this.#keys.values()].filter(({ algorithm }) => algorithm === "RS256"));
    return {
      keys: [...shown].map(({ verify, kid }) => ({
        ...verify.export({ format: "jwk" }),
        kid,
        alg: "RS256",
        use: "sig",
      })),
    };
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
    const claims = this.#verify(token);
    if (!isComplete(claims)) throw new TokenError("invalid");
    const role = claims.role === "anon" ? this.#anonymousRole : claims.role;
    const credential = { kind: "token", id: null } as const;
    return { role, claims, expiresAt: claims.exp * 1000, refused: null, credential };
  }

  #claimsOf(token: string, type: string): Readonly<Record<string, unknown>> {
    const claims = this.#verify(token);
    if (typeof claims !== "object" || claims === null || (claims as { type?: unknown }).type !== type) {
      throw new TokenError("invalid");
    }
    return claims as Readonly<Record<string, unknown>>;
  }

  /** One algorithm for each key; what else the header says does not count. */
  #verify(token: string): unknown {
    const header = headerOf(token);
    const key = header && this.#keys.get(header.kid);
    if (!key) throw new TokenError("invalid");
    try {
      return jwt.verify(token, key.verify, {
        algorithms: [key.algorithm],
        issuer: ISSUER,
        ...(this.#audience === "" ? null : { audience: this.#audience }),
      });
    } catch (error) {
      throw new TokenError(error instanceof jwt.TokenExpiredError ? "expired" : "invalid");
    }
  }
}

/** jsonwebtoken accepts a token without end, without claims, or of another type. */
function isComplete(claims: unknown): claims is Claims {
  if (typeof claims !== "object" || claims === null) return false;
  const { exp, role, sub, type } = claims as Record<string, unknown>;
  if (typeof exp !== "number" || typeof role !== "string" || !/^[a-z_][a-z0-9_]{0,62}$/.test(role)) return false;
  if (KEY_ROLES.has(role)) return type === undefined;
  return type === "access" && typeof sub === "string" && /^[1-9][0-9]{0,17}$/.test(sub);
}
