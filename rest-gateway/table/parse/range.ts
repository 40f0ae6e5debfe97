import type { IncomingHttpHeaders } from "node:http";
import { invalidRange } from "../problem.ts";
import type { Range } from "../request.ts";
import { MAX_DIGITS } from "./row-count.ts";

const RANGE = /^(?:items *= *)?([0-9]+)-([0-9]*)$/;
const FARTHEST = 10 ** MAX_DIGITS - 1;

/**
 * `Range: 0-9`, `Range: items=10-`. What can't be read, or counts in another unit, is ignored, as HTTP wants it; rows
 * farther than any table has count as the farthest.
 */
export function parseRange(headers: IncomingHttpHeaders): Range | null {
  const found = headers.range === undefined ? null : RANGE.exec(headers.range);
  if (found === null || !countsItems(headers["range-unit"])) return null;
  const first = rowOf(found[1]!);
  const last = found[2] === "" ? null : rowOf(found[2]!);
  if (last !== null && last < first)
    throw invalidRange("The lower boundary must be lower than or equal to the upper boundary in the Range header.");
  return { first, last };
}

const countsItems = (unit: unknown) => unit === undefined || String(unit).toLowerCase() === "items";
const rowOf = (digits: string) => Math.min(Number(digits), FARTHEST);
