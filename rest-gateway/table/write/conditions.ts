import { type Sql, sql } from "../../../db/sql.ts";
import { OPERATORS } from "../operators.ts";
import type { ConditionPlan, FieldPlan } from "../plan.ts";
import type { IsKeyword } from "../request.ts";
import { type Scope, writeField } from "./scope.ts";

type Compare = Extract<ConditionPlan, { kind: "compare" }>;

const KEYWORDS: Readonly<Record<IsKeyword, Sql>> = {
  null: sql`is null`,
  not_null: sql`is not null`,
  true: sql`is true`,
  false: sql`is false`,
  unknown: sql`is unknown`,
};

/** Writes the condition that an embedded relation has rows. It is passed in, because `rows.ts` writes the joins. */
export type WriteExists = (condition: Extract<ConditionPlan, { kind: "exists" }>) => Sql;

/** Conditions joined by AND; null for none. */
export function writeConditions(conditions: readonly ConditionPlan[], scope: Scope, exists: WriteExists): Sql | null {
  if (conditions.length === 0) return null;
  return sql.join(
    conditions.map((condition) => writeCondition(condition, scope, exists)),
    " and ",
  );
}

function writeCondition(condition: ConditionPlan, scope: Scope, exists: WriteExists): Sql {
  switch (condition.kind) {
    case "logic": {
      const inner = condition.conditions.map((each) => writeCondition(each, scope, exists));
      return negated(condition.isNegated, sql`(${sql.join(inner, condition.operator === "and" ? " and " : " or ")})`);
    }
    case "exists":
      return negated(condition.isNegated, exists(condition));
    case "expression":
      return condition.holds(scope);
    case "is":
      return negated(condition.isNegated, sql`${writeField(condition.field, scope)} ${KEYWORDS[condition.keyword]}`);
    case "compare":
      return negated(condition.isNegated, writeComparison(condition, scope));
  }
}

const negated = (isNegated: boolean, condition: Sql): Sql => (isNegated ? sql`not (${condition})` : condition);

function writeComparison(condition: Compare, scope: Scope): Sql {
  const { operator, quantifier, field } = condition;
  const value = writeOperand(condition);
  const left = writeField(field, scope);
  if (operator === "in") return sql`${left} = any (${value})`;
  const { syntax, sql: written } = OPERATORS[operator];
  if (syntax === "language") return writeTextSearch(condition, written, left, value);
  if (quantifier === null) return sql`${left} ${written} ${value}`;
  return sql`${left} ${written} ${quantifier === "any" ? sql`any` : sql`all`} (${value})`;
}

/** The parameter has no cast, so Postgres gives it the type of the column. */
function writeOperand({ field, value, operator, quantifier }: Compare): Sql {
  const operand = sql.parameter({ kind: "value", index: value });
  const { origin, path } = field;
  const fromText = origin.kind === "column" && path.length === 0 ? origin.column.casts?.fromText : null;
  if (!fromText) return operand;
  const convert = sql.trusted(fromText);
  if (operator !== "in" && quantifier === null) return sql`${convert}(${operand}::text)`;
  return sql`array(select ${convert}(each) from unnest(${operand}::text[]) as each)`;
}

function writeTextSearch({ language, field }: Compare, parseQuery: Sql, left: Sql, value: Sql): Sql {
  const configuration = language === null ? sql.empty : sql`${sql.constant(language)}::regconfig, `;
  const vector = isVector(field) ? left : sql`pg_catalog.to_tsvector(${configuration}${left})`;
  return sql`${vector} @@ ${parseQuery}(${configuration}${value})`;
}

function isVector({ origin, path }: FieldPlan): boolean {
  const { shape } = origin.kind === "column" ? origin.column : origin.computed;
  return path.length === 0 && shape.name === "tsvector" && !shape.isArray;
}
