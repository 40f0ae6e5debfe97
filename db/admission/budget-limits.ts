import { getHeapStatistics } from "node:v8";
import type { Config } from "../../config/config.ts";
import type { DatabaseLimits } from "../limits.ts";

/** Maximum bytes; 0 means no limit. */
export type BudgetLimits = { readonly total: number; readonly perAddress: number };

export type BudgetSettings = Pick<Config, "clientMemory"> & Pick<DatabaseLimits, "clientMemoryPerAddress">;

const MEBIBYTE = 1_048_576;
/** Of the heap: the least part that the total takes of a small heap, and that of a large one. */
const SMALL_HEAP = 1 / 4;
const LARGE_HEAP = 1 / 16;
/** Until the share of a large heap exceeds it. */
const SMALL_TOTAL = 64 * MEBIBYTE;

/** By default the total is a sixteenth of the heap that V8 has, up to 64 MiB a quarter. One network may hold a quarter of the total. */
export function budgetLimits(
  { clientMemory, clientMemoryPerAddress }: BudgetSettings,
  heap = getHeapStatistics().heap_size_limit,
): BudgetLimits {
  const share = Math.max(heap * LARGE_HEAP, Math.min(heap * SMALL_HEAP, SMALL_TOTAL));
  const total = clientMemory === "" ? Math.floor(share) : clientMemory;
  return { total, perAddress: clientMemoryPerAddress ?? Math.floor(total / 4) };
}
