import { problem } from "../../db/problems/problem.ts";
import { identityOf } from "../../http/pipeline/exchange.ts";
import type { Account, Clock, Session } from "../../identity/account.ts";
import type { Credentials } from "../../identity/credentials.ts";
import type { LookupCache } from "../../identity/lookup-cache.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import type { AuthRepository, SessionLogin } from "./repository.ts";
import type { Call } from "./route.ts";
import type { AdmittedLogin } from "./sign-in.ts";
import { admit } from "./tokens.ts";

export async function sessionLogin(call: Call) {
  const { auth, request, response } = call;
  const admitted = await admit(call);
  // The browser replaces its cookie, so its previous session ends, even one of another user.
  const previous = identityOf(request).credentials.session;
  response.set("Set-Cookie", sessionCookie(await auth.sessions.login(admitted, previous)));
  const { username, role } = admitted.account;
  return { username, role, message: "signed in" };
}

export async function sessionLogout({ auth, response, client: { address }, signedIn }: Call<"session">) {
  const { id, account } = signedIn;
  await auth.sessions.end(id);
  response.set("Set-Cookie", endedCookie);
  await auth.repository.note({ event: "logout", userId: account.id, address, detail: { by: "session" } });
  return { message: "signed out" };
}

export async function readSession({ request, response, signedIn }: Call<"session">) {
  const { id, account, startedAt } = signedIn;
  // Any other credentials of the request must be valid and identify the same user.
  await identityOf(request).caller();
  response.set("Set-Cookie", sessionCookie(id));
  const { id: userId, username, role } = account;
  return { userId: Number(userId), username, role, loginTime: new Date(startedAt).toISOString() };
}

export async function readCsrfToken(call: Call) {
  const { csrf } = call.auth;
  // A client without a session needs no token. It gets one that no session accepts.
  if (identityOf(call.request).credentials.session === null) return { csrfToken: csrf.of(newSecret()) };
  const { id } = await sessionOf(call);
  call.response.set("Set-Cookie", sessionCookie(id));
  return { csrfToken: csrf.of(id) };
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
  response.set("Set-Cookie", endedCookie);
  throw problem("no session");
}

/** Seconds for which a session may be idle, and the lifetime of the cookie. Source: the contract, Session cookie. */
export const IDLE_SECONDS = 1800;

/** The attributes and their order are those of the contract. */
export const sessionCookie = (id: string): string =>
  `SESSION=${id}; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=${IDLE_SECONDS}`;

/** The header value that deletes the cookie. */
export const endedCookie = "SESSION=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0";

export type SessionsOptions = {
  readonly repository: AuthRepository;
  /** Sessions by the SHA-256 of their id, in hex. A lookup postpones the idle timeout. */
  readonly cache: LookupCache<Session | null>;
  readonly clock: Clock;
  /** The maximum duration of a session, in seconds. */
  readonly maxAge: number;
};

/** `id` is the value of the cookie; the database stores only its hash. */
export type CurrentSession = Session & { readonly id: string };

/** Browser sessions: one per user, with a new random id at each login. */
export class Sessions {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** Returns the id of the new session. Rejects with Problem if the account has changed since it was found. */
  begin(account: Account): Promise<string> {
    return this.#begin(account, null);
  }

  /** Settles the attempt, records the login and ends the session `previous`. Rejects as `begin` does. */
  async login({ account, ...admission }: AdmittedLogin, previous: string | null): Promise<string> {
    const id = await this.#begin(account, { ...admission, previous: previous === null ? null : hashOf(previous) });
    // Before the database reports it.
    if (previous !== null) this.#options.cache.delete(keyOf(previous));
    return id;
  }

  async #begin(account: Account, login: SessionLogin | null): Promise<string> {
    const { repository, clock, maxAge } = this.#options;
    const id = newSecret();
    const hasBegun = await repository.startSession(account, hashOf(id), clock() + maxAge * 1000, login);
    if (!hasBegun) throw problem("wrong password");
    return id;
  }

  /** The session of the cookie; null if there is no cookie or the session has ended. */
  async of({ session: id }: Credentials): Promise<CurrentSession | null> {
    const session = id && (await this.#options.cache.get(keyOf(id)));
    return session ? { ...session, id: id! } : null;
  }

  async end(id: string): Promise<void> {
    const { repository, cache } = this.#options;
    await repository.endSession(hashOf(id));
    // Before the database reports it.
    cache.delete(keyOf(id));
  }
}

const keyOf = (id: string) => hashOf(id).toString("hex");
