import type jwt from "jsonwebtoken";
import { type ClaimPath, claimAt } from "../config/claim-path.ts";
import type { Caller } from "../db/caller.ts";
import type { Key } from "./keys.ts";
import {
  type CacheUse,
  CLOCK_TOLERANCE,
  claimsOf,
  failedClaim,
  headerOf,
  maySign,
  requireClaims,
  TokenError,
  VerifiedTokens,
  type Verifier,
} from "./verified-tokens.ts";

export type ForeignTokenOptions = {
  /** If empty, every token is invalid. */
  readonly keys: readonly Key[];
  /** The required audience, or "". */
  readonly audience: string;
  readonly roleClaim: ClaimPath;
  /** The role of tokens without the claim. */
  readonly anonymousRole: string;
};

const MAX_ROLE_BYTES = 63;

/**
 * Verifies the tokens that another service issues for its own database. The issuer decides who the caller is, and Postgres
 * whether the login may assume that role. A token need not expire. Refresh tokens are rejected.
 */
export class ForeignTokens implements Verifier {
  readonly #options: ForeignTokenOptions;
  readonly #verified = new VerifiedTokens((token) => this.#check(token));
  readonly validity: Verifier["validity"] = this.#verified;
  readonly cache: CacheUse = this.#verified.use;

  constructor(options: ForeignTokenOptions) {
    this.#options = options;
  }

  verify(token: string): Caller {
    return this.#verified.callerOf(token);
  }

  verifyKey(token: string): Caller {
    return this.verify(token);
  }

  known(token: string): Caller | null {
    return this.#verified.known(token);
  }

  #check(token: string): Caller {
    const claims = this.#verifySignature(token);
    requireClaims(claims, { audience: this.#options.audience, grace: CLOCK_TOLERANCE });
    if (claims.type === "refresh") throw failedClaim("A refresh token cannot be used as an access token");
    const expiresAt = claims.exp === undefined ? null : (claims.exp + CLOCK_TOLERANCE) * 1000;
    return { role: this.#roleOf(claims), claims, expiresAt, refused: null };
  }

  #verifySignature(token: string): jwt.JwtPayload {
    const { keys } = this.#options;
    if (keys.length === 0) throw new TokenError("invalid", { part: "secret", message: "Server lacks JWT secret" });
    const header = suitableHeader(keys, token);
    const claims = claimsOf(keys, header, token);
    if (claims === null) throw broken("JWT cryptographic operation failed");
    return claims;
  }

  #roleOf(claims: jwt.JwtPayload): string {
    const { roleClaim, anonymousRole } = this.#options;
    const role = claimAt(claims, roleClaim);
    if (role === undefined) return anonymousRole;
    if (typeof role !== "string" || !isRoleName(role))
      throw failedClaim("The JWT role claim must be the name of a role");
    return role;
  }
}

const broken = (message: string) => new TokenError("invalid", { part: "token", message });

/** The header of a token that one of the keys may have signed. Throws TokenError for any other. The messages are PostgREST's. */
function suitableHeader(keys: readonly Key[], token: string): jwt.JwtHeader {
  const count = token.split(".").length;
  if (count !== 3) throw broken(`Expected 3 parts in JWT; got ${count}`);
  const header = headerOf(token);
  if (header === null || !keys.some(({ algorithm }) => algorithm === header.alg))
    throw broken("Wrong or unsupported encoding algorithm");
  if (!keys.some((key) => maySign(key, header))) throw broken("No suitable key or wrong key type");
  return header;
}

/** `none` is not a role: Postgres would use the login itself. */
export function isRoleName(text: string): boolean {
  const bytes = Buffer.byteLength(text);
  return bytes > 0 && bytes <= MAX_ROLE_BYTES && text.toLowerCase() !== "none" && !text.includes("\0");
}
