import type { Column, FunctionArgument, TypeShape } from "../../../db/catalog/catalog.ts";
import { plainText } from "../comment.ts";
import { defaultValue, schemaOf, sqlNameOf } from "../json-schema.ts";
import { describeColumn } from "./table-schemas.ts";
import type { TableAccess, VisibleSchema } from "./visible-schema.ts";

/** A type as PostgREST describes it: the SQL name is the format. JSON has no type, because it may be any value. */
export function swaggerType(shape: TypeShape): { type?: string; items?: object; format: string } {
  const format = sqlNameOf(shape);
  if (shape.isArray) return { type: "array", items: typeOf({ ...shape, isArray: false }), format };
  return { ...typeOf(shape), format };
}

/** Rows and GeoJSON are described as strings, because Postgres can parse them from text. */
function typeOf(shape: TypeShape): { type?: string } {
  const { type } = schemaOf(shape);
  if (type === undefined && shape.category !== "pseudo") return {};
  return { type: type === "boolean" || type === "integer" || type === "number" ? type : "string" };
}

/** `definitions.articles`: the columns that the role may read or write. */
export function swaggerDefinition(visible: VisibleSchema, { table, ...access }: TableAccess): object {
  const used = new Set([...access.readable, ...access.insertable, ...access.updatable]);
  const columns = [...table.columns.values()].filter((column) => used.has(column));
  const required = columns.filter(({ isNullable }) => !isNullable).map(({ name }) => name);
  const description = plainText(table.comment);
  return {
    type: "object",
    ...(description && { description }),
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(
      columns.map((column) => [column.name, property(column, describeColumn(visible, table, column))]),
    ),
  };
}

function property(column: Column, description: string): object {
  const { shape, maxLength } = column;
  const initial = defaultOf(column);
  return {
    ...swaggerType(shape),
    ...(description && { description }),
    ...(initial !== undefined && { default: initial }),
    ...(shape.category === "enum" && !shape.isArray && { enum: shape.labels }),
    ...(maxLength !== null && { maxLength }),
  };
}

/** If Postgres computes the default of a string, its expression is shown: `now()`. */
function defaultOf({ defaultExpression, shape }: Column): unknown {
  const { type } = swaggerType(shape);
  if (type === "array" || defaultExpression === null) return undefined;
  if (type !== "string") return defaultValue(defaultExpression, schemaOf(shape));
  return defaultValue(defaultExpression, { type }) ?? defaultExpression;
}

/** The body of a call. OpenAPI 2.0 has no alternatives, so one object contains the arguments of all overloads. */
export function swaggerArguments(comment: string | null, all: readonly FunctionArgument[]): object {
  const description = plainText(comment);
  const named = all.filter(({ name }) => name !== "");
  const required = named.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  return {
    type: "object",
    ...(description && { description }),
    ...(required.length > 0 && { required }),
    ...(named.length > 0 && {
      properties: Object.fromEntries(named.map(({ name, shape }) => [name, swaggerType(shape)])),
    }),
  };
}
