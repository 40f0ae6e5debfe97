import type { Destination } from "../../gate/pipeline/exchange.ts";
import { sendText } from "../../gate/pipeline/response.ts";
import { type Fault, headersOf, type More, type Problem, problem } from "../../problems/problem.ts";
import type { RestCode } from "../../problems/reasons.ts";
import { replaced } from "./headers.ts";
import { isOpened, PROBLEM_PAGE_HEADERS, problemPage } from "./problem-page.ts";

/** An error in one of several records: in a field, `[3].email`, or in the record as a whole, `[3]`. */
export const faultOfRecord = (index: number, message: string, field: string | null, code?: RestCode): Fault => ({
  field: field === null ? `[${index}]` : `[${index}].${field}`,
  message: `[${index}]: ${message}`,
  ...(code && { code }),
});

/** An error response of the REST conventions. */
export type RestProblem = {
  readonly status: number;
  /** One of the codes of the service, or that of an application's own error. */
  readonly code: string;
  readonly message: string;
  /** What an error that the application raises says further. */
  readonly detail?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
} & Pick<More, "hint" | "faults" | "members">;

/** The format of an error: the general convention, `{detail: {code, message}}`, or `{error, message, field}`. */
export type ErrorDialect = "nested" | "detail" | "flat";

/** The path of the documentation of error codes. */
export const DOCUMENTATION = "/docs/errors";

/** `{"error":{"code":"USER_NOT_FOUND","message":"no such user","requestId":…,"timestamp":…,"documentation":…},"timestamp":…,"status":404}` */
export function problemBody(problem: RestProblem, requestId: string, dialect: ErrorDialect = "nested"): string {
  const { status, code, message, detail, hint, members } = problem;
  const usual = code === "MISSING_FIELD" ? "VALIDATION_ERROR" : code;
  const faults = (problem.faults ?? []).map(({ field, message: text, code: own = usual }) => ({
    ...{ field, code: own, message: text },
  }));
  if (dialect === "detail") return JSON.stringify({ detail: { code, message }, ...members });
  if (dialect === "flat") return JSON.stringify({ error: code, message, field: faults[0]?.field ?? null, ...members });

  const timestamp = new Date().toISOString();
  const byField = faults.length > 0 ? { details: faults, fields: fieldsOf(faults) } : null;
  const error = { code, message, detail, hint, ...byField, requestId, timestamp, documentation: DOCUMENTATION };
  // A response with 422 also lists the faults next to the error.
  const errors = status === 422 ? { errors: faults } : null;
  return JSON.stringify({ error, ...errors, ...members, timestamp, status });
}

/** The first message of each field. */
const fieldsOf = (faults: readonly Pick<Fault, "field" | "message">[]): Readonly<Record<string, string>> =>
  Object.fromEntries(faults.toReversed().map(({ field, message }) => [field, message]));

/** The headers of an error response, names and values alternating. */
export function problemHeaders({ headers = {} }: RestProblem): string[] {
  return [
    ...["Content-Type", "application/json; charset=utf-8", "Cache-Control", "no-store"],
    ...Object.entries(headers).flat(),
  ];
}

/** Sends a problem in the envelope of the general REST convention, or as a page to a person. */
export function rejectRest({ request, response, head }: Destination, problem: Problem): void {
  const sent = restAnswer(problem);
  const { requestId, notes } = head;
  notes.code = sent.code;
  const headers = [...head.headers, ...problemHeaders(sent)];
  if (isOpened(request)) {
    response.appendHeader("Vary", "Accept");
    const ofPage = replaced(headers, PROBLEM_PAGE_HEADERS);
    sendText(response, sent.status, ofPage, problemPage(sent, requestId, DOCUMENTATION));
  } else sendText(response, sent.status, headers, problemBody(sent, requestId));
}

/** The response of the REST conventions to a problem. */
export function restAnswer(problem: Problem): RestProblem {
  const { status, message, more } = problem;
  const { own, hint, raisedDetail: detail, faults, members } = more;
  const code = own?.code ?? problem.code;
  return { status, code, message, detail, hint, faults, members, headers: headersOf(problem) };
}

// Errors of all endpoints.

export const methodNotAllowed = (method: string, allowed: readonly string[]) =>
  problem("method not allowed", { method, allowed: allowed.join(", "), allow: allowed });

export const badRequest = (message: string) => problem("bad parameter", { message });

export const badParameter = (name: string, message: string) =>
  problem("bad parameter", { message, faults: [{ field: name, message }] });

export const unknownParameter = (name: string, known: readonly string[]) =>
  badParameter(name, `unknown parameter "${name}": use ${known.join(", ")}`);

/** Text from the client, for a message: it may be empty or long. */
const shorten = (text: string) => (text === "" ? '""' : text.slice(0, 50));

export const unsupportedVersion = (version: string, supported: readonly number[]) =>
  problem("unsupported version", {
    version: shorten(version),
    supported: supported.join(" or "),
    members: { supportedVersions: supported },
  });

export const disagreeingVersions = (versions: readonly string[], supported: readonly number[]) =>
  problem("disagreeing versions", {
    versions: versions.map(shorten).join(" and "),
    members: { supportedVersions: supported },
  });

/** `what`: "key id: it must be a UUID" */
export const invalidId = (text: string, what: string, fault: Fault) =>
  problem("invalid id", { id: text.slice(0, 50), what, faults: [fault] });
