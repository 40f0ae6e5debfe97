import { COMMAND } from "../../config/command.ts";
import { type Finding, type Level, sentenceOf } from "../../db/findings/finding.ts";

/** Fewer findings of a rule with the same reason are written one by one. */
const MIN_GROUP = 4;
const NAMED = 3;

/** Findings for people: those of a rule with the same reason are one, `375 objects: table public.a, …`, with the SQL of all. */
export function grouped(findings: readonly Finding[]): readonly (Finding & { readonly count: number })[] {
  const groups = Map.groupBy(findings, ({ level, rule, reason }) => `${level} ${rule} ${reason}`);
  return [...groups.values()].flatMap((same) => {
    if (same.length < MIN_GROUP) return same.map((finding) => ({ ...finding, count: 1 }));
    const named = same.slice(0, NAMED).map(({ object }) => object);
    const object = `${same.length} objects: ${named.join(", ")} and ${same.length - NAMED} more`;
    const fixes = same.flatMap(({ fix }) => (fix === null ? [] : [fix]));
    return [{ ...same[0]!, object, fix: fixes.length === 0 ? null : fixes.join("\n"), count: same.length }];
  });
}

/** One sentence for each of these, for a report that has the SQL only of single findings. */
export const inBrief = (findings: readonly Finding[]): readonly { readonly level: Level; readonly text: string }[] =>
  grouped(findings).map(({ count, ...one }) => ({
    level: one.level,
    text: count === 1 ? sentenceOf(one) : `${one.object}: ${one.reason}; ${COMMAND} advise has the SQL`,
  }));
