import type { Column, Relationship, Table } from "../../../db/catalog/catalog.ts";
import { plainText } from "../comment.ts";
import type { JsonSchema } from "../document.ts";
import { defaultValue, nullable, valueSchema } from "../json-schema.ts";
import { INSERT, type NamedOffer, type Offer, type OfferedTable, UPDATE } from "./visible-schema.ts";

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

/**
 * What a column means. Its keys are told in the words of PostgREST, tags included, which clients look for:
 *
 *   The user who wrote the article.
 *
 *   Note:
 *   This is a Foreign Key to `users.id`.<fk table='users' column='id'/>
 */
export function describeColumn(offer: Offer, table: Table, column: Column): string {
  const text = plainText(column.comment);
  const notes = [primaryKeyNote(table, column), foreignKeyNote(offer, table, column)].filter((note) => note !== null);
  if (notes.length === 0) return text;
  const note = ["Note:", ...notes].join("\n");
  return text === "" ? note : `${text}\n\n${note}`;
}

const primaryKeyNote = ({ primaryKey }: Table, { name }: Column) =>
  primaryKey.includes(name) ? "This is a Primary Key.<pk/>" : null;

/** Where a column refers to a table and to a view over it, the table is told. */
function foreignKeyNote({ schema, tables }: Offer, table: Table, column: Column): string | null {
  const targets = table.relationships.flatMap((relationship) => {
    const to = referredColumn(relationship, column.name);
    const target = relationship.target.schema === schema.name ? tables.get(relationship.target.name) : undefined;
    return to === null || target === undefined ? [] : [{ ...target.table, to }];
  });
  const target = targets.find(({ kind }) => kind !== "view" && kind !== "materialized view") ?? targets[0];
  if (target === undefined) return null;
  const { name, to } = target;
  return `This is a Foreign Key to \`${name}.${to}\`.<fk table='${name}' column='${to}'/>`;
}

/** The column over there, when the relationship is a foreign key of this one column. */
function referredColumn(relationship: Relationship, column: string): string | null {
  if (!("isOwner" in relationship) || !relationship.isOwner || relationship.columns.length !== 1) return null;
  const [[from, to]] = relationship.columns as [readonly [string, string]];
  return from === column ? to : null;
}
