import { Problem } from "../../problems/problem.ts";
import { type Column, quoteName, type Table } from "../catalog/catalog.ts";
import { type Condition, type Filter, mapFilters } from "../filters/condition.ts";
import type { Operand, RowCondition, Term } from "../filters/evaluate.ts";
import type { Field } from "../filters/field.ts";
import { type Family, type IsKeyword, isOfChanges, OPERATORS, type Operator } from "../filters/operators.ts";
import { ConditionCounter, type PatternLimits } from "../filters/patterns.ts";
import { writeCondition, writeFilter } from "../filters/write.ts";
import { finish, type Sql, sql } from "../sql.ts";
import { elementsOf } from "../wire/array-text.ts";
import { CheckError, type Checker } from "./checker.ts";
import { familyOf, kindOfColumn } from "./family.ts";
import type { SharedCondition } from "./shared-check.ts";

/** What a subscriber requires of the columns of a row. Values are text, as in a URL; null is a value for `isdistinct` only. */
export type FilterRequest = Condition<string, string | null>;
type Request = Filter<string, string | null>;

/** A condition of a request as a filter on changes. Throws FilterError. */
export const filterRequestOf = (condition: Condition<Field>, values: readonly (string | null)[]): FilterRequest =>
  mapFilters(condition, (filter) => {
    const { name, path } = filter.field;
    if (path.length > 0) throw new FilterError(`${name}: changes cannot be filtered by parts of JSON`);
    return { ...filter, field: name, value: values[filter.value]! };
  });

/** A filter whose names and values are valid for its table. Filters that differ only in their values have equal shapes. */
export type PreparedFilter = {
  readonly condition: RowCondition;
  readonly terms: readonly Term[];
  /** The types of the terms as SQL text. */
  readonly types: readonly string[];
  /** The columns that it reads, with their types. */
  readonly columns: ReadonlyMap<string, string>;
  readonly shape: string;
};

/** Maximum values in the lists of one filter: each takes time when the filter begins, and memory until it ends. */
export const MAX_FILTER_VALUES = 1000;

/** A filter that cannot be applied. The message is for the developer of the client. */
export class FilterError extends Error {}

/** `values` are those of the lists that have been read. Throws FilterError. */
export function refuseLongLists(values: number): void {
  if (values > MAX_FILTER_VALUES)
    throw new FilterError(`the lists of a filter on changes can have at most ${MAX_FILTER_VALUES} values`);
}

/**
 * Checks the names and values of a filter, and converts the values to the text that Postgres writes for them. Returns a promise only
 * if Postgres must read a value. Throws, or rejects with, FilterError.
 */
export function prepareFilter(
  request: FilterRequest,
  table: Table,
  role: string,
  { checker, limits }: { readonly checker: Checker; readonly limits: PatternLimits },
): PreparedFilter | Promise<PreparedFilter> {
  const reader = new FilterReader(table, limits);
  const condition = mapFilters(request, (filter) => reader.read(filter));
  const { terms, types, columns, questions } = reader;
  const filter = { condition, terms, types, columns, shape: JSON.stringify(condition) };
  if (questions.length === 0) return filter;
  return answer(questions, role, checker).then((answers) => {
    for (const [i, { term, isArray }] of questions.entries()) {
      const text = answers[i]!;
      if (text !== null) terms[term] = isArray ? elementsOf(text) : text;
    }
    return filter;
  });
}

/** What Postgres is asked about the value of a term. */
type Question = {
  readonly term: number;
  readonly isArray: boolean;
  readonly value: string;
  /** An expression of the parameter that returns its text, or null if it remains as it is. */
  readonly sql: (parameter: string) => string;
  /** An expression that fails if the type has no such operator. */
  readonly operator: (parameter: string) => string;
};

class FilterReader {
  readonly terms: Term[] = [];
  readonly types: string[] = [];
  readonly columns = new Map<string, string>();
  readonly questions: Question[] = [];
  readonly #table: Table;
  readonly #counter: ConditionCounter;
  /** Those of lists. */
  #values = 0;

  constructor(table: Table, limits: PatternLimits) {
    this.#table = table;
    this.#counter = new ConditionCounter(limits);
  }

  read(filter: Request): RowCondition {
    const { field: name, operator, quantifier, keyword, value } = filter;
    if (!isOfChanges(operator) || quantifier !== null) throw notOfChanges(filter);
    const { pattern, syntax } = OPERATORS[operator];
    this.#count({ operator, quantifier, text: value ?? "", listed: 0 });
    const column = this.#column(name);
    const field = { kind: "column", name } as const;
    if (keyword !== null) return { ...filter, field, keyword: testOf(keyword, column), value: null };
    if (pattern !== undefined) {
      const index = this.#pattern(operator, value!, column);
      return { ...filter, field, value: { kind: "term", index, family: null } };
    }
    const index = syntax === "list" ? this.#list(operator, value!, column) : this.#value(operator, value, column);
    return { ...filter, field, value: { kind: "term", index, family: familyOfColumn(column) } };
  }

  #count(condition: Parameters<ConditionCounter["count"]>[0]): void {
    try {
      this.#counter.count(condition);
    } catch (error) {
      throw error instanceof Problem ? new FilterError(error.message) : error;
    }
  }

  #list(operator: Operator, array: string, column: Column): number {
    const type = typeOf(column);
    const values = elementsOf(array) as readonly string[];
    this.#values += values.length;
    refuseLongLists(this.#values);
    const texts = values.map((value) => textOf(value, column));
    const term = this.#add(texts as readonly string[], `${type}[]`);
    const write = (parameter: string) => `(${parameter}::${type}[])::pg_catalog.text`;
    const { sql } = OPERATORS[operator];
    const compare = (parameter: string) => `(null::${type} ${sql} any (${parameter}::${type}[]))`;
    if (texts.includes(undefined)) this.#ask(term, array, write, compare, true);
    return term;
  }

  #value(operator: Operator, value: string | null, column: Column): number {
    const type = typeOf(column);
    const text = value === null ? null : textOf(value, column);
    const term = this.#add(text ?? value, type);
    // Postgres writes a boolean as t or f, but casts it to true or false.
    const write = (parameter: string) =>
      type === BOOLEAN
        ? `case when ${parameter}::${type} then 't' else 'f' end`
        : `(${parameter}::${type})::pg_catalog.text`;
    // With the value: that an array, a row or a range has an operator does not say that what is in it has one.
    const compare = (parameter: string) => `(${parameter}::${type} ${OPERATORS[operator].sql} ${parameter}::${type})`;
    if (text === undefined) this.#ask(term, value!, write, compare);
    return term;
  }

  /** The pattern is compiled for the empty text, which fails if it is not valid. */
  #pattern(operator: Operator, pattern: string, column: Column): number {
    const term = this.#add(pattern, TEXT);
    const write = (parameter: string) =>
      `case when '' ${OPERATORS[operator].sql} ${parameter}::${TEXT} is null then '' end`;
    this.#ask(term, pattern, write, () => operatorOf(typeOf(column), operator, TEXT));
    return term;
  }

  #column(name: string): Column {
    const column = this.#table.columns.get(name);
    if (!column) throw new FilterError(`${this.#table.schema}.${this.#table.name} has no column "${name}"`);
    this.columns.set(name, column.type);
    return column;
  }

  #add(term: Term, type: string): number {
    this.types.push(type);
    return this.terms.push(term) - 1;
  }

  #ask(term: number, value: string, sql: Question["sql"], operator: Question["operator"], isArray = false): void {
    this.questions.push({ term, value, sql, operator, isArray });
  }
}

function notOfChanges({ field, operator, quantifier }: Request): FilterError {
  const name = quantifier === null ? operator : `${operator}(${quantifier})`;
  return new FilterError(`${field}: changes cannot be filtered with ${name}: use ${NAMES.join(", ")}`);
}

const NAMES = (Object.keys(OPERATORS) as Operator[]).filter(isOfChanges);

/** Checks that changes can be tested. Only Postgres knows whether all parts of a composite value are null. */
function testOf(keyword: IsKeyword, column: Column): IsKeyword {
  const { name, type, shape } = column;
  const isBoolean = keyword === "true" || keyword === "false";
  if (isBoolean && kindOfColumn(column)?.name !== "boolean")
    throw new FilterError(`is.${keyword} requires a boolean column, and ${name} has the type ${type}`);
  if (!isBoolean && shape.category === "composite" && !shape.isArray)
    throw new FilterError(`${name} is a composite value: filters cannot compare it`);
  return keyword === "unknown" ? "null" : keyword;
}

const TEXT = "pg_catalog.text";
const BOOLEAN = quoteName({ schema: "pg_catalog", name: "bool" });

/** The type of a column without domain and modifiers, as for a literal that is compared with it. An array of a domain stays one. */
const typeOf = ({ type, shape }: Column): string => {
  const isOfElement = shape.isArray && shape.domain === null && !type.includes("(");
  return isOfElement ? type : `${quoteName(shape)}${shape.isArray ? "[]" : ""}`;
};

const operatorOf = (left: string, operator: Operator, right: string) =>
  `(null::${left} ${OPERATORS[operator].sql} null::${right})`;

function familyOfColumn(column: Column): Family | null {
  const kind = kindOfColumn(column);
  return kind === null || kind.isArray ? null : familyOf(kind);
}

/** By type: the texts that are certainly those that Postgres writes for a value. */
const CANONICAL: Readonly<Record<string, RegExp>> = {
  // Without the longest numbers, which may exceed the range of the type.
  int2: /^(0|-?[1-9]\d{0,3})$/,
  int4: /^(0|-?[1-9]\d{0,8})$/,
  int8: /^(0|-?[1-9]\d{0,17})$/,
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  text: /^/,
  varchar: /^/,
};
const BOOLEANS: Readonly<Record<string, string>> = { true: "t", false: "f" };

/** The text that Postgres writes for a value; undefined if it must be asked. */
function textOf(value: string, column: Column): string | undefined {
  const { shape } = column;
  if (kindOfColumn(column) === null || shape.isArray) return undefined;
  if (shape.category === "enum") return shape.labels.includes(value) ? value : undefined;
  if (shape.name === "bool") return Object.hasOwn(BOOLEANS, value) ? BOOLEANS[value] : undefined;
  return CANONICAL[shape.name]?.test(value) ? value : undefined;
}

/** The text of each value, as Postgres writes it. Rejects with FilterError. */
async function answer(questions: readonly Question[], role: string, checker: Checker): Promise<(string | null)[]> {
  const texts = questions.map(({ sql }, i) => sql(`$${i + 1}`));
  const operators = questions.map(({ operator }, i) => operator(`$${i + 1}`));
  try {
    const [row] = await checker.once(role, [
      {
        text: `select ${[...texts, ...operators].join(", ")}`,
        values: questions.map(({ value }) => value),
      },
    ]);
    return row!.slice(0, questions.length).map((field) => (field === null ? null : field.toString()));
  } catch (error) {
    throw error instanceof CheckError ? new FilterError(error.message) : error;
  }
}

/** The filter as SQL, for rows of its table. */
export const sharedFilter = ({ condition, types }: Pick<PreparedFilter, "condition" | "types">): SharedCondition => ({
  types,
  write(references) {
    const write = (operand: Operand): Sql =>
      operand.kind === "term" ? sql.trusted(references[operand.index]!) : sql.identifier(operand.name);
    const written = writeCondition(condition, (each) =>
      each.kind === "value"
        ? write(each.operand)
        : writeFilter(each, write(each.field), each.value === null ? sql.empty : write(each.value)),
    );
    return finish(written).text;
  },
});
