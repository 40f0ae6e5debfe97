import { type Sql, sql } from "../../db/sql.ts";

/** What follows an operator in a URL: `eq(any).{1,2}`, `cs.{a}`, `fts(english).cat`, `in.(1,2)`, `is.null`. */
type OperatorSyntax = "quantified" | "plain" | "language" | "list" | "keyword";

type OperatorDefinition = {
  readonly syntax: OperatorSyntax;
  /** The operator of Postgres, or the function that parses the query of a text search; null if it depends on the value. */
  readonly sql: Sql | null;
  /** For the API reference. */
  readonly about: string;
};

/**
 * The operators of filters, by their name in URLs: `?title=ilike.*sql*`. Those that changes can be filtered with are in
 * `stream/filter.ts`. Source: PostgREST docs, "Tables and Views", Operators.
 */
export const OPERATORS = {
  eq: { syntax: "quantified", sql: sql`=`, about: "equal to" },
  neq: { syntax: "plain", sql: sql`<>`, about: "not equal to" },
  gt: { syntax: "quantified", sql: sql`>`, about: "greater than" },
  gte: { syntax: "quantified", sql: sql`>=`, about: "greater than or equal to" },
  lt: { syntax: "quantified", sql: sql`<`, about: "less than" },
  lte: { syntax: "quantified", sql: sql`<=`, about: "less than or equal to" },
  like: { syntax: "quantified", sql: sql`like`, about: "like a pattern, in which `*` matches any characters" },
  ilike: { syntax: "quantified", sql: sql`ilike`, about: "like a pattern, ignoring case" },
  match: { syntax: "quantified", sql: sql`~`, about: "matching a regular expression" },
  imatch: { syntax: "quantified", sql: sql`~*`, about: "matching a regular expression, ignoring case" },
  in: { syntax: "list", sql: null, about: "one of a list: `in.(1,2,3)`" },
  is: { syntax: "keyword", sql: null, about: "`is.null`, `is.not_null`, `is.true`, `is.false` or `is.unknown`" },
  isdistinct: { syntax: "plain", sql: sql`is distinct from`, about: "not equal to; null equals null" },
  cs: { syntax: "plain", sql: sql`@>`, about: "an array, range or JSON value that contains the value: `cs.{a,b}`" },
  cd: { syntax: "plain", sql: sql`<@`, about: "an array, range or JSON value that is contained in the value" },
  ov: { syntax: "plain", sql: sql`&&`, about: "an array or range that overlaps the value" },
  sl: { syntax: "plain", sql: sql`<<`, about: "a range that is strictly left of the value" },
  sr: { syntax: "plain", sql: sql`>>`, about: "a range that is strictly right of the value" },
  nxr: { syntax: "plain", sql: sql`&<`, about: "a range that does not extend to the right of the value" },
  nxl: { syntax: "plain", sql: sql`&>`, about: "a range that does not extend to the left of the value" },
  adj: { syntax: "plain", sql: sql`-|-`, about: "a range that is adjacent to the value" },
  fts: {
    syntax: "language",
    sql: sql`to_tsquery`,
    about: "text that matches a query of `to_tsquery`: `fts(english).cat`",
  },
  plfts: { syntax: "language", sql: sql`plainto_tsquery`, about: "text that matches a query of `plainto_tsquery`" },
  phfts: { syntax: "language", sql: sql`phraseto_tsquery`, about: "text that matches a query of `phraseto_tsquery`" },
  wfts: {
    syntax: "language",
    sql: sql`websearch_to_tsquery`,
    about: "text that matches a query of `websearch_to_tsquery`",
  },
} as const satisfies Readonly<Record<string, OperatorDefinition>>;

export type Operator = keyof typeof OPERATORS;

export const isOperator = (name: string): name is Operator => Object.hasOwn(OPERATORS, name);
