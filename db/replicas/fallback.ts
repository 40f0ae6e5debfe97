import type { DatabaseError } from "pg-protocol";
import { isTimeout } from "../errors.ts";
import { Problem } from "../problems/problem.ts";
import type { RunOptions } from "../transaction/transaction.ts";

/** Why the primary has answered a read that a replica may answer. */
export const REASONS = ["unavailable", "behind", "conflict", "error"] as const;
export type FallbackReason = (typeof REASONS)[number];

/**
 * Whether the primary decides about an error. A replica may lack a table, a column, a grant or a value of an enum that the primary has, and
 * may cancel a query that keeps it from replaying.
 */
export function mayRepeat(error: unknown, { signal }: RunOptions): boolean {
  if (signal?.aborted) return false;
  if (error instanceof Problem) return isUnavailable(error);
  return (error as DatabaseError).code !== undefined && !isTimeout(error);
}

const isUnavailable = ({ reason }: Problem) => reason === "database unavailable" || reason === "outcome unknown";

export function reasonOf(error: unknown): FallbackReason {
  const { code = "", severity } = error as DatabaseError;
  if (code === "40001" || code === "40P01") return "conflict";
  return error instanceof Problem || severity === "FATAL" || /^(08|57P)/.test(code) ? "unavailable" : "error";
}
