import { problem } from "../../problems/problem.ts";
import { bytes, type Database } from "../../rest-gateway/auth/functions.ts";
import type { Link as AnyLink, MailData, MailRefusal } from "../../rest-gateway/auth/mail/mails.ts";
import { refuseUser } from "../../rest-gateway/auth/problem.ts";
import type { MailKind } from "./kinds.ts";

// The tokens of links in e-mails.

export type DueMail = { readonly kind: MailKind; readonly email: string; readonly data: MailData };

/** The token of a link, which stays valid. */
export type Link = AnyLink & DueMail;

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
