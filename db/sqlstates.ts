import { REASONS, type Reason } from "../problems/reasons.ts";

/** The fields of pg's DatabaseError that matter here. */
export type DatabaseErrorLike = Error & {
  readonly code?: string;
  readonly schema?: string;
  readonly table?: string;
  /** Of a NOT NULL. */
  readonly column?: string;
  readonly constraint?: string;
  readonly detail?: string;
  readonly hint?: string;
  readonly routine?: string;
  /** The functions in which the error occurred; it may quote values. */
  readonly where?: string;
  /** The position in the text of the statement, from 1. */
  readonly position?: string;
};

/** `status` is that of the table interface, where PostgREST has another one. */
type Row = readonly [sqlstate: string, reason: Reason | null, status?: number];

/**
 * SQLSTATE, or its beginning → reason, and the status of PostgREST where it differs; the longest row applies. Without a reason, the
 * error is one of the service or of a function, whose message may contain what clients must not see.
 * Source of the statuses: PostgREST docs, "Errors".
 */
export const SQLSTATES: readonly Row[] = [
  ["28000", "login required"],
  ["CS401", "sign-in too old"],
  ["CS403", "sign-up closed"],
  ["42501", "no permission"],
  ["P0002", "not found"],
  ["42P01", "table gone"],
  ["42703", "field gone", 400],
  ["42804", "field changed", 400],
  ["42883", "function gone"],
  ["3F000", "schema gone", 400],
  ["23505", "taken"],
  ["23503", "broken reference"],
  // Since PostgreSQL 18, `on delete restrict` raises this instead of 23503.
  ["23001", "referred to"],
  ["23P01", "conflict"],
  ["40001", "changed at once"],
  ["40P01", "changed at once"],
  ["55P03", "locked"],
  ["23", "constraint violated"],
  ["22", "invalid value"],
  ["44", "row outside view"],
  ["42704", "unknown object"],
  ["42P17", "broken object"],
  ["428C9", "assigned by the service"],
  ["P0001", "raised"],
  ["PT429", "too often"],
  ["25006", "read-only"],
  ["54", "too complex"],
  ["57014", "too slow"],
  ["53", "database busy"],
  ["57P", "database unavailable"],
  ["08", "database unavailable"],
  ["09", null, 500],
  ["0L", null, 403],
  ["0P", null, 403],
  ["25", null, 500],
  ["26", null, 500],
  ["28", null, 403],
  ["2D", null, 500],
  ["38", null, 500],
  ["39", null, 500],
  ["3B", null, 500],
  ["40", null, 500],
  ["53400", "database busy", 500],
  ["55", null, 500],
  ["57", null, 500],
  ["58", null, 500],
  ["F0", null, 500],
  ["HV", null, 500],
  ["P0", null, 500],
  ["PT", null, 500],
  ["XX", null, 500],
];

/** SQLSTATEs of a table, column, function, schema or other object that does not exist, or of a column with another type. */
export const MISSING: ReadonlySet<string | undefined> = new Set(["42P01", "42703", "42804", "42883", "3F000", "42704"]);

const BY_PREFIX: ReadonlyMap<string, Row> = new Map(SQLSTATES.map((row) => [row[0], row]));

function rowOf(sqlstate: string): Row | null {
  for (let length = sqlstate.length; length > 0; length--) {
    const row = BY_PREFIX.get(sqlstate.slice(0, length));
    if (row) return row;
  }
  return null;
}

/** Null for an error that must not be sent to a client. */
export const reasonOf = (sqlstate: string): Reason | null => rowOf(sqlstate)?.[1] ?? null;

/** As PostgREST responds. What is in no row is 400: another error that the client has caused, or a code that a function invented. */
export function statusOf(sqlstate: string): number {
  const [, reason, status] = rowOf(sqlstate) ?? [sqlstate, "raised"];
  return status ?? REASONS[reason as Reason][0];
}
