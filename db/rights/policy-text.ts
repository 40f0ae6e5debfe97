import type { CallerDependence } from "../catalog/caller-dependence.ts";
import type { Column, Table } from "../catalog/catalog.ts";
import { filterOf, negated } from "../filters/condition.ts";
import type { Operand, RowCondition } from "../filters/evaluate.ts";
import { type Family, isKeyword, OPERATORS, type Operator } from "../filters/operators.ts";
import { indexOutside, isOperator, isWord, splitAt, type Token, tokensOf, withoutBrackets } from "../sql-tokens.ts";
import { familyOf, isComparable, isElement, type Kind, kindAfterCast, kindOfColumn, kindOfType } from "./family.ts";
import type { SharedCondition } from "./shared-check.ts";

/** A policy as SQL for many callers at once. `terms` are the SQL of what differs between them. */
type SharedPolicy = Pick<SharedCondition, "write"> & { readonly terms: readonly string[] };

/** `tokens` are null if only Postgres can read the text. */
type Source = {
  readonly sql: string;
  readonly tokens: readonly Token[] | null;
  readonly table: Table;
  readonly dependence: CallerDependence;
};

/** The text of a policy for reading a table, as Postgres writes it: every condition is in brackets, so that precedence does not matter. */
export class PolicyText {
  readonly #source: Source;

  constructor(sql: string, table: Table, dependence: CallerDependence) {
    this.#source = { sql, tokens: tokensOf(sql), table, dependence };
  }

  /** The columns that it may read. Too many if a name in it is not that of a column. */
  get columns(): ReadonlySet<string> {
    const { tokens, table } = this.#source;
    const all = new Set(table.columns.keys());
    if (tokens === null || tokens.some((_, at) => isRow(tokens, at, table) && isWhole(tokens, at))) return all;
    return all.intersection(new Set(tokens.filter(isName).map(({ text }) => text)));
  }

  /** The SQL of its terms, if it may be decided in process; null for another policy. */
  get terms(): readonly string[] | null {
    const reader = new ConditionReader(this.#source, null);
    return reader.read() === null ? null : reader.terms;
  }

  /**
   * The condition in process. `types` are the types of the terms as SQL text, which decide whether its comparisons can be made in
   * process. Null if they cannot.
   *
   *   "((author_id = ( SELECT auth.uid() AS uid)) OR (status = 'PUBLISHED'::public.post_status))"
   */
  condition(types: readonly string[]): RowCondition | null {
    return new ConditionReader(this.#source, types).read();
  }

  /**
   * Finds what the policy reads of the caller, so that one query can decide it for many callers:
   *
   *   "(EXISTS ( SELECT FROM public.members m WHERE ((m.team = items.team) AND (m.user_id = auth.uid()))))"
   *   // terms: ["auth.uid()"], write(["c.id"]): "(EXISTS ( SELECT … AND (m.user_id = c.id))))"
   * Null if the rest of the policy may depend on the caller too, for example because it reads a table whose policies do.
   */
  share(): SharedPolicy | null {
    const { sql, tokens, table, dependence } = this.#source;
    if (tokens === null) return null;
    const calls = findCalls(tokens, dependence);
    const textOf = ({ from, to }: Range) => sql.slice(tokens[from]!.start, tokens[to - 1]!.end);
    const terms = [...new Set(calls.map(textOf))];
    const rest = tokens.filter(
      (_, at) => !calls.some(({ from, to }) => at >= from && at < to) && !isRow(tokens, at, table),
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
}

const isName = (token: Token | undefined) => token?.kind === "word" || token?.kind === "name";

/** Whether the token names the row that the policy is about. A table that the policy reads has its schema before it. */
const isRow = (tokens: readonly Token[], at: number, { name }: Table) =>
  isName(tokens[at]) && tokens[at]!.text === name && tokens[at - 1]?.text !== ".";

/** `items.*` or `items`, and not `items.id`. */
const isWhole = (tokens: readonly Token[], at: number) => tokens[at + 1]?.text !== "." || tokens[at + 2]?.text === "*";

/** The operators that may be decided in process, by their text in SQL. */
const COMPARISONS: ReadonlyMap<string, Operator> = new Map(
  (Object.keys(OPERATORS) as Operator[]).flatMap((name) =>
    OPERATORS[name].compare ? [[OPERATORS[name].sql, name]] : [],
  ),
);

type Typed = { readonly operand: Operand; readonly kind: Kind | null };

/** Reads the condition that may be decided in process. */
class ConditionReader {
  readonly terms: string[] = [];
  readonly #source: Source;
  /** Null before they are known. */
  readonly #types: readonly string[] | null;
  /** Enums of the table's columns. */
  readonly #enums: ReadonlySet<string>;

  constructor(source: Source, types: readonly string[] | null) {
    this.#source = source;
    this.#types = types;
    const enums = [...source.table.columns.values()].filter(({ shape }) => shape.category === "enum");
    this.#enums = new Set(enums.flatMap((column) => kindOfColumn(column)?.name ?? []));
  }

  read(): RowCondition | null {
    const { tokens } = this.#source;
    return tokens === null ? null : this.#condition(tokens);
  }

  #condition(given: readonly Token[]): RowCondition | null {
    const tokens = withoutBrackets(given);
    for (const kind of ["and", "or"] as const) {
      const parts = splitAt(tokens, kind);
      if (parts.length > 1) return this.#logic(kind, parts);
    }
    if (isWord(tokens[0], "not")) {
      const condition = this.#condition(tokens.slice(1));
      return condition && negated(condition);
    }
    const is = indexOutside(tokens, (token) => isWord(token, "is"));
    if (is > 0) return this.#is(tokens.slice(0, is), tokens.slice(is + 1));
    const operator = indexOutside(tokens, isOperator);
    if (operator > 0)
      return this.#comparison(tokens.slice(0, operator), tokens[operator]!.text, tokens.slice(operator + 1));
    const value = this.#operand(tokens);
    if (value === null || !this.#isBoolean(value)) return null;
    return { kind: "value", isNegated: false, operand: value.operand };
  }

  #logic(operator: "and" | "or", parts: readonly (readonly Token[])[]): RowCondition | null {
    const conditions = parts.map((part) => this.#condition(part));
    return conditions.includes(null)
      ? null
      : { kind: "logic", operator, isNegated: false, conditions: conditions as RowCondition[] };
  }

  /** `x is not null`, `x is true`, `x is distinct from y` */
  #is(left: readonly Token[], right: readonly Token[]): RowCondition | null {
    if (isWord(right[0], "distinct") && isWord(right[1], "from"))
      return this.#compare("isdistinct", this.#operand(left), this.#operand(right.slice(2)));
    const isNegated = isWord(right[0], "not");
    const tests = right.slice(isNegated ? 1 : 0);
    const [keyword, value] = [tests.length === 1 ? tests[0]!.text : "", this.#operand(left)];
    if (!isKeyword(keyword) || value === null) return null;
    if (keyword === "true" || keyword === "false" ? !this.#isBoolean(value) : !this.#isPlain(value)) return null;
    return { ...filterOf(value.operand, "is", null), isNegated, keyword };
  }

  #comparison(left: readonly Token[], operator: string, right: readonly Token[]): RowCondition | null {
    const quantifier = right[0]?.kind === "word" && right[1]?.text === "(" ? right[0].text : "";
    if (quantifier === "any" && operator === "=") return this.#any(left, right.slice(1));
    if (quantifier === "all" && operator === "<>") {
      const condition = this.#any(left, right.slice(1));
      return condition && negated(condition);
    }
    const known = COMPARISONS.get(operator);
    return known === undefined ? null : this.#compare(known, this.#operand(left), this.#operand(right));
  }

  #compare(operator: Operator, left: Typed | null, right: Typed | null): RowCondition | null {
    if (left === null || right === null) return null;
    const family = this.#familyOf(operator, left.kind, right.kind);
    return family && filterOf(left.operand, operator, { ...right.operand, family });
  }

  /** How two operands are compared; null if only Postgres can. Before the types of the terms are known, any will do. */
  #familyOf(operator: Operator, left: Kind | null, right: Kind | null): Family | null {
    if (this.#types === null) return "text";
    if (!isComparable(left, right)) return null;
    const family = familyOf(left!);
    return OPERATORS[operator].compare?.[family] ? family : null;
  }

  #any(value: readonly Token[], array: readonly Token[]): RowCondition | null {
    const [left, right] = [this.#operand(value), this.#operand(array)];
    if (left === null || right === null) return null;
    if (this.#types !== null && !isElement(left.kind, right.kind)) return null;
    return filterOf(left.operand, "in", { ...right.operand, family: "text" });
  }

  #isBoolean({ kind }: Typed): boolean {
    return kind === null ? this.#types === null : kind.name === "boolean" && !kind.isArray;
  }

  /** A row is null if all its columns are. */
  #isPlain({ operand, kind }: Typed): boolean {
    if (operand.kind === "term") return this.#types === null || kind !== null;
    const { shape } = this.#source.table.columns.get(operand.name)!;
    return shape.isArray || shape.category !== "composite";
  }

  /** A column, perhaps with a cast, or a term. */
  #operand(given: readonly Token[]): Typed | null {
    const tokens = withoutBrackets(given);
    const column = this.#column(tokens);
    if (column !== null) return { operand: { kind: "column", name: column.name }, kind: kindOfColumn(column) };
    const cast = indexOutside(tokens, ({ text, kind }) => kind === "symbol" && text === "::");
    const inner = cast > 0 ? this.#column(withoutBrackets(tokens.slice(0, cast))) : null;
    if (inner !== null) {
      const type = this.#textOf(tokens.slice(cast + 1));
      return { operand: { kind: "column", name: inner.name }, kind: kindAfterCast(inner, type) };
    }
    return this.#term(tokens);
  }

  #column(tokens: readonly Token[]): Column | null {
    const [token] = tokens;
    if (tokens.length !== 1 || !isName(token)) return null;
    // Without quotes these are values.
    if (token!.kind === "word" && /^(true|false|null)$/.test(token!.text)) return null;
    return this.#source.table.columns.get(token!.text) ?? null;
  }

  #term(tokens: readonly Token[]): Typed | null {
    if (tokens.length === 0 || !this.#source.dependence.isDetermined(tokens, this.#enums)) return null;
    const index = this.terms.push(this.#textOf(tokens)) - 1;
    const type = this.#types?.[index];
    return { operand: { kind: "term", index }, kind: type === undefined ? null : kindOfType(type, this.#enums) };
  }

  #textOf(tokens: readonly Token[]): string {
    return this.#source.sql.slice(tokens[0]?.start, tokens.at(-1)?.end);
  }
}

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
