import type { DatabaseError } from "pg-protocol";
import { Problem, problem } from "../problems/problem.ts";
import { REASONS, type Reason } from "../problems/reasons.ts";
import type { RefusedCredential } from "./caller.ts";
import type { ConstraintMessages, TableName } from "./catalog/catalog.ts";
import { ownProblem } from "./own-errors.ts";
import { referenceFault } from "./references.ts";
import type { DatabaseErrorLike } from "./sqlstates.ts";
import { MISSING, reasonOf, statusOf } from "./sqlstates.ts";

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

/** An error → problem, for every interface. Null for an error that must not be sent to a client. */
export function problemOf(error: unknown, context: ErrorContext): Problem | null {
  if (error instanceof Problem) return error;
  const raised = error as DatabaseErrorLike;
  if (typeof raised?.code !== "string" || isOfProtocol(raised)) return null;
  if (isSyntaxOfValue(raised) || isUnmatchable(raised))
    return problem("invalid value", { message: raised.message, cause: error });
  if (isUnpopulated(raised))
    return problem("view without data", { message: raised.message, hint: raised.hint, cause: error });
  if (isUnfitKey(raised)) return problem("unfit key", { cause: error });
  if (isWithoutPartition(raised)) return problem("no partition", { cause: error });
  const own = ownProblem(raised);
  if (own !== null) return own;
  const reason = reasonOf(raised.code) ?? reasonOfRaise(raised);
  if (reason === null) return null;
  const role = unknownRoleIn(raised);
  if (role !== null) return problem("unknown role", { role, cause: error });
  // A sign-in would not open the sign-up.
  const isHelped = REASONS[reason][1] === "PERMISSION_DENIED" && reason !== "sign-up closed";
  if (reason === "login required" || (isHelped && context.anonymous)) return loginRequired(context.refused);
  return new Problem(reason, {
    message: messageOf(raised, context),
    ...(isRaised(raised) && { raisedDetail: raised.detail, hint: raised.hint }),
    retryAfter: retryAfterOf(raised),
    cause: error,
  });
}

/**
 * A mistake in the database, such as a policy that recurses, or a function that names a missing table: no stack of this program leads to it.
 * Null for other errors.
 */
export function mistakeIn(error: unknown): string | null {
  const { code, message, where = "", cause } = (error ?? {}) as DatabaseErrorLike;
  const [place] = /^(?:PL\/pgSQL|SQL) function .+$/m.exec(where) ?? [];
  if (place !== undefined && MISSING.has(code) && !isRaised(error as DatabaseErrorLike))
    return `a mistake in the database: ${message} (${code}), in the ${place}`;
  if (code === "42P17") return `a mistake in the database: ${message} (42P17)`;
  return cause === undefined ? null : mistakeIn(cause);
}

/** Of a statement of the service that may succeed when the database is available, or less busy. Null for other errors. */
export function unavailabilityOf(error: unknown): Problem | null {
  const raised = (error ?? {}) as DatabaseErrorLike;
  const reason = typeof raised.code === "string" && !isOfProtocol(raised) ? reasonOf(raised.code) : null;
  // The service never signs anybody in in a transaction that only reads.
  if (reason === "read-only") return problem("database unavailable", { cause: error });
  const isTemporary = reason === "database unavailable" || reason === "database busy" || reason === "too slow";
  return isTemporary ? problem(reason, { cause: error }) : null;
}

/** Seconds: a function raises PT429 with a message that ends in `try again in 60 s`. */
export function retryAfterOf({ code, message }: DatabaseErrorLike): number | undefined {
  const seconds = code === "PT429" ? /try again in (\d{1,9}) s$/.exec(message)?.[1] : undefined;
  return seconds === undefined ? undefined : Number(seconds);
}

/**
 * A mistake of the application: a statement of several commands, or with more or fewer values than parameters. Its code does not show it:
 * PgBouncer has 08P01 for a lost server too.
 */
const isOfProtocol = ({ routine }: DatabaseErrorLike) =>
  routine === "exec_parse_message" || routine === "exec_bind_message";

/** A value with a syntax of its own, such as a tsquery or the name of a table. A syntax error in SQL has a position, or is in a function. */
const isSyntaxOfValue = (error: DatabaseErrorLike) =>
  (error.code === "42601" || error.code === "42602") && error.position === undefined && !isInCode(error);

/** A pattern, for a column whose collation has no such operator. */
const isUnmatchable = (error: DatabaseErrorLike) =>
  error.code === "0A000" && error.message.startsWith("nondeterministic collations") && !isInCode(error);

/** A materialized view that was created `with no data`. Functions may raise the code too, with a message that is not for clients. */
export const isUnpopulated = ({ code, routine }: DatabaseErrorLike) =>
  code === "55000" && routine === "ExecOpenScanRelation";

/** A constraint that `on conflict` cannot use, because it may be violated until the commit, or excludes overlaps of ranges. */
export const isUnfitKey = ({ code, routine }: DatabaseErrorLike) =>
  (code === "55000" && routine === "ExecCheckIndexConstraints") ||
  (code === "42P10" && routine === "infer_arbiter_indexes");

const isWithoutPartition = ({ code, routine }: DatabaseErrorLike) =>
  code === "23514" && routine === "ExecFindPartition";

/** Of a RAISE with a SQLSTATE of PostgreSQL that has no reason of its own. Null for one that every interface masks. */
function reasonOfRaise(error: DatabaseErrorLike): Reason | null {
  const { code = "" } = error;
  const status = statusOf(code);
  if (!isRaised(error) || status >= 500 || code === "PGRST") return null;
  return status === 403 ? "no permission" : "raised";
}

/** The role of a token that the database does not have. Null for other errors, such as those of a function that sets a role. */
export function unknownRoleIn({ code, message, where }: DatabaseErrorLike): string | null {
  if (code !== "22023" || where !== undefined) return null;
  return /^role "(.*)" does not exist$/s.exec(message)?.[1] ?? null;
}

/** `login required: the access token has been revoked` */
export function loginRequired(refused: RefusedCredential | null): Problem {
  if (refused === null) return problem("login required");
  const { isExpired, message } = refused;
  if (isExpired) return problem("login expired", { why: message });
  return problem("login refused", { why: message.replace(/: sign in again$/, "") });
}

/** A RAISE of a function. Its message, detail and hint are written for the client. */
export const isRaised = ({ routine }: DatabaseErrorLike): boolean => routine === "exec_stmt_raise";

/** Whether a setting of the request, such as its time zone, is refused: then each statement of the request is. */
const isOfSetting = ({ routine }: DatabaseErrorLike): boolean => routine === "call_string_check_hook";

/** Whether an error may be about a value that a type, its modifier or a domain refuses. */
export const isOfValue = (error: DatabaseErrorLike): boolean => {
  const { code = "", table } = error;
  if (isRaised(error) || isOfSetting(error)) return false;
  return code.startsWith("22") || (code.startsWith("23") && table === undefined) || isSyntaxOfValue(error);
};

/** Whether a function or a trigger has raised the error. The context of a parameter names the parameter. */
const isInCode = ({ where }: DatabaseErrorLike): boolean =>
  where !== undefined && !/^(?:unnamed portal|portal ".*") parameter \$/.test(where);

/**
 * The comment of a constraint is written for the client. A function that names a missing
 * object, or a policy that recurses, is broken for every caller: Postgres' message is sent, because it names the object. So is what it
 * says about a value of the request.
 */
function messageOf(
  error: DatabaseErrorLike,
  { constraintMessages: messages, mayRead }: MessageContext,
): string | undefined {
  if (isRaised(error)) return error.message;
  if (error.code === "42P17" || (MISSING.has(error.code) && error.where !== undefined)) return error.message;
  if (isOfValue(error) && !isInCode(error)) return error.message;
  const { schema = "", table = "", constraint } = error;
  if (referenceFault(error) === "used")
    return `${mayRead?.({ schema, name: table }) ? `rows of ${table} refer` : "other data refers"} to this record`;
  return messages.get(`${schema}.${table}.${constraint}`);
}

/** The statement was cancelled because it took too long. Another attempt would take as long again. */
export const isTimeout = (error: unknown): boolean => (error as { code?: unknown }).code === "57014";

/**
 * Nothing remains of the statement, and it may succeed if it is prepared again: the connection does not know it, or already does, or what it
 * names has changed, or was dropped: a migration that recreates an enum leaves its old id in prepared statements.
 */
export const isStalePlan = (error: DatabaseError) =>
  error.code === "26000" || error.code === "42P05" || isOfChangedType(error);

/** The code of a value that its type cannot read. */
export const INVALID_TEXT = "22P02";

/** Whether an input function reports a malformed value as an internal error: that of hstore until PostgreSQL 15, and those of PostGIS. */
export const isInputFault = ({ code, file, message }: DatabaseError) =>
  code === "XX000" && (file === "hstore_io.c" || message.startsWith("parse error - invalid geometry"));

/** Errors of statements that their connection had prepared before, so that they were valid then. */
const ofPrepared = new WeakSet<DatabaseError>();
export const notePrepared = (error: DatabaseError): void => void ofPrepared.add(error);

/**
 * Whether what a statement, or its plan, has named by number was changed or dropped: a type, the columns of a row, a function, a table.
 * A parameter keeps its type when another one gets the name. The messages of internal errors are not translated.
 */
export const isOfChangedType = (error: DatabaseError): boolean => {
  const { code, routine, message } = error;
  return (
    (code === "0A000" && routine === "RevalidateCachedQuery") ||
    (code === "XX000" && /^(cache lookup failed for|could not open relation with OID) /.test(message)) ||
    (code === "42704" && routine === "lookup_type_cache") ||
    (code === "42804" && /^(Exec|CheckVar)/.test(routine ?? "")) ||
    (code === "42846" && ofPrepared.has(error))
  );
};

/** Every error of the server has a severity. The code of a socket error, such as ECONNRESET, is not a SQLSTATE. */
export const isSocketError = (error: DatabaseError | Problem) =>
  !(error instanceof Problem) && error.severity === undefined;

/** FATAL: the server has closed this connection. */
export const isLost = (error: DatabaseError) => error.severity === undefined || error.severity === "FATAL";

/** Whether a transaction, or the function in it that tried, cannot write. */
export const isReadOnly = ({ code }: DatabaseErrorLike) => code === "25001" || code === "25006";

/** Whether the server itself only reads: no function has tried to make the transaction one that writes, but the service. */
export const isOfStandby = ({ code, routine, where }: DatabaseError) =>
  code === "25001" && routine === "call_bool_check_hook" && !where;

/** SQLSTATEs of transient errors: connections, resources, locks. */
const TRANSIENT = /^(08|53|57P|40001|40P01|55P03)/;

/**
 * Whether a transaction that only reads may succeed if it is sent again. A lost connection is an Error without SQLSTATE; a bug of this
 * program has a subclass of Error, such as TypeError.
 */
export const isTransient = (error: DatabaseError | Problem | Error): boolean => {
  if (error instanceof Problem) return error.status >= 500;
  const { severity, code = "" } = error as Partial<DatabaseError>;
  return severity === undefined ? error.constructor === Error : TRANSIENT.test(code);
};
