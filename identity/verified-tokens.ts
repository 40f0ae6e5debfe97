import type { JwtPayload } from "jsonwebtoken";
import jwt from "jsonwebtoken";
import { bytesOf, Cache, SeenTexts } from "../cache/cache.ts";
import type { Caller } from "../db/caller.ts";
import { parseExactly } from "../db/exact-numbers.ts";
import { StacklessError, withoutStacks } from "../problems/stackless.ts";
import type { Key } from "./keys.ts";

/** What is wrong with an invalid token: a claim, the token itself, or that no secret is configured to verify it. */
export type TokenFault = { readonly part: "claims" | "token" | "secret"; readonly message: string };

/** Why a token is refused. */
export class TokenError extends StacklessError {
  readonly reason: "expired" | "invalid";
  /** Null when the reason says everything. */
  readonly fault: TokenFault | null;
  constructor(reason: TokenError["reason"], fault: TokenFault | null = null) {
    super(`token ${reason}`);
    this.reason = reason;
    this.fault = fault;
  }

  /** Whether the token stays invalid while the keys are the same. One that is not valid yet does not. */
  get isFinal(): boolean {
    return this.reason === "expired" || this.fault === null || this.fault.part === "token";
  }
}

/** The keys of the issuer of a token have never been read, so the token cannot be verified. */
export class IssuerUnavailable extends Error {}

/**
 * Finds the caller of a token. `verify` and `verifyKey` throw, or reject with, TokenError or IssuerUnavailable. The caller of a token that was
 * verified before is returned without a promise.
 */
export type Verifier = {
  verify(token: string): Caller | Promise<Caller>;
  /** For a token that is sent as an API key. */
  verifyKey(token: string): Caller | Promise<Caller>;
  /** The caller of a token that was verified before and has not expired; null for every other token. */
  known(token: string): Caller | null;
  /** Whether the keys of this token change only with `version`. Those of others may have to be read again with any request. Default: true. */
  isOwn?(token: string): boolean;
  /** `version` increases when tokens that were verified before have to be verified again. */
  readonly validity: { readonly version: number };
  readonly cache: CacheUse;
};

/** The use of a cache so far. */
export type CacheUse = { readonly requests: number; readonly hits: number; readonly evictions: number };

/**
 * Caches callers until their tokens expire: checking a signature takes longer than most requests. `Checked` is a promise for
 * keys that may have to be read first.
 */
export class VerifiedTokens<Checked extends Caller | Promise<Caller> = Caller> {
  readonly #check: (token: string) => Checked;
  readonly #callers = new Cache<Caller>({
    name: "tokens",
    // Twice, because the texts that are written from a caller are kept as long as the caller.
    sizeOf: (caller, token) => bytesOf(token) + 2 * bytesOf(caller),
    onEvict: () => this.use.evictions++,
  });
  /** Tokens that were refused twice and will never be valid with the present keys: a client may send one again and again. */
  readonly #refused = new Cache<TokenError>({ name: "refused tokens", sizeOf: (_, token) => bytesOf(token) });
  /** A token is kept when it is refused for the second time: forged ones that occur once take no memory. */
  readonly #seen = new SeenTexts();
  readonly use = { requests: 0, hits: 0, evictions: 0 };
  /** How often all tokens were forgotten. */
  version = 0;

  constructor(check: (token: string) => Checked) {
    this.#check = check;
  }

  /** Throws, or rejects with, TokenError. */
  callerOf(token: string): Caller | Checked {
    this.use.requests++;
    const cached = this.#callers.get(token) ?? this.#refused.get(token);
    if (cached === undefined) return this.#verify(token);
    this.use.hits++;
    if (cached instanceof TokenError) throw cached;
    if (!hasExpired(cached)) return cached;
    this.#callers.delete(token);
    throw new TokenError("expired");
  }

  /** Forgets all tokens. */
  clear(): void {
    this.#callers.clear();
    this.#refused.clear();
    this.version++;
  }

  known(token: string): Caller | null {
    const cached = this.#callers.get(token);
    return cached !== undefined && !hasExpired(cached) ? cached : null;
  }

  #verify(token: string): Checked {
    const keep = (caller: Caller) => void this.#callers.set(token, caller);
    try {
      const checked = this.#check(token);
      if (checked instanceof Promise) checked.then(keep, () => {});
      else keep(checked);
      return checked;
    } catch (error) {
      if (error instanceof TokenError && error.isFinal && this.#seen.again(token)) this.#refused.set(token, error);
      throw error;
    }
  }
}

const hasExpired = ({ expiresAt }: Caller) => expiresAt !== null && expiresAt <= Date.now();

/**
 * The header of a token that is not yet verified. Null for malformed tokens, some of which make jsonwebtoken throw, and
 * for tokens with critical extensions, which are not supported. Source: RFC 7515, 4.1.11.
 */
export function headerOf(token: string): jwt.JwtHeader | null {
  try {
    const header = withoutStacks(() => jwt.decode(token, { complete: true }))?.header ?? null;
    return header?.crit === undefined ? header : null;
  } catch {
    return null;
  }
}

/** The claims of a token that one of the keys has signed; null if none has. They are not checked yet. */
export function claimsOf(keys: readonly Key[], header: jwt.JwtHeader, token: string): jwt.JwtPayload | null {
  for (const key of keys) {
    const claims = maySign(key, header) ? claimsWith(key, token) : null;
    if (claims !== null) return claims;
  }
  return null;
}

/** Whether the key may have signed a token with this header. A key id that is missing on either side matches. */
export const maySign = ({ algorithm, kid }: Key, header: jwt.JwtHeader): boolean =>
  header.alg === algorithm && (kid === null || header.kid === undefined || header.kid === kid);

/** Null when the key has not signed the token. The claims are not checked yet. */
export function claimsWith({ verify, algorithm }: Key, token: string): jwt.JwtPayload | null {
  try {
    const options = { algorithms: [algorithm], ignoreExpiration: true, ignoreNotBefore: true };
    withoutStacks(() => jwt.verify(token, verify, options));
    // Policies read them: the library would round numbers.
    const claims = parseExactly(Buffer.from(token.split(".")[1]!, "base64url").toString());
    return typeof claims === "object" && claims !== null && !Array.isArray(claims) ? claims : null;
  } catch {
    return null;
  }
}

/** Seconds by which the clock of the issuer may differ from the clock of this machine. */
export const CLOCK_TOLERANCE = 30;

type ClaimRules = {
  /** The required audience, or "". */
  readonly audience: string;
  /** Seconds after the expiry in which the token is still valid. */
  readonly grace: number;
};

/**
 * Checks the time and the audience of a token whose signature is valid. Throws TokenError for the first claim that fails.
 * Source: RFC 7519, 4.1; the messages are PostgREST's.
 */
export function requireClaims(claims: JwtPayload, { audience, grace }: ClaimRules): void {
  const now = Date.now() / 1000;
  const { exp, nbf, iat, aud } = claims as Readonly<Record<string, unknown>>;
  if (numberOf("exp", exp, Number.POSITIVE_INFINITY) + grace <= now) throw new TokenError("expired");
  if (numberOf("nbf", nbf, now) - CLOCK_TOLERANCE > now) throw failedClaim("JWT not yet valid");
  if (numberOf("iat", iat, now) - CLOCK_TOLERANCE > now) throw failedClaim("JWT issued at future");
  if (!isAudience(aud)) throw failedClaim("The JWT 'aud' claim must be a string or an array of strings");
  if (audience !== "" && ![aud].flat().includes(audience)) throw failedClaim("JWT not in audience");
}

export const failedClaim = (message: string) => new TokenError("invalid", { part: "claims", message });

/** Seconds since 1970; `absent` for a token without the claim. */
function numberOf(name: string, value: unknown, absent: number): number {
  if (value === undefined) return absent;
  if (typeof value !== "number") throw failedClaim(`The JWT '${name}' claim must be a number`);
  return value;
}

const isAudience = (aud: unknown): aud is string | readonly string[] | null | undefined =>
  aud === undefined || aud === null || [aud].flat().every((each) => typeof each === "string");
