import type { TaskList } from "graphile-worker";
import type { Logger } from "pino";
import type { Config } from "../../../config/config.ts";
import type { Account } from "../../../identity/account.ts";
import { problem } from "../../../problems/problem.ts";
import type { Auth } from "../auth.ts";
import type { AuthFunctions } from "../functions.ts";
import type { AuthLimits } from "../limits.ts";
import type { Call } from "../route.ts";
import type { AdmittedLogin } from "../sign-in.ts";

/** E-mails as a part brings them: what sends them, and sign-in by them. Methods reject with Problem. */
export type Mails = {
  /** Whether e-mails are sent or kept. */
  readonly isOn: boolean;
  /** Whether they are kept, and not sent. */
  readonly isKept: boolean;
  /** The task that sends one e-mail, for the queue. */
  readonly tasks: TaskList;
  /** The e-mails that are kept, newest first, as they would be sent. */
  kept(total: number): Promise<readonly KeptMail[]>;
  /** Requests an e-mail for an address; the same for every address. */
  request(
    call: MailCall,
    kind: RequestedKind,
    email: string,
    destination: Destination,
    newUser?: MailData["newUser"],
  ): Promise<void>;
  /**
   * The sign-in of the user who has shown that the mailbox is theirs: takes a token of one of these kinds, by the hash of the link, or by a
   * code. A wrong code counts as a failed login. Otherwise rejects with a problem of this reason.
   */
  takeCode(
    call: MailCall,
    sent: SentCode,
    kinds: readonly AdmittedKind[],
    reason: MailRefusal,
    proof?: MailProof,
  ): Promise<AdmittedLogin>;
  /** A keyed hash: there are so few codes that another one would be reversed at once. */
  hashOfCode(code: string): Buffer;
  /** The token of a link, which stays valid. */
  findLink(auth: Auth, tokenHash: Buffer): Promise<Link | null>;
  /**
   * The browser that has registered an account confirms its e-mail without the password. With EMAIL_CONFIRM=required, because otherwise
   * it is signed in. `userId` is null for an e-mail that is taken, whose response is the same.
   */
  markBrowser(call: Pick<Call, "request" | "response"> & { readonly auth: Auth }, userId: string | null): void;
  /** The page that says what has happened, and where the user continues. */
  doneUrl(auth: Auth, done: "confirm-sent" | "reset-sent" | "signed-out", returnTo?: string | null): string;
  /** Says once whether e-mails are sent. */
  start(): void;
  /** Deletes what has expired. */
  purge(): Promise<void>;
  close(): void;
};

export type MailCall = Pick<Call, "request" | "client"> & { readonly auth: Auth };

export type SentCode = Buffer | { readonly email: string; readonly code: string };

/** The password, at a confirmation; and the user, if one is signed in: the e-mail is confirmed then, and nothing ends. */
export type MailProof = { readonly password?: string | null | undefined; readonly signedIn?: string };

export type MailRefusal =
  | "wrong mail code"
  | "invalid link"
  | "mail token invalid"
  | "invalid sign-in code"
  | "nonce wrong";

/**
 * The kinds of e-mails that a request without a sign-in may ask for. What is sent in their place depends on the account; "change" is
 * the confirmation of a change of the e-mail once more.
 */
export type RequestedKind = "confirm" | "reset" | "sign-in" | "change";

/** The kinds of e-mails whose links and codes sign in. */
export type SignInKind = "sign-in" | "confirm" | "reset";

/** Where the user continues after a link. `returnTo` is a URL that is allowed. */
export type Destination = Pick<MailData, "returnTo" | "application">;

/** An application that has requested an e-mail over another API than `/auth`: with the link, it is signed in at `returnTo`. */
export type Application = {
  /** The name of the API. */
  readonly wire: string;
  /** What the API calls the link, such as `magiclink`. */
  readonly type: string;
  /** The S256 challenge of its verifier; it gets tokens without one. */
  readonly challenge?: string;
  /** Whether the link needs no press, because the service key has created it. */
  readonly isDirect?: true;
};

/** What a sign-in code after the link of an e-mail stands for: the SHA-256 of its token, in hex, and its kind. */
export type MailCode = { readonly tokenHash: string; readonly kind: AdmittedKind };

/** "confirmed" is a confirmation that was used, until its application has exchanged a code. */
export type AdmittedKind = SignInKind | "confirmed";

export type KeptMail = {
  readonly id: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly sentAt: string;
};

/** What the client of a request has chosen, or what has happened. */
export type MailData = {
  readonly newEmail?: string;
  /** Of a confirmation: the e-mail that the new one replaces. */
  readonly from?: string;
  /** When it has happened, in ISO 8601, from which IP address, and with which device. */
  readonly at?: string;
  readonly address?: string | null;
  readonly device?: string | null;
  /** Where the user continues; a URL of an allowed origin. */
  readonly returnTo?: string | null;
  readonly application?: Application;
  readonly languages?: readonly string[];
  /** The user whom the code creates if the address has no account. */
  readonly newUser?: { readonly name: string; readonly metadata: object } | undefined;
};

/** The token of a link, which stays valid. */
export type Link = {
  readonly kind: string;
  readonly email: string;
  readonly data: MailData;
  /** Null for an address without an account. */
  readonly account: Account | null;
  /** The encrypted secrets of the enabled second factors, in hex. */
  readonly factors: readonly string[];
  /** Whether it confirms an e-mail for an account that may be that of another person. */
  readonly needsProof: boolean;
  /** Whether such a confirmation takes the account over without a proof. */
  readonly claims: boolean;
  /** Whether the mailbox does not replace the second factor. Null for an address without an account. */
  readonly keepsFactor: boolean | null;
};

export type MailSettings = Pick<Config, "embedded" | "authPagesUrl"> &
  Pick<AuthLimits, "mailLinkTtl" | "mailsPerRecipient" | "mailsPerAddress" | "mailsPerHour">;

/** Creates what a part brings. Throws ConfigError for a template that is not valid. */
export type CreateMails = (options: {
  readonly settings: MailSettings;
  readonly functions: AuthFunctions;
  /** The folder with the templates of the application; null if there is none. */
  readonly folder: string | null;
  /** Whether there is a queue of tasks, which e-mails need. */
  readonly hasTasks: boolean;
  /** The secret of the service, from which keys are derived. */
  readonly secret: string;
  /** The public URL of the service, which begins every link. */
  readonly url: string;
  readonly log: Logger;
}) => Mails;

/** Throws Problem where no part brings e-mails. */
export function mailsIn({ mails }: Pick<Auth, "mails">): Mails {
  if (mails === null) throw problem("no mail");
  return mails;
}
