import { countedNetworksOf } from "../../db/network.ts";
import { writeArray } from "../../db/wire/array-text.ts";
import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import { type AuthFunctions, bytes, seconds } from "../../rest-gateway/auth/functions.ts";
import { normalizedEmail } from "../../rest-gateway/auth/login-names.ts";
import type {
  AdmittedKind,
  Link as AnyLink,
  MailData,
  MailRefusal,
  RequestedKind,
} from "../../rest-gateway/auth/mail/mails.ts";
import { refuseUser } from "../../rest-gateway/auth/problem.ts";
import type { CodeOutcome } from "../../rest-gateway/auth/throttle.ts";
import type { MailKind } from "./kinds.ts";

export type DueMail = { readonly kind: MailKind; readonly email: string; readonly data: MailData };

/** The token of a link, which stays valid. */
export type Link = AnyLink & DueMail;

/** Null if it is sent; "too late" if its link is no longer valid. */
export type BegunMail =
  | null
  | ({ readonly outcome: "due"; readonly userId: string | number | null; readonly hasHook: boolean } & DueMail)
  | { readonly outcome: "too late"; readonly kind: MailKind };

export type KeptMail = DueMail & { readonly id: string; readonly sentAt: string };

/** E-mails per hour. */
export type MailLimits = {
  readonly mailsPerRecipient: number;
  readonly mailsPerAddress: number;
  readonly mailsPerHour: number;
};

/** A refused request: the limit that is reached, and the seconds to wait. */
export type RefusedMail = {
  readonly limit: "mailbox_mails" | "address_mails" | "all_mails";
  readonly retryAfter: number;
};

/** The place of the limit, and the seconds to wait. */
type Limited = { readonly place: number; readonly retryAfter: number };

export type AcceptedInvitation = {
  readonly tokenHash: Buffer;
  readonly name: string;
  readonly passwordHash: string;
  readonly address: string;
};

/** What shows that the account belongs to the owner of the mailbox: its epoch, if the client has proved it; or a new password. */
export type Proof = { readonly epoch: number | null; readonly passwordHash: string | null };

export type ConfirmedEmail =
  | { readonly outcome: "confirmed"; readonly user: string | number }
  | { readonly outcome: "unproved" };

/** E-mails that are due, and the tokens of their links. */
export class MailRepository {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  /** Adds an e-mail to an address, whether it has an account or not. Null if it is added, "malformed" if no account can have the address. */
  async request(
    kind: RequestedKind,
    email: string,
    data: MailData,
    address: string,
    limits: MailLimits,
  ): Promise<RefusedMail | "malformed" | null> {
    const networks = countedNetworksOf(address);
    const values = [
      ...[kind, normalizedEmail(email), JSON.stringify(data), writeArray(networks.map(({ name }) => name))],
      String(limits.mailsPerRecipient),
      writeArray(networks.map(({ factor }) => String(factor * limits.mailsPerAddress))),
      ...[String(limits.mailsPerHour), this.#functions.now()],
    ];
    const call =
      "request_mail($1, $2, $3::jsonb, $4::text[], $5::integer, $6::integer[], $7::integer, $8::timestamptz)";
    const refused = await this.#functions.call<Limited | "malformed" | null>(call, values);
    if (refused === null || refused === "malformed") return refused;
    const { place, retryAfter } = refused;
    const ofNetworks = place <= networks.length + 1 ? "address_mails" : "all_mails";
    return { limit: place === 1 ? "mailbox_mails" : ofNetworks, retryAfter };
  }

  /** Decides what is sent, and stores the token and the code. `validity` is seconds. */
  begin(id: string, tokenHash: Buffer, codeHash: Buffer, validity: number): Promise<BegunMail> {
    const values = [id, bytes(tokenHash), bytes(codeHash), this.#functions.now(), seconds(validity)];
    return this.#functions.call("begin_mail($1::uuid, $2::bytea, $3::bytea, $4::timestamptz, $5::interval)", values);
  }

  /** Gives the e-mail to the hook send_message. Returns true if the application sends it: it is no longer due then. */
  handOver(id: string, message: object): Promise<boolean> {
    return this.#functions.call("hand_over_mail($1::uuid, $2::jsonb)", [id, JSON.stringify(message)]);
  }

  async end(id: string, keeps: boolean): Promise<void> {
    await this.#functions.call("end_mail($1::uuid, $2::boolean, $3::timestamptz)", [
      ...[id, String(keeps), this.#functions.now()],
    ]);
  }

  /** The newest e-mails that are kept. */
  list(total: number): Promise<readonly KeptMail[]> {
    return this.#functions.call("list_mails($1::integer)", [String(total)]);
  }

  findLink(tokenHash: Buffer): Promise<Link | null> {
    return this.#functions.call("read_token($1::bytea, $2::timestamptz)", [bytes(tokenHash), this.#functions.now()]);
  }

  /** Takes the token of a reset. The outcome is "spent" if it is not valid. */
  resetPassword(
    tokenHash: Buffer,
    passwordHash: string,
    sent: string | null,
    address: string,
  ): Promise<CodeOutcome<{ readonly user: string }> | null> {
    const values = [bytes(tokenHash), passwordHash, sent, address || null, this.#functions.now()];
    return this.#functions.call("reset_password($1::bytea, $2, $3::jsonb, $4::inet, $5::timestamptz)", values);
  }

  /** Takes the token of a confirmation. It stays valid if a proof is missing. */
  confirmEmail(tokenHash: Buffer, { epoch, passwordHash }: Proof, address: string): Promise<ConfirmedEmail> {
    return this.#take("confirm_email", tokenHash, [epoch, passwordHash], address);
  }

  /** Takes the token of a confirmation whose recipient does not know the account. */
  declineConfirmation(tokenHash: Buffer, address: string): Promise<true> {
    return this.#take("decline_confirmation", tokenHash, [], address);
  }

  /** Takes the token that undoes a change of the e-mail, and returns the id of the user. */
  undoEmail(tokenHash: Buffer, address: string): Promise<string | number> {
    return this.#take("undo_email", tokenHash, [], address);
  }

  async invite(email: string, data: MailData, address: string): Promise<void> {
    const values = [normalizedEmail(email), JSON.stringify(data), address || null, this.#functions.now()];
    await this.#functions.call("invite($1, $2::jsonb, $3::inet, $4::timestamptz)", values);
  }

  /** Takes the token of an invitation, and returns the id of the new user. */
  acceptInvitation({ tokenHash, name, passwordHash, address }: AcceptedInvitation): Promise<string | number> {
    return this.#take("accept_invitation", tokenHash, [name, passwordHash], address);
  }

  /** Takes a token of one of these kinds, for the user who is signed in, if any. */
  takeToken(
    tokenHash: Buffer,
    kinds: readonly AdmittedKind[],
    epoch: number | null,
    signedIn: string | null,
    address: string,
    reason: MailRefusal,
  ): Promise<TakenToken> {
    return this.#take("take_mail_token", tokenHash, [writeArray(kinds), epoch, signedIn], address, reason);
  }

  /** Rejects with Problem: of this reason if the token is not valid; and for what triggers of the application raise. */
  async #take<Taken>(
    name: string,
    tokenHash: Buffer,
    given: readonly (string | number | null)[],
    address: string,
    reason: MailRefusal = "invalid link",
  ): Promise<Taken> {
    const more = given.map((value) => (value === null ? null : String(value)));
    const values = [bytes(tokenHash), ...more, address || null, this.#functions.now()];
    const places = values.map((_, i) => `$${i + 1}`).join();
    const taken = await this.#functions.call<Taken | null | false>(`${name}(${places})`, values).catch(refuseUser);
    if (taken === null || taken === false) throw problem(reason);
    return taken;
  }

  /** The hash of the token that came with this code. Null for a wrong one; after this many, the code is no longer valid. */
  async findCode(email: string, codeHash: Buffer, attempts: number): Promise<Buffer | null> {
    const values = [normalizedEmail(email), bytes(codeHash), String(attempts), this.#functions.now()];
    const call = "find_mail_code($1, $2::bytea, $3::integer, $4::timestamptz)";
    const found = await this.#functions.call<string | null>(call, values);
    return found === null ? null : Buffer.from(found, "hex");
  }

  /** `retention` is seconds. */
  async purge(retention: number): Promise<void> {
    await this.#functions.call("purge_mails($1::timestamptz, $2::interval)", [
      this.#functions.now(),
      seconds(retention),
    ]);
  }
}

/** The account that a token signs in, and the token, which is valid again if a hook refuses the sign-in. */
type TakenToken = { readonly account: Account; readonly token: object };
