import { type RequestHandler, Router } from "express";
import { problem } from "../../problems/problem.ts";

const MESSAGE =
  "this service has no accounts: sign in with your own issuer, and pass the token to createClient as accessToken (docs/supabase-js.md)";

/** `/auth/v1/…`, where supabase-js signs in: an error whose message the client shows, with what to do instead. */
export function absentAuthRouter(): Router {
  const refuse: RequestHandler = () => {
    throw problem("GraphQL only", { message: MESSAGE });
  };
  return Router().all("/auth/v1", refuse).all("/auth/v1/*path", refuse);
}
