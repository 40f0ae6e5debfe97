import type { Caller } from "../db/caller.ts";

/** Milliseconds since 1970; of the service's clock, which tests may set. */
export type Clock = () => number;

/** Somebody who can sign in. */
export type Account = {
  /** The user's, as text. */
  readonly id: string;
  /** Or the e-mail, where there is no username. */
  readonly username: string;
  readonly name: string;
  readonly role: string;
  readonly permissions: readonly string[];
  readonly passwordHash: string;
  readonly isDisabled: boolean;
  /** Grows when what was issued before is to be worth nothing. */
  readonly epoch: number;
  /** Whether a second factor is enabled. */
  readonly hasFactor: boolean;
};

/** What a token must agree with; null for an account that is disabled or gone. */
export type AccountState = Pick<Account, "epoch" | "role"> & {
  /** Families of tokens, by their ids, that were revoked while access tokens of them may go on. */
  readonly revoked: ReadonlySet<string>;
};

/** Times are ISO 8601. */
export type Session = { readonly account: Account; readonly startedAt: string; readonly expiresAt: string };

export type KeyKind = "user" | "anon" | "service";
export type FoundKey = {
  readonly id: string;
  readonly kind: KeyKind;
  readonly expiresAt: string | null;
  /** Of keys of users. */
  readonly account: Account | null;
};

/** The claims of a token that the account would have been given. */
export const callerOfAccount = ({ id, name, role, permissions }: Account): Caller => ({
  role,
  claims: { sub: id, name, role, permissions },
  expiresAt: null,
  refused: null,
});
