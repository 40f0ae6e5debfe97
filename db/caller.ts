/** The logins that take on the role of a caller. */
export type CallerLogin = "data" | "admin" | "service";

/** The caller of a request: its Postgres role and the verified claims of its token. */
export type Caller = {
  readonly role: string;
  readonly claims: Readonly<Record<string, unknown>>;
  /** When the credential expires, in milliseconds since 1970; null when it does not expire. */
  readonly expiresAt: number | null;
  /** Why a caller who sent a credential is anonymous. */
  readonly refused: RefusedCredential | null;
  /** The credential of the request; absent for anonymous callers, and for callers outside of a request, such as those of tasks. */
  readonly credential?: Credential;
  /** The identity in a token of a trusted issuer, which may be linked to an account. */
  readonly external?: ExternalIdentity;
  /** The user of a sign-in whose second factor is missing: everywhere but in `/auth/v1`, the caller is anonymous. */
  readonly limited?: { readonly userId: string; readonly session: string };
};

/** `message`: "the access token has been revoked: sign in again" */
export type RefusedCredential = { readonly isExpired: boolean; readonly message: string };

/** `roles`: the token is rejected if the account of the identity has another role. Null allows every role. */
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
