import { Router } from "express";
import { identityOf } from "../../http/exchange.ts";
import { byMethod } from "../../http/express.ts";
import { contentHandler } from "../conventions/conditional.ts";
import type { Auth } from "./auth.ts";
import { parseRefresh } from "./bodies.ts";
import { readBody } from "./body.ts";
import { clientOf } from "./client.ts";
import { login } from "./login.ts";
import { tokenRequired } from "./problem.ts";
import { refresh } from "./refresh.ts";
import { route } from "./route.ts";

/** `/auth/login`, `/auth/refresh`, `/auth/logout`: tokens for programs; and the public keys that they are verified with. */
export function tokensRouter(auth: Auth): Router {
  const { store, tokens, limits, addressOf } = auth;

  const signIn = route(async (request, response) => {
    response.json(await login(auth, await readBody(request, limits), clientOf(auth, request, response)));
  });

  const renew = route(async (request, response) => {
    const token = parseRefresh(await readBody(request, limits));
    response.json(await refresh(auth, token, addressOf(request)));
  });

  /** Everywhere: no token of the user is worth anything after it, nor is his session. */
  const signOut = route(async (request, response) => {
    const { claims, credential } = await identityOf(request).caller();
    if (typeof claims.sub !== "string" || credential?.kind !== "token") throw tokenRequired();
    await store.endEpoch(claims.sub);
    auth.forget(claims.sub);
    const address = addressOf(request);
    await store.note({ event: "logout", userId: claims.sub, address, detail: { by: "token" } });
    response.json({ message: "signed out" });
  });

  const keys = contentHandler({
    type: "application/json; charset=utf-8",
    text: JSON.stringify(tokens.jwks()),
    headers: { "Cache-Control": "public, max-age=300" },
  });

  const router = Router({ strict: true, caseSensitive: true });
  router.all("/auth/login", byMethod({ POST: signIn }));
  router.all("/auth/refresh", byMethod({ POST: renew }));
  router.all("/auth/logout", byMethod({ POST: signOut }));
  router.all("/.well-known/jwks.json", byMethod({ GET: keys }));
  return router;
}
