import type { Caller } from "../caller.ts";
import type { CallerDependence } from "../catalog/caller-dependence.ts";
import type { Catalog, Table } from "../catalog/catalog.ts";
import type { RowCondition, Term } from "../filters/evaluate.ts";
import { type Token, tokensOf } from "../sql-tokens.ts";
import { elementsOf } from "../wire/array-text.ts";
import type { RawRow } from "../wire/connection.ts";
import { CheckError, type Checker, type Inquiry } from "./checker.ts";
import { type CallersToCheck, PolicyCheck, type RowVisibility } from "./policy-check.ts";
import { type PolicyContext, readPolicy, termsOf } from "./policy-condition.ts";
import type { Row } from "./row-source.ts";
import { SharedCheck, type Terms } from "./shared-check.ts";

/**
 * How a policy is decided for one caller. "in process": by its condition and these terms, without a query. "shared query": by one
 * query for all callers; callers with equal terms see the same rows. "own query": by a query for each caller.
 */
export type PolicyDecision =
  | { readonly kind: "in process"; readonly terms: readonly Term[] }
  | { readonly kind: "shared query"; readonly terms: Terms }
  | { readonly kind: "own query" };

const OWN_QUERY: PolicyDecision = { kind: "own query" };

type PolicyOptions = {
  /** The condition of the policies for reading, as Postgres writes it. */
  readonly sql: string;
  readonly table: Table;
  readonly role: string;
  readonly catalog: Catalog;
  readonly checker: Checker;
};

/** The policies for reading a table, for one role. */
export class Policy {
  /** The condition for decisions "in process"; null if there are none. */
  condition: RowCondition | null = null;
  readonly #options: PolicyOptions;
  readonly #check: PolicyCheck;
  #ready: Promise<void> | null = null;
  #kind: PolicyDecision["kind"] = "own query";
  /** SQL of the terms of a decision, and whether each is an array. */
  #terms: readonly string[] = [];
  #arrays: readonly boolean[] = [];
  readonly #decisions = new WeakMap<Caller, PolicyDecision>();
  /** A cache, because `check` is usually called with the same list of callers. */
  readonly #toCheck = new WeakMap<readonly Caller[], CallersToCheck>();

  constructor(options: PolicyOptions) {
    this.#options = options;
    this.#check = new PolicyCheck(options);
  }

  /** The columns that it may read. A row without one of them is not seen. */
  get columns(): ReadonlySet<string> {
    return this.#check.columns;
  }

  /**
   * Prepares the decision for these callers. A caller for whom a term raises an error gets their own query; a shared inquiry leaves
   * such callers without a decision. Rejects with CheckError if none is prepared in time.
   */
  async prepare(callers: readonly Caller[], inquiry: Inquiry): Promise<void> {
    this.#ready ??= this.#classify().catch((error) => {
      // Postgres cannot read the policy without a row. Its own query has the same error, for each caller.
      if (!(error instanceof CheckError)) throw error;
    });
    await inquiry.wait(this.#ready);
    const unknown = callers.filter((caller) => !this.#decisions.has(caller));
    if (unknown.length === 0) return;
    const statement = { text: `select ${this.#terms.map((term) => `(${term})`).join(", ")}`, values: [] };
    const outcomes = this.#terms.length === 0 ? [] : await this.#options.checker.each(unknown, statement, inquiry);
    for (const [i, caller] of unknown.entries()) {
      const outcome = outcomes[i] ?? [[]];
      if (!(outcome instanceof CheckError)) this.#decisions.set(caller, this.#decisionOf(outcome[0]!));
      else if (!inquiry.isShared) this.#decisions.set(caller, OWN_QUERY);
    }
  }

  /** Undefined before `prepare`. */
  decisionFor(caller: Caller): PolicyDecision | undefined {
    return this.#decisions.get(caller);
  }

  /**
   * Which of these callers see each of the rows, by queries. Of callers with equal terms, only one is checked. Rows without a column
   * that the policy reads are not seen.
   */
  check(callers: readonly Caller[], rows: readonly Row[], inquiry: Inquiry): Promise<RowVisibility[]> {
    const toCheck = this.#toCheck.get(callers) ?? this.#callersToCheck(callers);
    this.#toCheck.set(callers, toCheck);
    return this.#check.run(toCheck, rows, inquiry);
  }

  #callersToCheck(callers: readonly Caller[]): CallersToCheck {
    const own = callers.filter((caller) => this.decisionFor(caller)!.kind === "own query");
    const shared = callers.map((caller) => [caller, this.decisionFor(caller)!] as const).filter(isShared);
    return { own, shared: shared.map(([caller]) => caller), terms: shared.map(([, { terms }]) => terms) };
  }

  async #classify(): Promise<void> {
    const { sql, table, role, catalog, checker } = this.#options;
    if (checker.decidesAlone) return;
    const context: PolicyContext = { columns: table.columns, dependence: catalog.dependence };
    const terms = termsOf(sql, context);
    if (terms !== null) {
      const types = await this.#typesOf(terms);
      this.condition = readPolicy(sql, types, context);
      if (this.condition !== null) return this.#use("in process", terms, types);
    }
    const shared = sharePolicy(sql, table.name, catalog.dependence);
    if (shared === null) return;
    const types = await this.#typesOf(shared.terms);
    this.#check.shared = new SharedCheck({ ...shared, types }, table, role, checker);
    this.#use("shared query", shared.terms, types);
  }

  #use(kind: PolicyDecision["kind"], terms: readonly string[], types: readonly string[]): void {
    this.#kind = kind;
    this.#terms = terms;
    this.#arrays = types.map((type) => type.endsWith("[]"));
  }

  /**
   * The types of expressions as SQL text, without a maximum length. They are not evaluated, and an empty search path makes the names
   * complete.
   */
  async #typesOf(terms: readonly string[]): Promise<readonly string[]> {
    if (terms.length === 0) return [];
    const types = terms.map(
      (term) => `pg_catalog.format_type(pg_catalog.pg_typeof(case when false then (${term}) end), -1)`,
    );
    const { checker, role } = this.#options;
    const path = { text: "select pg_catalog.set_config('search_path', '', true)", values: [] };
    const [row] = await checker.once(role, [path, { text: `select ${types.join(", ")}`, values: [] }]);
    return row!.map(String);
  }

  #decisionOf(row: RawRow): PolicyDecision {
    const texts = row.map((field) => (field === null ? null : field.toString()));
    if (this.#kind === "own query") return OWN_QUERY;
    if (this.#kind === "shared query") return { kind: "shared query", terms: texts };
    return {
      kind: "in process",
      terms: texts.map((text, i) => (this.#arrays[i] && text !== null ? elementsOf(text) : text)),
    };
  }
}

const isShared = (
  each: readonly [Caller, PolicyDecision],
): each is [Caller, Extract<PolicyDecision, { kind: "shared query" }>] => each[1].kind === "shared query";

/** A policy as SQL for many callers at once: `terms` are the SQL of what differs between them. */
type SharedPolicy = {
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
function sharePolicy(sql: string, table: string, dependence: CallerDependence): SharedPolicy | null {
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
