import { Router } from "express";
import { ApiError } from "../../db/errors.ts";
import type { Transactions } from "../../db/transaction.ts";
import { type BodyLimits, readJson } from "../../http/body.ts";
import type { Tokens } from "../principal/tokens.ts";
import { login } from "./login.ts";

export type AuthOptions = { readonly database: Transactions; readonly tokens: Tokens; readonly limits: BodyLimits };

/** `/auth/login` and the public keys. */
export function authRouter({ database, tokens, limits }: AuthOptions): Router {
  const router = Router();
  router.post("/auth/login", async (request, response) => {
    response.set("Cache-Control", "no-store");
    const pair = await login(database, tokens, await readJson(request, limits));
    response.json(pair);
  });
  router.all("/auth/login", (_request, response) => {
    response.set("Allow", "POST").set("Cache-Control", "no-store");
    throw new ApiError({ status: 405, code: "VALIDATION_ERROR", message: "use POST" });
  });
  router.get("/.well-known/jwks.json", (_request, response) => {
    response.set("Cache-Control", "public, max-age=300").json(tokens.jwks());
  });
  return router;
}
