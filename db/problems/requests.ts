import type { Row } from "./reasons.ts";

/** What the service refuses before it asks the database. */
export const REQUESTS = {
  "invalid request": [400, "VALIDATION_ERROR", "{message}"],
  "body too large": [413, "VALIDATION_ERROR", "the body must not be larger than {size} bytes"],
  "payload too large": [413, "VALIDATION_ERROR", "a payload has at most {max} bytes"],
  "unsupported body": [415, "VALIDATION_ERROR", "{message}"],
  "method not allowed": [405, "VALIDATION_ERROR", "{method} is not allowed here: use {allowed}"],
  "POST only": [405, "VALIDATION_ERROR", "{message}"],
  "nothing here": [404, "RESOURCE_NOT_FOUND", "there is nothing here"],

  // Callers. `{why}` is a sentence about their credential.
  "login refused": [401, "AUTH_REQUIRED", "login required: {why}"],
  "login expired": [401, "AUTH_EXPIRED", "{why}"],
  "credential refused": [401, "AUTH_REQUIRED", "{why}"],
  "not permitted": [403, "PERMISSION_DENIED", "{message}"],
  "other site": [403, "PERMISSION_DENIED", "pages of other sites may not request this"],
  "operators only": [
    401,
    "AUTH_REQUIRED",
    "this is for operators: send the service key, or sign in as an administrator",
  ],
  "outdated form": [
    403,
    "PERMISSION_DENIED",
    "the sign-in to the console has changed since this page was opened: go back, reload it, and send it again",
  ],

  // The state of the service, and its limits.
  "service not ready": [503, "INTERNAL_ERROR", "the service is {state}: try again"],
  "no schema": [503, "INTERNAL_ERROR", "the GraphQL schema cannot be built: the log and /health give the reason"],
  "no GraphQL": [503, "INTERNAL_ERROR", "GraphQL is not available: try again"],
  "too many operations": [429, "RATE_LIMITED", "too many operations on this socket: the maximum is {max}"],
  "subscriptions too large": [
    429,
    "RATE_LIMITED",
    "the subscriptions of your IP address are too large: end some, and subscribe again",
  ],
  "too many requests": [429, "RATE_LIMITED", "too many requests: try again in {retryAfter} s"],
  "too many connections": [503, "INTERNAL_ERROR", "the service has too many open connections: try again"],
  "too many connections of the address": [
    429,
    "RATE_LIMITED",
    "your IP address has too many open connections: close some, and try again",
  ],
} as const satisfies Readonly<Record<string, Row>>;
