import type { Column, Table } from "../../db/catalog/catalog.ts";
import { describeColumn } from "./column-description.ts";
import { plainText } from "./comment.ts";
import { defaultValue } from "./default-value.ts";
import type { JsonSchema } from "./document.ts";
import { nullable, schemaOf } from "./json-schema.ts";
import { INSERT, type NamedOffer, UPDATE } from "./names.ts";
import type { Offer, OfferedTable } from "./visible-schema.ts";

/** `articles`, a row as it is read; `articles_insert` and `articles_update`, what is sent. Only those that the role needs. */
export function tableSchemas(offer: NamedOffer, offered: OfferedTable): [string, JsonSchema][] {
  const key = offer.tableKey(offered.table);
  const schemas: [string, JsonSchema][] = [];
  if (offered.isReadable) schemas.push([key, rowSchema(offer, offered)]);
  if (offered.isInsertable) schemas.push([key + INSERT, insertSchema(offer, offered)]);
  if (offered.isUpdatable) schemas.push([key + UPDATE, updateSchema(offer, offered)]);
  return schemas;
}

/** Every column is there, unless `select` asks for others. */
function rowSchema(offer: Offer, { table, readable }: OfferedTable): JsonSchema {
  const properties = readable.map((column): Property => {
    const readOnly = column.generated === "always" && { readOnly: true };
    return [column.name, { ...columnSchema(offer, table, column, "toJson"), ...readOnly }];
  });
  return objectSchema(table, properties, readable);
}

function insertSchema(offer: Offer, { table, insertable }: OfferedTable): JsonSchema {
  const required = insertable.filter(({ isNullable, hasDefault }) => !isNullable && !hasDefault);
  return objectSchema(table, writtenColumns(offer, table, insertable), required);
}

const updateSchema = (offer: Offer, { table, updatable }: OfferedTable) =>
  objectSchema(table, writtenColumns(offer, table, updatable), []);

const writtenColumns = (offer: Offer, table: Table, columns: readonly Column[]) =>
  columns.map((column): Property => [column.name, columnSchema(offer, table, column, "fromJson")]);

/** A whole row as a value, such as the argument of a function: what is not given is null, whatever the table says. */
export function recordSchema({ table, readable }: OfferedTable): JsonSchema {
  const properties = readable.map((column): Property => {
    const description = plainText(column.comment);
    return [column.name, { ...nullable(valueSchema(column, "fromJson")), ...(description && { description }) }];
  });
  return objectSchema(table, properties, []);
}

type Property = readonly [name: string, schema: JsonSchema];

function objectSchema({ comment }: Table, properties: readonly Property[], required: readonly Column[]): JsonSchema {
  const description = plainText(comment);
  return {
    type: "object",
    ...(description && { description }),
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required: required.map(({ name }) => name) }),
  };
}

function columnSchema(offer: Offer, table: Table, column: Column, cast: "toJson" | "fromJson"): JsonSchema {
  const value = valueSchema(column, cast);
  const description = describeColumn(offer, table, column);
  const standard = defaultValue(column.defaultExpression, value);
  return {
    ...(column.isNullable ? nullable(value) : value),
    ...(description && { description }),
    ...(standard !== undefined && { default: standard }),
  };
}

/** What a cast of a domain makes or takes may be anything. */
export function valueSchema({ casts, shape, maxLength }: Column, cast: "toJson" | "fromJson"): JsonSchema {
  if (casts?.[cast]) return {};
  const schema = schemaOf(shape);
  return maxLength !== null && schema.type === "string" ? { ...schema, maxLength } : schema;
}
