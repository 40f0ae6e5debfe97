import { Router } from "express";
import { byMethod } from "../../http/methods.ts";
import type { SignUp } from "../resources/sign-up.ts";
import type { Auth } from "./auth.ts";
import { startTokens } from "./login.ts";
import { route } from "./route.ts";

/** `/auth/register`: a new user, signed in at once. */
export function registerRouter(auth: Auth, signUp: SignUp): Router {
  const register = route(async (request, response) => {
    const { id, user } = await signUp.of(request, response);
    const account = await auth.store.accountOf(id);
    const pair = await startTokens(auth, account!);
    response
      .status(201)
      .location(`/users/${id}`)
      .json({ user, ...pair });
  });
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/auth/register", byMethod({ POST: register }));
  return router;
}
