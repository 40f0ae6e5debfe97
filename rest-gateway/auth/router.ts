import { type RequestHandler, Router } from "express";
import { readJson } from "../../http/body.ts";
import { byMethod } from "../../http/methods.ts";
import { contentHandler } from "../conventions/content.ts";
import { restRefusal } from "../conventions/refused.ts";
import { RefusedError } from "../principal/refused.ts";
import type { Auth } from "./auth.ts";
import { login } from "./login.ts";

/** Where clients sign in, and the public keys. */
export function authRouter(auth: Auth): Router {
  const { tokens, limits, addressOf } = auth;
  const signIn = route(async (request, response) => {
    response.json(await login(auth, await readJson(request, limits), addressOf(request)));
  });
  const keys = contentHandler({
    type: "application/json; charset=utf-8",
    text: JSON.stringify(tokens.jwks()),
    headers: { "Cache-Control": "public, max-age=300" },
  });
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/auth/login", byMethod({ POST: signIn }));
  router.all("/.well-known/jwks.json", byMethod({ GET: keys }));
  return router;
}

/** Nothing of it may be kept, and refusals are told as problems. */
export const route =
  (handler: (...given: Parameters<RequestHandler>) => Promise<void>): RequestHandler =>
  async (request, response, next) => {
    response.set("Cache-Control", "no-store");
    try {
      await handler(request, response, next);
    } catch (error) {
      throw error instanceof RefusedError ? restRefusal(error) : error;
    }
  };
