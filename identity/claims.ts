import type { JwtPayload } from "jsonwebtoken";
import { TokenError } from "./verifier.ts";

/** Seconds by which the clock of the issuer may differ from the clock of this machine. */
export const CLOCK_TOLERANCE = 30;

export type ClaimRules = {
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
