import { identityOf } from "../../gate/pipeline/exchange.ts";
import type { Session } from "../../identity/account.ts";
import { SESSION, setSession } from "../../identity/cookies.ts";
import type { Credentials } from "../../identity/credentials.ts";
import { hexHashOf, newSecret } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "./auth.ts";
import { COOKIE, type IssueCall, issue } from "./issue.ts";
import type { Call } from "./route.ts";
import type { CurrentSignIn, Scope } from "./session-repository.ts";
import { admit } from "./tokens.ts";
import { describeUser } from "./user.ts";

export async function sessionLogin(call: Call) {
  const admitted = await admit(call);
  await issue(call, admitted, COOKIE);
  const { username, role } = admitted.account;
  return { username, role, message: "signed in", user: describeUser(admitted.account) };
}

export async function sessionLogout(call: Call<"session">) {
  const { id: session, account } = call.signedIn;
  await signOut(call, { id: account.id, session }, "local", "session");
  return { message: "signed out" };
}

export async function readSession({ request, response, signedIn }: Call<"session">) {
  const { cookie, account, startedAt } = signedIn;
  // Any other credentials of the request must be valid and identify the same user.
  await identityOf(request).caller();
  setSession(response, cookie);
  const { username, role } = account;
  return { userId: describeUser(account).id, username, role, loginTime: new Date(startedAt).toISOString() };
}

export async function readCsrfToken(call: Call) {
  const { csrf } = call.auth;
  // A client without a session needs no token. It gets one that no session accepts.
  if (identityOf(call.request).credentials.session === null) return { csrfToken: csrf.of(newSecret()) };
  const { cookie } = await sessionOf(call);
  setSession(call.response, cookie);
  return { csrfToken: csrf.of(cookie) };
}

/** Ends sign-ins of a user, and the cookie if it was one of them. Rejects with Problem. */
export async function signOut(
  { auth, response, client }: IssueCall,
  signIn: CurrentSignIn,
  scope: Scope,
  by: "token" | "session" | "provider",
): Promise<void> {
  // Without a session of this service, there is no one to end or to keep.
  if (signIn.session === null && scope !== "global") throw problem("token required");
  const { functions } = auth;
  const values = [signIn.id, signIn.session, scope, by, client.address || null, functions.now()];
  // False if the session that would stay has ended.
  const isDone = await functions.change("sign_out($1, $2::uuid, $3, $4, $5::inet, $6::timestamptz)", values);
  if (!isDone) throw problem("revoked token");
  if (by === "session" && scope !== "others") SESSION.end(response);
}

/**
 * The session of the cookie. Rejects with Problem if there is no cookie, and if its session has ended. In that case
 * the cookie is deleted, because every further request with it would be rejected.
 */
export async function sessionOf({ auth, request, response }: Call): Promise<CurrentSession> {
  const { credentials } = identityOf(request);
  const session = await findSession(auth, credentials);
  if (session !== null) return session;
  if (credentials.session === null) throw problem("no session to end");
  SESSION.end(response);
  throw problem("no session");
}

/** `cookie` is its value; the database stores only its hash. */
export type CurrentSession = Session & { readonly cookie: string };

/** The session of the cookie; null if there is no cookie or the session has ended. A lookup postpones the idle timeout. */
export async function findSession(
  { store, sender }: Pick<Auth, "store" | "sender">,
  { session: cookie }: Credentials,
): Promise<CurrentSession | null> {
  const session = cookie && (await store.sessions.get(hexHashOf(cookie), sender));
  return session ? { ...session, cookie: cookie! } : null;
}
