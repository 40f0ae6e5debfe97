import type { ChangePlan } from "../plan/plan.ts";
import { invalidRange } from "../problem.ts";

/** `0-19/100`; partial when there are more rows than these. */
export type ContentRange = { readonly header: string; readonly isPartial: boolean };

/** Throws 416 for an offset beyond a total that is known. */
export function readRange(offset: number, rows: number, total: number | null): ContentRange {
  if (total !== null && offset > total)
    throw invalidRange(`An offset of ${offset} was requested, but there are only ${total} rows.`, total);
  return { header: headerOf(offset, rows, total), isPartial: total !== null && rows < total };
}

/** Of a change: the rows are numbered where there were some before, and counted exactly however they were to be counted. */
export const changedRange = ({ kind, preferences }: ChangePlan, affected: number): ContentRange => ({
  header: headerOf(0, kind === "update" ? affected : 0, preferences.count === null ? null : affected),
  isPartial: false,
});

const headerOf = (first: number, rows: number, total: number | null) =>
  `${rows > 0 ? `${first}-${first + rows - 1}` : "*"}/${total ?? "*"}`;
