import { GraphQLError, Kind, type ValueNode } from "postgraphile/graphql";
import { checkPattern, expressionsInPath } from "../../db/filters/patterns.ts";
import { Problem } from "../../problems/problem.ts";

/** What the conditions of `filter` and `having` hold. */
export type Counts = {
  /** Names: `{ title: { equalTo: "x" } }` has 2. */ readonly fields: number;
  /** Uses of `keyword`. */ readonly searches: number;
  /** Texts that Postgres matches as patterns. */ readonly patterns: number;
};

export const NONE: Counts = { fields: 0, searches: 0, patterns: 0 };

export const sum = (counts: readonly Counts[]): Counts =>
  counts.reduce(
    (total, { fields, searches, patterns }) => ({
      fields: total.fields + fields,
      searches: total.searches + searches,
      patterns: total.patterns + patterns,
    }),
    NONE,
  );

export const invalid = (message: string) => new GraphQLError(message, { extensions: { code: "VALIDATION_ERROR" } });

/** `{ title: { like: $title } }` uses `title` as the value of `like`. */
export type VariableUse = { readonly variable: string; readonly operator: string };

/** The operators whose value is a pattern. */
const OPERATORS = /^(?:not)?(?<name>like|includes|startsWith|endsWith|matches)(?:Insensitive)?$/i;

/** The patterns in the value of other operators. */
const PATTERNS_IN: ReadonlyMap<string, (text: string) => readonly string[]> = new Map([
  ["matchesPath", expressionsInPath],
  ["search", (query) => [query]],
]);

/**
 * Counts the conditions in the value of a variable that is used as the value of `operator`. Throws a GraphQLError for a pattern
 * that is too long or expensive.
 */
export function countValue(value: unknown, operator: string, maxLength: number): Counts {
  if (typeof value === "string") return countText(value, operator, maxLength);
  if (typeof value !== "object" || value === null) return NONE;
  if (Array.isArray(value)) return sum(value.map((item) => countValue(item, operator, maxLength)));
  return sum(
    Object.entries(value).map(([name, inner]) =>
      sum([countName(name), countValue(inner, within(operator, name), maxLength)]),
    ),
  );
}

/** The same for a literal. Adds the variables in it to `uses`. */
export function countLiteral(value: ValueNode, operator: string, maxLength: number, uses: VariableUse[]): Counts {
  if (value.kind === Kind.VARIABLE) uses.push({ variable: value.name.value, operator });
  if (value.kind === Kind.STRING) return countText(value.value, operator, maxLength);
  if (value.kind === Kind.LIST) return sum(value.values.map((item) => countLiteral(item, operator, maxLength, uses)));
  if (value.kind !== Kind.OBJECT) return NONE;
  return sum(
    value.fields.map(({ name, value: inner }) =>
      sum([countName(name.value), countLiteral(inner, within(operator, name.value), maxLength, uses)]),
    ),
  );
}

const countName = (name: string): Counts => ({ ...NONE, fields: 1, searches: name === "keyword" ? 1 : 0 });

/** The text of a full-text search is one level deeper: `search: { query: "engine" }`. */
const within = (operator: string, name: string) => (operator === "search" && name === "query" ? operator : name);

function countText(text: string, operator: string, maxLength: number): Counts {
  const name = OPERATORS.exec(operator)?.groups?.name?.toLowerCase();
  const patterns = name ? [text] : (PATTERNS_IN.get(operator)?.(text) ?? []);
  const areRegular = name === "matches" || operator === "matchesPath";
  try {
    for (const pattern of patterns) checkPattern(pattern, areRegular, maxLength);
  } catch (error) {
    throw error instanceof Problem ? invalid(error.message) : error;
  }
  return { ...NONE, patterns: patterns.length };
}
