import type { Catalog, Column, Relationship, Table } from "../../../db/catalog/catalog.ts";
import type { TableAccess } from "../tables/visible-schema.ts";
import {
  byName,
  computedFieldsOf,
  inOrder,
  isView,
  literal,
  type Member,
  nullableType,
  openObject,
  orNull,
  type Type,
  tuple,
  union,
  valueType,
} from "./type.ts";

/** The entry of a table in `Tables` or `Views`. A read-only view has no Insert or Update. `access` is that of the reader. */
export function tableType(table: Table, access: TableAccess, catalog: Catalog): Type {
  const columns = rowMembers(table, catalog);
  const computed = computedMembers(table, catalog);
  const isWritable = { insert: !isView(table) || table.isInsertable, update: !isView(table) || table.isUpdatable };
  return openObject([
    { name: "Row", type: openObject([...columns, ...computed]) },
    { name: "ComputedFields", type: union(computed.map(({ name }) => literal(name))) },
    ...(isWritable.insert ? [{ name: "Insert", type: insertType(table, access, catalog) }] : []),
    ...(isWritable.update ? [{ name: "Update", type: updateType(access, catalog) }] : []),
    { name: "Relationships", type: relationshipsType(table) },
  ]);
}

/** The columns as responses contain them. */
export const rowMembers = ({ columns }: Table, catalog: Catalog): Member[] =>
  byName(columns.values()).map((column) => ({
    name: column.name,
    type: columnType(column, column.casts?.toJson ? "Json" : valueType(column.shape, catalog)),
  }));

const computedMembers = (table: Table, catalog: Catalog): Member[] =>
  computedFieldsOf(table).map(({ name, shape }) => ({ name, type: nullableType(shape, catalog) }));

/** Every column of a view is optional, because a trigger may supply the value. */
const insertType = (table: Table, { readable, insertable }: TableAccess, catalog: Catalog): Type =>
  writtenType(
    [readable, insertable],
    catalog,
    ({ isNullable, hasDefault }) => isNullable || hasDefault || isView(table),
  );

const updateType = ({ readable, updatable }: TableAccess, catalog: Catalog): Type =>
  writtenType([readable, updatable], catalog, () => true);

/** Columns that cannot be written, such as generated ones, are `never`. */
const writtenType = (
  [readable, writable]: readonly (readonly Column[])[],
  catalog: Catalog,
  isOptional: (column: Column) => boolean,
): Type =>
  openObject(
    byName(new Set([...readable!, ...writable!])).map((column) => {
      const { name, casts, shape } = column;
      if (!writable!.includes(column)) return { name, type: "never", isOptional: true };
      const type = columnType(column, casts?.fromJson ? "Json" : valueType(shape, catalog));
      return { name, type, isOptional: isOptional(column) };
    }),
  );

/** `Json` includes null, which a NOT NULL column does not. */
function columnType({ isNullable }: Column, value: Type): Type {
  if (isNullable) return orNull(value);
  return value === "Json" ? "NonNullable<Json>" : value;
}

/** The foreign keys of a table or view to relations of its schema, the only ones that the client can use. */
function relationshipsType({ schema, relationships }: Table): Type {
  const keys = relationships.filter(isOwnKey).filter(({ target }) => target.schema === schema);
  return tuple(inOrder(keys, identityOf).map(relationshipType));
}

type Key = Extract<Relationship, { kind: "many-to-one" | "one-to-one" | "one-to-many" }>;

const isOwnKey = (relationship: Relationship): relationship is Key => "isOwner" in relationship && relationship.isOwner;

const identityOf = ({ constraint, target, columns }: Key) => JSON.stringify([constraint, target.name, columns]);

function relationshipType({ kind, constraint, target, columns }: Key): Type {
  const names = (side: 0 | 1) => tuple(columns.map((pair) => literal(pair[side])));
  return openObject([
    { name: "foreignKeyName", type: literal(constraint) },
    { name: "columns", type: names(0) },
    { name: "isOneToOne", type: String(kind === "one-to-one") },
    { name: "referencedRelation", type: literal(target.name) },
    { name: "referencedColumns", type: names(1) },
  ]);
}
