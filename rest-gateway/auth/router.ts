import { Router } from "express";
import type { Auth } from "./auth.ts";
import { keysRouter } from "./keys-routes.ts";
import { mfaRouter } from "./mfa-routes.ts";
import { passwordRouter } from "./password-route.ts";
import { registerRouter, type SignUp } from "./register-route.ts";
import { sessionRouter } from "./session-routes.ts";
import { tokensRouter } from "./tokens-routes.ts";

/** Where clients sign up and in, and the public keys. */
export function authRouter(auth: Auth, signUp: SignUp): Router {
  const router = Router({ strict: true, caseSensitive: true });
  router.use(tokensRouter(auth));
  router.use(registerRouter(auth, signUp));
  router.use(passwordRouter(auth));
  router.use(keysRouter(auth));
  router.use(mfaRouter(auth));
  router.use(sessionRouter(auth));
  return router;
}
