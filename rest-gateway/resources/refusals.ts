import { RestError, type RestProblem } from "../conventions/problem.ts";
import type { Refusals } from "../principal/callers.ts";

const error = (status: number, code: RestProblem["code"], message: string) => new RestError({ status, code, message });

export const severalKeys = () => error(401, "VERIFICATION_FAILED", "the request has several API keys: send one");

const badApiKey = () => error(401, "INVALID_TOKEN", "the API key is not valid");

/** What the resources say to credentials that they don't take. */
export const REFUSALS: Refusals = {
  noApiKey: () => error(401, "AUTH_REQUIRED", "an API key is required: send it in the header apikey"),
  badApiKey,
  expiredKey: badApiKey,
  badToken: () => error(401, "INVALID_TOKEN", "the access token is not valid: sign in again"),
  expiredToken: () => error(401, "TOKEN_EXPIRED", "the access token has expired: sign in again"),
  disagreeingCredentials: () =>
    error(401, "VERIFICATION_FAILED", "the API key and the access token are of different callers"),
  serviceKeyInBrowser: () => error(403, "PERMISSION_DENIED", "the service key must not be used in browsers"),
  anonymousOff: () => error(401, "AUTH_REQUIRED", "login required"),
};
