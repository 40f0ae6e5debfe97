import type { ServerResponse } from "node:http";
import type { Code, Problem } from "../../db/errors.ts";
import { type Destination, setHead } from "../../http/exchange.ts";
import { RETRY_SECONDS } from "../../http/response.ts";

/** What is wrong with one field of the input; `tags[0]` names an element, `[3].email` a field of the fourth record. */
export type Fault = { readonly field: string; readonly message: string };

/** What is wrong with one record among several, `[3].email`, or with no field of it, `[3]`. */
export const faultOfRecord = (place: number, message: string, field: string | null): Fault => ({
  field: field === null ? `[${place}]` : `[${place}].${field}`,
  message: `[${place}]: ${message}`,
});

/** Codes of the REST endpoints, besides those that every interface has. */
export const REST_CODES = [
  "USER_NOT_FOUND",
  "INVALID_ID",
  "INVALID_JSON",
  "MISSING_FIELD",
  "BAD_REQUEST",
  "UNSUPPORTED_VERSION",
  "PRECONDITION_FAILED",
  "TOKEN_EXPIRED",
  "INVALID_TOKEN",
  "VERIFICATION_FAILED",
  "MFA_REQUIRED",
] as const;

export type RestCode = Code | (typeof REST_CODES)[number];

/** A problem in the vocabulary of the REST convention. */
export type RestProblem = {
  readonly status: number;
  readonly code: RestCode;
  readonly message: string;
  readonly hint?: string;
  readonly faults?: readonly Fault[];
  readonly headers?: Readonly<Record<string, string>>;
  /** Members of the body beside `error`. */
  readonly members?: Readonly<Record<string, unknown>>;
};

/** A problem of a REST endpoint on its way to the edge. */
export class RestError extends Error {
  readonly problem: RestProblem;
  constructor(problem: RestProblem, options?: ErrorOptions) {
    super(problem.message, options);
    this.problem = problem;
  }
}

export const restError = (
  status: number,
  code: RestCode,
  message: string,
  more: Partial<RestProblem> = {},
): RestError => new RestError({ status, code, message, ...more });

/** How an error is told: as the general convention does, as `{detail: {code, message}}`, or as `{error, message, field}`. */
export type ErrorDialect = "nested" | "detail" | "flat";

/** Where the codes are explained. */
export const DOCUMENTATION = "/docs/errors";

/** `{"error":{"code":"USER_NOT_FOUND","message":"no such user","requestId":…,"timestamp":…,"documentation":…},"timestamp":…,"status":404}` */
export function problemBody(problem: RestProblem, requestId: string, dialect: ErrorDialect = "nested"): string {
  const { status, code, message, hint, faults = [], members } = problem;
  if (dialect === "detail") return JSON.stringify({ detail: { code, message }, ...members });
  if (dialect === "flat") return JSON.stringify({ error: code, message, field: faults[0]?.field ?? null, ...members });

  const timestamp = new Date().toISOString();
  const told = faults.length > 0 ? { details: faults, fields: fieldsOf(faults) } : null;
  const error = { code, message, hint, ...told, requestId, timestamp, documentation: DOCUMENTATION };
  // 422 lists its faults beside the error too: the convention's own form.
  const errors = status === 422 ? { errors: faults } : null;
  return JSON.stringify({ error, ...errors, ...members, timestamp, status });
}

/** The first message of each field. */
const fieldsOf = (faults: readonly Fault[]) =>
  Object.fromEntries(faults.toReversed().map(({ field, message }) => [field, message]));

/** Headers that go with a problem, names and values by turns. */
export function problemHeaders({ status, headers = {} }: RestProblem): string[] {
  return [
    ...["Content-Type", "application/json; charset=utf-8", "Cache-Control", "no-store"],
    ...(status === 401 && !("WWW-Authenticate" in headers) ? ["WWW-Authenticate", "Bearer"] : []),
    ...(status === 503 && !("Retry-After" in headers) ? ["Retry-After", RETRY_SECONDS] : []),
    ...Object.entries(headers).flat(),
  ];
}

/** Sends a problem in the envelope of the general REST convention; the head of the answer has been set. */
export function sendProblem(response: ServerResponse, problem: RestProblem, requestId: string): void {
  const headers = problemHeaders(problem);
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i]!, headers[i + 1]!);
  response.statusCode = problem.status;
  response.end(problemBody(problem, requestId));
}

/** Responds to a request that is rejected before its interface receives it. */
export function rejectRest({ response, head }: Destination, problem: Problem): void {
  setHead(response, head);
  sendProblem(response, restProblemOf(problem), head.requestId);
}

/** What every interface may raise, for those who speak the REST convention. */
export const restProblemOf = ({ status, code, message, hint, retryAfter }: Problem): RestProblem => ({
  status,
  code,
  message,
  ...(hint !== undefined && { hint }),
  ...(retryAfter !== undefined && { headers: { "Retry-After": String(retryAfter) } }),
});

// What endpoints of every kind have to tell.

export const nothingHere = () => restError(404, "RESOURCE_NOT_FOUND", "there is nothing at this address");

export const methodNotAllowed = (method: string, allowed: readonly string[]) =>
  restError(405, "VALIDATION_ERROR", `${method} is not possible here: use ${allowed.join(", ")}`, {
    headers: { Allow: allowed.join(", ") },
  });

export const loginRequired = () => restError(401, "AUTH_REQUIRED", "login required");

export const badRequest = (message: string) => restError(400, "BAD_REQUEST", message);

export const badParameter = (name: string, message: string) =>
  restError(400, "BAD_REQUEST", message, { faults: [{ field: name, message }] });

export const unknownParameter = (name: string, known: readonly string[]) =>
  badParameter(name, `there is no parameter "${name}" here: use ${known.join(", ")}`);

/** What a client has sent may be empty, or as long as it likes. */
const told = (text: string) => (text === "" ? '""' : text.slice(0, 50));

export const unsupportedVersion = (version: string, supported: readonly number[]) =>
  restError(400, "UNSUPPORTED_VERSION", `version ${told(version)} is not supported: use ${supported.join(" or ")}`, {
    members: { supportedVersions: supported },
  });

export const disagreeingVersions = (versions: readonly string[], supported: readonly number[]) =>
  restError(400, "BAD_REQUEST", `the request names several versions, ${versions.map(told).join(" and ")}: name one`, {
    members: { supportedVersions: supported },
  });

export const invalidJson = (reason: string) => restError(400, "INVALID_JSON", `the body is not valid JSON: ${reason}`);

export const unsupportedMediaType = () =>
  restError(415, "VALIDATION_ERROR", "the body must be sent as Content-Type: application/json");
