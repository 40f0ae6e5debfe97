import { identityOf } from "../../http/pipeline/exchange.ts";
import type { Account, Clock, Session } from "../../identity/account.ts";
import type { Credentials } from "../../identity/credentials.ts";
import type { LookupCache } from "../../identity/lookup-cache.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import { type Device, deviceOf } from "./device.ts";
import type { Call } from "./route.ts";
import { methodsOf, type SessionLogin, type SessionRepository } from "./session-repository.ts";
import type { AdmittedLogin } from "./sign-in.ts";
import { admit } from "./tokens.ts";
import { describeUser } from "./user.ts";

export async function sessionLogin(call: Call) {
  const admitted = await admit(call);
  await startSession(call, admitted);
  const { username, role } = admitted.account;
  return { username, role, message: "signed in", user: describeUser(admitted.account) };
}

/** Sets the cookie of a new session. The browser replaces its cookie, so its previous session ends, even one of another user. */
export async function startSession({ auth, request, response, client }: Call, login: AdmittedLogin): Promise<void> {
  const previous = identityOf(request).credentials.session;
  const cookie = await auth.sessions.login(login, previous, deviceOf(request, client.address));
  response.set("Set-Cookie", sessionCookie(cookie));
}

export async function sessionLogout({ auth, response, client: { address }, signedIn }: Call<"session">) {
  const { cookie, account } = signedIn;
  await auth.sessions.end(cookie);
  response.set("Set-Cookie", endedCookie);
  const detail = { by: "session", scope: "local" };
  await auth.repository.note({ event: "logout", userId: account.id, address, detail });
  return { message: "signed out" };
}

export async function readSession({ request, response, signedIn }: Call<"session">) {
  const { cookie, account, startedAt } = signedIn;
  // Any other credentials of the request must be valid and identify the same user.
  await identityOf(request).caller();
  response.set("Set-Cookie", sessionCookie(cookie));
  const { username, role } = account;
  return { userId: describeUser(account).id, username, role, loginTime: new Date(startedAt).toISOString() };
}

export async function readCsrfToken(call: Call) {
  const { csrf } = call.auth;
  // A client without a session needs no token. It gets one that no session accepts.
  if (identityOf(call.request).credentials.session === null) return { csrfToken: csrf.of(newSecret()) };
  const { cookie } = await sessionOf(call);
  call.response.set("Set-Cookie", sessionCookie(cookie));
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
  response.set("Set-Cookie", endedCookie);
  throw problem("no session");
}

/** Seconds for which a session may be idle, and the lifetime of the cookie. Source: the contract, Session cookie. */
export const IDLE_SECONDS = 1800;

/** The attributes and their order are those of the contract. */
export const sessionCookie = (cookie: string): string =>
  `SESSION=${cookie}; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=${IDLE_SECONDS}`;

/** The header value that deletes the cookie. */
export const endedCookie = "SESSION=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0";

export type SessionsOptions = {
  readonly repository: SessionRepository;
  /** Sessions by the SHA-256 of their cookie, in hex. A lookup postpones the idle timeout. */
  readonly cache: LookupCache<Session | null>;
  readonly clock: Clock;
  /** The maximum duration of a session, in seconds. */
  readonly maxAge: number;
};

/** `cookie` is its value; the database stores only its hash. */
export type CurrentSession = Session & { readonly cookie: string };

/** Sessions of browsers: one per user, with a new random cookie at each login. */
export class Sessions {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** Returns the cookie of the new session. Rejects with Problem if the account has changed since it was found. */
  begin(account: Account, device: Device): Promise<string> {
    return this.#begin(account, device);
  }

  /** Settles the attempt, records the login and ends the session of the cookie `previous`. Rejects as `begin` does. */
  async login({ account, ...admission }: AdmittedLogin, previous: string | null, device: Device): Promise<string> {
    const login = { ...admission, previous: previous === null ? null : hashOf(previous) };
    const cookie = await this.#begin(account, device, login);
    // Before the database reports it.
    if (previous !== null) this.#options.cache.delete(keyOf(previous));
    return cookie;
  }

  async #begin(account: Account, device: Device, login?: SessionLogin): Promise<string> {
    const { repository, clock, maxAge } = this.#options;
    const cookie = newSecret();
    const startedAt = clock();
    const period = { startedAt, expiresAt: startedAt + maxAge * 1000 };
    const secret = { kind: "cookie", hash: hashOf(cookie) } as const;
    const session = { account, secret, period, device, methods: methodsOf(account, login) };
    if ((await repository.start(session, login)) === null) throw problem("wrong password");
    return cookie;
  }

  /** The session of the cookie; null if there is no cookie or the session has ended. */
  async of({ session: cookie }: Credentials): Promise<CurrentSession | null> {
    const session = cookie && (await this.#options.cache.get(keyOf(cookie)));
    return session ? { ...session, cookie: cookie! } : null;
  }

  async end(cookie: string): Promise<void> {
    const { repository, cache } = this.#options;
    await repository.endCookie(hashOf(cookie));
    // Before the database reports it.
    cache.delete(keyOf(cookie));
  }
}

const keyOf = (cookie: string) => hashOf(cookie).toString("hex");
