import type { Account } from "../../identity/account.ts";

/** A user with an account, as the user sees it. */
export type User = {
  /** Of the type of the ids: a number, or a text. */
  readonly id: number | string;
  readonly name: string;
  readonly username: string;
  readonly email: string;
  readonly emailConfirmed: boolean;
  readonly role: string;
  readonly permissions: readonly string[];
  readonly mfaEnabled: boolean;
  readonly hasPassword: boolean;
};

export const describeUser = (account: Account): User => ({
  id: account.userId,
  name: account.name,
  username: account.username,
  email: account.email,
  emailConfirmed: account.emailConfirmedAt !== null,
  role: account.role,
  permissions: account.permissions,
  mfaEnabled: account.hasFactor,
  hasPassword: account.passwordHash !== null,
});
