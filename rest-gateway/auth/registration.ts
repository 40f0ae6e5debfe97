import type { Config } from "../../config/config.ts";
import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import { languagesOf } from "../conventions/languages.ts";
import type { Auth } from "./auth.ts";
import { type Database, textOfId } from "./functions.ts";
import type { IssueCall } from "./issue.ts";
import { normalizedEmail } from "./login-names.ts";
import type { Destination } from "./mail/mails.ts";
import { withMissingGrant } from "./problem.ts";
import { findAccountOf, noteEvent } from "./repository.ts";
import { type Client, guard, reserveRegistration, settle } from "./throttle.ts";

/** The fields of a new user, and the username. A user without a username signs in with the e-mail. */
export type NewUser = {
  readonly fields: Readonly<Record<string, unknown>> & { readonly email: string };
  readonly username: string | null;
  /** What the user says about themselves, at /auth/v1. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Whether an administrator or the service key adds the user. */
  readonly isByOperator: boolean;
  /** Those of the client, for the e-mail that it gets. */
  readonly languages: readonly string[];
  readonly destination?: Destination;
};

/** Whether everyone may create users. */
export const isSignupOpen = ({ signup }: Pick<Config, "signup">): boolean =>
  signup === "open" || signup === "anonymous";

/** `account` is null if the e-mail must be confirmed first, and so is `id` if it is taken: the response is the same. */
type SignedUp =
  | { readonly id: string; readonly account: Account }
  | { readonly id: string | null; readonly account: null };

/** Creates a user who signs up, for all routes and pages. Rejects as `register` does. */
export async function signUp(
  call: IssueCall,
  user: Omit<NewUser, "isByOperator" | "languages">,
  password: string,
): Promise<SignedUp> {
  const { auth, request, client } = call;
  const languages = languagesOf(request.headers["accept-language"]);
  const id = await register(auth, { ...user, isByOperator: false, languages }, password, client);
  if (auth.settings.emailConfirm !== "required") return { id: id!, account: (await findAccountOf(auth, id!))! };
  auth.mails?.markBrowser(call, id);
  return { id, account: null };
}

/**
 * Creates a user and the account in one transaction, up to a limit per network, and returns the id of the user, or null as `insert`
 * does. The caller has checked the password; the other rules are constraints, whose errors pass through. Rejects with Problem 429 and 503,
 * and with an internal error if a grant is missing.
 */
export const register = (auth: Auth, user: NewUser, password: string, client: Client): Promise<string | null> =>
  auth.hashing.inPlace(client, async () => {
    // The database checks it again; here, before the password is hashed.
    if (!isSignupOpen(auth.settings) && !user.isByOperator) throw problem("sign-up closed");
    const userId = await insert(auth, user, await hashOf(auth, password, client)).catch((error) => {
      throw withMissingGrant(error, `the hook new_user gets ${Object.keys(user.fields).join(", ")} and`);
    });
    const event = userId === null ? "registration_repeated" : "registered";
    await noteEvent(auth, { event, userId, address: client.address });
    return userId;
  });

/** A registration that the database rejects counts too: otherwise a client could test any number of names and e-mails. */
async function hashOf(auth: Auth, password: string, client: Client): Promise<string> {
  const attempt = await reserveRegistration(auth, client);
  const hash = await guard(auth, attempt, auth.hashing.hash(password, client));
  await settle(auth, attempt, true);
  return hash;
}

/** The id of the user; null if the e-mail is taken and EMAIL_CONFIRM=required: its owner hears of it. */
async function insert(
  { functions }: Database,
  { fields, username, metadata = {}, isByOperator, languages, destination }: NewUser,
  passwordHash: string,
): Promise<string | null> {
  const values = [
    ...[JSON.stringify({ ...fields, email: normalizedEmail(fields.email) }), username, passwordHash],
    ...[JSON.stringify(metadata), String(isByOperator), JSON.stringify({ ...destination, languages })],
  ];
  const call = "register($1::jsonb, $2, $3, $4::jsonb, $5::boolean, $6::jsonb)";
  const id = await functions.call<string | number | null>(call, values);
  return id === null ? null : textOfId(id);
}
