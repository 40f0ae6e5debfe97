import { RETRY_SECONDS } from "../../http/retry.ts";
import type { RefusalReason, RefusedError } from "../../identity/refused.ts";
import { RestError, type RestProblem } from "./problem.ts";

type Row = readonly [status: number, code: RestProblem["code"], message: string];

/** What REST endpoints say to credentials that are not taken. */
export const REFUSALS: Readonly<Record<RefusalReason, Row>> = {
  "no key": [401, "AUTH_REQUIRED", "an API key is required: send it in the header apikey or X-API-Key"],
  "bad key": [401, "INVALID_TOKEN", "the API key is not valid"],
  "expired key": [401, "TOKEN_EXPIRED", "the API key has expired"],
  "bad token": [401, "INVALID_TOKEN", "the access token is not valid: sign in again"],
  "expired token": [401, "TOKEN_EXPIRED", "the access token has expired: refresh it, or sign in again"],
  "revoked token": [401, "VERIFICATION_FAILED", "the access token has been revoked: sign in again"],
  unreadable: [401, "VERIFICATION_FAILED", "the header Authorization must be Bearer or Basic, with credentials"],
  "wrong password": [401, "AUTH_REQUIRED", "wrong username or password"],
  "account disabled": [403, "PERMISSION_DENIED", "this account is disabled"],
  "second factor needed": [401, "MFA_REQUIRED", "the code of the second factor is required: send it as code"],
  "expired challenge": [401, "TOKEN_EXPIRED", "the challenge has expired: sign in with the password again"],
  "invalid challenge": [401, "INVALID_TOKEN", "the challenge is not valid: sign in with the password again"],
  "wrong old password": [403, "PERMISSION_DENIED", "the old password is wrong"],
  "no session": [401, "AUTH_REQUIRED", "the session has ended: sign in again"],
  "no csrf token": [
    403,
    "PERMISSION_DENIED",
    "a request with the session's cookie needs the header X-CSRF-Token: see GET /csrf-token",
  ],
  "foreign page": [
    403,
    "PERMISSION_DENIED",
    "a page of another origin may not do this: it must be served by this service, or be in CORS_ORIGINS",
  ],
  disagreement: [401, "VERIFICATION_FAILED", "the credentials of the request are of different callers"],
  "service key in browser": [403, "PERMISSION_DENIED", "the service key must not be used in browsers"],
  "anonymous off": [401, "AUTH_REQUIRED", "login required"],
  "too many attempts": [429, "RATE_LIMITED", "too many failed attempts: try again later"],
  "too many registrations": [429, "RATE_LIMITED", "too many accounts were made from this address: try again later"],
  busy: [503, "INTERNAL_ERROR", "too many are signing in at once: try again"],
};

const BASIC = 'Basic realm="content-service", charset="UTF-8"';

export function restRefusal({ reason, more: { retryAfter, scheme } }: RefusedError): RestError {
  const [status, code, message] = REFUSALS[reason];
  const headers = {
    // Browsers ask their user for a password when they are told of Basic: only who has sent it is.
    ...(status === 401 && { "WWW-Authenticate": scheme === "Basic" ? BASIC : challengeOf(code) }),
    ...((status === 429 || retryAfter !== undefined) && { "Retry-After": String(retryAfter ?? RETRY_SECONDS) }),
  };
  return new RestError({ status, code, message, headers });
}

/** Source: RFC 6750, 3.1. */
const challengeOf = (code: string) =>
  code === "AUTH_REQUIRED" || code === "MFA_REQUIRED" ? "Bearer" : 'Bearer error="invalid_token"';
