import type { Config } from "../../config/config.ts";

export type AuthLimits = Readonly<ReturnType<typeof authLimits>>;

/** Numbers of accounts that no operator has a reason to change. */
export const authLimits = ({ loginAttempts }: Pick<Config, "loginAttempts">) => ({
  /** Failed logins per IP address within LOGIN_WINDOW, for all users together. */
  loginAttemptsPerAddress: 20 * loginAttempts,
  /** Accounts that may be created per IP address within LOGIN_WINDOW. */
  registrationsPerAddress: 60,
  /** Wrong two-factor codes per user within LOGIN_WINDOW, from all networks together. After that, every code is rejected. */
  mfaAttempts: 5,
  /** E-mails per hour to one mailbox that requests without a sign-in cause, and notices of one kind. */
  mailsPerRecipient: 5,
  /** E-mails per hour that requests without a sign-in from one IP address cause. */
  mailsPerAddress: 30,
  /** E-mails per hour that all requests without a sign-in cause. */
  mailsPerHour: 1000,
  /** Seconds for which, after a change of e-mail, the previous one stays reserved for the account, if it was confirmed. */
  emailReservation: 2_592_000,
  /** Active API keys per user. */
  apiKeysMax: 50,
  /** Sessions per user. A further sign-in ends the one that was used longest ago. */
  sessionsMax: 100,
  /** Bytes of the metadata that a user writes at /auth/v1. Each access token contains it. */
  userMetadataBytes: 4096,
});
