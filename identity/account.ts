import type { Caller } from "../db/caller.ts";

/** Milliseconds since 1970; tests set the clock. */
export type Clock = () => number;

/** The account of a user who can sign in. */
export type Account = {
  /** The id of the user, as text. */
  readonly id: string;
  /** The id as the JSON value of its type: a number, or a text. */
  readonly userId: number | string;
  /** The email if there is no username. */
  readonly username: string;
  readonly name: string;
  /** The e-mail that the account signs in with. */
  readonly email: string;
  /** When the user has shown that the e-mail is theirs, in ISO 8601; null before. */
  readonly emailConfirmedAt: string | null;
  /** Whether EMAIL_CONFIRM=required keeps the account from signing in until the e-mail is confirmed. */
  readonly mustConfirm: boolean;
  readonly role: string;
  readonly permissions: readonly string[];
  /** Null if the user signs in with identities of providers alone. */
  readonly passwordHash: string | null;
  readonly isDisabled: boolean;
  /** Increases when all tokens that were issued before must become invalid. */
  readonly epoch: number;
  /** Whether a second factor is enabled. */
  readonly hasFactor: boolean;
  /** The kinds of second factors that are enabled: an authenticator app, passkeys. */
  readonly factorKinds: readonly ("totp" | "passkey")[];
  /** What the hook of the application adds to the claims; null without the hook. */
  readonly claims: Readonly<Record<string, unknown>> | null;
};

/** The state that a token must match; null for an account that is disabled or deleted. */
export type AccountState = Pick<Account, "epoch" | "role"> & {
  /** The ids of revoked sessions whose access tokens may not have expired yet. */
  readonly revoked: ReadonlySet<string>;
  /** The ids of sessions that outlived the last change of the epoch: their access tokens may have an earlier one. */
  readonly kept: ReadonlySet<string>;
};

/** The session of a cookie. Times are ISO 8601. */
export type Session = {
  readonly id: string;
  readonly account: Account;
  readonly startedAt: string;
  readonly expiresAt: string;
};

/** What has replaced the password of a sign-in, if anything has. */
export type Proof = {
  /** The name of the provider that has confirmed the identity of the user. */
  readonly provider?: string;
  /** Whether that provider has used SAML. */
  readonly bySaml?: true;
  /** Whether it was a link or a code in an e-mail. */
  readonly byMail?: true;
  /** Whether it was a passkey, which is a second factor too. */
  readonly byPasskey?: true;
};

/** A verified challenge; `epoch` is that of the account when the challenge was issued. */
export type Challenge = {
  readonly id: string;
  readonly userId: string;
  readonly epoch: number;
  readonly proof: Proof;
};

type KeyKind = "user" | "anon" | "service";
export type FoundKey = {
  readonly id: string;
  readonly kind: KeyKind;
  readonly expiresAt: string | null;
  /** Null for anon and service keys. */
  readonly account: Account | null;
};

/**
 * A caller with the claims that a token of the account would have. `signedInAt` is when the user proved the password, in
 * milliseconds since 1970; null for an API key, which proves no password.
 */
export const callerOfAccount = (account: ClaimedAccount, signedInAt: number | null): Caller => ({
  role: account.role,
  claims: { ...claimsOf(account), ...(signedInAt !== null && { auth_time: toSeconds(signedInAt) }) },
  expiresAt: null,
  refused: null,
});

export function callerOfSession({ id, account, startedAt }: Session): Caller {
  const { claims, ...caller } = callerOfAccount(account, Date.parse(startedAt));
  return { ...caller, claims: { ...claims, sid: id } };
}

type ClaimedAccount = Pick<Account, "id" | "name" | "role" | "permissions" | "claims">;

const claimsOf = ({ id, name, role, permissions, claims }: ClaimedAccount) => ({
  ...claims,
  sub: id,
  name,
  role,
  permissions,
});

/** The claim `auth_time`, as OpenID Connect defines it: seconds since 1970. */
export const toSeconds = (milliseconds: number): number => Math.floor(milliseconds / 1000);
