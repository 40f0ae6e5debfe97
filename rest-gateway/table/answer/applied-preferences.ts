import { isChange } from "../plan/plan.ts";
import type { Prepared } from "../prepare.ts";

const applied = new WeakMap<Prepared, string>();

/** The header Preference-Applied: what was asked for and had an effect; "" for nothing. */
export function appliedPreferences(prepared: Prepared): string {
  let text = applied.get(prepared);
  if (text === undefined) {
    text = describe(prepared);
    applied.set(prepared, text);
  }
  return text;
}

function describe({ plan, isEndChosen }: Prepared): string {
  const { resolution, missing, return: answered, count, tx, handling, timezone, maxAffected } = plan.preferences;
  const pairs: [string, string | number | null][] = [
    ["resolution", plan.kind === "insert" && !plan.key && plan.conflict ? resolution : null],
    ["missing", plan.kind === "insert" || plan.kind === "update" ? missing : null],
    ["return", isChange(plan) ? answered : null],
    ["count", count],
    ["tx", isEndChosen ? tx : null],
    ["handling", handling],
    ["timezone", timezone],
    ["max-affected", plan.maxAffected === null ? null : maxAffected],
  ];
  return pairs
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}
