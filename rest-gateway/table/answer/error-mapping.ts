import type { DatabaseError } from "pg-protocol";
import { forPairs } from "../../../cache/cache.ts";
import { type Catalog, tableOf } from "../../../db/catalog/catalog.ts";
import { messagesFor, readsEveryRow } from "../../../db/catalog/exposure.ts";
import { mayUseColumn, mayUseTable } from "../../../db/catalog/grants.ts";
import {
  problemOf as databaseProblem,
  isOfValue,
  isUnfitKey,
  isUnpopulated,
  retryAfterOf,
  unknownRoleIn,
} from "../../../db/errors.ts";
import { clientMessage } from "../../../db/masking.ts";
import { chosenStatus, isStatus, objectOf, raisedObject } from "../../../db/own-errors.ts";
import { isPut, type Plan } from "../../../db/query/plan.ts";
import { pathOf, type RefusedValue } from "../../../db/query/refused-row.ts";
import { REFUSED } from "../../../db/query/result.ts";
import { referenceFault } from "../../../db/references.ts";
import { statusOf } from "../../../db/sqlstates.ts";
import { columnsOfError } from "../../../db/transaction/input-faults.ts";
import { Problem, problem } from "../../../problems/problem.ts";
import {
  badRaise,
  notSingular,
  type TableProblem,
  tableAnswer,
  tooManyAffected,
  writeAnswerTooLarge,
} from "../problem.ts";
import type { HintFor } from "../suggestion.ts";
import { writeHeader } from "./answer.ts";

const INVALID = 400;
const INTERNAL = 500;
const UNAVAILABLE = 503;

export type ProblemContext = {
  /** An anonymous caller without permission gets 401 instead of 403, because signing in may help. */
  readonly isAnonymous: boolean;
  /** The role of the caller: hints about unknown names suggest only what it may use. Null for requests without such names. */
  readonly role: string | null;
  /** Null when the request failed before it was planned. */
  readonly plan: Plan | null;
  /** The values in the body that the database has refused, as far as they were found. */
  readonly refused: readonly RefusedValue[];
  /** The claim `sub` of the caller; absent where the request has no values of callers. */
  readonly subject?: unknown;
  /** The comments of constraints and the labels of enums become hints. */
  readonly catalog: Catalog;
};

/** The problem to send for an error; null for an internal error, which the client must not see. */
export function problemOf(error: unknown, context: ProblemContext): TableProblem | null {
  if (error instanceof Problem) return ofProblem(error, context);
  const raised = error as DatabaseError;
  if (typeof raised?.code !== "string" || raised.severity === undefined) return null;
  const refused = context.plan && refusedNumber(raised, context.plan);
  if (refused) return tableAnswer(refused);
  if (raised.code === "PGRST") return fromRaise(raised);
  if (isUnpopulated(raised)) return { ...ofPostgres(raised), status: UNAVAILABLE };
  if (isUnfitKey(raised)) return { ...ofPostgres(raised), status: INVALID };
  const message = clientMessage(raised);
  if (message === null) return null;
  const chosen = chosenStatus(raised.code);
  const status = chosen ?? statusFor(raised, context.isAnonymous);
  if (chosen === null && (status === INTERNAL || status === UNAVAILABLE)) return { status, code: raised.code, message };
  return fromDatabase(raised, status, context);
}

/** The error of Postgres as it is. */
const ofPostgres = ({ code = "", message, detail, hint }: DatabaseError) => ({ code, message, details: detail, hint });

function ofProblem(problem: Problem, { catalog, role }: ProblemContext): TableProblem | null {
  if (problem.reason === "internal error") return null;
  const hintFor = problem.more.hintFor as HintFor | null | undefined;
  if (!hintFor || role === null) return tableAnswer(problem);
  const hints = hintsOf(problem, catalog);
  if (!hints.has(role)) hints.set(role, hintFor({ catalog, role }));
  const hint = hints.get(role);
  return { ...tableAnswer(problem), ...(hint && { hint }) };
}

/** By role: all names of a catalog are compared for a hint, and a client may ask for the same wrong name again and again. */
const hintsOf = forPairs((_: Problem, _catalog: Catalog) => new Map<string, string | null>());

function fromDatabase(raised: DatabaseError, status: number, context: ProblemContext): TableProblem {
  const { refused, catalog } = context;
  const { message, detail, schema, table, constraint } = raised;
  const isReferredTo = referenceFault(raised) === "used";
  const code = isReferredTo ? FOREIGN_KEY : (raised.code ?? "");
  // The comment of a foreign key says what the rows with it refer to.
  const rule = catalog.constraints.get(`${schema}.${table}.${constraint}`);
  const ofConstraint = isReferredTo ? null : rule?.message;
  const own =
    HINTS[code] ??
    raised.hint ??
    ofConstraint ??
    labelsOf(raised, catalog) ??
    deniedColumns(raised, context) ??
    otherUserId(raised, context) ??
    undefined;
  const hint = refused.length > 1 && !isOfValue(raised) ? hintOfAll(refused, own) : own;
  const details = detailsOf(isSafe(raised, context) ? detail : undefined, refused, own);
  const retryAfter = retryAfterOf(raised);
  const headers = retryAfter === undefined ? null : { headers: { "Retry-After": String(retryAfter) } };
  const fields = fieldsOf(raised, context);
  return { status, code, message, details, ...headers, ...(hint !== undefined && { hint }), ...fields };
}

/** Of a violated foreign key. PostgreSQL 18 has 23001 for `on delete restrict`; clients get one code from every version. */
const FOREIGN_KEY = "23503";

/** Hints that replace those of Postgres, which are for authors of SQL. */
const HINTS: Readonly<Record<string, string>> = {
  "428C9": "Leave this column out: the database assigns its value.",
};

/** The faults of a body that an error lists. */
const MAX_LISTED = 100;

/** Every message once: `title must have at least 5 characters; content must not be empty` */
const hintOfAll = (refused: readonly RefusedValue[], own: string | undefined): string | undefined =>
  [...new Set(refused.slice(0, MAX_LISTED).flatMap(({ message }) => message ?? own ?? []))].join("; ") || undefined;

/**
 * The details of Postgres, after the position in the body: `in [3].email: Key (lower(email))=(ada@example.com) already exists.` If
 * there are several faults, the position and the message of each: `in title: title must have at least 5 characters; in age: …`
 */
function detailsOf(
  detail: string | undefined,
  refused: readonly RefusedValue[],
  own: string | undefined,
): string | undefined {
  const [first, ...others] = refused;
  if (first === undefined) return detail;
  const inPlace = (value: RefusedValue, what = value.message) => `in ${pathOf(value)}${what ? `: ${what}` : ""}`;
  if (others.length > 0) {
    const listed = refused.slice(0, MAX_LISTED).map((value) => inPlace(value, value.message ?? detail ?? own));
    const more = refused.length > MAX_LISTED ? [`and ${refused.length - MAX_LISTED} more`] : [];
    return [...listed, ...more].join("; ");
  }
  // What Postgres says about one object names its columns already.
  return first.row === null && detail !== undefined ? detail : inPlace(first, detail ?? null);
}

/** The same as a list: an entry for each column, always with a message, as in GraphQL. */
function fieldsOf(raised: DatabaseError, context: ProblemContext): Pick<TableProblem, "fields"> {
  const { refused } = context;
  if (refused.length === 0) return {};
  const shared = messageOf(raised, context);
  const fields = refused.slice(0, MAX_LISTED).flatMap(({ row, columns, message, code, constraint }) => {
    const fault = { message: message ?? shared, code, ...(constraint !== null && { constraint }) };
    const paths = columns.length === 0 ? [[]] : columns.map((column) => [column]);
    return paths.map((path) => ({ field: pathOf({ row, columns: path }), ...fault }));
  });
  return { fields };
}

/** What a form can show: unlike what Postgres says about a constraint, it names no objects of the database. */
function messageOf(raised: DatabaseError, { catalog, role }: ProblemContext): string {
  const { code, column, message } = raised;
  if (code === "23502" && column !== undefined) return `${column} must not be null`;
  if (isOfValue(raised)) return labelsOf(raised, catalog) ?? message;
  const messages = role === null ? catalog : messagesFor(catalog, role);
  return databaseProblem(raised, { ...messages, anonymous: false, refused: null })?.message ?? message;
}

/** `post_status must be one of DRAFT, PUBLISHED, ARCHIVED`; null for other errors. */
function labelsOf({ code, message }: DatabaseError, { schemas }: Catalog): string | null {
  const [, type] = (code === "22P02" && /^invalid input value for enum (?:.*\.)?"?(.+?)"?: "/.exec(message)) || [];
  if (type === undefined) return null;
  const labels = [...schemas.values()].flatMap(({ enums }) => enums.get(type) ?? []);
  return labels.length === 0 ? null : `${type} must be one of ${labels.join(", ")}`;
}

const UUID_FOR_NUMBER =
  /^invalid input syntax for type (?:bigint|integer): "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"$/i;

/** Where users have numbers, `user.id` of supabase-js is a uuid that no row has. */
function otherUserId({ code, message }: DatabaseError, { subject }: ProblemContext): string | null {
  const isNumber = typeof subject === "string" && /^\d+$/.test(subject);
  if (code !== "22P02" || !isNumber || !UUID_FOR_NUMBER.test(message)) return null;
  return `If this is user.id of supabase-js: in rows, the id of this user is ${subject}, the claim sub of the access token.`;
}

/**
 * `authenticated may not insert author_id`: the columns of the body that the role may not write, if it may write others. Postgres names
 * only the table. A column that the body does not name is never named.
 */
function deniedColumns(
  { code, message, where }: DatabaseError,
  { plan, role, catalog }: ProblemContext,
): string | null {
  if (code !== "42501" || where !== undefined || role === null) return null;
  if (plan === null || (plan.kind !== "insert" && plan.kind !== "update")) return null;
  const { table, body } = plan;
  if (![`table ${table.name}`, `view ${table.name}`].includes(message.replace("permission denied for ", "")))
    return null;
  const isUpsert = plan.kind === "insert" && plan.conflict?.action === "update";
  for (const privilege of isUpsert ? (["insert", "update"] as const) : [plan.kind]) {
    const denied = body.columns.filter((column) => !mayUseColumn(catalog, role, table, column, privilege));
    const names = denied.map(({ name }) => name).join(", ");
    if (names !== "" && mayUseTable(catalog, role, table, privilege)) return `${role} may not ${privilege} ${names}`;
  }
  return null;
}

/** The details are in the log, under this id. */
export const internalProblem = (requestId: string): TableProblem => ({
  status: INTERNAL,
  code: "PGRSTX00",
  message: "internal error",
  hint: `The service log has the details under request id ${requestId}.`,
});

function statusFor(raised: DatabaseError, isAnonymous: boolean): number {
  const { code = "" } = raised;
  if ((code === "42501" && isAnonymous) || unknownRoleIn(raised) !== null) return 401;
  return statusOf(code);
}

/**
 * Whether the details of Postgres have no value that the caller may not read. "Failing row contains (…)" has all columns. A key is
 * quoted to roles that may read it: in a function, and for a reference that cascades, this may be another role than the caller's.
 */
function isSafe(raised: DatabaseError, { catalog, role: name }: ProblemContext): boolean {
  const { code = "", detail, where, routine, schema = "", table = "", constraint } = raised;
  if (detail === undefined || code === "23502" || code === "23514" || detail.startsWith("Failing row contains"))
    return false;
  if (!code.startsWith("23") || where === undefined || routine === "exec_stmt_raise") return true;
  const role = name === null ? undefined : catalog.roles.get(name);
  const rule = catalog.constraints.get(`${schema}.${table}.${constraint}`);
  const source = referenceFault(raised) === "used" ? rule?.references : { schema, name: table };
  const keyed = source && tableOf(catalog, source);
  const columns = columnsOfError(raised, catalog.constraints);
  return !!role && !!keyed && columns.length > 0 && readsEveryRow(catalog, role, keyed, columns);
}

/**
 * The error for a refused row count or size; null for other errors. To refuse, the statement casts a text such as
 * `content_service.shown=2` to a number, which fails.
 */
function refusedNumber({ code, message }: DatabaseError, plan: Plan): Problem | null {
  if (code !== "22P02") return null;
  const { format, maxAffected, maxBytes } = plan;
  const countOf = (prefix: string) => new RegExp(`"${prefix}(\\d+)"`).exec(message)?.[1];
  if (maxBytes !== null && countOf(REFUSED.bytes)) return writeAnswerTooLarge(maxBytes);
  if (isPut(plan) && countOf(REFUSED.unmatched)) return problem("put mismatch");
  const shown = format.isSingular && countOf(REFUSED.shown);
  const affected = maxAffected !== null && countOf(REFUSED.affected);
  if (shown) return notSingular(Number(shown));
  return affected ? tooManyAffected(Number(affected), plan.kind === "call") : null;
}

/** `raise sqlstate 'PGRST' using message = '{"code":…}', detail = '{"status":…,"headers":{}}'` */
function fromRaise({ message, detail }: DatabaseError): TableProblem {
  const body = raisedObject(message);
  const response = objectOf(detail);
  if (body === null) return tableAnswer(badRaise("Invalid JSON value for MESSAGE"));
  const given = objectOf(response?.headers);
  const headers = given && Object.entries(given).map(writeHeader);
  const { status, status_text: statusText } = response ?? {};
  if (!isStatus(status) || !headers?.every((header) => header !== null))
    return tableAnswer(badRaise("Invalid JSON value for DETAIL"));
  return {
    status,
    code: body.code,
    message: body.message,
    details: body.details,
    ...(typeof body.hint === "string" && { hint: body.hint }),
    ...(typeof statusText === "string" && /^[\x20-\x7e]*$/.test(statusText) && { statusText }),
    headers: Object.fromEntries(headers),
  };
}
