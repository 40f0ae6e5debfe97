import type { Image } from "../changes/change.ts";
import type { Filter } from "../filters/condition.ts";
import {
  type Comparand,
  columnsIn,
  compile,
  type Decide,
  type Operand,
  type RowCondition,
  type Term,
  type Truth,
  termsIn,
} from "../filters/evaluate.ts";
import { elementsOf } from "../wire/array-text.ts";

/** How to find the lists of terms that may fulfil a condition for a row, without looking at all of them. */
type Plan = {
  /** Candidates are the lists with a term that is equal to the value of the row. */
  readonly equal: readonly Equality[];
  /** Candidates are also the lists that fulfil one of these conditions, which read no column. */
  readonly ofTerms: readonly RowCondition[];
  /** If the row fulfils one of these conditions, which have no terms, all lists are candidates. */
  readonly ofRow: readonly RowCondition[];
};

/** `column = term`, where either may be an array that contains the other. */
type Equality = { readonly column: string; readonly term: number; readonly isArrayColumn: boolean };

const NONE: Plan = { equal: [], ofTerms: [], ofRow: [] };

/** Null if every list must be checked. */
function planOf(condition: RowCondition): Plan | null {
  if (termsIn(condition).size === 0) return { ...NONE, ofRow: [condition] };
  if (columnsIn(condition).size === 0) return { ...NONE, ofTerms: [condition] };
  if (condition.isNegated || condition.kind === "value") return null;
  if (condition.kind === "filter") return planEquality(condition);
  const plans = condition.conditions.map(planOf);
  return condition.operator === "and" ? mostSelective(plans) : together(plans);
}

function planEquality({ operator, field, value }: Filter<Operand, Comparand | null>): Plan | null {
  if ((operator !== "eq" && operator !== "in") || value!.family === null) return null;
  const [column, term] = field.kind === "column" ? [field, value!] : [value!, field];
  if (column.kind !== "column" || term.kind !== "term") return null;
  const isArrayColumn = operator === "in" && column === value;
  return { ...NONE, equal: [{ column: column.name, term: term.index, isArrayColumn }] };
}

/** All of these conditions must hold: the one that probably finds the fewest lists. */
function mostSelective(plans: readonly (Plan | null)[]): Plan | null {
  const cost = ({ equal, ofTerms, ofRow }: Plan) => equal.length + 10 * ofTerms.length + 100 * ofRow.length;
  return plans.filter((plan) => plan !== null).sort((a, b) => cost(a) - cost(b))[0] ?? null;
}

function together(plans: readonly (Plan | null)[]): Plan | null {
  if (plans.includes(null)) return null;
  const all = plans as readonly Plan[];
  return {
    equal: all.flatMap(({ equal }) => equal),
    ofTerms: all.flatMap(({ ofTerms }) => ofTerms),
    ofRow: all.flatMap(({ ofRow }) => ofRow),
  };
}

/** Most values belong to one item: a set of it would take five times the memory. */
class Items<Item> extends Set<Item> {}

/**
 * Items, each with its list of terms. For a row, finds the items whose terms make the condition true.
 *
 * Measured, beside the item: 210 bytes for a term such as a uuid, and 100 bytes for each value of a term that is an array. The terms of
 * filters are counted (`watchBytes`), because clients send them. Those of policies are known only after the subscription was admitted,
 * and are not counted: single ones are part of its estimate of at least 8 kB, as are the 530 bytes in `CallerGroups`. Arrays come from
 * the caller's claims, never from tables, so the issuer of the token limits them.
 */
export class Lookup<Item> {
  readonly #condition: RowCondition | null;
  readonly #plan: Plan | null;
  readonly #items = new Map<Item, readonly Term[]>();
  /** For each equality of the plan, the items by value. */
  readonly #byValue: readonly Map<string, Item | Items<Item>>[];
  /** The items whose terms fulfil a condition of the plan for every row. */
  readonly #always = new Set<Item>();
  readonly #ofTerms: readonly Decide[];
  #compiled: Compiled | null = null;

  /** A null condition holds for every row. */
  constructor(condition: RowCondition | null) {
    this.#condition = condition;
    this.#plan = condition && planOf(condition);
    this.#byValue = this.#plan?.equal.map(() => new Map()) ?? [];
    this.#ofTerms = this.#plan?.ofTerms.map((each) => compile(each, [])) ?? [];
  }

  get size(): number {
    return this.#items.size;
  }

  add(item: Item, terms: readonly Term[]): void {
    this.#items.set(item, terms);
    if (this.#ofTerms.some((decide) => mayHold(decide([], terms)))) this.#always.add(item);
    this.#eachKey(terms, (items, key) => {
      const known = items.get(key);
      if (known === undefined) items.set(key, item);
      else if (known instanceof Items) known.add(item);
      else if (known !== item) items.set(key, new Items([known, item]));
    });
  }

  delete(item: Item): void {
    const terms = this.#items.get(item);
    if (terms === undefined) return;
    this.#items.delete(item);
    this.#always.delete(item);
    this.#eachKey(terms, (items, key) => {
      const known = items.get(key);
      if (known === item) items.delete(key);
      else if (known instanceof Items && known.delete(item) && known.size === 0) items.delete(key);
    });
  }

  /** Calls back with the items whose condition holds for the row; `isCertain` is false if only Postgres can decide that. */
  find(columns: readonly string[], row: Image, found: (item: Item, isCertain: boolean) => void): void {
    if (this.#condition === null) {
      for (const item of this.#items.keys()) found(item, true);
      return;
    }
    if (this.#compiled?.columns !== columns) this.#compiled = this.#compile(columns);
    const { decide } = this.#compiled;
    for (const item of this.#candidates(this.#compiled, row)) {
      const truth = decide(row, this.#items.get(item)!);
      if (mayHold(truth)) found(item, truth === true);
    }
  }

  #candidates({ ofRow, positions }: Compiled, row: Image): Iterable<Item> {
    if (this.#plan === null || ofRow.some((decide) => mayHold(decide(row, [])))) return this.#items.keys();
    const sets = this.#plan.equal.flatMap(({ isArrayColumn }, i) => {
      const value = row[positions[i]!];
      if (value == null) return [];
      const keys = isArrayColumn ? elementsOf(value) : [value];
      return keys.flatMap((key) => (key === null ? [] : this.#itemsOf(i, key)));
    });
    if (this.#always.size > 0) sets.push(this.#always);
    return sets.length < 2 ? (sets[0] ?? []) : new Set(sets.flatMap((items) => [...items]));
  }

  /** No set, or one. */
  #itemsOf(equality: number, key: string): readonly ReadonlySet<Item>[] {
    const found = this.#byValue[equality]!.get(key);
    if (found === undefined) return [];
    return [found instanceof Items ? found : new Set([found])];
  }

  #compile(columns: readonly string[]): Compiled {
    return {
      columns,
      decide: compile(this.#condition!, columns),
      ofRow: this.#plan?.ofRow.map((condition) => compile(condition, columns)) ?? [],
      positions: this.#plan?.equal.map(({ column }) => columns.indexOf(column)) ?? [],
    };
  }

  #eachKey(terms: readonly Term[], callback: (items: Map<string, Item | Items<Item>>, key: string) => void): void {
    for (const [i, { term }] of this.#plan?.equal.entries() ?? []) {
      const keys = new Set([terms[term]!].flat());
      for (const key of keys) if (key !== null) callback(this.#byValue[i]!, key);
    }
  }
}

/** A condition, compiled for the columns of a row. */
type Compiled = {
  readonly columns: readonly string[];
  readonly decide: Decide;
  readonly ofRow: readonly Decide[];
  readonly positions: readonly number[];
};

/** Undefined: only Postgres can decide it. */
const mayHold = (truth: Truth) => truth === true || truth === undefined;
