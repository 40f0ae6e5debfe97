import type { Column, Relationship, Table } from "../../../db/catalog/catalog.ts";
import type { JsonSchema } from "../document.ts";
import { defaultValue, nullable, valueSchema } from "../json-schema.ts";
import { plainText, withDefaultText } from "../schema-parts.ts";
import { INSERT, type NamedSchema, type TableAccess, UPDATE, type VisibleSchema } from "./visible-schema.ts";

/** `posts` for rows in responses, `posts_insert` and `posts_update` for request bodies, as far as the role may use them. */
export function tableSchemas(visible: NamedSchema, access: TableAccess): [string, JsonSchema][] {
  const key = visible.tableKey(access.table);
  const schemas: [string, JsonSchema][] = [];
  if (access.isReadable) schemas.push([key, rowSchema(visible, access)]);
  if (access.isInsertable) schemas.push([key + INSERT, insertSchema(visible, access)]);
  if (access.isUpdatable) schemas.push([key + UPDATE, updateSchema(visible, access)]);
  return schemas;
}

/** Every column is required, because all are returned without `select`. */
function rowSchema(visible: VisibleSchema, { table, readable }: TableAccess): JsonSchema {
  const properties = readable.map((column): Property => {
    const readOnly = column.generated === "always" && { readOnly: true };
    return [column.name, { ...columnSchema(visible, table, column, "toJson"), ...readOnly }];
  });
  return objectSchema(table, properties, readable);
}

function insertSchema(visible: VisibleSchema, { table, insertable }: TableAccess): JsonSchema {
  const required = insertable.filter(({ isNullable, hasDefault }) => !isNullable && !hasDefault);
  const properties = insertable.map((column): Property => {
    const schema = columnSchema(visible, table, column, "fromJson");
    return [
      column.name,
      withDefaultText(schema, defaultValue(column.defaultExpression, valueSchema(column, "fromJson"))),
    ];
  });
  return objectSchema(table, properties, required);
}

function updateSchema(visible: VisibleSchema, { table, updatable }: TableAccess): JsonSchema {
  const properties = updatable.map(
    (column): Property => [column.name, columnSchema(visible, table, column, "fromJson")],
  );
  return objectSchema(table, properties, []);
}

/** A row as the argument of a function. Missing columns are null, even if the table declares them NOT NULL. */
export function recordSchema({ table, readable }: TableAccess): JsonSchema {
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

function columnSchema(visible: VisibleSchema, table: Table, column: Column, cast: "toJson" | "fromJson"): JsonSchema {
  const value = valueSchema(column, cast);
  const description = describeColumn(visible, table, column);
  return {
    ...(column.isNullable ? nullable(value) : value),
    ...(description && { description }),
  };
}

/**
 * The comment of a column and its keys, formatted as PostgREST does, because clients parse the tags:
 *
 *   The user who wrote the post.
 *
 *   Note:
 *   This is a Foreign Key to `users.id`.<fk table='users' column='id'/>
 */
export function describeColumn(visible: VisibleSchema, table: Table, column: Column): string {
  const text = plainText(column.comment);
  const notes = [primaryKeyNote(table, column), foreignKeyNote(visible, table, column)].filter((note) => note !== null);
  if (notes.length === 0) return text;
  const note = ["Note:", ...notes].join("\n");
  return text === "" ? note : `${text}\n\n${note}`;
}

const primaryKeyNote = ({ primaryKey }: Table, { name }: Column) =>
  primaryKey.includes(name) ? "This is a Primary Key.<pk/>" : null;

/** If a column refers to a table and to a view of it, the note names the table. */
function foreignKeyNote({ schema, tables }: VisibleSchema, table: Table, column: Column): string | null {
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

/** The referenced column, if the relationship is a foreign key of only this column. */
function referredColumn(relationship: Relationship, column: string): string | null {
  if (!("isOwner" in relationship) || !relationship.isOwner || relationship.columns.length !== 1) return null;
  const [[from, to]] = relationship.columns as [readonly [string, string]];
  return from === column ? to : null;
}
