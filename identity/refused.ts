/** Why a credential, or the lack of one, is not taken. */
export type RefusalReason =
  | "no key"
  | "bad key"
  | "expired key"
  | "bad token"
  | "expired token"
  /** The token is one of ours, but its account has changed since, or is disabled or gone. */
  | "revoked token"
  | "unreadable"
  | "wrong password"
  | "account disabled"
  | "second factor needed"
  | "expired challenge"
  /** Or one of an account that has changed since. */
  | "invalid challenge"
  /** Of a user who is signed in already, and has to show that he still is who he was. */
  | "wrong old password"
  | "no session"
  /** A cookie alone does not tell who wrote the request. */
  | "no csrf token"
  /** Browsers send the cookie to WebSockets too, and no token with it. */
  | "foreign page"
  | "disagreement"
  | "service key in browser"
  | "anonymous off"
  | "too many attempts"
  | "too many registrations"
  | "busy";

/** Each interface says it in its own words. */
export class RefusedError extends Error {
  readonly reason: RefusalReason;
  readonly more: RefusalDetail;

  constructor(reason: RefusalReason, more: RefusalDetail = {}) {
    super(reason);
    this.reason = reason;
    this.more = more;
  }
}

export type RefusalDetail = {
  /** Seconds, where it helps to wait. */
  readonly retryAfter?: number;
  /** That of the header, of "wrong password" and "unreadable". */
  readonly scheme?: "Basic";
  /** Whose second factor is needed. */
  readonly account?: { readonly id: string; readonly epoch: number };
};
