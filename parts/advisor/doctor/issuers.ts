import type { TrustedIssuer } from "../../../config/trusted-issuers.ts";
import { type Check, checkKeys, error } from "../../../identity/diagnosis.ts";
import type { Outbound } from "../../../identity/outbound.ts";
import { discover } from "../../../identity/remote-keys.ts";

/** Checks an issuer of JWT_ISSUERS by reading its keys. */
export async function diagnoseIssuer(
  { issuer, jwksUrl }: TrustedIssuer,
  outbound: Outbound,
): Promise<readonly Check[]> {
  try {
    return [await checkKeys(jwksUrl ?? String((await discover(issuer, outbound)).jwks_uri), outbound)];
  } catch (cause) {
    return [error(`${(cause as Error).message}. The issuer must be exactly as its tokens spell it; or set jwksUrl`)];
  }
}
