import type { Column, Relationship } from "../../../db/catalog/catalog.ts";
import type { VisibleCatalog, VisibleTable } from "../visible-catalog.ts";
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

/** The entry of a table in `Tables` or `Views`. A read-only view has no Insert or Update. */
export function tableType(table: VisibleTable, catalog: VisibleCatalog): Type {
  const { readable, insertable, updatable } = table;
  const computed = computedFieldsOf(table).map(({ name, shape }): Member => [name, nullableType(shape, catalog)]);
  // Every column of a view is optional, because a trigger may supply the value.
  const isOptional = ({ isNullable, hasDefault }: Column) => isNullable || hasDefault || isView(table);
  const insert = writtenType(readable, insertable, catalog, isOptional);
  const update = writtenType(readable, updatable, catalog, () => true);
  return openObject([
    ["Row", openObject([...rowMembers(table, catalog), ...computed])],
    ["ComputedFields", union(computed.map(([name]) => literal(name)))],
    ...(!isView(table) || table.isInsertable ? [["Insert", insert] as const] : []),
    ...(!isView(table) || table.isUpdatable ? [["Update", update] as const] : []),
    ["Relationships", relationshipsType(table)],
  ]);
}

/** The columns as responses contain them. */
export const rowMembers = ({ readable }: VisibleTable, catalog: VisibleCatalog): Member[] =>
  byName(readable).map((column) => [
    column.name,
    columnType(column, column.casts?.toJson ? "Json" : valueType(column.shape, catalog)),
  ]);

/** Columns that cannot be written, such as generated ones, are `never`. */
const writtenType = (
  readable: readonly Column[],
  writable: readonly Column[],
  catalog: VisibleCatalog,
  isOptional: (column: Column) => boolean,
): Type =>
  openObject(
    byName(new Set([...readable, ...writable])).map((column) => {
      const { name, casts, shape } = column;
      if (!writable.includes(column)) return [name, "never", true];
      const type = columnType(column, casts?.fromJson ? "Json" : valueType(shape, catalog));
      return [name, type, isOptional(column)];
    }),
  );

/** `Json` includes null, which a NOT NULL column does not. */
function columnType({ isNullable }: Column, value: Type): Type {
  if (isNullable) return orNull(value);
  return value === "Json" ? "NonNullable<Json>" : value;
}

/** The foreign keys of a table or view to relations of its schema, the only ones that the client can use. */
function relationshipsType({ schema, relationships }: VisibleTable): Type {
  const keys = relationships.filter(isOwnKey).filter(({ target }) => target.schema === schema);
  return tuple(inOrder(keys, identityOf).map(relationshipType));
}

type Key = Extract<Relationship, { kind: "many-to-one" | "one-to-one" | "one-to-many" }>;

const isOwnKey = (relationship: Relationship): relationship is Key => "isOwner" in relationship && relationship.isOwner;

const identityOf = ({ constraint, target, columns }: Key) => JSON.stringify([constraint, target.name, columns]);

function relationshipType({ kind, constraint, target, columns }: Key): Type {
  const names = (side: 0 | 1) => tuple(columns.map((pair) => literal(pair[side])));
  return openObject([
    ["foreignKeyName", literal(constraint)],
    ["columns", names(0)],
    ["isOneToOne", String(kind === "one-to-one")],
    ["referencedRelation", literal(target.name)],
    ["referencedColumns", names(1)],
  ]);
}
