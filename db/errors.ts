import type { DatabaseError } from "pg-protocol";
import type { RefusedCredential } from "./caller.ts";
import type { TableName } from "./catalog/catalog.ts";
import { referenceFault } from "./references.ts";

/** An error as it is sent to a client: `code` is for programs, `message` and `hint` are for people. */
export type Problem = {
  readonly status: number;
  readonly code: Code;
  readonly message: string;
  readonly details?: string;
  readonly hint?: string;
  /** Seconds after which a retry may succeed. */
  readonly retryAfter?: number;
  /** The matching SQLSTATE, for the interface that sends SQLSTATEs. */
  readonly sqlstate?: string;
};

export const CODES = [
  "AUTH_REQUIRED",
  "AUTH_EXPIRED",
  "PASSWORD_REQUIRED",
  "PERMISSION_DENIED",
  "RESOURCE_NOT_FOUND",
  "RESOURCE_CONFLICT",
  "VALIDATION_ERROR",
  "RATE_LIMITED",
  "INTERNAL_ERROR",
] as const;

export type Code = (typeof CODES)[number];

/** Carries a problem to the edge of an interface, which formats it. */
export class ApiError extends Error {
  readonly problem: Problem;
  constructor(problem: Problem, options?: ErrorOptions) {
    super(problem.message, options);
    this.problem = problem;
  }
}

export const unstorableText = (): Problem => ({
  status: 400,
  code: "VALIDATION_ERROR",
  message: "text must not contain a NUL character or an unpaired surrogate",
  sqlstate: "22021",
});

export const databaseUnavailable = (): Problem => ({
  status: 503,
  code: "INTERNAL_ERROR",
  message: "the database is not available; try again",
});

export const connectionsBusy = (): Problem => ({
  status: 504,
  code: "INTERNAL_ERROR",
  message: "timed out waiting for a free database connection; try again",
});

/** More requests come than the database can answer. */
export const overloaded = (): Problem => ({
  status: 503,
  code: "RATE_LIMITED",
  message: "the service has more requests than it can handle; try again",
  sqlstate: "53000",
});

/** All connections of STREAM_CONNECTIONS are in use. */
export const streamsBusy = (): Problem => ({
  status: 503,
  code: "RATE_LIMITED",
  message: "too many results are being streamed; try again",
  sqlstate: "53000",
});

/** `timeout` is in milliseconds. */
export const streamTooLong = (timeout: number): Problem => ({
  status: 504,
  code: "INTERNAL_ERROR",
  message: `the result has been streamed for longer than ${timeout / 1000} seconds`,
});

/** The clients at the address of a request have not read enough of their earlier results. */
export const addressReadsTooSlowly = (): Problem => ({
  status: 503,
  code: "RATE_LIMITED",
  message: "your IP address has too many unread responses: read them or close their connections, then try again",
  sqlstate: "53000",
});

/** The clients of a network may not make the service hold more: request bodies, subscriptions. */
export const addressHoldsTooMuch = (): Problem => ({
  status: 429,
  code: "RATE_LIMITED",
  message:
    "your IP address has too much in progress: wait until its requests have ended, or end subscriptions, then try again",
  sqlstate: "53000",
  retryAfter: 1,
});

export const clientsReadTooSlowly = (): Problem => ({
  status: 503,
  code: "RATE_LIMITED",
  message: "the service holds too many unread responses: try again",
  sqlstate: "53000",
});

export const outcomeUnknown = (): Problem => ({
  status: 503,
  code: "INTERNAL_ERROR",
  message: "the connection to the database was lost; a change may have been saved, so check before you try again",
});

export const resultTooLarge = (bytes: number): Problem => ({
  status: 400,
  code: "VALIDATION_ERROR",
  message: `the result is larger than ${bytes} bytes; request less at a time`,
  sqlstate: "54000",
});

export const tooManyRows = (max: number): Problem => ({
  status: 400,
  code: "VALIDATION_ERROR",
  message: `the result has more than ${max} rows, including those of nested lists; request less at a time`,
});

export const notExecuted = (): Problem => ({
  status: 409,
  code: "RESOURCE_CONFLICT",
  message: "not executed, because an earlier field failed",
});

export const internalError = (): Problem => ({ status: 500, code: "INTERNAL_ERROR", message: "internal error" });

type Row = readonly [sqlstate: string, status: number, code: Code, message: string];

/** SQLSTATE → status, code and a message in place of Postgres' own, which names tables. The first match wins. */
export const SQLSTATES: readonly Row[] = [
  ["28000", 401, "AUTH_REQUIRED", "login required"],
  ["CS401", 401, "PASSWORD_REQUIRED", "the sign-in is too old for this: sign in again"],
  ["42501", 403, "PERMISSION_DENIED", "no permission"],
  ["P0002", 404, "RESOURCE_NOT_FOUND", "not found"],
  ["42P01", 404, "RESOURCE_NOT_FOUND", "the schema has changed: this table no longer exists"],
  ["42703", 404, "RESOURCE_NOT_FOUND", "the schema has changed: this field no longer exists"],
  ["42883", 404, "RESOURCE_NOT_FOUND", "the schema has changed: this function no longer exists"],
  ["23505", 409, "RESOURCE_CONFLICT", "this value is already taken"],
  ["23503", 409, "RESOURCE_CONFLICT", "other data refers to this record, or it refers to a record that does not exist"],
  // Since PostgreSQL 18, `on delete restrict` raises this instead of 23503.
  ["23001", 409, "RESOURCE_CONFLICT", "other data refers to this record"],
  ["23P01", 409, "RESOURCE_CONFLICT", "this conflicts with existing data"],
  ["40001", 409, "RESOURCE_CONFLICT", "another request changed the same data at the same time; try again"],
  ["40P01", 409, "RESOURCE_CONFLICT", "another request changed the same data at the same time; try again"],
  ["55P03", 409, "RESOURCE_CONFLICT", "another request is changing the same data; try again"],
  ["23", 400, "VALIDATION_ERROR", "a value violates a constraint of the database"],
  ["22", 400, "VALIDATION_ERROR", "invalid value"],
  ["42704", 400, "VALIDATION_ERROR", "unknown name of a database object"],
  ["42P17", 500, "INTERNAL_ERROR", "a database object has an invalid definition"],
  ["428C9", 400, "VALIDATION_ERROR", "this field is assigned by the service"],
  ["P0001", 400, "VALIDATION_ERROR", "refused by the database"],
  ["PT429", 429, "RATE_LIMITED", "too many requests; try again later"],
  ["25006", 405, "PERMISSION_DENIED", "this request is read-only"],
  ["54", 400, "VALIDATION_ERROR", "the request is too complex"],
  ["57014", 504, "INTERNAL_ERROR", "the request took too long and was cancelled"],
  ["53", 503, "INTERNAL_ERROR", "the database is busy; try again"],
  ["57P", 503, "INTERNAL_ERROR", "the database is not available; try again"],
  ["08", 503, "INTERNAL_ERROR", "the database is not available; try again"],
];

/** The fields of pg's DatabaseError that matter here. */
export type DatabaseErrorLike = Error & {
  readonly code?: string;
  readonly schema?: string;
  readonly table?: string;
  /** Of a NOT NULL. */
  readonly column?: string;
  readonly constraint?: string;
  readonly routine?: string;
  /** The functions in which the error occurred; it may quote values. */
  readonly where?: string;
  /** The position in the text of the statement, from 1. */
  readonly position?: string;
};

/** `public.users.users_age_range` → the comment of that constraint. */
export type ConstraintMessages = ReadonlyMap<string, string>;

/** What messages are made of. */
export type MessageContext = {
  readonly constraintMessages: ConstraintMessages;
  /** Whether the caller may read the table; otherwise no message names it. */
  mayRead?(table: TableName): boolean;
};

export type ErrorContext = MessageContext & {
  /** Whether the caller is anonymous: a missing permission then requires a login. */
  readonly anonymous: boolean;
  /** Why the caller's credential was refused; null without one. */
  readonly refused: RefusedCredential | null;
};

/** SQLSTATE → problem, for every interface. Null for an error that must not be sent to a client. */
export function problemOf(error: unknown, context: ErrorContext): Problem | null {
  if (error instanceof ApiError) return error.problem;
  const raised = error as DatabaseErrorLike;
  if (typeof raised?.code !== "string") return null;
  if (isSyntaxOfValue(raised)) return { status: 400, code: "VALIDATION_ERROR", message: "invalid value" };
  const row = SQLSTATES.find(([sqlstate]) => raised.code!.startsWith(sqlstate));
  if (!row) return null;
  const role = unknownRoleIn(raised);
  if (role !== null) return unknownRole(role);

  const [, status, code, message] = row;
  if (code === "AUTH_REQUIRED" || (code === "PERMISSION_DENIED" && context.anonymous))
    return loginRequired(context.refused);
  const retryAfter = retryAfterOf(raised);
  const sent = { status, code, message: messageOf(raised, context) ?? message };
  return retryAfter === undefined ? sent : { ...sent, retryAfter };
}

/** Seconds: a function raises PT429 with a message that ends in `try again in 60 s`. */
export function retryAfterOf({ code, message }: DatabaseErrorLike): number | undefined {
  const seconds = code === "PT429" ? /try again in (\d{1,9}) s$/.exec(message)?.[1] : undefined;
  return seconds === undefined ? undefined : Number(seconds);
}

/** A value that has a syntax of its own, such as a tsquery. A syntax error in SQL has a position, or is in a function. */
const isSyntaxOfValue = ({ code, position, where }: DatabaseErrorLike) =>
  code === "42601" && position === undefined && where === undefined;

/** The role of a token that the database does not have. Null for other errors, such as those of a function that sets a role. */
export function unknownRoleIn({ code, message, where }: DatabaseErrorLike): string | null {
  if (code !== "22023" || where !== undefined) return null;
  return /^role "(.*)" does not exist$/s.exec(message)?.[1] ?? null;
}

const unknownRole = (role: string): Problem => ({
  status: 401,
  code: "AUTH_REQUIRED",
  message: `the token has the role "${role}", which does not exist in the database`,
});

/** `login required: the access token has been revoked` */
export function loginRequired(refused: RefusedCredential | null): Problem {
  if (refused === null) return { status: 401, code: "AUTH_REQUIRED", message: "login required" };
  if (refused.isExpired) return { status: 401, code: "AUTH_EXPIRED", message: refused.message };
  const reason = refused.message.replace(/: sign in again$/, "");
  return { status: 401, code: "AUTH_REQUIRED", message: `login required: ${reason}` };
}

/** SQLSTATEs of a table, column or function that does not exist. */
const MISSING: ReadonlySet<string | undefined> = new Set(["42P01", "42703", "42883"]);

/**
 * The message of a RAISE is written for the client, and so is the comment of a constraint. A function that names a missing
 * object, or a policy that recurses, is broken for every caller: Postgres' message is sent, because it names the object.
 */
function messageOf(
  error: DatabaseErrorLike,
  { constraintMessages: messages, mayRead }: ErrorContext,
): string | undefined {
  if (error.routine === "exec_stmt_raise") return error.message;
  if (error.code === "42P17" || (MISSING.has(error.code) && error.where !== undefined)) return error.message;
  const { schema = "", table = "", constraint } = error;
  if (referenceFault(error) === "used")
    return `${mayRead?.({ schema, name: table }) ? `rows of ${table} refer` : "other data refers"} to this record`;
  return messages.get(`${schema}.${table}.${constraint}`);
}

/** Nothing was executed: the connection does not know the statement, or already does, or a type in its result has changed. */
export const isStalePlan = (error: DatabaseError) =>
  error.code === "26000" ||
  error.code === "42P05" ||
  (error.code === "0A000" && error.routine === "RevalidateCachedQuery");

/** Every error of the server has a severity. The code of a socket error, such as ECONNRESET, is not a SQLSTATE. */
export const isSocketError = (error: DatabaseError | ApiError) =>
  !(error instanceof ApiError) && error.severity === undefined;

/** FATAL: the server has closed this connection. */
export const isLost = (error: DatabaseError) => error.severity === undefined || error.severity === "FATAL";

/** SQLSTATEs of transient errors: connections, resources, locks. */
const TRANSIENT = /^(08|53|57P|40001|40P01|55P03)/;

/**
 * Whether a transaction that only reads may succeed if it is sent again. A lost connection is an Error without SQLSTATE; a bug of this
 * program has a subclass of Error, such as TypeError.
 */
export const isTransient = (error: DatabaseError | ApiError | Error): boolean => {
  if (error instanceof ApiError) return error.problem.status >= 500;
  const { severity, code = "" } = error as Partial<DatabaseError>;
  return severity === undefined ? error.constructor === Error : TRANSIENT.test(code);
};
