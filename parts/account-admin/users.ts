import type { z } from "zod";
import { problem } from "../../problems/problem.ts";
import type { NewUserBody, UserChangeBody } from "../../rest-gateway/auth/admin-schemas.ts";
import type { AdminUsers, DescribedAccount } from "../../rest-gateway/auth/admin-users.ts";
import { isRecent } from "../../rest-gateway/auth/confirmation.ts";
import { operatorName, textOfId } from "../../rest-gateway/auth/functions.ts";
import { badFields, refuseRaised, refuseUser } from "../../rest-gateway/auth/problem.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { parsePaging } from "../../rest-gateway/conventions/paging.ts";
import { Parameters } from "../../rest-gateway/conventions/parameters.ts";
import { badParameter } from "../../rest-gateway/conventions/problem.ts";

// `/auth/admin/users`, for administrators and the service key.

type AdminCall<Body = unknown> = Call<"operator", Body>;

const PAGE_SIZE = 20;
const MAX_SEARCH = 200;

/** The query parameters of a request. Throws Problem for others. */
export function parametersOf({ request }: Pick<AdminCall, "request">, names: readonly string[]): Parameters {
  const parameters = new Parameters(new URL(request.originalUrl, "http://service").search);
  parameters.refuseMalformed();
  parameters.allowOnly(names);
  return parameters;
}

/** `GET /auth/admin/users?q=ada&page=2&limit=50` */
export async function listUsers(call: AdminCall) {
  const parameters = parametersOf(call, ["q", "page", "limit"]);
  const paging = parsePaging(parameters, {
    usual: "envelope",
    pageSize: PAGE_SIZE,
    hasVariants: false,
    wrapsSkip: false,
  });
  const { offset, limit } = paging;
  const page = "page" in paging ? paging.page : 1;
  const search = parameters.get("q") || null;
  if (search !== null && search.length > MAX_SEARCH)
    throw badParameter("q", `q must have at most ${MAX_SEARCH} characters`);
  const { users: data, total } = await call.auth.adminUsers.search(search, offset, limit!);
  return { data, pagination: { page, limit: limit!, total, totalPages: Math.ceil(total / limit!) } };
}

/** `GET /auth/admin/users/{user}` */
export const readUser = (call: AdminCall): Promise<DescribedAccount> => accountIn(call);

/** `POST /auth/admin/users`: no e-mail is sent. */
export async function createUser(call: AdminCall<z.infer<typeof NewUserBody>>): Promise<DescribedAccount> {
  const { auth, client, body } = call;
  const { name, email, username, password, role, emailConfirmed } = body;
  const users = usersAs(call);
  if (password !== undefined) auth.passwordRules.require(password);
  const passwordHash = password === undefined ? null : await auth.hashing.hashFor(client, password);
  const account = { fields: { name, email }, username, passwordHash, changes: { role, emailConfirmed } };
  const { id } = await users.create(account, client.address).catch(refuseUser);
  return (await users.describe(id))!;
}

/** `PATCH /auth/admin/users/{user}` */
export async function changeUser(call: AdminCall<z.infer<typeof UserChangeBody>>): Promise<DescribedAccount> {
  const { client, body } = call;
  const { disabled: isBanned, ...changes } = body;
  if (Object.keys(body).length === 0)
    throw badFields(
      [{ field: "role", message: "send at least one of email, role, disabled and emailConfirmed" }],
      true,
    );
  const users = usersAs(call);
  const account = await accountIn(call);
  if (isBanned || (body.role !== undefined && body.role !== account.role)) refuseOwn(call, account);
  const id = textOfId(account.id);
  const given = { ...changes, ...(isBanned !== undefined && { isBanned }) };
  await users.change(id, given, null, client.address).catch(refuseUser);
  return accountIn(call);
}

/** `DELETE /auth/admin/users/{user}/factors`: for a user who has lost the app and the backup codes. */
export const deleteFactors = change((users, id, address) => users.resetFactor(id, null, address));

/** `DELETE /auth/admin/users/{user}/sessions`: signs a user out everywhere. */
export const deleteSessions = change((users, id, address) => users.endSignIns(id, address));

function change(work: (users: AdminUsers, id: string, address: string) => Promise<unknown>) {
  return async (call: AdminCall): Promise<void> => {
    const users = usersAs(call);
    const id = textOfId((await accountIn(call)).id);
    await work(users, id, call.client.address).catch(refuseRaised);
  };
}

/** `DELETE /auth/admin/users/{user}?handOverTo=7`: deletes a user with their data, or gives the data to another user. */
export async function deleteUser(call: AdminCall): Promise<void> {
  const parameters = parametersOf(call, ["handOverTo"]);
  const users = usersAs(call);
  const account = await accountIn(call);
  refuseOwn(call, account);
  const id = textOfId(account.id);
  const successor = await successorOf(call, account, parameters.get("handOverTo"));
  await users.remove(id, successor, call.client.address).catch(refuseRaised);
}

async function successorOf({ auth }: AdminCall, { id }: DescribedAccount, text: string | null): Promise<string | null> {
  if (text === null) return null;
  const found = await auth.adminUsers.describe(text);
  if (found === null || textOfId(found.id) === textOfId(id))
    throw badParameter("handOverTo", "handOverTo must be the id of another user who has an account");
  return textOfId(found.id);
}

/** The account of the user in the path. Rejects with Problem if there is none. */
async function accountIn({ auth, request }: AdminCall): Promise<DescribedAccount> {
  const account = await auth.adminUsers.describe(String(request.params.user));
  if (account === null) throw problem("no such account");
  return account;
}

const usersAs = (call: AdminCall): AdminUsers => call.auth.adminUsers.by(operatorOf(call));

/**
 * Who acts, for security events: `user 3`, `role service_role`. Throws Problem for an administrator with an API key, or whose sign-in
 * is not recent.
 */
function operatorOf({ auth, signedIn: caller }: AdminCall): string {
  if (caller.role === "service_role") return operatorName(caller);
  if (caller.credential?.kind === "key") throw problem("signed in by key");
  if (!isRecent(auth, { id: String(caller.claims.sub), caller }))
    throw problem("recent sign-in required", { seconds: auth.settings.recentSignIn });
  return operatorName(caller);
}

function refuseOwn({ signedIn: { claims } }: AdminCall, { id }: DescribedAccount): void {
  if (claims.sub === textOfId(id)) throw problem("own account");
}
