import type { ServerResponse } from "node:http";
import type { Fault, Problem } from "../../db/problems/problem.ts";
import type { RestCode } from "../../db/problems/reasons.ts";
import { wrongMediaType } from "../../http/pipeline/body.ts";
import { type Destination, type Head, setHead } from "../../http/pipeline/exchange.ts";
import { RETRY_SECONDS } from "../../http/pipeline/response.ts";

/** An error in one of several records: in a field, `[3].email`, or in the record as a whole, `[3]`. */
export const faultOfRecord = (index: number, message: string, field: string | null): Fault => ({
  field: field === null ? `[${index}]` : `[${index}].${field}`,
  message: `[${index}]: ${message}`,
});

/** An error response of the REST conventions. */
export type RestProblem = {
  readonly status: number;
  readonly code: RestCode;
  readonly message: string;
  readonly hint?: string;
  readonly faults?: readonly Fault[];
  readonly headers?: Readonly<Record<string, string>>;
  /** Members of the body next to `error`. */
  readonly members?: Readonly<Record<string, unknown>>;
};

/** Carries a problem from where it is detected to where the response is sent. */
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

/** The format of an error: the general convention, `{detail: {code, message}}`, or `{error, message, field}`. */
export type ErrorDialect = "nested" | "detail" | "flat";

/** The path of the documentation of error codes. */
export const DOCUMENTATION = "/docs/errors";

/** `{"error":{"code":"USER_NOT_FOUND","message":"no such user","requestId":…,"timestamp":…,"documentation":…},"timestamp":…,"status":404}` */
export function problemBody(problem: RestProblem, requestId: string, dialect: ErrorDialect = "nested"): string {
  const { status, code, message, hint, faults = [], members } = problem;
  if (dialect === "detail") return JSON.stringify({ detail: { code, message }, ...members });
  if (dialect === "flat") return JSON.stringify({ error: code, message, field: faults[0]?.field ?? null, ...members });

  const timestamp = new Date().toISOString();
  const byField = faults.length > 0 ? { details: faults, fields: fieldsOf(faults) } : null;
  const error = { code, message, hint, ...byField, requestId, timestamp, documentation: DOCUMENTATION };
  // A response with 422 also lists the faults next to the error.
  const errors = status === 422 ? { errors: faults } : null;
  return JSON.stringify({ error, ...errors, ...members, timestamp, status });
}

/** The first message of each field. */
const fieldsOf = (faults: readonly Fault[]) =>
  Object.fromEntries(faults.toReversed().map(({ field, message }) => [field, message]));

/** The headers of an error response, names and values alternating. */
export function problemHeaders({ status, headers = {} }: RestProblem): string[] {
  return [
    ...["Content-Type", "application/json; charset=utf-8", "Cache-Control", "no-store"],
    ...(status === 401 && !("WWW-Authenticate" in headers) ? ["WWW-Authenticate", "Bearer"] : []),
    ...(status === 503 && !("Retry-After" in headers) ? ["Retry-After", RETRY_SECONDS] : []),
    ...Object.entries(headers).flat(),
  ];
}

/** Sends a problem in the envelope of the general REST convention. The common headers are already set. */
export function sendProblem(response: ServerResponse, problem: RestProblem, { requestId, notes }: Head): void {
  notes.code = problem.code;
  const headers = problemHeaders(problem);
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i]!, headers[i + 1]!);
  response.statusCode = problem.status;
  response.end(problemBody(problem, requestId));
}

/** Responds to a request that is rejected before its interface receives it. */
export function rejectRest({ response, head }: Destination, problem: Problem): void {
  setHead(response, head);
  sendProblem(response, restProblemOf(problem), head);
}

/** The REST form of an error that any interface may raise. */
export const restProblemOf = ({ status, code, message, more: { hint, retryAfter } }: Problem): RestProblem => ({
  status,
  code,
  message,
  ...(hint !== undefined && { hint }),
  ...(retryAfter !== undefined && { headers: { "Retry-After": String(retryAfter) } }),
});

// Errors of all endpoints.

export const noSuchPath = () => restError(404, "RESOURCE_NOT_FOUND", "there is no resource at this path");

export const methodNotAllowed = (method: string, allowed: readonly string[]) =>
  restError(405, "VALIDATION_ERROR", `${method} is not allowed here: use ${allowed.join(", ")}`, {
    headers: { Allow: allowed.join(", ") },
  });

export const loginRequired = () => restError(401, "AUTH_REQUIRED", "login required");

export const badRequest = (message: string) => restError(400, "BAD_REQUEST", message);

export const badParameter = (name: string, message: string) =>
  restError(400, "BAD_REQUEST", message, { faults: [{ field: name, message }] });

export const unknownParameter = (name: string, known: readonly string[]) =>
  badParameter(name, `unknown parameter "${name}": use ${known.join(", ")}`);

/** Text from the client, for a message: it may be empty or long. */
const shorten = (text: string) => (text === "" ? '""' : text.slice(0, 50));

export const unsupportedVersion = (version: string, supported: readonly number[]) =>
  restError(400, "UNSUPPORTED_VERSION", `version ${shorten(version)} is not supported: use ${supported.join(" or ")}`, {
    members: { supportedVersions: supported },
  });

export const disagreeingVersions = (versions: readonly string[], supported: readonly number[]) =>
  restError(
    400,
    "BAD_REQUEST",
    `the request names different versions, ${versions.map(shorten).join(" and ")}: name only one`,
    {
      members: { supportedVersions: supported },
    },
  );

export const invalidJson = (reason: string) => restError(400, "INVALID_JSON", `the body is not valid JSON: ${reason}`);

export const unsupportedMediaType = (type: string | undefined) =>
  restError(415, "VALIDATION_ERROR", wrongMediaType(type));

const BASIC = 'Basic realm="content-service", charset="UTF-8"';

export function restRefusal({ status, code, message, more: { retryAfter, scheme } }: Problem): RestError {
  const headers = {
    // Browsers ask for a password when they receive the challenge Basic, so only clients that used Basic receive it.
    ...(status === 401 && { "WWW-Authenticate": scheme === "Basic" ? BASIC : challengeOf(code) }),
    ...((status === 429 || retryAfter !== undefined) && { "Retry-After": String(retryAfter ?? RETRY_SECONDS) }),
  };
  return new RestError({ status, code, message, headers });
}

/** Source: RFC 6750, 3.1. */
const challengeOf = (code: string) =>
  code === "AUTH_REQUIRED" || code === "MFA_REQUIRED" ? "Bearer" : 'Bearer error="invalid_token"';
