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
  ...(["newEmail", "time", "address", "device"] as const),
] as const;

export type MailValues = Readonly<Record<(typeof VARIABLES)[number], string>>;

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
