import type { Result } from "../../db/transaction.ts";
import { RESULT as TABLE_RESULT } from "../table/query.ts";
import type { ResourceRequest } from "./request.ts";

/** The columns of the one row that a statement returns: those of the tables, and then those of a record. */
export const RESULT = { ...TABLE_RESULT, reason: 5, id: 6, version: 7, modified: 8 } as const;

/**
 * Why nothing was read or written: there is no such record or parent, a precondition does not hold, or a policy keeps the
 * record from changes.
 */
export type Reason = "missing" | "stale" | "forbidden";

/** Null when the request was served. */
export function reasonOf(result: Result, { operation }: ResourceRequest): Reason | null {
  const [row] = result.rows;
  if (!row) return "missing";
  // Only the parent can keep a record from being inserted without an error.
  if (operation.kind === "create") return textAt(row, RESULT.rows) === "0" ? "missing" : null;
  return textAt(row, RESULT.reason) as Reason | null;
}

/** The result that answers the request. */
export function mainResult(results: readonly Result[], request: ResourceRequest): Result {
  const last = results.at(-1)!;
  if (request.operation.kind !== "act") return last;
  const acted = results[0]!;
  // The function may leave a row that the caller does not see any more.
  return reasonOf(acted, request) === null && last.rows.length > 0 ? last : acted;
}

type Row = Result["rows"][number];

export const textAt = (row: Row | undefined, column: number): string | null => row?.[column]?.toString() ?? null;
