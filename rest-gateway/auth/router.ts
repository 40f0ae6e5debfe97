import { type RequestHandler, Router } from "express";
import type { Transactions } from "../../db/transaction.ts";
import { type BodyLimits, readJson } from "../../http/body.ts";
import { byMethod } from "../../http/methods.ts";
import { contentHandler } from "../conventions/content.ts";
import type { Tokens } from "../principal/tokens.ts";
import { login } from "./login.ts";

export type AuthOptions = { readonly database: Transactions; readonly tokens: Tokens; readonly limits: BodyLimits };

/** `/auth/login` and the public keys. */
export function authRouter({ database, tokens, limits }: AuthOptions): Router {
  const signIn: RequestHandler = async (request, response) => {
    response.set("Cache-Control", "no-store");
    const pair = await login(database, tokens, await readJson(request, limits));
    response.json(pair);
  };
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
