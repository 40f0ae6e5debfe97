import type { CallerDependence } from "../../catalog/caller-dependence.ts";
import { type Token, tokensOf } from "../../catalog/sql-tokens.ts";

/** A policy as SQL for many callers at once: `terms` are the SQL of what differs between them. */
export type SharedPolicy = {
  readonly terms: readonly string[];
  /** The policy with a reference in place of each term. */
  write(references: readonly string[]): string;
};

/**
 * Finds what a policy of `table` reads of the caller, so that one query can decide it for many callers:
 *
 *   "(EXISTS ( SELECT FROM public.members m WHERE ((m.team = items.team) AND (m.user_id = auth.uid()))))"
 *   // terms: ["auth.uid()"], write(["c.id"]): "(EXISTS ( SELECT … AND (m.user_id = c.id))))"
 * Null if the rest of the policy may depend on the caller too, for example because it reads a table whose policies do.
 */
export function sharePolicy(sql: string, table: string, dependence: CallerDependence): SharedPolicy | null {
  const tokens = tokensOf(sql);
  if (tokens === null) return null;
  const calls = findCalls(tokens, dependence);
  const textOf = ({ from, to }: Range) => sql.slice(tokens[from]!.start, tokens[to - 1]!.end);
  const terms = [...new Set(calls.map(textOf))];
  const rest = tokens.filter(
    (_, at) => !calls.some(({ from, to }) => at >= from && at < to) && !isAlias(tokens, at, table),
  );
  if (dependence.mayRead(rest.map(({ text }) => text).join(" "))) return null;
  return {
    terms,
    write(references) {
      let text = "";
      let end = 0;
      for (const call of calls) {
        text += sql.slice(end, tokens[call.from]!.start) + references[terms.indexOf(textOf(call))];
        end = tokens[call.to - 1]!.end;
      }
      return text + sql.slice(end);
    },
  };
}

/** Whether the token names the row that the policy is about. A table that the policy reads has its schema before it. */
const isAlias = (tokens: readonly Token[], at: number, table: string) =>
  isName(tokens[at]) && tokens[at]!.text === table && tokens[at - 1]?.text !== ".";

const isName = (token: Token | undefined) => token?.kind === "word" || token?.kind === "name";

/** Tokens from `from`, before `to`. */
type Range = { readonly from: number; readonly to: number };

function findCalls(tokens: readonly Token[], dependence: CallerDependence): Range[] {
  const found: Range[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const to = endOfCall(tokens, at);
    if (to < 0 || !dependence.isDetermined(tokens.slice(at, to))) continue;
    found.push(withSelect(tokens, { from: at, to }));
    at = to - 1;
  }
  return found;
}

/** The end of `auth.uid()` or `current_setting('request.jwt.claims'::text, true)`, if it begins here; otherwise -1. */
function endOfCall(tokens: readonly Token[], start: number): number {
  if (!isName(tokens[start]) || tokens[start - 1]?.text === ".") return -1;
  let at = start + 1;
  while (tokens[at]?.text === "." && isName(tokens[at + 1])) at += 2;
  if (tokens[at]?.kind !== "symbol" || tokens[at]!.text !== "(") return -1;
  if (tokens[at + 1]?.text === ")") return at + 2;
  if (tokens[start]!.text !== "current_setting" || at > start + 1) return -1;
  const end = tokens.findIndex(({ kind, text }, i) => i > at && kind === "symbol" && text === ")");
  // The name of the setting is not constant.
  return tokens.slice(at + 1, end).some(({ text }) => text === "(") ? -1 : end + 1;
}

/** Extends a call to `( SELECT auth.uid() AS uid)`. */
function withSelect(tokens: readonly Token[], { from, to }: Range): Range {
  const around = [tokens[from - 2], tokens[from - 1], tokens[to], tokens[to + 2]].map((token) => token?.text);
  return around.join(" ") === "( select as )" ? { from: from - 2, to: to + 3 } : { from, to };
}
