import { identityOf } from "../../gate/pipeline/exchange.ts";
import { SESSION, setSession } from "../../identity/cookies.ts";
import { problem } from "../../problems/problem.ts";
import { LogoutBody, readOptional } from "./bodies.ts";
import { requireAccount } from "./confirmation.ts";
import { noteEvent } from "./repository.ts";
import { type Call, currentSignInOf, signedInBy } from "./route.ts";
import { endSession, type Scope, type SessionDescription, sessionsOf } from "./session-repository.ts";
import { signOut } from "./sessions.ts";
import { describeUser } from "./user.ts";

/** `GET /auth/me`: the user, and the session that signs them in. */
export async function readUser(call: Call<"user">) {
  const { auth, signedIn } = call;
  const { session: id } = currentSignInOf(signedIn);
  const [account, sessions] = await Promise.all([
    requireAccount(auth, signedIn),
    id === null ? [] : sessionsOf(auth, signedIn.id),
  ]);
  const session = sessions.find((each) => each.id === id);
  renewCookie(call);
  return { ...describeUser(account), session: session ? { ...session, isCurrent: true } : null };
}

/** `GET /auth/sessions` */
export async function listSessions({ auth, signedIn }: Call<"account">) {
  const { session } = currentSignInOf(signedIn);
  const isCurrent = ({ id }: SessionDescription) => id === session;
  return { data: (await sessionsOf(auth, signedIn.id)).map((each) => ({ ...each, isCurrent: isCurrent(each) })) };
}

/** `DELETE /auth/sessions/{sessionId}` */
export async function deleteSession(call: Call<"account">) {
  const { auth, response, client, signedIn, id } = call;
  if (!(await endSession(auth, signedIn.id, id))) throw problem("no such session");
  if (id === currentSignInOf(signedIn).session && signedInBy(signedIn) === "session") SESSION.end(response);
  const event = { event: "session_ended", userId: signedIn.id, address: client.address } as const;
  await noteEvent(auth, { ...event, detail: { session: id } });
}

/** `POST /auth/logout` */
export async function logout(call: Call<"signIn">) {
  const { scope } = await readOptional(call.auth.limits, call.request, LogoutBody);
  const { signedIn } = call;
  await signOut(call, currentSignInOf(signedIn), scope, signedInBy(signedIn));
  return { message: SIGNED_OUT[scope] };
}

const SIGNED_OUT: Readonly<Record<Scope, string>> = {
  local: "signed out",
  others: "signed out everywhere else",
  global: "signed out",
};

/** A page that asks who is signed in stays signed in. */
function renewCookie({ request, response, signedIn }: Call<"user">): void {
  if (signedInBy(signedIn) === "session") setSession(response, identityOf(request).credentials.session!);
}
