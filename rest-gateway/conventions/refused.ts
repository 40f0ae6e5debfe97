import { RETRY_SECONDS } from "../../http/response.ts";
import { REFUSALS, type RefusedError } from "../../identity/refused.ts";
import { RestError } from "./problem.ts";

const BASIC = 'Basic realm="content-service", charset="UTF-8"';

export function restRefusal({ reason, more: { retryAfter, scheme } }: RefusedError): RestError {
  const [status, code, message] = REFUSALS[reason];
  const headers = {
    // Browsers ask for a password when they see Basic, so only clients that used it get this challenge.
    ...(status === 401 && { "WWW-Authenticate": scheme === "Basic" ? BASIC : challengeOf(code) }),
    ...((status === 429 || retryAfter !== undefined) && { "Retry-After": String(retryAfter ?? RETRY_SECONDS) }),
  };
  return new RestError({ status, code, message, headers });
}

/** Source: RFC 6750, 3.1. */
const challengeOf = (code: string) =>
  code === "AUTH_REQUIRED" || code === "MFA_REQUIRED" ? "Bearer" : 'Bearer error="invalid_token"';
