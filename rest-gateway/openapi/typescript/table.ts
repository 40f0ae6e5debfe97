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
  const computed = computedFieldsOf(table).map(({ name, shape }) => ({ name, type: nullableType(shape, catalog) }));
  // Every column of a view is optional, because a trigger may supply the value.
  const isOptional = ({ isNullable, hasDefault }: Column) => isNullable || hasDefault || isView(table);
  const insert = writtenType(readable, insertable, catalog, isOptional);
  const update = writtenType(readable, updatable, catalog, () => true);
  return openObject([
    { name: "Row", type: openObject([...rowMembers(table, catalog), ...computed]) },
    { name: "ComputedFields", type: union(computed.map(({ name }) => literal(name))) },
    ...(!isView(table) || table.isInsertable ? [{ name: "Insert", type: insert }] : []),
    ...(!isView(table) || table.isUpdatable ? [{ name: "Update", type: update }] : []),
    { name: "Relationships", type: relationshipsType(table) },
  ]);
}

/** The columns as responses contain them. */
export const rowMembers = ({ readable }: VisibleTable, catalog: VisibleCatalog): Member[] =>
  byName(readable).map((column) => ({
    name: column.name,
    type: columnType(column, column.casts?.toJson ? "Json" : valueType(column.shape, catalog)),
  }));

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
      if (!writable.includes(column)) return { name, type: "never", isOptional: true };
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
    { name: "foreignKeyName", type: literal(constraint) },
    { name: "columns", type: names(0) },
    { name: "isOneToOne", type: String(kind === "one-to-one") },
    { name: "referencedRelation", type: literal(target.name) },
    { name: "referencedColumns", type: names(1) },
  ]);
}
