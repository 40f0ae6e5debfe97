import type { Filter } from "../filters/condition.ts";
import { OPERATORS } from "../filters/operators.ts";
import { writeCondition, writeFilter, writeLanguage } from "../filters/write.ts";
import { type Sql, sql } from "../sql.ts";
import type { ConditionPlan, ExistsPlan, FieldPlan, Scope } from "./plan.ts";
import { writeField } from "./scope.ts";

/** Writes the condition that an embedded relation has rows. It is passed in, because `rows.ts` writes the joins. */
export type WriteExists = (condition: ExistsPlan) => Sql;

/** Conditions joined by AND; null for none. */
export function writeConditions(conditions: readonly ConditionPlan[], scope: Scope, exists: WriteExists): Sql | null {
  if (conditions.length === 0) return null;
  return sql.join(
    conditions.map((condition) =>
      writeCondition(condition, (each) => {
        if (each.kind === "exists") return exists(each);
        return each.kind === "expression" ? each.holds(scope) : writeComparison(each, scope);
      }),
    ),
    " and ",
  );
}

function writeComparison(filter: Filter<FieldPlan>, scope: Scope): Sql {
  const { field, language } = filter;
  const column = writeField(field, scope);
  const isSearch = OPERATORS[filter.operator].syntax === "language" && !isVector(field);
  const left = isSearch ? sql`pg_catalog.to_tsvector(${writeLanguage(language)}${column})` : column;
  return writeFilter(filter, left, writeOperand(filter));
}

/** Converts the value if its column is of a domain with its own representation. */
function writeOperand({ field, value, operator, quantifier }: Filter<FieldPlan>): Sql {
  const operand = sql.parameter({ kind: "value", index: value });
  const { origin, path } = field;
  const fromText = origin.kind === "column" && path.length === 0 ? origin.column.casts?.fromText : null;
  if (!fromText) return path.length === 0 ? cast(operand, field, { operator, quantifier }) : operand;
  const convert = sql.trusted(fromText);
  if (operator !== "in" && quantifier === null) return sql`${convert}(${operand}::text)`;
  return sql`array(select ${convert}(each) from unnest(${operand}::text[]) as each)`;
}

/** Postgres gives a parameter the type of the column, but compares rows as `record` and `regclass` as `oid`. */
function cast(
  operand: Sql,
  { origin }: FieldPlan,
  { operator, quantifier }: Pick<Filter<FieldPlan>, "operator" | "quantifier">,
): Sql {
  const { category, schema, name, isArray } = origin.kind === "column" ? origin.column.shape : origin.computed.shape;
  const isNamedObject = schema === "pg_catalog" && name.startsWith("reg");
  const isPlain = OPERATORS[operator].pattern === undefined && OPERATORS[operator].syntax !== "language";
  if (isArray || !isPlain || (category !== "composite" && !isNamedObject)) return operand;
  const list = operator === "in" || quantifier !== null ? sql`[]` : sql.empty;
  return sql`${operand}::${sql.identifier(schema, name)}${list}`;
}

function isVector({ origin, path }: FieldPlan): boolean {
  const { shape } = origin.kind === "column" ? origin.column : origin.computed;
  return path.length === 0 && shape.name === "tsvector" && !shape.isArray;
}
