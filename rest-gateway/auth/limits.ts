import type { Config } from "../../config/config.ts";
import type { DatabaseLimits } from "../../db/limits.ts";
import type { HttpLimits } from "../../gate/limits.ts";

export type AuthLimits = Readonly<ReturnType<typeof authLimits>>;

/** The settings of authentication. */
export type AuthSettings = Config & AuthLimits & DatabaseLimits & HttpLimits;

/** Numbers of accounts that no operator has a reason to change. */
export const authLimits = ({ loginAttempts }: Pick<Config, "loginAttempts">) => ({
  /** Seconds that a failed login, a wrong code and a new account count. */
  loginWindow: 900,
  /** Failed logins per IP address within that time, for all users together. */
  loginAttemptsPerAddress: 20 * loginAttempts,
  /** Accounts that may be created per IP address within that time. */
  registrationsPerAddress: 60,
  /** Wrong two-factor codes per user within that time, from all networks together. After that, every code is rejected. */
  mfaAttempts: 5,
  /** E-mails per hour to one mailbox that requests without a sign-in cause, and notices of one kind. */
  mailsPerRecipient: 5,
  /** E-mails per hour that requests without a sign-in from one IP address cause. */
  mailsPerAddress: 30,
  /** E-mails per hour that all requests without a sign-in cause. */
  mailsPerHour: 1000,
  /** Seconds for which the links and codes in e-mails are valid. One with a link that cannot be sent in this time is dropped. */
  mailLinkTtl: 3600,
  /** Seconds for which, after a change of e-mail, the previous one stays reserved for the account, if it was confirmed. */
  emailReservation: 2_592_000,
  /** Active API keys per user. */
  apiKeysMax: 50,
  /** Sessions per user. A further sign-in ends the one that was used longest ago. */
  sessionsMax: 100,
  /** Bytes of the metadata that a user writes at /auth/v1. Each access token contains it. */
  userMetadataBytes: 4096,
});
