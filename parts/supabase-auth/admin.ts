import { identityOf } from "../../gate/pipeline/exchange.ts";
import { problem } from "../../problems/problem.ts";
import type { AccountChanges } from "../../rest-gateway/auth/admin-users.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { passkeysIn } from "../../rest-gateway/auth/passkeys/passkeys.ts";
import { storedForm, UnusableHash } from "../../rest-gateway/auth/password-hashes.ts";
import { MAX_PASSWORD } from "../../rest-gateway/auth/passwords.ts";
import { refuseRaised, refuseUser } from "../../rest-gateway/auth/problem.ts";
import type { Found, PublicFactor, PublicUser } from "../../rest-gateway/auth/public-users.ts";
import { isUuid } from "../../rest-gateway/conventions/parameters.ts";
import { AdminUser, Deletion, readAuthBody } from "./bodies.ts";
import type { AuthCall } from "./call.ts";
import { describePasskey } from "./passkeys.ts";
import { invalid } from "./problem.ts";
import { nameOf, requireEmail } from "./sign-in.ts";

// `/auth/v1/admin/users`, for the service key.

const MAX_PER_PAGE = 1000;

/** `GET /admin/users?page=2&per_page=50` */
export async function listUsers(call: AuthCall): Promise<object> {
  await requireServiceKey(call);
  const { auth, request, response } = call;
  for (const name of ["filter", "sort"]) if (request.query[name]) throw invalid(`There is no parameter ${name}`);
  const page = numberIn(request.query.page, 1);
  const size = Math.min(numberIn(request.query.per_page, 50), MAX_PER_PAGE);
  type Found = { readonly total: number; readonly users: readonly PublicUser[] };
  const values = [String((page - 1) * size), String(size)];
  const { users, total } = await auth.functions.call<Found>("list_users($1::integer, $2::integer)", values);
  const last = Math.max(1, Math.ceil(total / size));
  const links = [...(page < last ? [[page + 1, "next"]] : []), [last, "last"]];
  response.set("X-Total-Count", String(total));
  // The client reads what follows the first "=".
  response.set("Link", links.map(([at, rel]) => `</admin/users?page=${at}&per_page=${size}>; rel="${rel}"`).join(", "));
  return { users, aud: "authenticated" };
}

/** Throws Problem unless it is a number from 1. */
function numberIn(text: unknown, absent: number): number {
  if (text === undefined || text === "") return absent;
  if (typeof text === "string" && /^[1-9]\d{0,6}$/.test(text)) return Number(text);
  throw invalid("Bad Pagination Parameters");
}

/** `POST /admin/users`: no e-mail is sent, and the rules for passwords do not apply. */
export async function createUser(call: AuthCall): Promise<PublicUser> {
  await requireServiceKey(call);
  const { auth, request, client } = call;
  const sent = await readAuthBody(request, auth.limits, AdminUser);
  if (!sent.email) throw invalid("Cannot create a user without an email");
  const email = requireEmail(sent.email);
  const fields = { name: nameOf(email, sent.user_metadata ?? {}), email };
  const passwordHash = await passwordHashOf(call, sent.password, sent.password_hash);
  const creating = adminUsersOf(call).create(
    { fields, passwordHash, changes: changesOf(sent, auth.clock()) },
    client.address,
  );
  return (await creating.catch(refuseUser)).user;
}

/** `GET /admin/users/{id}` */
export const findUser = async (call: AuthCall): Promise<PublicUser> => (await found(call)).user;

/** `PUT /admin/users/{id}`: metadata are merged; a password ends all sessions. */
export async function replaceUser(call: AuthCall): Promise<PublicUser> {
  const { auth, request, client } = call;
  const { id, user } = await found(call);
  const sent = await readAuthBody(request, auth.limits, AdminUser);
  const email = sent.email ? requireEmail(sent.email) : user.email;
  const changes = { ...changesOf(sent, auth.clock()), ...(email !== user.email && { email }) };
  const hash = await passwordHashOf(call, sent.password, sent.password_hash);
  const changing = adminUsersOf(call).change(id, changes, hash, client.address);
  const changed = await changing.catch(refuseUser);
  return changed;
}

/** `DELETE /admin/users/{id}`: deletes the account. The row of the application's user stays. */
export async function deleteUser(call: AuthCall): Promise<object> {
  const { auth, request, client } = call;
  const { id } = await found(call);
  const { should_soft_delete: isSoft } = await readAuthBody(request, auth.limits, Deletion);
  if (isSoft) throw invalid("Soft deletion is not supported: ban the user instead");
  await adminUsersOf(call).deleteAccount(id, client.address).catch(refuseRaised);
  return {};
}

/** `GET /admin/users/{id}/factors` */
export const listFactors = async (call: AuthCall): Promise<readonly PublicFactor[]> =>
  (await found(call)).user.factors ?? [];

/** `DELETE /admin/users/{id}/factors/{factorId}`: an enabled factor ends all sign-ins of the user. */
export async function deleteFactor(call: AuthCall): Promise<PublicFactor> {
  const { request, client } = call;
  const { id, user } = await found(call);
  const factor = (user.factors ?? []).find((each) => each.id === String(request.params.factorId).toLowerCase());
  if (factor === undefined) throw problem("no such factor");
  await adminUsersOf(call).resetFactor(id, factor.id, client.address);
  return factor;
}

/** `GET /admin/users/{id}/passkeys` */
export async function listUserPasskeys(call: AuthCall): Promise<object> {
  const { id } = await found(call);
  return (await passkeysIn(call.auth).list(id)).map(describePasskey);
}

/** `DELETE /admin/users/{id}/passkeys/{passkeyId}`: ends the sign-ins that began with a passkey; those with a password go on. */
export async function deleteUserPasskey(call: AuthCall): Promise<void> {
  const { auth, request, client } = call;
  const { id } = await found(call);
  const passkey = String(request.params.passkeyId);
  const functions = asOperator(auth);
  const values = [id, passkey, client.address || null, functions.now()];
  const remove = "delete_passkey($1, $2::uuid, $3::inet, $4::timestamptz)";
  if (!isUuid(passkey) || !(await functions.change(remove, values))) throw problem("no such passkey");
}

// As the operator that requireServiceKey has let in.
export const adminUsersOf = ({ auth }: AuthCall) => auth.adminUsers.by("role service_role");
export const asOperator = ({ functions }: Auth) => functions.by("role service_role");

/** Rejects with Problem for every other caller. */
export async function requireServiceKey({ request }: AuthCall): Promise<void> {
  const caller = await identityOf(request).caller();
  if (caller.role === "service_role") return;
  throw problem(identityOf(request).credentials.bearer === null ? "bearer required" : "no administrator");
}

async function found(call: AuthCall): Promise<Found> {
  await requireServiceKey(call);
  const id = String(call.request.params.userId);
  if (!isUuid(id)) throw problem("no such user");
  const user = await call.auth.functions.call<Found | null>("find_public_user($1::uuid)", [id]);
  if (user === null) throw problem("no such user");
  return user;
}

type Sent = Awaited<ReturnType<typeof readAuthBody<(typeof AdminUser)["_output"]>>>;

function changesOf(
  { email_confirm, role, ban_duration, user_metadata, app_metadata, phone, phone_confirm, id }: Sent,
  now: number,
): AccountChanges {
  if (phone || phone_confirm) throw problem("phones off");
  if (id) throw invalid("The id of a user cannot be chosen");
  return {
    ...(email_confirm && { emailConfirmed: true }),
    // "" is the role of a new user, as the client sends it.
    ...(role && { role }),
    ...(ban_duration && banOf(ban_duration, now)),
    ...(user_metadata && { userMetadata: user_metadata }),
    ...(app_metadata && { appMetadata: app_metadata }),
  };
}

/** Hours from which a ban has no end: ten years. */
const FOREVER = 87_600;

/** `"none"` ends a ban, `"24h"` begins one that ends, `"876000h"` one without an end. Throws Problem. */
function banOf(duration: string, now: number): Pick<AccountChanges, "isBanned" | "bannedUntil"> {
  if (duration === "none") return { isBanned: false };
  const parts = [...duration.matchAll(/(\d{1,9})(h|m|s)/g)];
  const hours = parts.reduce((sum, [, count, unit]) => sum + Number(count) / UNITS[unit as keyof typeof UNITS], 0);
  if (hours === 0 || parts.map(([part]) => part).join("") !== duration)
    throw invalid("ban_duration must be none, or a duration such as 24h or 1h30m");
  const until = hours >= FOREVER ? null : new Date(now + hours * 3_600_000).toISOString();
  return { isBanned: true, bannedUntil: until };
}

/** Per hour. */
const UNITS = { h: 1, m: 60, s: 3600 };

/** Without the rules for passwords. Rejects with Problem for one that is too long, and for a hash that no password is verified against. */
export async function passwordHashOf(
  { auth, client }: AuthCall,
  password: string | null | undefined,
  exported: string | null | undefined,
): Promise<string | null> {
  if (password && exported) throw invalid("Only a password or a password_hash is possible, not both");
  if (exported) return usableHash(exported);
  if (!password) return null;
  if (password.length > MAX_PASSWORD) throw invalid(`Password must have at most ${MAX_PASSWORD} characters`);
  return auth.hashing.hashFor(client, password);
}

function usableHash(exported: string): string {
  try {
    return storedForm(exported);
  } catch (error) {
    if (error instanceof UnusableHash) throw invalid(`password_hash: ${error.message}`);
    throw error;
  }
}
