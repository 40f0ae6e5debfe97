/** Who asks: the Postgres role of the request and the verified claims of its token. */
export type Caller = {
  readonly role: string;
  readonly claims: Readonly<Record<string, unknown>>;
  /** When the credential ends, in milliseconds since 1970; null when it does not. */
  readonly expiresAt: number | null;
  /** Why nobody is signed in although a token was sent; decides between "sign in" and "sign in again". */
  readonly refused: "expired" | "invalid" | null;
  /** What the caller came with; absent for nobody, and for those who come from elsewhere. */
  readonly credential?: Credential;
};

/** `id` tells sessions and keys apart: the SHA-256 in hex; null for what has no row in the database. */
export type Credential = { readonly kind: "token" | "session" | "key" | "basic"; readonly id: string | null };

export const nobody = (anonymousRole: string, refused: Caller["refused"] = null): Caller => ({
  role: anonymousRole,
  claims: {},
  expiresAt: null,
  refused,
});
