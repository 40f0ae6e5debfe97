import { parserCache } from "../../../cache/cache.ts";
import { similarTo } from "../../../db/catalog/similar.ts";
import type { Condition, Logic } from "../../../db/filters/condition.ts";
import { type Field, readName, readPath } from "../../../db/filters/field.ts";
import {
  beginsLikeFilter,
  type Comparison,
  filterOf,
  parseComparison,
  parseLogic,
  tryComparison,
} from "../../../db/filters/parse.ts";
import { ConditionCounter } from "../../../db/filters/patterns.ts";
import { Scanner } from "../../../db/filters/scanner.ts";
import { Problem } from "../../../problems/problem.ts";
import { invalidRange, notFilter } from "../problem.ts";
import { type OrderTerm, type ParseLimits, type QueryPart, type QueryString, RESERVED_NAMES } from "../request.ts";
import { parseOrder } from "./order.ts";
import { EVERYTHING, parseSelect, refuseManyColumns } from "./select.ts";
import { eachPair } from "./url-encoded.ts";

export type QueryOptions = {
  /** Whether parameters that are not filters are arguments of a function. */
  readonly hasArguments: boolean;
  readonly limits: ParseLimits;
};

/** The filters and arguments in `query` refer to `values` by index. */
export type ReadQuery = { readonly query: QueryString; readonly values: readonly string[] };

/** The parsed name of a parameter. `path` is the path of an embedded relation, `"author.posts"`, or `""`. */
type Parameter =
  | { readonly kind: "select" | "columns" | "on_conflict" }
  | { readonly kind: "order" | "limit" | "offset"; readonly path: string }
  | {
      readonly kind: "logic";
      readonly path: string;
      readonly operator: Logic<Field>["operator"];
      readonly isNegated: boolean;
    }
  | { readonly kind: "filter"; readonly path: string; readonly field: Field };

type FilterParameter = Extract<Parameter, { kind: "filter" }>;
type Writable<Type> = { -readonly [K in keyof Type]: Type[K] };
type OpenPart = Writable<Omit<QueryPart, "conditions">> & { readonly conditions: Condition<Field>[] };

const NO_ORDER: readonly OrderTerm[] = [];

/**
 * Parses the query string of a table URL: `select=id,author(name)&author.order=name&id=in.(1,2)`. If a parameter is
 * repeated, the first select, order, columns and on_conflict apply, and the last limit and offset; conditions are combined.
 * Parameters without `=` are ignored.
 */
export function parseQuery(search: string, options: QueryOptions): ReadQuery {
  const reader = new QueryReader(options);
  eachPair("query string", search, (name, value) => {
    if (value !== null) reader.read(name, value);
  });
  return reader.end();
}

class QueryReader {
  readonly #options: QueryOptions;
  readonly #parts = new Map<string, OpenPart>();
  readonly #arguments = new Map<string, number[]>();
  readonly #values: string[] = [];
  /** Null until there is a condition. */
  #counter: ConditionCounter | null = null;
  #select: QueryString["select"] | null = null;
  #columns: QueryString["columns"] = null;
  #onConflict: QueryString["onConflict"] = null;

  constructor(options: QueryOptions) {
    this.#options = options;
    this.#partAt("");
  }

  end(): ReadQuery {
    const query = {
      select: this.#select ?? EVERYTHING,
      parts: this.#parts,
      columns: this.#columns,
      onConflict: this.#onConflict,
      arguments: this.#arguments,
    };
    return { query, values: this.#values };
  }

  read(name: string, value: string): void {
    const parameter = this.#options.hasArguments ? tryParameter(name) : parseParameter(name);
    if (parameter === null || parameter.kind === "filter") this.#filterOrArgument(name, parameter, value);
    else this.#reserved(parameter, value);
  }

  #reserved(parameter: Exclude<Parameter, FilterParameter>, value: string): void {
    switch (parameter.kind) {
      case "select":
        this.#select ??= parseSelect(value, this.#options.limits.restMaxEmbedDepth);
        break;
      case "columns":
        this.#columns ??= parseNames("columns", value);
        break;
      case "on_conflict":
        this.#onConflict ??= parseNames("on_conflict", value);
        break;
      case "order":
        this.#order(this.#partAt(parameter.path), value);
        break;
      case "limit":
      case "offset":
        this.#partAt(parameter.path)[parameter.kind] = parseRowCount(parameter.kind, value);
        break;
      case "logic":
        this.#logic(parameter, value);
    }
  }

  #order(part: OpenPart, text: string): void {
    if (part.order === NO_ORDER) part.order = parseOrder(text);
  }

  #logic({ path, operator, isNegated }: Extract<Parameter, { kind: "logic" }>, text: string): void {
    const options = { maxDepth: this.#options.limits.restMaxConditionDepth, addValue: this.#addOperand };
    this.#partAt(path).conditions.push(parseLogic(operator, isNegated, text, options));
  }

  #filterOrArgument(name: string, parameter: FilterParameter | null, value: string): void {
    const comparison = this.#options.hasArguments ? tryComparison(value) : filterNamed(name, value);
    if (comparison === null) this.#argument(parameter ? argumentOf(parameter, name) : name, value);
    else this.#filter((parameter ?? parseParameter(name)) as FilterParameter, comparison);
  }

  #filter({ path, field }: FilterParameter, comparison: Comparison): void {
    this.#partAt(path).conditions.push(filterOf(field, comparison, this.#addOperand(comparison)));
  }

  #argument(name: string, value: string): void {
    const index = this.#values.push(value) - 1;
    const indexes = this.#arguments.get(name);
    if (indexes) indexes.push(index);
    else this.#arguments.set(name, [index]);
  }

  readonly #addOperand = (comparison: Comparison): number => {
    this.#counter ??= new ConditionCounter(this.#options.limits);
    this.#counter.count(comparison);
    return this.#values.push(comparison.text) - 1;
  };

  #partAt(path: string): OpenPart {
    const known = this.#parts.get(path);
    if (known) return known;
    const part = { conditions: [], order: NO_ORDER, limit: null, offset: 0 };
    this.#parts.set(path, part);
    return part;
  }
}

/** A quoted name is never a reserved word. */
type NamePart = { readonly text: string; readonly isQuoted: boolean };

const cache = parserCache<Parameter>();

/**
 * Parses the name of a parameter. The last dot before an arrow separates the path of the relation from the field:
 *
 *   parseParameter("author.data->>name")  // filters author by data->>name
 *   parseParameter("author.not.or")       // a negated condition on author
 *   parseParameter('"limit"')             // filters by the column limit
 */
const parseParameter = (text: string): Parameter => cache.getOrCompute(text, readParameter);

function readParameter(text: string): Parameter {
  const scanner = new Scanner("parameter name", text);
  const names: NamePart[] = [];
  do {
    scanner.skipSpace();
    names.push({ isQuoted: scanner.sees('"'), text: readName(scanner) });
  } while (scanner.takes("."));
  const path = readPath(scanner);
  scanner.expectEnd('".", "->", "->>" or the end');
  const last = names.pop()!;
  const reserved = last.isQuoted || path.length > 0 ? null : reservedParameter(last.text, names);
  return reserved ?? { kind: "filter", path: join(names), field: { name: last.text, path } };
}

function reservedParameter(word: string, path: readonly NamePart[]): Parameter | null {
  switch (word) {
    case "select":
    case "columns":
    case "on_conflict":
      return path.length === 0 ? { kind: word } : null;
    case "order":
    case "limit":
    case "offset":
      return { kind: word, path: join(path) };
    case "and":
    case "or":
      return logicParameter(word, path);
    default:
      return null;
  }
}

function logicParameter(operator: Logic<Field>["operator"], names: readonly NamePart[]): Parameter {
  const path = names.filter(({ text, isQuoted }) => isQuoted || text !== "not");
  return { kind: "logic", path: join(path), operator, isNegated: path.length < names.length };
}

const join = (path: readonly NamePart[]) => path.map(({ text }) => text).join(".");

/** Null for a malformed name: it is then the name of an argument, which may contain any character. */
function tryParameter(name: string): Parameter | null {
  try {
    return parseParameter(name);
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

const argumentOf = ({ path, field }: FilterParameter, name: string) =>
  path === "" && field.path.length === 0 ? field.name : name;

/** Row numbers have at most this many digits, so that JavaScript adds them exactly. */
export const MAX_DIGITS = 15;

/** Parses the value of `limit=` or `offset=`. A negative offset is 0. */
function parseRowCount(parameter: "limit" | "offset", text: string): number {
  const scanner = new Scanner(parameter, text);
  const isNegative = scanner.takes("-");
  const digits = scanner.takeWhile(isDigit);
  if (digits === "" || !scanner.isAtEnd) throw scanner.error("a digit");
  if (digits.length > MAX_DIGITS) {
    scanner.at = 0;
    throw scanner.error(`a number of at most ${MAX_DIGITS} digits`);
  }
  const count = Number(digits);
  if (!isNegative || count === 0) return count;
  if (parameter === "limit") throw invalidRange("Limit should be greater than or equal to zero.");
  return 0;
}

const isDigit = (code: number) => code >= 0x30 && code <= 0x39;

/** Throws PGRST100, with a hint for `limt=3` and for `status=PUBLISHED`. */
function filterNamed(name: string, text: string): Comparison {
  try {
    return parseComparison(text);
  } catch (error) {
    if (!(error instanceof Problem) || beginsLikeFilter(text)) throw error;
    throw notFilter(name, text, similarTo(name, RESERVED_NAMES), error);
  }
}

/** Parses the value of `columns=` or `on_conflict=`: `id,"first name"`. */
function parseNames(parameter: "columns" | "on_conflict", text: string): string[] {
  const scanner = new Scanner(`${parameter} parameter`, text);
  const names = new Set<string>();
  let count = 0;
  do {
    refuseManyColumns(parameter, ++count);
    scanner.skipSpace();
    names.add(readName(scanner));
    scanner.skipSpace();
  } while (scanner.takes(","));
  scanner.expectEnd('"," or the end');
  return [...names];
}
