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
  | "no session"
  /** A cookie alone does not tell who wrote the request. */
  | "no csrf token"
  | "disagreement"
  | "service key in browser"
  | "anonymous off"
  | "too many attempts"
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
  /** Seconds, of "too many attempts". */
  readonly retryAfter?: number;
  /** Whose second factor is needed. */
  readonly account?: { readonly id: string; readonly epoch: number };
};
