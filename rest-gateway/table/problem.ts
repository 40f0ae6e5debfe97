import type { Problem } from "../../db/problems/problem.ts";
import type { Reason } from "../../db/problems/reasons.ts";
import { QUERY_TYPE } from "./request.ts";
import type { HintFor } from "./suggestion.ts";

/** The error response of the table interface. The names of the body's fields are PostgREST's. */
export type TableProblem = {
  readonly status: number;
  /** `PGRST` and three digits, or a SQLSTATE. */
  readonly code: string;
  readonly message: string;
  readonly details?: unknown;
  readonly hint?: string;
  /** Replaces the standard reason phrase: `419 Page Expired`. */
  readonly statusText?: string;
  /** Additional headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** The codes of errors that the service itself raises, by status. */
export const SERVICE_CODES: Readonly<Record<number, string>> = {
  401: "PGRST301",
  403: "42501",
  413: "PGRST102",
  415: "PGRST102",
  429: "PT429",
  503: "PGRST000",
  504: "PGRST003",
};

/** The codes of reasons for which Postgres has a SQLSTATE. */
const REASON_CODES: Readonly<Partial<Record<Reason, string>>> = {
  "unstorable text": "22021",
  overloaded: "53000",
  "streams busy": "53000",
  "clients read too slowly": "53000",
  "address reads too slowly": "53000",
  "address holds too much": "53000",
  "result too large": "54000",
};

/** A problem of the service, formatted for the table interface. */
export const toTableProblem = ({ reason, status, message, more: { retryAfter, headers } }: Problem): TableProblem => ({
  ...{ status, code: REASON_CODES[reason] ?? SERVICE_CODES[status] ?? "22000", message },
  headers: { ...retryHeaders(retryAfter), ...headers },
});

export const retryHeaders = (seconds: number | undefined): Record<string, string> =>
  seconds === undefined ? {} : { "Retry-After": String(seconds) };

/** Carries a problem from where it is detected to where the response is sent. */
export class TableError extends Error {
  readonly problem: TableProblem;
  /** In place of the hint of the problem, for a name that does not exist. */
  readonly hintFor: HintFor | null;
  constructor(problem: TableProblem, { hintFor = null, ...options }: ErrorOptions & { hintFor?: HintFor | null } = {}) {
    super(problem.message, options);
    this.problem = problem;
    this.hintFor = hintFor;
  }
}

const error = (
  status: number,
  code: string,
  message: string,
  more: Partial<TableProblem> = {},
  hintFor: HintFor | null = null,
) => new TableError({ status, code, message, ...more }, { hintFor });

// Malformed input.

/** `at` is the position in `text`, from 0. */
export const unreadable = (parameter: string, text: string, at: number, expected: string) =>
  error(400, "PGRST100", `failed to parse ${parameter} (${text})`, {
    details: `at character ${at + 1}: expected ${expected}, found ${at < text.length ? JSON.stringify(text[at]) : "the end"}`,
  });
/** A parameter whose value has no operator. `meant` is the parameter with a similar name, if there is one. */
export function notFilter(name: string, value: string, meant: string | null, problem: TableProblem): TableError {
  const filter = `${name}=eq.${value.length > MAX_SHOWN ? "…" : value}`;
  const parameter = meant === null ? "" : `the parameter ${meant}, or `;
  const [, word] = /^(?:not\.)?([a-z]+)\./.exec(value) ?? [];
  const hint =
    word === undefined
      ? `"${name}" was read as a filter. Perhaps you meant ${parameter}${filter}`
      : `"${word}" is not an operator, such as eq, neq, gt, gte, lt, lte, like, ilike, in or is. To compare with the whole value, write ${filter}`;
  return new TableError({ ...problem, hint });
}
/** Characters of a value that a hint repeats. */
const MAX_SHOWN = 100;
export const nameTooLong = (name: string, max: number) =>
  error(400, "PGRST100", `the name "${name.slice(0, 20)}…" is longer than ${max} bytes`);
export const tooDeep = (what: string, max: number) =>
  error(400, "PGRST100", `${what} is nested more than ${max} levels deep`, { hint: "Split it into several requests." });
export const tooMany = (what: string, max: number) =>
  error(400, "PGRST100", `a request may have at most ${max} ${what}`, { hint: "Split it into several requests." });
export const tooManyEmbeds = (max: number) => tooMany("embedded relationships", max);
export const tooManyEmbedFilters = (max: number) => tooMany("!inner and null filters on embedded relationships", max);
export const patternTooLong = (max: number) => error(400, "PGRST100", `a pattern may have at most ${max} characters`);
export const tooManyRepetitions = (max: number) =>
  error(400, "2201B", `a regular expression may have at most ${max} characters after its repetitions are written out`, {
    details: "The part that {2,5} repeats counts five times.",
  });
export const expensivePattern = () =>
  error(
    400,
    "2201B",
    "a regular expression must not have backreferences, lookahead or lookbehind, or select another syntax",
    {
      details: "Postgres may take very long to match them.",
    },
  );
export const invalidBody = (message: string, details?: string) =>
  error(400, "PGRST102", message, details === undefined ? {} : { details });
export const unsupportedMediaType = (type: string) =>
  error(415, "PGRST102", `Content-Type not acceptable: ${type}`, {
    hint: "Use application/json, text/csv or application/x-www-form-urlencoded.",
  });
export const queryTypeOnly = (type: string) =>
  error(415, "PGRST102", `Content-Type not acceptable for a query: ${type}`, {
    hint: `Send the query string as ${QUERY_TYPE}.`,
    headers: { "Accept-Query": QUERY_TYPE },
  });
export const invalidPreferences = (values: readonly string[]) =>
  error(400, "PGRST122", "Invalid preferences given with handling=strict", {
    details: `Invalid preferences: ${values.join(", ")}`,
  });
/** `total` is the number of rows, if it is known. */
export const invalidRange = (details: string, total: number | null = null) =>
  error(416, "PGRST103", "Requested range not satisfiable", {
    details,
    ...(total !== null && { headers: { "Content-Range": `*/${total}` } }),
  });

// Paths, methods and media types.

export const noSuchPath = () => error(404, "PGRST125", "Invalid path specified in request URL");
export const descriptionOff = () => error(404, "PGRST126", "The OpenAPI description is disabled");
export const methodNotAllowed = (method: string, allow: readonly string[]) =>
  error(405, "PGRST117", `Unsupported HTTP method: ${method}`, { headers: { Allow: allow.join(",") } });
export const methodNotForFunctions = (method: string) =>
  error(405, "PGRST101", `Cannot use the ${method} method on RPC`, {
    headers: { Allow: "OPTIONS,GET,HEAD,QUERY,POST" },
  });
export const methodNotForTable = (method: string, allow: readonly string[]) =>
  error(405, "PGRST117", `${method} is not allowed here`, { headers: { Allow: allow.join(",") } });
export const noSuchSchema = (name: string, schemas: readonly string[]) =>
  error(406, "PGRST106", `Invalid schema: ${name}`, {
    hint: `Only the following schemas are exposed: ${schemas.join(", ")}`,
  });
export const notAcceptable = (types: readonly string[]) =>
  error(406, "PGRST107", `None of these media types are available: ${types.join(", ")}`);

// Names that the catalog does not know.

export const noSuchTable = (schema: string, name: string, hintFor: HintFor) =>
  error(404, "PGRST205", `Could not find the table '${schema}.${name}' in the schema cache`, {}, hintFor);
export const noSuchFunction = (signature: string, details: string, hintFor: HintFor | null) =>
  error(404, "PGRST202", `Could not find the function ${signature} in the schema cache`, { details }, hintFor);
export const ambiguousFunction = (signatures: readonly string[]) =>
  error(300, "PGRST203", `Could not choose the best candidate function between: ${signatures.join(", ")}`, {
    hint: "Try renaming the parameters or the function itself in the database so function overloading can be resolved",
  });
export const noSuchColumn = (table: string, column: string, hintFor: HintFor | null = null) =>
  error(400, "42703", `column ${table}.${column} does not exist`, {}, hintFor);
/** The message names the first of several columns, and the details name all. */
export const noSuchBodyColumns = (table: string, columns: readonly string[], hintFor: HintFor) => {
  const details = columns.length > 1 ? { details: `Unknown columns: ${columns.join(", ")}` } : {};
  const message = `Could not find the '${columns[0]}' column of '${table}' in the schema cache`;
  return error(400, "PGRST204", message, details, hintFor);
};
/** JSON that was sent as a form, as `curl -d` does. */
export const JSON_IN_FORM =
  "The body is JSON, but its Content-Type is application/x-www-form-urlencoded: send Content-Type: application/json.";
export const noSuchType = (name: string) => error(400, "42704", `type "${name}" does not exist`);
export const noRelationship = (source: string, target: string, details: string, hintFor: HintFor | null) => {
  const message = `Could not find a relationship between '${source}' and '${target}' in the schema cache`;
  return error(400, "PGRST200", message, { details }, hintFor);
};
export const ambiguousRelationship = (source: string, target: string, details: unknown, hint: string) =>
  error(
    300,
    "PGRST201",
    `Could not embed because more than one relationship was found for '${source}' and '${target}'`,
    {
      details,
      hint,
    },
  );
export const notEmbedded = (name: string) =>
  error(400, "PGRST108", `'${name}' is not an embedded resource in this request`, {
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  });

// Invalid combinations.

export const spreadNeedsToOne = (message: string) =>
  error(400, "PGRST127", "Feature not implemented", { details: message });
export const orderNeedsToOne = (source: string, target: string) =>
  error(400, "PGRST118", `A related order on '${target}' is not possible`, {
    details: `'${source}' and '${target}' do not form a many-to-one or one-to-one relationship`,
  });
export const embedFilterNeedsNull = (name: string) =>
  error(400, "PGRST120", `Bad operator on the '${name}' embedded resource`, {
    details: "Only is null or not is null filters are allowed on embedded resources",
  });
export const aggregatesOff = () => error(400, "PGRST123", "Use of aggregate functions is not allowed");
export const putFilters = (allow: readonly string[]) =>
  error(405, "PGRST105", "Filters must include all and only primary key columns with 'eq' operators", {
    headers: { Allow: allow.join(",") },
  });
export const putLimits = () => error(400, "PGRST114", "limit/offset querystring parameters are not allowed for PUT");
export const putMismatch = () => error(400, "PGRST115", "Payload values do not match URL in primary key column(s)");
export const unfiltered = (command: "UPDATE" | "DELETE") =>
  error(400, "21000", `${command} requires a WHERE clause`, {
    hint: "Add a filter, such as ?id=eq.1. To change all rows, use a filter that is always true, such as ?id=not.is.null.",
  });
export const maxAffectedNeedsSet = () =>
  error(
    400,
    "PGRST128",
    "Function must return SETOF or TABLE when max-affected preference is used with handling=strict",
  );

// Streams of changes.

export const streamNotPossible = (message: string) => error(400, "0A000", message);
export const streamRefused = (message: string) => error(403, "42501", message);
export const streamUnavailable = (message: string) => error(503, "PGRST000", message);
export const badEventId = () =>
  error(400, "22023", "Last-Event-ID must be the id of an event, or the header Change-Position of a response");

// Results.

export const notSingular = (count: number) =>
  error(406, "PGRST116", "Cannot coerce the result to a single JSON object", {
    details: `The result contains ${count} rows`,
  });
export const tooManyAffected = (count: number) =>
  error(400, "PGRST124", "Query result exceeds max-affected preference constraint", {
    details: `The query affects ${count} rows`,
  });
export const writeAnswerTooLarge = (max: number) =>
  error(400, "54000", `the response would be larger than ${max} bytes, so nothing was written`, {
    hint: "Select fewer columns, or send Prefer: return=minimal.",
  });
export const badResponseHeaders = () =>
  error(
    500,
    "PGRST111",
    "response.headers guc must be a JSON array composed of objects with a single key and a string value",
  );
export const badResponseStatus = () => error(500, "PGRST112", "response.status guc must be a valid status code");
export const badRaise = (details: string) =>
  error(500, "PGRST121", "Could not parse JSON in the \"RAISE SQLSTATE 'PGRST'\" error", {
    details,
    hint: "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'. DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.",
  });

// Credentials.

export const noApiKey = () =>
  error(401, "PGRST302", "No API key found in request", { hint: "Send the anon key in the header apikey." });
export const badApiKey = () =>
  error(401, "PGRST301", "Invalid API key", { hint: "Send a valid key in the header apikey." });
export const anonymousOff = () =>
  error(401, "PGRST302", "Anonymous access is disabled", { hint: "Send a token: Authorization: Bearer." });
export const badToken = () => brokenToken("the access token is not valid: sign in again");
export const brokenToken = (message: string) => error(401, "PGRST301", message, challengeOf(message));
export const failedClaim = (message: string) => error(401, "PGRST303", message, challengeOf(message));
export const expiredToken = () => failedClaim("JWT expired");
export const noSecret = (message: string) =>
  error(401, "PGRST300", message, { hint: "The operator must set JWT_SECRET before tokens can be verified." });
export const disagreeingCredentials = () =>
  error(401, "PGRST301", "apikey and Authorization identify different callers");
export const serviceKeyInBrowser = () =>
  error(403, "42501", "the service key must not be used in a browser", {
    hint: "It bypasses row-level security, and every visitor can read it there. Use the anon key, and revoke this key.",
  });

/** Source: RFC 6750, 3. */
const challengeOf = (description: string) => ({
  headers: { "WWW-Authenticate": `Bearer error="invalid_token", error_description="${description}"` },
});
