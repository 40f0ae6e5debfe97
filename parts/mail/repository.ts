import { problem } from "../../problems/problem.ts";
import { bytes, type Database, seconds } from "../../rest-gateway/auth/functions.ts";
import type { Link as AnyLink, MailData, MailRefusal } from "../../rest-gateway/auth/mail/mails.ts";
import { refuseUser } from "../../rest-gateway/auth/problem.ts";
import type { MailKind } from "./kinds.ts";

// E-mails that are due, and the tokens of their links.

export type DueMail = { readonly kind: MailKind; readonly email: string; readonly data: MailData };

/** The token of a link, which stays valid. */
export type Link = AnyLink & DueMail;

/** Null if it is sent; "too late" if its link is no longer valid. */
type BegunMail =
  | null
  | ({ readonly outcome: "due"; readonly userId: string | number | null; readonly hasHook: boolean } & DueMail)
  | { readonly outcome: "too late"; readonly kind: MailKind };

type KeptMail = DueMail & { readonly id: string; readonly sentAt: string };

/** Decides what is sent, and stores the token and the code. `validity` is seconds. */
export function beginMail(
  { functions }: Database,
  id: string,
  tokenHash: Buffer,
  codeHash: Buffer,
  validity: number,
): Promise<BegunMail> {
  const values = [id, bytes(tokenHash), bytes(codeHash), functions.now(), seconds(validity)];
  return functions.call("begin_mail($1::uuid, $2::bytea, $3::bytea, $4::timestamptz, $5::interval)", values);
}

/** Gives the e-mail to the hook send_message. Returns true if the application sends it: it is no longer due then. */
export const handOverMail = ({ functions }: Database, id: string, message: object): Promise<boolean> =>
  functions.call("hand_over_mail($1::uuid, $2::jsonb)", [id, JSON.stringify(message)]);

export async function endMail({ functions }: Database, id: string, keeps: boolean): Promise<void> {
  await functions.call("end_mail($1::uuid, $2::boolean, $3::timestamptz)", [id, String(keeps), functions.now()]);
}

/** The newest e-mails that are kept. */
export const listMails = ({ functions }: Database, total: number): Promise<readonly KeptMail[]> =>
  functions.call("list_mails($1::integer)", [String(total)]);

/** `retention` is seconds. */
export async function purgeMails({ functions }: Database, retention: number): Promise<void> {
  await functions.call("purge_mails($1::timestamptz, $2::interval)", [functions.now(), seconds(retention)]);
}

export const findLink = ({ functions }: Database, tokenHash: Buffer): Promise<Link | null> =>
  functions.call("read_token($1::bytea, $2::timestamptz)", [bytes(tokenHash), functions.now()]);

/**
 * Takes a token with this function of the database, which gets these values too. Rejects with Problem: of this reason if the token is not
 * valid; and for what triggers of the application raise.
 */
export async function takeToken<Taken>(
  { functions }: Database,
  name: string,
  tokenHash: Buffer,
  given: readonly (string | number | null)[],
  address: string,
  reason: MailRefusal = "invalid link",
): Promise<Taken> {
  const more = given.map((value) => (value === null ? null : String(value)));
  const values = [bytes(tokenHash), ...more, address || null, functions.now()];
  const places = values.map((_, i) => `$${i + 1}`).join();
  const taken = await functions.call<Taken | null | false>(`${name}(${places})`, values).catch(refuseUser);
  if (taken === null || taken === false) throw problem(reason);
  return taken;
}
