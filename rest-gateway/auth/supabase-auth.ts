import { type RequestHandler, Router } from "express";
import { restError } from "../conventions/problem.ts";

const MESSAGE =
  "this service has no /auth/v1: sign in with POST /auth/login, and pass the token to createClient as accessToken (docs/supabase-js.md)";

/** `/auth/v1/…`, where supabase-js signs in: an error whose message the client shows, with what to do instead. */
export function supabaseAuthRouter(): Router {
  const refuse: RequestHandler = () => {
    const members = { msg: MESSAGE, error_code: "not_supported" };
    throw restError(404, "RESOURCE_NOT_FOUND", MESSAGE, { members });
  };
  return Router().all("/auth/v1", refuse).all("/auth/v1/*path", refuse);
}
