import { type Column, quoteName, type Table } from "../catalog/catalog.ts";
import { ConditionCounter, PatternError, type PatternLimits } from "../patterns.ts";
import { quoteIdentifier } from "../sql.ts";
import { elementsOf, writeArray } from "../wire/array-text.ts";
import { CheckError, type Checker } from "./checker.ts";
import type { Condition, Family, Operator, Term } from "./condition.ts";
import { familyOf, kindOfColumn } from "./family.ts";
import type { SharedCondition } from "./shared-check.ts";

/** What a subscriber requires of the columns of a row. Values are text, as in a URL. */
export type FilterRequest =
  | { readonly kind: "and" | "or"; readonly conditions: readonly FilterRequest[] }
  | { readonly kind: "not"; readonly condition: FilterRequest }
  /** Null is a value for "is distinct from" only. */
  | { readonly kind: "compare"; readonly column: string; readonly operator: Operator; readonly value: string | null }
  | { readonly kind: "in"; readonly column: string; readonly values: readonly string[] }
  | { readonly kind: "is"; readonly column: string; readonly test: "null" | "true" | "false" };

/** A filter whose names and values are valid for its table. Filters that differ only in their values have equal shapes. */
export type Filter = {
  readonly condition: Condition;
  readonly terms: readonly Term[];
  /** The types of the terms as SQL text. */
  readonly types: readonly string[];
  /** The columns that it reads, with their types. */
  readonly columns: ReadonlyMap<string, string>;
  readonly shape: string;
};

/** A filter that cannot be applied. The message is for the developer of the client. */
export class FilterError extends Error {}

/** The operators in SQL. */
const SQL: Readonly<Record<Operator, string>> = {
  ...{ "=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "is distinct from": "is distinct from" },
  ...{ like: "~~", ilike: "~~*", match: "~", imatch: "~*" },
};
const REGULAR: ReadonlySet<Operator> = new Set<Operator>(["match", "imatch"]);
const PATTERNS: ReadonlySet<Operator> = new Set<Operator>([...REGULAR, "like", "ilike"]);

/**
 * Checks the names and values of a filter, and converts the values to the text that Postgres writes for them. Returns a promise only
 * if Postgres must read a value. Throws, or rejects with, FilterError.
 */
export function prepareFilter(
  request: FilterRequest,
  table: Table,
  role: string,
  { checker, limits }: { readonly checker: Checker; readonly limits: PatternLimits },
): Filter | Promise<Filter> {
  const reader = new FilterReader(table, limits);
  const condition = reader.read(request);
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
  readonly operator: string;
};

class FilterReader {
  readonly terms: Term[] = [];
  readonly types: string[] = [];
  readonly columns = new Map<string, string>();
  readonly questions: Question[] = [];
  readonly #table: Table;
  readonly #counter: ConditionCounter;

  constructor(table: Table, limits: PatternLimits) {
    this.#table = table;
    this.#counter = new ConditionCounter(limits);
  }

  read(request: FilterRequest): Condition {
    switch (request.kind) {
      case "and":
      case "or":
        return { kind: request.kind, conditions: request.conditions.map((each) => this.read(each)) };
      case "not":
        return { kind: "not", condition: this.read(request.condition) };
    }
    this.#count(request);
    if (request.kind === "is") return this.#is(request);
    if (request.kind === "in") return this.#in(request);
    return PATTERNS.has(request.operator) ? this.#pattern(request) : this.#compare(request);
  }

  #count(request: Extract<FilterRequest, { column: string }>): void {
    const isPattern = request.kind === "compare" && PATTERNS.has(request.operator);
    try {
      this.#counter.count(isPattern ? [request.value ?? ""] : [], isPattern && REGULAR.has(request.operator));
    } catch (error) {
      throw error instanceof PatternError ? new FilterError(error.message) : error;
    }
  }

  #is({ column: name, test }: Extract<FilterRequest, { kind: "is" }>): Condition {
    const column = this.#column(name);
    const { shape } = column;
    if (test === "null" && shape.category === "composite" && !shape.isArray)
      throw new FilterError(`${name} is a composite value: filters cannot compare it`);
    if (test !== "null" && kindOfColumn(column)?.name !== "boolean")
      throw new FilterError(`is.${test} requires a boolean column, and ${name} has the type ${column.type}`);
    return { kind: "is", operand: { kind: "column", name }, test };
  }

  #in({ column: name, values }: Extract<FilterRequest, { kind: "in" }>): Condition {
    const column = this.#column(name);
    const texts = values.map((value) => textOf(value, column));
    const type = typeOf(column);
    const term = this.#add(texts as readonly string[], `${type}[]`);
    if (texts.includes(undefined)) {
      const sql = (parameter: string) => `(${parameter}::${type}[])::pg_catalog.text`;
      this.questions.push({
        term,
        isArray: true,
        value: writeArray(values),
        sql,
        operator: operatorOf(type, "=", type),
      });
    }
    return {
      kind: "any",
      left: { kind: "column", name },
      right: { kind: "term", index: term },
      family: familyOfColumn(column),
    };
  }

  #compare({ column: name, operator, value }: Extract<FilterRequest, { kind: "compare" }>): Condition {
    const column = this.#column(name);
    const text = value === null ? null : textOf(value, column);
    const type = typeOf(column);
    const term = this.#add(text ?? value, type);
    if (value !== null && text === undefined) {
      // Postgres writes a boolean as t or f, but casts it to true or false.
      const sql = (parameter: string) =>
        type === BOOLEAN
          ? `case when ${parameter}::${type} then 't' else 'f' end`
          : `(${parameter}::${type})::pg_catalog.text`;
      this.questions.push({ term, isArray: false, value, sql, operator: operatorOf(type, operator, type) });
    }
    const [left, right] = [{ kind: "column", name } as const, { kind: "term", index: term } as const];
    return { kind: "compare", operator, left, right, family: familyOfColumn(column) };
  }

  /** The pattern is compiled for the empty text, which fails if it is not valid. */
  #pattern({ column: name, operator, value }: Extract<FilterRequest, { kind: "compare" }>): Condition {
    const type = typeOf(this.#column(name));
    const term = this.#add(value, "pg_catalog.text");
    const sql = (parameter: string) =>
      `case when '' ${SQL[operator]} ${parameter}::pg_catalog.text is null then '' end`;
    const own = operatorOf(type, operator, "pg_catalog.text");
    this.questions.push({ term, isArray: false, value: value ?? "", sql, operator: own });
    return {
      kind: "compare",
      operator,
      left: { kind: "column", name },
      right: { kind: "term", index: term },
      family: null,
    };
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
}

const BOOLEAN = quoteName({ schema: "pg_catalog", name: "bool" });

/** The type of a column without domain and modifiers, as for a literal that is compared with it. */
const typeOf = ({ shape }: Column): string => `${quoteName(shape)}${shape.isArray ? "[]" : ""}`;

const operatorOf = (left: string, operator: Operator, right: string) =>
  `(null::${left} ${SQL[operator]} null::${right})`;

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
  const operators = questions.map(({ operator }) => operator);
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
export const sharedFilter = ({ condition, types }: Pick<Filter, "condition" | "types">): SharedCondition => ({
  types,
  write: (references) => writeCondition(condition, references),
});

/** A condition as SQL; columns are those of the row. */
function writeCondition(condition: Condition, references: readonly string[]): string {
  const write = (operand: Extract<Condition, { left: unknown }>["left"]): string =>
    operand.kind === "term" ? references[operand.index]! : quoteIdentifier(operand.name);
  switch (condition.kind) {
    case "and":
    case "or":
      return `(${condition.conditions.map((each) => writeCondition(each, references)).join(` ${condition.kind} `)})`;
    case "not":
      return `(not ${writeCondition(condition.condition, references)})`;
    case "value":
      return write(condition.operand);
    case "is":
      return `(${write(condition.operand)} is ${condition.test})`;
    case "any":
      return `(${write(condition.left)} = any (${write(condition.right)}))`;
    case "compare":
      return `(${write(condition.left)} ${SQL[condition.operator]} ${write(condition.right)})`;
  }
}
