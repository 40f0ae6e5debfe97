import type { z } from "zod";
import type { Account } from "../../identity/account.ts";
import type { SignedInAnswer } from "./answers.ts";

/** A user with an account, as the user sees it. */
export type User = z.infer<typeof SignedInAnswer>["user"];

export const describeUser = (account: Account): User => ({
  id: account.userId,
  name: account.name,
  username: account.username,
  email: account.email,
  emailConfirmed: account.emailConfirmedAt !== null,
  role: account.role,
  permissions: [...account.permissions],
  mfaEnabled: account.hasFactor,
  hasPassword: account.passwordHash !== null,
});
