import type { Column, Table } from "../../../db/catalog/catalog.ts";
import { quoteIdentifier, type Sql, sql } from "../../sql.ts";
import type { BodyColumns } from "../plan/plan.ts";

/** The body of a request, as JSON. */
export const BODY = sql.parameter({ kind: "body" });

/**
 * The objects of the body as rows `b` with the columns of the table, for FROM. Where what they leave out is to have its
 * default, each object stands beside its row, as `e.o`.
 */
export function writeBodyRows({ columns, isArray, fillsDefaults }: BodyColumns): Sql {
  const definitions = columns.map(
    ({ name, type, casts }) => sql`${sql.identifier(name)} ${casts?.fromJson ? sql`json` : sql.trusted(type)}`,
  );
  const rows = sql`b(${sql.join(definitions, ", ")})`;
  if (!fillsDefaults) return sql`${isArray ? sql`json_to_recordset` : sql`json_to_record`}(${BODY}::json) as ${rows}`;
  const objects = isArray ? sql`jsonb_array_elements(${BODY}::jsonb)` : sql`(select ${BODY}::jsonb)`;
  return sql`${objects} as e(o), lateral jsonb_to_record(e.o) as ${rows}`;
}

/** What a column is given out of a row of the body. */
export function writeBodyValue(column: Column, { fillsDefaults }: BodyColumns, table: Table): Sql {
  const { name, type, casts } = column;
  const value = sql`b.${sql.identifier(name)}`;
  const given = casts?.fromJson ? sql`${sql.trusted(casts.fromJson)}(${value})` : value;
  const absent = fillsDefaults ? writeDefault(column, table) : null;
  if (!absent) return given;
  return sql`case when e.o ? ${sql.constant(name)} then ${given} else cast(${absent} as ${sql.trusted(type)}) end`;
}

/** Null for columns that have none, and for those that can't be given a value: Postgres says why. */
function writeDefault({ name, generated, defaultExpression }: Column, table: Table): Sql | null {
  if (defaultExpression !== null) return sql.trusted(defaultExpression);
  if (generated !== "by default") return null;
  const qualified = [table.schema, table.name].map(quoteIdentifier).join(".");
  return sql`nextval(pg_get_serial_sequence(${sql.constant(qualified)}::text, ${sql.constant(name)}::text))`;
}
