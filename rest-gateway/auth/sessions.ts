import type { Request, Response, Router } from "express";
import { identityOf } from "../../http/exchange.ts";
import type { Account, Clock, Session } from "../../identity/account.ts";
import type { Credentials } from "../../identity/credentials.ts";
import type { LookupCache } from "../../identity/lookup-cache.ts";
import { RefusedError } from "../../identity/refused.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import type { Auth } from "./auth.ts";
import { readBody } from "./bodies.ts";
import { sessionRequired } from "./problem.ts";
import type { AuthRepository, SessionLogin } from "./repository.ts";
import { clientOf, route, routes } from "./route.ts";
import type { AdmittedLogin } from "./sign-in.ts";
import { admit } from "./tokens.ts";

/** `/api/auth/…` and `/csrf-token`: browsers sign in for a cookie, and read their session. */
export function sessionRouter(auth: Auth): Router {
  const { sessions, ownPages, csrf, repository, limits, addressOf } = auth;

  const login = route(async (request, response) => {
    // Otherwise a page of another origin could sign the reader in as another user, and read what is entered there.
    ownPages.refuseOthers(request.headers);
    const admitted = await admit(auth, await readBody(request, limits), clientOf(auth, request, response));
    // The session that the browser has, perhaps of another user, ends: its cookie is replaced.
    const previous = identityOf(request).credentials.session;
    response.set("Set-Cookie", sessionCookie(await sessions.login(admitted, previous)));
    const { account } = admitted;
    response.json({ username: account.username, role: account.role, message: "signed in" });
  });

  const logout = route(async (request, response) => {
    ownPages.refuseOthers(request.headers);
    const { id, account } = await sessionOf(auth, request, response);
    await sessions.end(id);
    response.set("Set-Cookie", endedCookie);
    const address = addressOf(request);
    await repository.note({ event: "logout", userId: account.id, address, detail: { by: "session" } });
    response.json({ message: "signed out" });
  });

  const me = route(async (request, response) => {
    const { id, account, startedAt } = await sessionOf(auth, request, response);
    // Other credentials of the request must be valid too, and of the same user.
    await identityOf(request).caller();
    response.set("Set-Cookie", sessionCookie(id));
    const { id: userId, username, role } = account;
    response.json({ userId: Number(userId), username, role, loginTime: new Date(startedAt).toISOString() });
  });

  const csrfToken = route(async (request, response) => {
    // A client without a session needs no token, and gets one that no session accepts.
    if (identityOf(request).credentials.session === null) {
      return void response.json({ csrfToken: csrf.of(newSecret()) });
    }
    const { id } = await sessionOf(auth, request, response);
    response.set("Set-Cookie", sessionCookie(id));
    response.json({ csrfToken: csrf.of(id) });
  });

  return routes({
    "/api/auth/login": { POST: login },
    "/api/auth/logout": { POST: logout },
    "/api/auth/me": { GET: me },
    "/csrf-token": { GET: csrfToken },
  });
}

/**
 * Rejects with RestError without a cookie, and with RefusedError when its session has ended. The cookie is deleted then, as
 * every further request with it would be refused.
 */
async function sessionOf({ sessions }: Auth, request: Request, response: Response): Promise<CurrentSession> {
  const { credentials } = identityOf(request);
  const session = await sessions.of(credentials);
  if (session !== null) return session;
  if (credentials.session === null) throw sessionRequired();
  response.set("Set-Cookie", endedCookie);
  throw new RefusedError("no session");
}

/** Seconds that a session may be idle; the cookie lives as long. Source: the contract, Session cookie. */
export const IDLE_SECONDS = 1800;

/** Exactly as in the contract. */
export const sessionCookie = (id: string): string =>
  `SESSION=${id}; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=${IDLE_SECONDS}`;

/** Deletes the cookie. */
export const endedCookie = "SESSION=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0";

export type SessionsOptions = {
  readonly repository: AuthRepository;
  /** By the SHA-256 in hex. A look-up marks the session as seen, which postpones its idle end. */
  readonly known: LookupCache<Session | null>;
  readonly clock: Clock;
  /** The longest time of a session, in seconds. */
  readonly maxAge: number;
};

/** `id` is the value of the cookie; the database has only its hash. */
export type CurrentSession = Session & { readonly id: string };

/** Sessions of browsers: one for each user, with a new random id at each login. */
export class Sessions {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** Returns the new id. Rejects with RefusedError when the account has changed since it was found. */
  begin(account: Account): Promise<string> {
    return this.#begin(account, null);
  }

  /** Settles the attempt, records the login and ends the session `previous`. Rejects as `begin` does. */
  async login({ account, attempt, address }: AdmittedLogin, previous: string | null): Promise<string> {
    const id = await this.#begin(account, { attempt, address, previous: previous === null ? null : hashOf(previous) });
    // The database reports it too, a moment later.
    if (previous !== null) this.#options.known.delete(keyOf(previous));
    return id;
  }

  async #begin(account: Account, login: SessionLogin | null): Promise<string> {
    const { repository, clock, maxAge } = this.#options;
    const id = newSecret();
    const hasBegun = await repository.startSession(account, hashOf(id), clock() + maxAge * 1000, login);
    if (!hasBegun) throw new RefusedError("wrong password");
    return id;
  }

  /** The session of the cookie; null without one, and when it has ended. */
  async of({ session: id }: Credentials): Promise<CurrentSession | null> {
    const session = id && (await this.#options.known.get(keyOf(id)));
    return session ? { ...session, id: id! } : null;
  }

  async end(id: string): Promise<void> {
    const { repository, known } = this.#options;
    await repository.endSession(hashOf(id));
    // The database reports it too, a moment later.
    known.delete(keyOf(id));
  }
}

const keyOf = (id: string) => hashOf(id).toString("hex");
