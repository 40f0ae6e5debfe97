import type { IncomingMessage, ServerResponse } from "node:http";
import { Router } from "express";
import { byMethod } from "../../http/methods.ts";
import type { Auth } from "./auth.ts";
import { startTokens } from "./login.ts";
import { route } from "./route.ts";

/** Makes a user with an account; `user` is how `GET /users/<id>`, at `location`, tells him. Rejects with RestError. */
export type SignUp = {
  of(request: IncomingMessage, response: ServerResponse): Promise<{ id: string; location: string; user: object }>;
};

/** `/auth/register`: a new user, signed in at once. */
export function registerRouter(auth: Auth, signUp: SignUp): Router {
  const register = route(async (request, response) => {
    const { id, location, user } = await signUp.of(request, response);
    const account = await auth.store.accountOf(id);
    const pair = await startTokens(auth, account!);
    response
      .status(201)
      .location(location)
      .json({ user, ...pair });
  });
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/auth/register", byMethod({ POST: register }));
  return router;
}
