import { type Request, type Response, Router } from "express";
import { identityOf } from "../../http/exchange.ts";
import { byMethod } from "../../http/express.ts";
import { RefusedError } from "../../identity/refused.ts";
import { newSecret } from "../../identity/secrets.ts";
import type { Auth } from "./auth.ts";
import { readBody } from "./body.ts";
import { clientOf } from "./client.ts";
import { endedCookie, sessionCookie } from "./cookie.ts";
import { accountOfLogin } from "./login.ts";
import { sessionRequired } from "./problem.ts";
import { route } from "./route.ts";
import type { CurrentSession } from "./sessions.ts";

/** Where browsers sign in, for a cookie, and what they ask of their session. */
export function sessionRouter(auth: Auth): Router {
  const { sessions, ownPages, csrf, store, limits, addressOf } = auth;

  const login = route(async (request, response) => {
    // Else a page of others could sign its reader in as somebody else, and read what he leaves behind.
    ownPages.refuseOthers(request.headers);
    const client = clientOf(auth, request, response);
    const account = await accountOfLogin(auth, await readBody(request, limits), client);
    response.set("Set-Cookie", sessionCookie(await sessions.begin(account)));
    // Another user's, perhaps: nobody has its cookie any more.
    const before = identityOf(request).credentials.session;
    if (before !== null) await sessions.end(before);
    const { address } = client;
    await store.note({ event: "login", userId: account.id, address, detail: { by: "session" } });
    response.json({ username: account.username, role: account.role, message: "signed in" });
  });

  const logout = route(async (request, response) => {
    ownPages.refuseOthers(request.headers);
    const { id, account } = await sessionOf(auth, request, response);
    await sessions.end(id);
    response.set("Set-Cookie", endedCookie);
    const address = addressOf(request);
    await store.note({ event: "logout", userId: account.id, address, detail: { by: "session" } });
    response.json({ message: "signed out" });
  });

  const me = route(async (request, response) => {
    const { id, account, startedAt } = await sessionOf(auth, request, response);
    // What else the request is signed in with must be good too, and of the same user.
    await identityOf(request).caller();
    response.set("Set-Cookie", sessionCookie(id));
    const { id: userId, username, role } = account;
    response.json({ userId: Number(userId), username, role, loginTime: new Date(startedAt).toISOString() });
  });

  const csrfToken = route(async (request, response) => {
    // Who has no session needs no token, and gets one that is of nobody's.
    if (identityOf(request).credentials.session === null) {
      return void response.json({ csrfToken: csrf.of(newSecret()) });
    }
    const { id } = await sessionOf(auth, request, response);
    response.set("Set-Cookie", sessionCookie(id));
    response.json({ csrfToken: csrf.of(id) });
  });

  const router = Router({ strict: true, caseSensitive: true });
  router.all("/api/auth/login", byMethod({ POST: login }));
  router.all("/api/auth/logout", byMethod({ POST: logout }));
  router.all("/api/auth/me", byMethod({ GET: me }));
  router.all("/csrf-token", byMethod({ GET: csrfToken }));
  return router;
}

/**
 * Rejects with RestError without a cookie, and with RefusedError when its session has ended: takes away then what every other
 * request would be refused for.
 */
async function sessionOf({ sessions }: Auth, request: Request, response: Response): Promise<CurrentSession> {
  const { credentials } = identityOf(request);
  const session = await sessions.of(credentials);
  if (session !== null) return session;
  if (credentials.session === null) throw sessionRequired();
  response.set("Set-Cookie", endedCookie);
  throw new RefusedError("no session");
}
