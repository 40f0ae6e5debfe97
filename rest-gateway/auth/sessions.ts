import { identityOf } from "../../http/pipeline/exchange.ts";
import type { Session } from "../../identity/account.ts";
import { SESSION, setSession } from "../../identity/cookies.ts";
import type { Credentials } from "../../identity/credentials.ts";
import type { LookupCache } from "../../identity/lookup-cache.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import { COOKIE, issue } from "./issue.ts";
import type { Call } from "./route.ts";
import type { SessionRepository } from "./session-repository.ts";
import { admit } from "./tokens.ts";
import { describeUser } from "./user.ts";

export async function sessionLogin(call: Call) {
  const admitted = await admit(call);
  await issue(call, admitted, COOKIE);
  const { username, role } = admitted.account;
  return { username, role, message: "signed in", user: describeUser(admitted.account) };
}

export async function sessionLogout({ auth, response, client: { address }, signedIn }: Call<"session">) {
  const { cookie, account } = signedIn;
  await auth.sessions.end(cookie);
  SESSION.end(response);
  const detail = { by: "session", scope: "local" };
  await auth.repository.note({ event: "logout", userId: account.id, address, detail });
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

/**
 * The session of the cookie. Rejects with Problem if there is no cookie, and if its session has ended. In that case
 * the cookie is deleted, because every further request with it would be rejected.
 */
export async function sessionOf({ auth, request, response }: Call): Promise<CurrentSession> {
  const { credentials } = identityOf(request);
  const session = await auth.sessions.of(credentials);
  if (session !== null) return session;
  if (credentials.session === null) throw problem("no session to end");
  SESSION.end(response);
  throw problem("no session");
}

export type SessionsOptions = {
  readonly repository: SessionRepository;
  /** Sessions by the SHA-256 of their cookie, in hex. A lookup postpones the idle timeout. */
  readonly cache: LookupCache<Session | null>;
};

/** `cookie` is its value; the database stores only its hash. */
export type CurrentSession = Session & { readonly cookie: string };

/** Sessions of browsers. */
export class Sessions {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** The session of the cookie; null if there is no cookie or the session has ended. */
  async of({ session: cookie }: Credentials): Promise<CurrentSession | null> {
    const session = cookie && (await this.#options.cache.get(keyOf(cookie)));
    return session ? { ...session, cookie: cookie! } : null;
  }

  async end(cookie: string): Promise<void> {
    await this.#options.repository.endCookie(hashOf(cookie));
    this.forget(cookie);
  }

  /** Drops an ended session from the cache, before the database reports it. */
  forget(cookie: string): void {
    this.#options.cache.delete(keyOf(cookie));
  }
}

const keyOf = (cookie: string) => hashOf(cookie).toString("hex");
