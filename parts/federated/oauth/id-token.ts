import { createHash } from "node:crypto";
import type { JwtPayload } from "jsonwebtoken";
import { readPublicKeys } from "../../../identity/remote-keys.ts";
import { CLOCK_TOLERANCE, claimsOf, headerOf, requireClaims, TokenError } from "../../../identity/verified-tokens.ts";
import type { SentIdToken } from "../../../rest-gateway/auth/federated.ts";
import { signInFailure } from "../failure.ts";
import type { OidcSettings } from "./settings.ts";

type IdClaims = JwtPayload & { readonly sub: string; readonly exp: number };
type KeySet = { readonly keys: unknown };

/** The claims of a token that one of these keys has signed; null if none has. */
export function signedClaims({ idToken }: SentIdToken, keys: KeySet): JwtPayload | null {
  const header = headerOf(idToken);
  return header && claimsOf(readPublicKeys({ ...keys }), header, idToken);
}

/** Throws Problem for the first claim that fails. Source: OpenID Connect Core 1.0, 3.1.3.7 and 3.2.2.9. */
export function requireIdToken(
  claims: JwtPayload | null,
  { idToken, nonce, accessToken }: SentIdToken,
  { issuer, clientId }: OidcSettings,
): asserts claims is IdClaims {
  if (claims === null) throw refused("no key of the provider has signed the ID token");
  if (claims.iss !== issuer) throw refused("the ID token is of another issuer");
  try {
    requireClaims(claims, { audience: clientId, grace: CLOCK_TOLERANCE });
  } catch (error) {
    throw error instanceof TokenError ? refused(`the ID token is ${error.fault?.message ?? error.reason}`) : error;
  }
  if (typeof claims.exp !== "number") throw refused("the ID token has no expiry");
  // A native app is another party than the client for which it requests the token.
  if ([claims.aud].flat().length > 1 && claims.azp !== clientId) throw refused("the ID token is for another party");
  if (typeof claims.sub !== "string") throw refused("the ID token has no subject");
  const expected = nonce === null ? undefined : createHash("sha256").update(nonce).digest("hex");
  if (claims.nonce !== expected) throw refused("the nonce is not that of the ID token");
  if (accessToken === null || claims.at_hash === undefined) return;
  if (claims.at_hash !== hashOf(accessToken, headerOf(idToken)!.alg)) {
    throw refused("the access token is not that of the ID token");
  }
}

const refused = (detail: string) => signInFailure("not verified", detail);

/** The left half of the hash that belongs to the algorithm of the token: SHA-256 for RS256. */
function hashOf(accessToken: string, algorithm: string): string {
  const hash = createHash(`sha${/\d+$/.exec(algorithm)?.[0] ?? "256"}`)
    .update(accessToken)
    .digest();
  return hash.subarray(0, hash.length / 2).toString("base64url");
}
