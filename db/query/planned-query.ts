import type { Written } from "../sql.ts";
import type { Result } from "../transaction/transaction.ts";
import type { Plan } from "./plan.ts";

/** The SQL of a plan. The main statement returns one row, with the finished body, in the columns of `RESULT`. */
export type Query = {
  readonly main: Written;
  /** A second statement, for a planned or estimated count; null without one. */
  readonly estimate: Written | null;
  /** The statements that stream the result instead of `main`; null for results that are not streamed. */
  readonly stream: StreamQuery | null;
  /** Whether Postgres keeps it from writing: functions that are stable or immutable cannot write. */
  readonly isRead: boolean;
  /** Whether its transaction is read-only, and the size of its result limited. */
  readonly isReadOnly: boolean;
};

export type StreamQuery = {
  /** Returns each row as text. */
  readonly rows: Written;
  /** Returns what `main` returns, without the body. */
  readonly head: Written;
  /** The text before the first row. */
  readonly start: string;
};

/**
 * The columns of the row that the main statement returns, in order. All are json, text or bytea: their binary format is the
 * content itself.
 */
export const RESULT = {
  ...{ body: 0, rows: 1, total: 2, headers: 3, status: 4 },
  /** Of a change. */
  ...{ location: 5, updated: 6 },
  /** Of a read, or of a call of a function that is not volatile: pg_current_snapshot(). */
  snapshot: 5,
} as const;

/** The session setting that counts the rows that an upsert updated. */
export const UPDATED_SETTING = "content_service.updated";

/**
 * Prefixes of a row count or size that the request does not allow. The statement casts the text to a number, which raises
 * 22P02 and rolls it back.
 */
export const REFUSED = {
  unmatched: "content_service.unmatched=",
  shown: "content_service.shown=",
  affected: "content_service.affected=",
  bytes: "content_service.bytes=",
} as const;

/** A plan and its SQL, without the values of a request, and the transaction that it runs in. */
export type PlannedQuery = {
  readonly plan: Plan;
  readonly query: Query;
  readonly isolation: "repeatable read" | "serializable" | null;
  /** Whether the transaction is rolled back at the end. */
  readonly isRolledBack: boolean;
};

/** The results of the main statement and of the estimate. */
export type QueryResult = { readonly main: Result; readonly estimate: Result | null };
