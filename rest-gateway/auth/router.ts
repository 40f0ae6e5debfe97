import { Router } from "express";
import type { Auth } from "./auth.ts";
import { keysRouter } from "./keys.ts";
import { mfaRouter } from "./mfa.ts";
import { passwordRouter } from "./password.ts";
import { sessionRouter } from "./session-routes.ts";
import { tokensRouter } from "./tokens.ts";

/** The routes that sign users in, and the public keys. Signing up is a route of the resource `users`. */
export function authRouter(auth: Auth): Router {
  const router = Router({ strict: true, caseSensitive: true });
  router.use(tokensRouter(auth));
  router.use(passwordRouter(auth));
  router.use(keysRouter(auth));
  router.use(mfaRouter(auth));
  router.use(sessionRouter(auth));
  return router;
}
