import type { DatabaseError } from "pg-protocol";
import { Problem } from "../../problems/problem.ts";
import { isTimeout } from "../errors.ts";
import type { LocatedOptions } from "./reader.ts";

/** Why the primary has answered a read that a replica may answer. */
export const REASONS = ["unavailable", "behind", "conflict", "error", "unshared"] as const;
export type FallbackReason = (typeof REASONS)[number];

/** A replica has not replayed what a stream must contain. */
export const BEHIND = new Error("the replica has not replayed what the read must contain");

/**
 * Whether the primary decides about an error. A replica may lack a table, a column, a grant or a value of an enum that the primary has, and
 * may cancel a query that keeps it from replaying.
 */
export function mayRepeat(error: unknown, { signal }: LocatedOptions): boolean {
  if (signal?.aborted) return false;
  if (error === BEHIND) return true;
  if (error instanceof Problem) return isUnavailable(error);
  return (error as DatabaseError).code !== undefined && !isTimeout(error);
}

const isUnavailable = ({ reason }: Problem) => reason === "database unavailable" || reason === "outcome unknown";

export function reasonOf(error: unknown): FallbackReason {
  if (error === BEHIND) return "behind";
  const { code = "", severity } = error as DatabaseError;
  if (code === "40001" || code === "40P01") return "conflict";
  return error instanceof Problem || severity === "FATAL" || /^(08|57P)/.test(code) ? "unavailable" : "error";
}
