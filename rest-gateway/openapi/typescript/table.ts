import type { Catalog, Column, ComputedField, Relationship, Table } from "../../../db/catalog/catalog.ts";
import { byName, inOrder, literal, type Member, openObject, orNull, type Type, tuple, union } from "./type.ts";
import { isView, nullableType, valueType } from "./value.ts";

/** What stands under `Tables` or `Views` for one of them. A view that can't be written to has no Insert or Update. */
export function tableType(table: Table, catalog: Catalog): Type {
  const columns = rowMembers(table, catalog);
  const computed = computedMembers(table, catalog);
  const isWritable = { insert: !isView(table) || table.isInsertable, update: !isView(table) || table.isUpdatable };
  return openObject([
    { name: "Row", type: openObject([...columns, ...computed]) },
    { name: "ComputedFields", type: union(computed.map(({ name }) => literal(name))) },
    ...(isWritable.insert ? [{ name: "Insert", type: insertType(table, catalog) }] : []),
    ...(isWritable.update ? [{ name: "Update", type: updateType(table, catalog) }] : []),
    { name: "Relationships", type: relationshipsType(table) },
  ]);
}

/** The columns as they are answered. */
export const rowMembers = ({ columns }: Table, catalog: Catalog): Member[] =>
  byName(columns.values()).map((column) => ({
    name: column.name,
    type: columnType(column, column.casts?.toJson ? "Json" : valueType(column.shape, catalog)),
  }));

const computedMembers = (table: Table, catalog: Catalog): Member[] =>
  computedFieldsOf(table).map(({ name, shape }) => ({ name, type: nullableType(shape, catalog) }));

/** Any column of a view may be left out: a trigger that writes for it may know the value. */
const insertType = (table: Table, catalog: Catalog): Type =>
  writtenType(table, catalog, ({ isNullable, hasDefault }) => isNullable || hasDefault || isView(table));

const updateType = (table: Table, catalog: Catalog): Type => writtenType(table, catalog, () => true);

/** `never` is what may not be given a value. */
const writtenType = ({ columns }: Table, catalog: Catalog, mayBeLeftOut: (column: Column) => boolean): Type =>
  openObject(
    byName(columns.values()).map((column) => {
      const { name, casts, shape, generated } = column;
      if (generated === "always") return { name, type: "never", isOptional: true };
      const type = columnType(column, casts?.fromJson ? "Json" : valueType(shape, catalog));
      return { name, type, isOptional: mayBeLeftOut(column) };
    }),
  );

/** `Json` holds null already, which a column that is not null does not. */
function columnType({ isNullable }: Column, value: Type): Type {
  if (isNullable) return orNull(value);
  return value === "Json" ? "NonNullable<Json>" : value;
}

/** The computed fields that can be selected: a column of the same name hides one. */
export const computedFieldsOf = ({ columns, computedFields }: Table): ComputedField[] =>
  byName(computedFields.values()).filter(({ name }) => !columns.has(name));

/** The foreign keys from a table or view to others of its schema, which is where the client looks for their names. */
export function relationshipsType({ schema, relationships }: Table): Type {
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
