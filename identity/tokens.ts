import { randomUUID } from "node:crypto";
import jwt from "jsonwebtoken";
import type { Config } from "../config/config.ts";
import type { UserIdType } from "../config/modules.ts";
import type { Caller } from "../db/caller.ts";
import { type Challenge, type Proof, toSeconds } from "./account.ts";
import { type Key, previousKeys, rsaKey, type SigningKey, secretKey } from "./keys.ts";
import { requireUserId } from "./user-ids.ts";
import { claimsWith, headerOf, requireClaims, TokenError, VerifiedTokens, type Verifier } from "./verified-tokens.ts";

/** The issuer and verifier of the service's own tokens. `secret` as from `secretOf`; `userId` is that of the opened database. */
export const createTokens = (config: Config, secret: string, userId: UserIdType | null = null): Tokens =>
  new Tokens({
    ...keysOf(config, secret),
    audience: config.jwtAud,
    anonymousRole: config.dbAnonRole,
    accessSeconds: config.accessTokenTtl,
    userId,
  });

/** The keys of the settings. `secret` as from `secretOf`. */
export const keysOf = (config: Config, secret: string): TokenKeys => ({
  secret,
  privateKey: config.jwtPrivateKey,
  previousKeys: previousKeys(config.jwtPreviousKey),
});

/** Claims of the service's tokens. The application defines `permissions`. */
type Claims = {
  readonly sub?: string;
  readonly name?: string;
  readonly role: string;
  readonly permissions?: readonly string[];
  readonly type?: "access";
  /** The epoch of the account when the token was issued; 0 if unknown. */
  readonly epoch?: number;
  /** The id of the session, whose tokens all follow from one sign-in. */
  readonly sid?: string;
  /** When the user proved the password, and the second factor: seconds since 1970. Refreshing keeps it. */
  readonly auth_time?: number;
  /** Seconds since 1970. */
  readonly exp: number;
  readonly [claim: string]: unknown;
};

export type TokenUser = {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly permissions: readonly string[];
  /** The epoch of the account; 0 if missing. */
  readonly epoch?: number;
  /** Further claims, of the application. */
  readonly claims?: Readonly<Record<string, unknown>> | null;
};

/** The part of a pair that links it to the previous pairs of the same session. */
export type TokenSession = {
  /** The id of the session. */
  readonly session?: string;
  /** When the user signed in, in milliseconds since 1970; without it, the sign-in does not count as recent. */
  readonly signedInAt?: number;
  readonly refreshToken: string;
  /** Whether the code of a second factor is missing: the access token opens only `/auth/v1`. */
  readonly isLimited?: boolean;
};

export type TokenPair = {
  readonly accessToken: string;
  readonly refreshToken: string;
  /** Seconds until the access token expires. */
  readonly expiresIn: number;
  readonly tokenType: "Bearer";
};

export const REFRESH_SECONDS = 7 * 24 * 3600;
export const CHALLENGE_SECONDS = 300;
const KEY_SECONDS = 10 * 365 * 24 * 3600;
const ISSUER = "content-service";
/** The type of access tokens of sign-ins whose second factor is missing. */
const LIMITED = "aal1";

/** Roles of API keys, which identify no user. */
const KEY_ROLES: ReadonlySet<string> = new Set(["anon", "service_role"]);

/** Whether the caller has a key of `issueKey`, and not a token of another issuer that has the same role. */
export const isServiceKey = ({ role, claims }: Caller): boolean => role === "service_role" && claims.iss === ISSUER;

/** What a key says beside its role, and for how many seconds it is valid. */
export type KeyClaims = { readonly iat?: number; readonly jti?: string; readonly seconds?: number };

export type TokenKeys = {
  /** At least 32 bytes. Ignored if there is a private key. */
  readonly secret: string;
  /** PEM of an RSA key, or "". */
  readonly privateKey: string;
  /** Retired keys: tokens that they have signed stay valid until they expire. */
  readonly previousKeys?: readonly Key[];
};

export type TokenOptions = TokenKeys & {
  /** The type of the ids of users; null if there are none, or if no token is verified. */
  readonly userId?: UserIdType | null;
  /** The audience that tokens are issued with and must contain, or "". */
  readonly audience: string;
  /** The Postgres role of the anon key, whose claim is `anon`. */
  readonly anonymousRole: string;
  /** Seconds for which access tokens are valid. */
  readonly accessSeconds: number;
};

/**
 * Issues and verifies the service's own tokens. They have the algorithm of the key, this service as the issuer, an expiry,
 * a role, and for users a subject and the type "access".
 */
export class Tokens implements Verifier {
  #key!: SigningKey;
  /** By the key id in the header of a token. */
  #keys!: ReadonlyMap<string | undefined, Key>;
  readonly #audience: string;
  readonly #anonymousRole: string;
  readonly #accessSeconds: number;
  readonly #userId: UserIdType | null;
  readonly #verified = new VerifiedTokens((token) => this.#check(token));
  readonly validity: Verifier["validity"] = this.#verified;
  readonly cache = this.#verified.use;

  constructor({ audience, anonymousRole, accessSeconds, userId = null, ...keys }: TokenOptions) {
    this.#userId = userId;
    this.#audience = audience;
    this.#anonymousRole = anonymousRole;
    this.#accessSeconds = accessSeconds;
    this.useKeys(keys);
  }

  /** Signs and verifies with these keys from now on. */
  useKeys({ secret, privateKey, previousKeys = [] }: TokenKeys): void {
    this.#key = privateKey === "" ? secretKey(secret) : rsaKey(privateKey);
    const known = [...previousKeys, this.#key].map((key) => [key.kid ?? undefined, key] as const);
    // A token without a key id belongs to the current key.
    this.#keys = new Map<string | undefined, Key>([...known, [undefined, this.#key]]);
    this.#verified.clear();
  }

  /** Tokens without a session can only be revoked together with all tokens of the user. */
  issuePair(user: TokenUser, of: TokenSession = { refreshToken: this.issueRefresh(user.id) }): TokenPair {
    const { name, role, permissions, epoch = 0 } = user;
    const { session: sid, signedInAt, refreshToken, isLimited = false } = of;
    const auth_time = signedInAt === undefined ? undefined : toSeconds(signedInAt);
    const who = isLimited ? { role: "anon", type: LIMITED } : { role, permissions, type: "access" };
    const claims = { ...user.claims, name, ...who, epoch, sid, auth_time };
    return {
      accessToken: this.#sign(claims, this.#accessSeconds, user.id),
      refreshToken,
      expiresIn: this.#accessSeconds,
      tokenType: "Bearer",
    };
  }

  /** The token that is exchanged for the next pair. */
  issueRefresh(userId: string): string {
    return this.#sign({ type: "refresh" }, REFRESH_SECONDS, userId);
  }

  /** Proves a valid password, or what has replaced it, while the code of the second factor is missing. */
  issueChallenge({ id, epoch = 0 }: Pick<TokenUser, "id" | "epoch">, { provider, bySaml, byMail }: Proof = {}): string {
    return this.#sign({ type: "challenge", epoch, provider, bySaml, byMail }, CHALLENGE_SECONDS, id);
  }

  /** Throws TokenError. */
  verifyChallenge(token: string): Challenge {
    const { sub, epoch, jti, provider, bySaml, byMail } = this.#claimsOf(token, "challenge");
    const proof = {
      ...(typeof provider === "string" && { provider }),
      ...(bySaml === true && { bySaml: true as const }),
      ...(byMail === true && { byMail: true as const }),
    };
    return { id: String(jti), userId: String(sub), epoch: Number(epoch), proof };
  }

  /**
   * The id of the user; null for another kind of token of this service. Throws TokenError for any other token. The database
   * decides whether the refresh token is still valid.
   */
  verifyRefresh(token: string): string | null {
    const { type, sub } = this.#verify(token);
    return type === "refresh" ? String(sub) : null;
  }

  /** An API key: public for `anon`, secret for `service_role`. `claims` may be its time and its id. */
  issueKey(role: "anon" | "service_role", { seconds = KEY_SECONDS, ...claims }: KeyClaims = {}): string {
    return this.#sign({ role, ...claims }, seconds);
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

  /** Public keys for services that verify these tokens; empty if a secret signs them. */
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
      ...("jti" in claims ? null : { jwtid: randomUUID() }),
      ...(subject === undefined ? null : { subject }),
      ...(this.#audience === "" ? null : { audience: this.#audience }),
    });
  }

  #check(token: string): Caller {
    const claims = this.#verify(token);
    if (claims.type === LIMITED) return this.#limitedCaller(claims);
    if (!isComplete(claims)) throw new TokenError("invalid");
    const role = claims.role === "anon" ? this.#anonymousRole : claims.role;
    const credential = { kind: "token", id: null } as const;
    return { role, claims, expiresAt: claims.exp * 1000, refused: null, credential };
  }

  #limitedCaller({ sub, sid, exp }: jwt.JwtPayload): Caller {
    const caller = { role: this.#anonymousRole, claims: { role: "anon" }, refused: null } as const;
    const limited = { userId: String(sub), session: String(sid) };
    return { ...caller, expiresAt: exp! * 1000, credential: { kind: "token", id: null }, limited };
  }

  #claimsOf(token: string, type: string): Readonly<Record<string, unknown>> {
    const claims = this.#verify(token);
    if (claims.type !== type) throw new TokenError("invalid");
    return claims;
  }

  /** The key determines the algorithm; the header of the token does not. */
  #verify(token: string): jwt.JwtPayload {
    const header = headerOf(token);
    const key = header && this.#keys.get(header.kid);
    if (!key) throw new TokenError("invalid");
    const claims = claimsWith(key, token);
    if (claims === null) throw new TokenError("invalid");
    const isOwn = claims.iss === ISSUER;
    if (!isOwn && !isKey(claims)) throw new TokenError("invalid");
    requireClaims(claims, { audience: isOwn ? this.#audience : "", grace: 0 });
    if (claims.sub !== undefined) requireUserId(claims.sub, this.#userId);
    return claims;
  }
}

/** The claims of an API key, and of no user. */
const isKey = ({ role, sub, type }: jwt.JwtPayload): boolean =>
  KEY_ROLES.has(role) && sub === undefined && type === undefined;

/** jsonwebtoken accepts tokens without expiry and of other types. */
function isComplete(claims: jwt.JwtPayload): claims is Claims {
  const { exp, role, sub, type }: Readonly<Record<string, unknown>> = claims;
  if (typeof exp !== "number" || typeof role !== "string" || !/^[a-z_][a-z0-9_]{0,62}$/.test(role)) return false;
  if (KEY_ROLES.has(role)) return type === undefined;
  return type === "access" && sub !== undefined;
}
