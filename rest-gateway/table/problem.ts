import { tooMany } from "../../db/filters/patterns.ts";
import { filled, headersOf, invalidToken, Problem, problem } from "../../problems/problem.ts";
import type { Reason } from "../../problems/reasons.ts";
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
  /** The values of the request that are refused, as in `extensions.fields` of GraphQL. */
  readonly fields?: readonly FieldProblem[];
  /** Replaces the standard reason phrase: `419 Page Expired`. */
  readonly statusText?: string;
  /** Additional headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** `{ field: "[3].email", message: "email already registered", code: "RESOURCE_CONFLICT", constraint: "users_email_key" }` */
export type FieldProblem = {
  readonly field: string;
  readonly message: string;
  readonly code: string;
  readonly constraint?: string;
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

/** Reason → `PGRST` and three digits, or a SQLSTATE; and text and hint where PostgREST has others. Others have the code of their status. */
export const TABLE_CODES: Readonly<
  Partial<Record<Reason, string | readonly [code: string, text: string, hint?: string]>>
> = {
  "unstorable text": "22021",
  overloaded: "53000",
  "streams busy": "53000",
  "clients read too slowly": "53000",
  "address reads too slowly": "53000",
  "address holds too much": "53000",
  "result too large": "54000",
  "no such path": ["PGRST125", "Invalid path specified in request URL"],
  "method not allowed": ["PGRST117", "Unsupported HTTP method: {method}"],
  "unreadable query": "PGRST100",
  "name too long": "PGRST100",
  "too deep": "PGRST100",
  "too many": "PGRST100",
  "pattern too long": "PGRST100",
  "too many repetitions": "2201B",
  "expensive pattern": "2201B",
  "expensive anchors": "2201B",
  "malformed body": "PGRST102",
  "unsupported media type": "PGRST102",
  "query type only": "PGRST102",
  "invalid preferences": "PGRST122",
  "invalid range": "PGRST103",
  "table description off": "PGRST126",
  "method not for functions": "PGRST101",
  "method not for table": "PGRST117",
  "no such schema": "PGRST106",
  "not acceptable": "PGRST107",
  "no such table": "PGRST205",
  "no such function": "PGRST202",
  "ambiguous function": "PGRST203",
  "no such column": "42703",
  "no such body columns": "PGRST204",
  "no such type": "42704",
  "no relationship": "PGRST200",
  "ambiguous relationship": "PGRST201",
  "not embedded": "PGRST108",
  "spread needs to one": "PGRST127",
  "order needs to one": "PGRST118",
  "embed filter needs null": "PGRST120",
  "aggregates off": "PGRST123",
  "put filters": "PGRST105",
  "put limits": "PGRST114",
  "put mismatch": "PGRST115",
  "no versions": [
    "PT412",
    "If-Match is not possible: rows of the table interface have no version",
    "Read xmin with the row, and send it as a filter: ?id=eq.1&xmin=eq.734. If no row is returned, it has changed.",
  ],
  unfiltered: "21000",
  "max affected needs set": "PGRST128",
  "stream not possible": "0A000",
  "stream refused": "42501",
  "changes unavailable": "PGRST000",
  "bad event id": "22023",
  "not singular": "PGRST116",
  "too many affected": "PGRST124",
  "write answer too large": "54000",
  "bad response headers": "PGRST111",
  "bad response status": "PGRST112",
  "bad raise": "PGRST121",

  // Credentials.
  "no key": ["PGRST302", "No API key found in request", "Send the anon key in the header apikey."],
  "bad key": ["PGRST301", "Invalid API key", "Send a valid key in the header apikey."],
  "expired key": ["PGRST301", "Invalid API key", "Send a valid key in the header apikey."],
  "anonymous off": ["PGRST302", "Anonymous access is disabled", "Send a token: Authorization: Bearer."],
  disagreement: ["PGRST301", "apikey and Authorization identify different callers"],
  "service key off": "42501",
  "service key in browser": [
    "42501",
    "the service key must not be used in a browser",
    "It bypasses row-level security, and every visitor can read it there. Use the anon key, and revoke this key.",
  ],
};

/** Of tokens: the code for the part that is wrong. */
export const TOKEN_CODES = { claims: "PGRST303", token: "PGRST301", secret: "PGRST300" } as const;

/** The parts of refused tokens for which PostgREST says no more. */
const REFUSED_TOKENS: Readonly<Partial<Record<Reason, NonNullable<Problem["more"]["fault"]>>>> = {
  "bad token": { part: "token", message: "the access token is not valid: sign in again" },
  "revoked token": { part: "token", message: "the access token is not valid: sign in again" },
  unreadable: { part: "token", message: "the access token is not valid: sign in again" },
  "expired token": { part: "claims", message: "JWT expired" },
};

/** The response of the table interface to a problem. */
export function tableAnswer(problem: Problem): TableProblem {
  const { reason, status, more } = problem;
  const fault = more.fault ?? REFUSED_TOKENS[reason];
  if (fault) return ofToken(fault);
  const row = TABLE_CODES[reason] ?? SERVICE_CODES[status] ?? "22000";
  const [code, text, hint = more.hint] = typeof row === "string" ? [row] : row;
  const message = text === undefined ? problem.message : filled(text, more);
  const headers = {
    ...headersOf(problem, { status, message }),
    ...(more.allow && { Allow: more.allow.join(",") }),
  };
  return { status, code, message, details: more.details, hint, headers };
}

function ofToken({ part, message }: NonNullable<Problem["more"]["fault"]>): TableProblem {
  const sent = { status: 401, code: TOKEN_CODES[part], message };
  if (part === "secret") return { ...sent, hint: "The operator must set JWT_SECRET before tokens can be verified." };
  return { ...sent, headers: { "WWW-Authenticate": invalidToken(message) } };
}

// Malformed input.

/** A parameter whose value has no operator. `meant` is the parameter with a similar name, if there is one. */
export function notFilter(
  name: string,
  value: string,
  meant: string | null,
  { reason, message, more }: Problem,
): Problem {
  const filter = `${name}=eq.${value.length > MAX_SHOWN ? "…" : value}`;
  const parameter = meant === null ? "" : `the parameter ${meant}, or `;
  const [, word] = /^(?:not\.)?([a-z]+)\./.exec(value) ?? [];
  const hint =
    word === undefined
      ? `"${name}" was read as a filter. Perhaps you meant ${parameter}${filter}`
      : `"${word}" is not an operator, such as eq, neq, gt, gte, lt, lte, like, ilike, in or is. To compare with the whole value, write ${filter}`;
  return new Problem(reason, { ...more, message, hint });
}
/** Characters of a value that a hint repeats. */
const MAX_SHOWN = 100;
export const tooManyEmbeds = (max: number) => tooMany("embedded relationships", max);
export const tooManyEmbedFilters = (max: number) => tooMany("!inner and null filters on embedded relationships", max);
export const invalidBody = (message: string, details?: string) =>
  problem("malformed body", { message, ...(details === undefined ? {} : { details }) });
export const unsupportedMediaType = (type: string) =>
  problem("unsupported media type", {
    type,
    hint: "Use application/json, text/csv or application/x-www-form-urlencoded.",
  });
export const queryTypeOnly = (type: string) =>
  problem("query type only", {
    type,
    hint: `Send the query string as ${QUERY_TYPE}.`,
    headers: { "Accept-Query": QUERY_TYPE },
  });
export const invalidPreferences = (values: readonly string[]) =>
  problem("invalid preferences", { details: `Invalid preferences: ${values.join(", ")}` });
/** `total` is the number of rows, if it is known. */
export const invalidRange = (details: string, total: number | null = null) =>
  problem("invalid range", { details, ...(total !== null && { headers: { "Content-Range": `*/${total}` } }) });

// Paths, methods and media types.

export const methodNotForFunctions = (method: string) =>
  problem("method not for functions", { method, allow: ["OPTIONS", "GET", "HEAD", "QUERY", "POST"] });
export const methodNotForTable = (method: string, allow: readonly string[]) =>
  problem("method not for table", { method, allow });
export const noSuchSchema = (name: string, schemas: readonly string[]) =>
  problem("no such schema", { name, hint: `Only the following schemas are exposed: ${schemas.join(", ")}` });
export const notAcceptable = (types: readonly string[], hint?: string) =>
  problem("not acceptable", { types: types.join(", "), ...(hint !== undefined && { hint }) });

// Names that the catalog does not know.

export const noSuchTable = (schema: string, name: string, hintFor: HintFor) =>
  problem("no such table", { schema, name, hintFor });
export const noSuchFunction = (signature: string, details: string, hintFor: HintFor | null) =>
  problem("no such function", { signature, details, hintFor });
export const ambiguousFunction = (signatures: readonly string[]) =>
  problem("ambiguous function", {
    signatures: signatures.join(", "),
    hint: "Try renaming the parameters or the function itself in the database so function overloading can be resolved",
  });
export const noSuchColumn = (table: string, column: string, hintFor: HintFor | null = null) =>
  problem("no such column", { table, column, hintFor });
/** The message names the first of several columns, and the details name all. */
export const noSuchBodyColumns = (table: string, columns: readonly string[], hintFor: HintFor) => {
  const details = columns.length > 1 ? { details: `Unknown columns: ${columns.join(", ")}` } : {};
  const message = `Could not find the '${columns[0]}' column of '${table}' in the schema cache`;
  return problem("no such body columns", { message, ...details, hintFor });
};
/** JSON that was sent as a form, as `curl -d` does. */
export const JSON_IN_FORM =
  "The body is JSON, but its Content-Type is application/x-www-form-urlencoded: send Content-Type: application/json.";
export const noSuchType = (name: string) => problem("no such type", { name });
export const noRelationship = (source: string, target: string, details: string, hintFor: HintFor | null) => {
  const message = `Could not find a relationship between '${source}' and '${target}' in the schema cache`;
  return problem("no relationship", { message, details, hintFor });
};
export const ambiguousRelationship = (source: string, target: string, details: unknown, hint: string) =>
  problem("ambiguous relationship", { source, target, details, hint });
export const notEmbedded = (name: string) =>
  problem("not embedded", { name, hint: `Verify that '${name}' is included in the 'select' query parameter.` });

// Invalid combinations.

export const spreadNeedsToOne = (message: string) => problem("spread needs to one", { details: message });
export const orderNeedsToOne = (source: string, target: string) =>
  problem("order needs to one", {
    target,
    details: `'${source}' and '${target}' do not form a many-to-one or one-to-one relationship`,
  });
export const embedFilterNeedsNull = (name: string) =>
  problem("embed filter needs null", {
    name,
    details: "Only is null or not is null filters are allowed on embedded resources",
  });
export const putFilters = (allow: readonly string[]) => problem("put filters", { allow });
export const unfiltered = (command: "UPDATE" | "DELETE") =>
  problem("unfiltered", {
    command,
    hint: "Add a filter, such as ?id=eq.1. To change all rows, use a filter that is always true, such as ?id=not.is.null.",
  });

// Streams of changes.

export const streamNotPossible = (message: string) => problem("stream not possible", { message });
export const streamRefused = (message: string) => problem("stream refused", { message });

// Results.

export const notSingular = (count: number) => problem("not singular", { details: `The result contains ${count} rows` });
export const tooManyAffected = (count: number, isCall: boolean) =>
  problem("too many affected", {
    details: `The query affects ${count} rows`,
    ...(!isCall && { hint: "Filter the rows: neither max-affected nor limit chooses some of them." }),
  });
export const writeAnswerTooLarge = (max: number) =>
  problem("write answer too large", { max, hint: "Select fewer columns, or send Prefer: return=minimal." });
export const badRaise = (details: string) =>
  problem("bad raise", {
    details,
    hint: "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'. DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.",
  });
