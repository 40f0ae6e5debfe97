import type { z } from "zod";
import { identityOf } from "../../http/pipeline/exchange.ts";
import { SESSION, setSession } from "../../identity/cookies.ts";
import { problem } from "../../problems/problem.ts";
import { LogoutBody, readOptional } from "./bodies.ts";
import { accountOf } from "./confirmation.ts";
import { type Call, currentSignInOf, type Owner } from "./route.ts";
import type { CurrentSignIn, SessionDescription } from "./session-repository.ts";
import { describeUser } from "./user.ts";

/** `GET /auth/me`: the user, and the session that signs them in. */
export async function readUser(call: Call<"user">) {
  const { auth, signedIn } = call;
  const { session: id } = currentSignInOf(signedIn);
  const [account, sessions] = await Promise.all([
    accountOf(auth, signedIn),
    id === null ? [] : auth.sessionRows.list(signedIn.id),
  ]);
  const session = sessions.find((each) => each.id === id);
  renewCookie(call);
  return { ...describeUser(account), session: session ? { ...session, isCurrent: true } : null };
}

/** `GET /auth/sessions` */
export async function listSessions({ auth, signedIn }: Call<"account">) {
  const { session } = currentSignInOf(signedIn);
  const isCurrent = ({ id }: SessionDescription) => id === session;
  return { data: (await auth.sessionRows.list(signedIn.id)).map((each) => ({ ...each, isCurrent: isCurrent(each) })) };
}

/** `DELETE /auth/sessions/{sessionId}` */
export async function deleteSession(call: Call<"account">) {
  const { auth, client, signedIn, id } = call;
  if (!(await auth.sessionRows.end(signedIn.id, id))) throw problem("no such session");
  auth.forget(signedIn.id);
  if (id === currentSignInOf(signedIn).session) deleteCookie(call);
  const event = { event: "session_ended", userId: signedIn.id, address: client.address } as const;
  await auth.repository.note({ ...event, detail: { session: id } });
}

/** Which sessions a sign-out ends: that of the caller, all others, or all. */
export type Scope = z.infer<typeof LogoutBody>["scope"];

/** `POST /auth/logout` */
export async function logout(call: Call<"signIn">) {
  const { scope } = await readOptional(call.auth.limits, call.request, LogoutBody);
  await signOut(call, scope);
  return { message: SIGNED_OUT[scope] };
}

export async function signOut(call: Call<"signIn">, scope: Scope): Promise<void> {
  const { auth, client, signedIn } = call;
  await endSessions(call, currentSignInOf(signedIn), scope);
  if (scope !== "others") deleteCookie(call);
  const by = signedIn.caller.credential?.kind;
  const event = { event: "logout", userId: signedIn.id, address: client.address } as const;
  await auth.repository.note({ ...event, detail: { by, scope } });
}

const SIGNED_OUT: Readonly<Record<Scope, string>> = {
  local: "signed out",
  others: "signed out everywhere else",
  global: "signed out",
};

async function endSessions({ auth }: Pick<Call, "auth">, { id, session }: CurrentSignIn, scope: Scope): Promise<void> {
  const { sessionRows } = auth;
  if (scope === "global") await sessionRows.endAll(id);
  // Without a session of this service, there is no one to end or to keep.
  else if (session === null) throw problem("token required");
  else if (scope === "local") await sessionRows.end(id, session);
  else if (!(await sessionRows.endOthers({ id, session }))) throw problem("revoked token");
  auth.forget(id);
}

const hasCookie = ({ caller }: Owner) => caller.credential?.kind === "session";

/** A page that asks who is signed in stays signed in. */
function renewCookie({ request, response, signedIn }: Call<"user">): void {
  if (hasCookie(signedIn)) setSession(response, identityOf(request).credentials.session!);
}

function deleteCookie({ response, signedIn }: Call<"account" | "signIn">): void {
  if (hasCookie(signedIn)) SESSION.end(response);
}
