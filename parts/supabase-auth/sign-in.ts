import { randomUUID } from "node:crypto";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { textOfId } from "../../rest-gateway/auth/functions.ts";
import { issue, rotate } from "../../rest-gateway/auth/issue.ts";
import { loginEmailFault, normalizedEmail } from "../../rest-gateway/auth/login-names.ts";
import { inOneSentence } from "../../rest-gateway/auth/passwords.ts";
import { withMissingGrant } from "../../rest-gateway/auth/problem.ts";
import { signUp as register } from "../../rest-gateway/auth/registration.ts";
import { findAccountOf } from "../../rest-gateway/auth/repository.ts";
import { admitPassword } from "../../rest-gateway/auth/sign-in.ts";
import { reserveRegistration, settle } from "../../rest-gateway/auth/throttle.ts";
import { PasswordGrant, RefreshGrant, readAuthBody, SignUp } from "./bodies.ts";
import type { AuthCall } from "./call.ts";
import { destinationIn } from "./destination.ts";
import { invalid, refuseSignUp } from "./problem.ts";
import { AUTH_SESSION, findUserOf, type SessionAnswer } from "./session.ts";

/**
 * `POST /signup` with an e-mail and a password: creates a user, and signs the user in. With EMAIL_CONFIRM=required the answer is a user
 * without a session, the same for an e-mail that is taken.
 */
export async function signUp(call: AuthCall): Promise<SessionAnswer | UnconfirmedUser> {
  const { auth, request } = call;
  const sent = await readAuthBody(request, auth.limits, SignUp);
  const { email, phone, password, data } = sent;
  if (phone) throw problem("phones off");
  if (!email && !password) return signUpAnonymously(call, data ?? {});
  if (!email) throw invalid("To signup, please provide your email");
  if (!password) throw invalid("Signup requires a valid password");
  const address = requireEmail(email);
  requireStrong(auth, password);
  const metadata = data ?? {};
  requireSmall(metadata, auth.settings.userMetadataBytes);
  const fields = { name: nameOf(address, metadata), email: address };
  const user = { fields, username: null, metadata, destination: destinationIn(call, "signup", sent) };
  const { id, account } = await register(call, user, password).catch(refuseSignUp);
  return account === null ? unconfirmed(call, id, address, metadata) : issue(call, { account }, AUTH_SESSION);
}

/** A user without an e-mail, who is signed in and cannot sign in again. */
async function signUpAnonymously(call: AuthCall, metadata: Metadata): Promise<SessionAnswer> {
  const { auth, client } = call;
  if (auth.settings.signup !== "anonymous") throw problem("anonymous users off");
  requireSmall(metadata, auth.settings.userMetadataBytes);
  const name = givenName(metadata) ?? "Anonymous";
  const { address } = client;
  await settle(auth, await reserveRegistration(auth, { address }), true);
  const { functions } = auth;
  const values = [name, JSON.stringify(metadata), address || null, functions.now()];
  const creating = functions.call<string | number>(
    "register_anonymous($1, $2::jsonb, $3::inet, $4::timestamptz)",
    values,
  );
  const id = await creating.catch((error) => refuseSignUp(withMissingGrant(error, NEW_USER)));
  const account = (await findAccountOf(auth, textOfId(id)))!;
  return issue(call, { account }, { ...AUTH_SESSION, methodsOf: () => ["anonymous"] });
}

const NEW_USER = "the hook new_user gets name, email and";

type UnconfirmedUser = Readonly<Record<string, unknown>>;

/** An id that tells nothing. Others tell when they were made, or that they are those of users: then every new user gets a new one here. */
const RANDOM = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** A user who has to confirm the e-mail; with a new id, if it is taken. */
async function unconfirmed(
  { auth }: AuthCall,
  userId: string | null,
  email: string,
  metadata: object,
): Promise<UnconfirmedUser> {
  const found = await findUserOf(auth, userId);
  const id = found && RANDOM.test(found.id) ? found.id : randomUUID();
  const now = new Date(auth.clock()).toISOString();
  const times = { created_at: now, updated_at: now };
  const proofs = { email_verified: false, phone_verified: false };
  const identity = { identity_id: id, id, user_id: id, provider: "email", email, last_sign_in_at: now, ...times };
  return {
    ...{ id, aud: "authenticated", role: "authenticated", email, phone: "", confirmation_sent_at: now },
    ...{ app_metadata: { provider: "email", providers: ["email"] }, user_metadata: metadata },
    identities: [{ ...identity, identity_data: { sub: id, email, ...proofs } }],
    ...{ ...times, is_anonymous: false },
  };
}

/** `POST /token?grant_type=password` */
export async function grantByPassword(call: AuthCall): Promise<SessionAnswer> {
  const { auth, request, client } = call;
  auth.hashing.requirePlace(client);
  const { email, phone, password } = await readAuthBody(request, auth.limits, PasswordGrant);
  if (phone) throw problem("phones off");
  if (!email || !password) throw problem("wrong password");
  return issue(call, await admitPassword(auth, email, password, client), AUTH_SESSION);
}

/** Seconds for which a spent refresh token is accepted: clients of this wire refresh in several tabs at once. Source: Supabase Auth. */
const REFRESH_GRACE = 10;

/** `POST /token?grant_type=refresh_token` */
export async function grantByRefreshToken(call: AuthCall): Promise<SessionAnswer> {
  const { refresh_token: token } = await readAuthBody(call.request, call.auth.limits, RefreshGrant);
  if (!token) throw invalid("refresh_token required");
  // Clients that have not received an answer send the token again, until the next one is used.
  return rotate(call, token, { grace: REFRESH_GRACE, acceptsParent: true }, AUTH_SESSION);
}

/** In the normal form and lower case, as this wire has e-mails. Throws Problem. */
export function requireEmail(email: string): string {
  const address = normalizedEmail(email).toLowerCase();
  // The format is a constraint of the database, too.
  if (/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(address) && loginEmailFault(address) === null) return address;
  throw problem("email malformed");
}

/** Throws Problem for a password that breaks a rule. */
export function requireStrong({ passwordRules }: Auth, password: string): void {
  const broken = passwordRules.broken(password);
  if (broken.length === 0) return;
  const reasons = [...new Set(broken.map((rule) => (/ (at least|at most) /.test(rule) ? "length" : "characters")))];
  throw problem("weak password", {
    message: `Password ${inOneSentence(broken)}`,
    members: { weak_password: { reasons } },
  });
}

/** Metadata is in every access token. Throws Problem. */
export function requireSmall(metadata: object, max: number): void {
  if (Buffer.byteLength(JSON.stringify(metadata)) > max) throw tooLarge(max);
}

export const tooLarge = (max: number) => invalid(`data must have at most ${max} bytes`);

/** Characters of a name. */
const MAX_NAME = 200;

type Metadata = Readonly<Record<string, unknown>>;

/** The name of a user who has not said it is what stands before the @. */
export const nameOf = (email: string, metadata: Metadata): string =>
  givenName(metadata) ?? email.slice(0, email.indexOf("@")).slice(0, MAX_NAME);

function givenName(metadata: Metadata): string | undefined {
  const names = [metadata.name, metadata.full_name, metadata.user_name];
  return names.find((value): value is string => typeof value === "string" && /\S/.test(value))?.slice(0, MAX_NAME);
}
