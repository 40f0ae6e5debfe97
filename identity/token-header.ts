import jwt from "jsonwebtoken";

/**
 * The header of a token, not yet verified. Null for what is no token, on which jsonwebtoken may throw, and for one that
 * names extensions which must be understood: there are none here. Source: RFC 7515, 4.1.11.
 */
export function headerOf(token: string): jwt.JwtHeader | null {
  try {
    const header = jwt.decode(token, { complete: true })?.header ?? null;
    return header?.crit === undefined ? header : null;
  } catch {
    return null;
  }
}
