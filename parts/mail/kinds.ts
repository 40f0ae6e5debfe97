import type { MailData } from "../../rest-gateway/auth/mail/mails.ts";

/** What an e-mail is for: its template has this name. */
export const KINDS = [
  ...([
    "confirm",
    "confirm-change",
    "already-confirmed",
    "reset",
    "sign-in",
    "no-account",
    "account-disabled",
    "recently-changed",
    "account-exists",
    "invitation",
  ] as const),
  ...(["password-changed", "email-changed", "factor-removed", "new-device"] as const),
] as const;

export type MailKind = (typeof KINDS)[number];

/** What a template may name. A value that the e-mail does not have is "". */
export const VARIABLES = [
  ...(["email", "service", "url", "link", "token", "code", "minutes"] as const),
  ...(["tokenHash", "type", "redirectTo"] as const),
  ...(["newEmail", "time", "address", "device"] as const),
] as const;

export type MailValues = Readonly<Record<(typeof VARIABLES)[number], string>>;

/** What `verifyOtp` of supabase-js calls the link of an e-mail; "" if it takes none. */
export function otpTypeOf(kind: MailKind, { application, from }: MailData): string {
  if (kind === "reset") return "recovery";
  if (kind === "invitation") return application === undefined ? "" : "invite";
  if (kind !== "sign-in" && kind !== "confirm") return "";
  if (from !== undefined || application?.type === "email_change") return "email_change";
  // A page may ask for the password at a confirmation.
  return kind === "confirm" ? "signup" : "email";
}

/** An e-mail as it is sent. */
export type Mail = {
  /** The same in each attempt to send it. */
  readonly id: string;
  readonly kind: MailKind;
  readonly to: string;
  readonly language: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
};
