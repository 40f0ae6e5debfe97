import { allOf } from "../../../db/filters/condition.ts";
import type { PatternLimits } from "../../../db/filters/patterns.ts";
import { FilterError, type FilterRequest, filterRequestOf } from "../../../db/rights/filter.ts";
import { Problem } from "../../../problems/problem.ts";
import { parseQuery } from "../../../rest-gateway/table/parse/query-string.ts";

/** Levels of `and` and `or`. */
const MAX_DEPTH = 10;

/**
 * Parses the conditions of the URL of a stream; null for none. Throws FilterError.
 *
 *   parseStreamFilter("status=eq.DRAFT&or=(id.gt.5,title.is.null)", limits)
 */
export function parseStreamFilter(text: string, limits: PatternLimits): FilterRequest | null {
  try {
    const all = { ...limits, jsonMaxDepth: 1, restMaxEmbedDepth: 1, restMaxConditionDepth: MAX_DEPTH };
    const { query, values } = parseQuery(text.trim().replace(/^\?/, ""), { hasArguments: false, limits: all });
    const wanted = allOf(query.parts.get("")?.conditions ?? []);
    return wanted && filterRequestOf(wanted, values);
  } catch (error) {
    if (error instanceof Problem) throw new FilterError([error.message, error.more.details].filter(Boolean).join(": "));
    throw error;
  }
}
