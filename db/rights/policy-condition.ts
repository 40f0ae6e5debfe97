import type { CallerDependence } from "../catalog/caller-dependence.ts";
import type { Column } from "../catalog/catalog.ts";
import { filterOf, negated } from "../filters/condition.ts";
import type { Operand, RowCondition } from "../filters/evaluate.ts";
import { type Family, isKeyword, OPERATORS, type Operator } from "../filters/operators.ts";
import { indexOutside, isOperator, isWord, splitAt, type Token, tokensOf, withoutBrackets } from "../sql-tokens.ts";
import { familyOf, isComparable, isElement, type Kind, kindAfterCast, kindOfColumn, kindOfType } from "./family.ts";

export type PolicyContext = {
  readonly columns: ReadonlyMap<string, Column>;
  readonly dependence: CallerDependence;
};

/** The terms of a policy that may be decided in process, as SQL expressions; null for another policy. */
export function termsOf(sql: string, context: PolicyContext): readonly string[] | null {
  const reader = new PolicyReader(sql, context, null);
  return reader.read() === null ? null : reader.terms;
}

/**
 * Reads the text of a policy, as Postgres writes it. `types` are the types of its terms as SQL text, which decide whether its
 * comparisons can be made in process. Null if they cannot.
 *
 *   "((author_id = ( SELECT auth.uid() AS uid)) OR (status = 'PUBLISHED'::public.post_status))"
 */
export const readPolicy = (sql: string, types: readonly string[], context: PolicyContext): RowCondition | null =>
  new PolicyReader(sql, context, types).read();

/** The operators that may be decided in process, by their text in SQL. */
const COMPARISONS: ReadonlyMap<string, Operator> = new Map(
  (Object.keys(OPERATORS) as Operator[]).flatMap((name) =>
    OPERATORS[name].compare ? [[OPERATORS[name].sql, name]] : [],
  ),
);

type Typed = { readonly operand: Operand; readonly kind: Kind | null };

/** Postgres puts every condition in brackets, so that precedence does not matter. */
class PolicyReader {
  readonly terms: string[] = [];
  readonly #sql: string;
  readonly #tokens: readonly Token[];
  readonly #context: PolicyContext;
  readonly #types: readonly string[] | null;
  /** Enums of the table's columns. */
  readonly #enums: ReadonlySet<string>;

  constructor(sql: string, context: PolicyContext, types: readonly string[] | null) {
    this.#sql = sql;
    this.#tokens = tokensOf(sql) ?? [];
    this.#context = context;
    this.#types = types;
    const kinds = [...context.columns.values()].filter(({ shape }) => shape.category === "enum").map(kindOfColumn);
    this.#enums = new Set(kinds.flatMap((kind) => kind?.name ?? []));
  }

  read(): RowCondition | null {
    return this.#tokens.length === 0 ? null : this.#condition(this.#tokens);
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
    const { shape } = this.#context.columns.get(operand.name)!;
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
    if (tokens.length !== 1 || (token!.kind !== "word" && token!.kind !== "name")) return null;
    // Without quotes these are values.
    if (token!.kind === "word" && /^(true|false|null)$/.test(token!.text)) return null;
    return this.#context.columns.get(token!.text) ?? null;
  }

  #term(tokens: readonly Token[]): Typed | null {
    if (tokens.length === 0 || !this.#context.dependence.isDetermined(tokens, this.#enums)) return null;
    const index = this.terms.push(this.#textOf(tokens)) - 1;
    const type = this.#types?.[index];
    return { operand: { kind: "term", index }, kind: type === undefined ? null : kindOfType(type, this.#enums) };
  }

  #textOf(tokens: readonly Token[]): string {
    return this.#sql.slice(tokens[0]?.start, tokens.at(-1)?.end);
  }
}
