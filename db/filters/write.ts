import { type Sql, sql } from "../sql.ts";
import type { Condition, Filter, Logic, OtherCondition } from "./condition.ts";
import { KEYWORDS, OPERATORS } from "./operators.ts";

/** A condition as SQL. `write` writes the other conditions as if they were not negated. */
export function writeCondition<Field, Value, Other extends OtherCondition>(
  condition: Condition<Field, Value, Other>,
  write: (condition: Filter<Field, Value> | Other) => Sql,
): Sql {
  const written =
    condition.kind === "logic"
      ? writeLogic(condition as Logic<Field, Value, Other>, write)
      : write(condition as Filter<Field, Value> | Other);
  return condition.isNegated ? sql`not (${written})` : written;
}

const writeLogic = <Field, Value, Other extends OtherCondition>(
  { operator, conditions }: Logic<Field, Value, Other>,
  write: (condition: Filter<Field, Value> | Other) => Sql,
): Sql =>
  sql`(${sql.join(
    conditions.map((each) => writeCondition(each, write)),
    ` ${operator} `,
  )})`;

/**
 * `"id" = any ($1)`, `"title" ilike $1`, `"title" is not null`. The left side of a text search is a tsvector. The value needs no cast:
 * Postgres gives a parameter the type of the column.
 */
export function writeFilter(
  { operator, quantifier, language, keyword }: Filter<unknown, unknown>,
  left: Sql,
  value: Sql,
): Sql {
  const { syntax, sql: text } = OPERATORS[operator];
  const written = sql.trusted(text);
  if (keyword !== null) return sql`${left} ${written} ${sql.trusted(KEYWORDS[keyword].sql)}`;
  if (syntax === "language") return sql`${left} @@ ${written}(${writeLanguage(language)}${value})`;
  const array = syntax === "list" ? "any" : quantifier;
  return array === null ? sql`${left} ${written} ${value}` : sql`${left} ${written} ${sql.trusted(array)} (${value})`;
}

/** The first argument of the functions of text search. */
export const writeLanguage = (language: string | null): Sql =>
  language === null ? sql.empty : sql`${sql.constant(language)}::regconfig, `;
