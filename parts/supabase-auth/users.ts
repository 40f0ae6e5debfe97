import type { Account } from "../../identity/account.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { bytes, type Call, textOfId, time } from "../../rest-gateway/auth/functions.ts";
import type { MailData } from "../../rest-gateway/auth/mail/mails.ts";
import { withMissingGrant } from "../../rest-gateway/auth/problem.ts";
import type { Found, PublicUser } from "../../rest-gateway/auth/public-users.ts";
import type { Method, UsedMethod } from "../../rest-gateway/auth/session-repository.ts";

// Users as `/auth/v1` shows and changes them.

type Database = Pick<Auth, "functions">;

export type SignedInUser = {
  readonly user: PublicUser;
  readonly account: Account;
  readonly aal: 1 | 2;
  /** When the user signed in, in ISO 8601. */
  readonly startedAt: string;
};

/** A session that has proved the second factor. */
type RaisedSession = Pick<SignedInUser, "user" | "account" | "aal" | "startedAt"> & {
  readonly methods: readonly UsedMethod[];
};

/** A link that the application sends itself. */
export type LinkToken = {
  readonly kind: "confirm" | "sign-in" | "reset";
  readonly userId: string;
  readonly data: Pick<MailData, "returnTo" | "newEmail" | "application"> & {
    /** Whether the account is the operator's: the link needs no proof that it is that of the recipient. */
    readonly byOperator?: true;
  };
};

/** The call that reads a user, for the round trip of another one. */
export const readingUser = (userId: string | null): Call => ({ call: "public_user($1)", values: [userId] });

export function findUserOf({ functions }: Database, userId: string | null): Promise<PublicUser | null> {
  const { call, values } = readingUser(userId);
  return functions.call(call, values);
}

/** The user of a session. Returns null if it has ended. */
export const findSignedIn = ({ functions }: Database, userId: string, session: string): Promise<SignedInUser | null> =>
  functions.call("signed_in_user($1, $2::uuid)", [userId, session]);

/** Records that a session has proved a second factor, and replaces its refresh token. Returns null if it has ended. */
export function raiseSession(
  { functions }: Database,
  { userId, session }: { readonly userId: string; readonly session: string },
  method: Method,
  tokenHash: Buffer,
  expiresAt: number,
): Promise<RaisedSession | null> {
  const values = [userId, session, method, bytes(tokenHash), functions.now(), time(expiresAt)];
  return functions.change("raise_session($1, $2::uuid, $3, $4::bytea, $5::timestamptz, $6::timestamptz)", values);
}

/** Changes the metadata that the user writes; null deletes a key. Returns false if it would have more than `max` bytes. */
export const mergeMetadata = (
  { functions }: Database,
  userId: string,
  changes: object,
  max: number,
): Promise<boolean> =>
  functions.change("merge_user_metadata($1, $2::jsonb, $3::integer)", [userId, JSON.stringify(changes), String(max)]);

/** Creates a user with an anonymous account, and returns the id. Rejects with the errors of the database, and with an internal error if a grant is missing. */
export async function insertAnonymous({ functions }: Database, name: string, metadata: object, address: string) {
  const values = [name, JSON.stringify(metadata), address || null, functions.now()];
  const call = "register_anonymous($1, $2::jsonb, $3::inet, $4::timestamptz)";
  const inserting = functions.call<string | number>(call, values).catch((error) => {
    throw withMissingGrant(error, "the hook new_user gets name, email and");
  });
  return textOfId(await inserting);
}

export const listPublicUsers = (
  { functions }: Database,
  first: number,
  total: number,
): Promise<{ readonly total: number; readonly users: readonly PublicUser[] }> =>
  functions.call("list_users($1::integer, $2::integer)", [String(first), String(total)]);

export const findByPublicId = ({ functions }: Database, publicId: string): Promise<Found | null> =>
  functions.call("find_public_user($1::uuid)", [publicId]);

/** The functions as the service key calls them: security events name it. */
const asOperator = ({ functions }: Database) => functions.by("role service_role");

/** Stores the token of a link, with its code. */
export async function addToken(
  database: Database,
  { kind, userId, data }: LinkToken,
  token: { readonly tokenHash: Buffer; readonly codeHash: Buffer; readonly expiresAt: number },
  address: string,
): Promise<void> {
  const hashes = [bytes(token.tokenHash), bytes(token.codeHash)];
  const values = [kind, userId, JSON.stringify(data), ...hashes, time(token.expiresAt), address || null];
  const types = "$1, $2, $3::jsonb, $4::bytea, $5::bytea, $6::timestamptz, $7::inet";
  await asOperator(database).call(`add_token(${types})`, values);
}

/** Adds an invitation of a user who exists. */
export async function addInvitation(
  database: Database,
  userId: string,
  email: string,
  destination: Pick<MailData, "returnTo" | "application">,
  address: string,
): Promise<void> {
  const functions = asOperator(database);
  const values = [userId, email, JSON.stringify(destination), address || null, functions.now()];
  await functions.call("invite_user($1, $2, $3::jsonb, $4::inet, $5::timestamptz)", values);
}

/** Returns false if the user has no such passkey. */
export function deletePasskeyOf(database: Database, id: string, passkeyId: string, address: string): Promise<boolean> {
  const functions = asOperator(database);
  const values = [id, passkeyId, address || null, functions.now()];
  return functions.change("delete_passkey($1, $2::uuid, $3::inet, $4::timestamptz)", values);
}
