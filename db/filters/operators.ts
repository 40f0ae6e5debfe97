/** What follows an operator in a URL: `eq(any).{1,2}`, `cs.{a}`, `fts(english).cat`, `in.(1,2)`, `is.null`. */
type Syntax = "quantified" | "plain" | "language" | "list" | "keyword";

/**
 * How the texts of values decide comparisons. "text": equal values have equal texts, whatever the settings of the session.
 * "integer": besides, they are ordered as numbers.
 */
export type Family = "text" | "integer";

/** Compares the texts of two values that are not null. */
type Compare = (left: string, right: string) => boolean;

type OperatorDefinition = {
  readonly syntax: Syntax;
  /** The operator of Postgres, or the function that parses the query of a text search. */
  readonly sql: string;
  /** For the API reference. */
  readonly about: string;
  /** What its value is, if it is not a value of the column. The limits on patterns apply to it. */
  readonly pattern?: "wildcards" | "regular" | "search";
  /** How this process compares the values of changes, by family of their types. Postgres compares all others. */
  readonly compare?: Readonly<Partial<Record<Family, Compare>>>;
  /** Null is a value for it, and equals null. */
  readonly comparesNull?: true;
};

const byText = (compare: Compare) => ({ text: compare, integer: compare });
const SAME = byText((left, right) => left === right);
const OTHER = byText((left, right) => left !== right);
const byNumber = (compare: (left: bigint, right: bigint) => boolean) => ({
  integer: (left: string, right: string) => compare(BigInt(left), BigInt(right)),
});

/** The operators with which rows and changes can be filtered, by their name in URLs: `?title=ilike.*sql*`. */
const OF_CHANGES = {
  eq: { syntax: "quantified", sql: "=", compare: SAME, about: "equal to" },
  neq: { syntax: "plain", sql: "<>", compare: OTHER, about: "not equal to" },
  gt: { syntax: "quantified", sql: ">", compare: byNumber((a, b) => a > b), about: "greater than" },
  gte: { syntax: "quantified", sql: ">=", compare: byNumber((a, b) => a >= b), about: "greater than or equal to" },
  lt: { syntax: "quantified", sql: "<", compare: byNumber((a, b) => a < b), about: "less than" },
  lte: { syntax: "quantified", sql: "<=", compare: byNumber((a, b) => a <= b), about: "less than or equal to" },
  like: {
    ...{ syntax: "quantified", sql: "like", pattern: "wildcards" },
    about: "like a pattern, in which `*` matches any characters",
  },
  ilike: { syntax: "quantified", sql: "ilike", pattern: "wildcards", about: "like a pattern, ignoring case" },
  match: { syntax: "quantified", sql: "~", pattern: "regular", about: "matching a regular expression" },
  imatch: {
    syntax: "quantified",
    sql: "~*",
    pattern: "regular",
    about: "matching a regular expression, ignoring case",
  },
  in: { syntax: "list", sql: "=", about: "one of a list: `in.(1,2,3)`" },
  is: { syntax: "keyword", sql: "is", about: "`is.null`, `is.not_null`, `is.true`, `is.false` or `is.unknown`" },
  isdistinct: {
    ...{ syntax: "plain", sql: "is distinct from", compare: OTHER, comparesNull: true },
    about: "not equal to; null equals null",
  },
} as const satisfies Readonly<Record<string, OperatorDefinition>>;

/** Those with which only the rows of tables and functions can be filtered. */
const OF_ROWS = {
  cs: { syntax: "plain", sql: "@>", about: "an array, range or JSON value that contains the value: `cs.{a,b}`" },
  cd: { syntax: "plain", sql: "<@", about: "an array, range or JSON value that is contained in the value" },
  ov: { syntax: "plain", sql: "&&", about: "an array or range that overlaps the value" },
  sl: { syntax: "plain", sql: "<<", about: "a range that is strictly left of the value" },
  sr: { syntax: "plain", sql: ">>", about: "a range that is strictly right of the value" },
  nxr: { syntax: "plain", sql: "&<", about: "a range that does not extend to the right of the value" },
  nxl: { syntax: "plain", sql: "&>", about: "a range that does not extend to the left of the value" },
  adj: { syntax: "plain", sql: "-|-", about: "a range that is adjacent to the value" },
  fts: {
    ...{ syntax: "language", sql: "to_tsquery", pattern: "search" },
    about: "text that matches a query of `to_tsquery`: `fts(english).cat`",
  },
  plfts: {
    ...{ syntax: "language", sql: "plainto_tsquery", pattern: "search" },
    about: "text that matches a query of `plainto_tsquery`",
  },
  phfts: {
    ...{ syntax: "language", sql: "phraseto_tsquery", pattern: "search" },
    about: "text that matches a query of `phraseto_tsquery`",
  },
  wfts: {
    ...{ syntax: "language", sql: "websearch_to_tsquery", pattern: "search" },
    about: "text that matches a query of `websearch_to_tsquery`",
  },
} as const satisfies Readonly<Record<string, OperatorDefinition>>;

export type Operator = keyof typeof OF_CHANGES | keyof typeof OF_ROWS;

/**
 * The operators of all filters: of rows, of streams and channels of changes, of resources and of GraphQL. Source: PostgREST docs,
 * "Tables and Views", Operators.
 */
export const OPERATORS: Readonly<Record<Operator, OperatorDefinition>> = { ...OF_CHANGES, ...OF_ROWS };

export const isOperator = (name: string): name is Operator => Object.hasOwn(OPERATORS, name);

/** Whether changes can be filtered with it. */
export const isOfChanges = (operator: Operator): boolean => Object.hasOwn(OF_CHANGES, operator);

type Test = { readonly sql: string; holds(value: string | null): boolean };

/** The values of `is`. Postgres writes booleans as t and f. */
export const KEYWORDS = {
  null: { sql: "null", holds: (value) => value === null },
  not_null: { sql: "not null", holds: (value) => value !== null },
  true: { sql: "true", holds: (value) => value === "t" },
  false: { sql: "false", holds: (value) => value === "f" },
  unknown: { sql: "unknown", holds: (value) => value === null },
} as const satisfies Readonly<Record<string, Test>>;

export type IsKeyword = keyof typeof KEYWORDS;

export const isKeyword = (name: string): name is IsKeyword => Object.hasOwn(KEYWORDS, name);
