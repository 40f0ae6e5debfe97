/** The caller of a request: its Postgres role and the verified claims of its token. */
export type Caller = {
  readonly role: string;
  readonly claims: Readonly<Record<string, unknown>>;
  /** When the credential expires, in milliseconds since 1970; null when it does not expire. */
  readonly expiresAt: number | null;
  /** Why a caller who sent a token is anonymous; decides between "sign in" and "sign in again". */
  readonly refused: "expired" | "invalid" | null;
  /** The credential of the request; absent for anonymous callers and for callers that no request names. */
  readonly credential?: Credential;
  /** Of a caller with a token of a trusted issuer, who may be linked to an account. */
  readonly external?: ExternalIdentity;
};

/** `roles` are those that the account of the identity may have; null for every role. */
export type ExternalIdentity = {
  readonly issuer: string;
  readonly subject: string;
  readonly roles: readonly string[] | null;
};

/** `id` identifies a session or key: its SHA-256 in hex; null for credentials without a row in the database. */
export type Credential = { readonly kind: "token" | "session" | "key" | "basic"; readonly id: string | null };

/** A caller who is not signed in. */
export const anonymous = (anonymousRole: string, refused: Caller["refused"] = null): Caller => ({
  role: anonymousRole,
  claims: {},
  expiresAt: null,
  refused,
});
