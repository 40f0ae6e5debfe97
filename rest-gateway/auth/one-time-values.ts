import { bytes, type Database, time } from "./functions.ts";

/**
 * What may be used once:
 * - sign-in: a sign-in at a provider that has begun, until the provider responds
 * - code: an identity that a provider has confirmed, until the client that began exchanges its sign-in code
 * - return: where the browser continues after the code of the second factor
 * - link: what a browser shall begin at a provider for a user of /auth/v1
 * - logout: a sign-out at a provider, until the provider responds
 * - challenge: a challenge of a second factor at /auth/v1, until its code is sent
 * - passkey: the enrolment of a passkey at /auth/v1, until it is added
 * - assertion: a SAML assertion, which is kept and never taken
 * - id token: an ID token that a client of /auth/v1 has sent, which is kept and never taken
 */
type OneTimeKind =
  | "sign-in"
  | "code"
  | "return"
  | "link"
  | "logout"
  | "challenge"
  | "passkey"
  | "assertion"
  | "id token";

/**
 * Keeps a value until it is taken. `key` is a SHA-256, `expiresAt` in milliseconds since 1970. Returns false if the key is kept already.
 */
export const keepOnce = (
  { functions }: Database,
  kind: OneTimeKind,
  key: Buffer,
  data: object,
  expiresAt: number,
): Promise<boolean> =>
  functions.call("keep_once($1, $2::bytea, $3::jsonb, $4::timestamptz)", [
    ...[kind, bytes(key), JSON.stringify(data), time(expiresAt)],
  ]);

/** The data, which are deleted; null if there are none or they have expired. */
export const takeOnce = <Data>({ functions }: Database, kind: OneTimeKind, key: Buffer): Promise<Data | null> =>
  functions.call("take_once($1, $2::bytea, $3::timestamptz)", [kind, bytes(key), functions.now()]);
