/** What the service refuses before it asks the database. */
export const REQUESTS = {
  "invalid request": [400, "VALIDATION_ERROR", "{message}"],
  "body too large": [413, "VALIDATION_ERROR", "the body must not be larger than {size} bytes"],
  "payload too large": [413, "VALIDATION_ERROR", "a payload has at most {max} bytes"],
  "unsupported body": [415, "VALIDATION_ERROR", "{message}"],
  "method not allowed": [405, "VALIDATION_ERROR", "{method} is not allowed here: use {allowed}"],
  "POST only": [405, "VALIDATION_ERROR", "{message}"],
  "nothing here": [404, "RESOURCE_NOT_FOUND", "there is nothing here"],

  // REST.
  "no such path": [404, "RESOURCE_NOT_FOUND", "there is no resource at this path"],
  "GraphQL only": [404, "RESOURCE_NOT_FOUND", "{message}"],
  "unreadable path": [
    400,
    "BAD_REQUEST",
    "every % in the path must be followed by two hexadecimal digits, and the result must be UTF-8",
  ],
  "bad parameter": [400, "BAD_REQUEST", "{message}"],
  "unsupported version": [400, "UNSUPPORTED_VERSION", "version {version} is not supported: use {supported}"],
  "disagreeing versions": [400, "BAD_REQUEST", "the request names different versions, {versions}: name only one"],
  "invalid JSON": [400, "INVALID_JSON", "the body is not valid JSON: {why}"],
  "not an object": [400, "VALIDATION_ERROR", "the body must be a JSON object"],
  "another type than object": [400, "VALIDATION_ERROR", "the body must be a JSON object, not {type}"],
  "invalid fields": [400, "VALIDATION_ERROR", "{message}"],
  "missing fields": [400, "MISSING_FIELD", "{message}"],
  /** The same, in version 2. */
  "unprocessable fields": [422, "VALIDATION_ERROR", "{message}"],
  "values taken": [409, "RESOURCE_CONFLICT", "{message}"],
  "too many records": [
    413,
    "VALIDATION_ERROR",
    "the list must not have more than {max} records: send them in several requests",
  ],
  "invalid id": [400, "INVALID_ID", '"{id}" is not a valid {what}'],
  "no such record": [404, "RESOURCE_NOT_FOUND", "there is no {singular} with this id"],
  "action not permitted": [403, "PERMISSION_DENIED", "you may not {action} this {singular}"],
  "record changed": [412, "PRECONDITION_FAILED", "the record has changed: read it again before you change it"],
  /** The table no longer matches the description, which the operator finds in the log. */
  "resource out of order": [503, "INTERNAL_ERROR", "{name} are not available at the moment: try again later"],
  "description off": [404, "RESOURCE_NOT_FOUND", "the OpenAPI document is switched off (OPENAPI, PARTS=-openapi)"],

  // Tasks.
  "no such task": [404, "RESOURCE_NOT_FOUND", "there is no task with this id"],
  "task has ended": [409, "RESOURCE_CONFLICT", "the task has already {ended} and cannot be cancelled"],
  "too many tasks": [429, "RATE_LIMITED", "you have {max} unfinished tasks: wait until one has ended, or cancel one"],
  "own storage full": [
    429,
    "RATE_LIMITED",
    "your tasks and their results may not take up more than {max} bytes: try again when earlier ones have been deleted",
  ],
  "task storage full": [
    503,
    "INTERNAL_ERROR",
    "the storage for tasks is full: send the request without respond-async, or try again later",
  ],
  "task errors too large": [
    400,
    "VALIDATION_ERROR",
    "the request is not valid, and the list of its errors is too large to store: send less data at a time",
  ],
  "task caller changed": [
    403,
    "PERMISSION_DENIED",
    "the account that sent the request has been disabled or now has another role",
  ],

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
    "the sign-in has changed since this page was opened: go back, reload it, and send it again",
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
  "storage unavailable": [503, "INTERNAL_ERROR", "the storage server does not respond: try again"],
  "too many connections": [503, "INTERNAL_ERROR", "the service has too many open connections: try again"],
  "too many connections of the address": [
    429,
    "RATE_LIMITED",
    "your IP address has too many open connections: close some, and try again",
  ],
} as const;
