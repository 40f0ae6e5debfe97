import type { DatabaseFunction, FunctionArgument, FunctionResult, TypeShape } from "../../../db/catalog/catalog.ts";
import { isCallable, type VisibleCatalog, type VisibleTable } from "../visible-catalog.ts";
import { rowMembers } from "./table.ts";
import {
  array,
  byName,
  inOrder,
  isNotNullDomain,
  literal,
  type Member,
  nullableType,
  object,
  openEntries,
  openObject,
  orNull,
  RECORD,
  rowEntry,
  type Type,
  tableOf,
  union,
  valueType,
} from "./type.ts";

/**
 * The entry in `Functions` for the callable overloads of a name: Args, Returns and, for functions that return rows of a table, the
 * options that the client needs to select from them.
 *
 * Arguments, single values and rows, values of a set and columns of RETURNS TABLE are nullable, unless their type is a NOT
 * NULL domain. In rows of a table or view, each column determines whether it is nullable.
 */
export function functionType(overloads: readonly DatabaseFunction[], catalog: VisibleCatalog): Type {
  return union(inOrder(overloads, signatureOf).map((each, _, all) => overloadType(each, all, catalog)));
}

function overloadType(called: DatabaseFunction, overloads: readonly DatabaseFunction[], catalog: VisibleCatalog): Type {
  const error = errorOf(called, overloads);
  return object([
    ["Args", argumentsType(called, catalog)],
    ["Returns", error ? `{ error: true } & ${literal(error)}` : resultType(called, catalog)],
    ...rowOptions(called, catalog),
  ]);
}

/** Whether a function can be called, or read as a field of a row. */
export function isUsable(fn: DatabaseFunction): boolean {
  const [first, ...others] = fn.arguments;
  const isOfRow = first?.shape.category === "composite" && !first.shape.isArray && others.length === 0;
  return isCallable(fn) || (isOfRow && fn.volatility !== "volatile");
}

/** The reason why every call of the function fails; null if calls can succeed. */
function errorOf(called: DatabaseFunction, overloads: readonly DatabaseFunction[]): string | null {
  const [first] = called.arguments;
  if (first?.name === "") {
    const isField = first.shape.category === "composite" && called.returns.kind !== "table";
    return isField ? `${signatureOf(called)} is a field: select it from the rows of its table` : null;
  }
  const alike = overloads.filter((other) => namesOf(other) === namesOf(called)).map(signatureOf);
  return alike.length > 1 ? `A call fits each of ${alike.join(", ")}: rename arguments of all but one` : null;
}

const namesOf = ({ arguments: all }: DatabaseFunction): string => JSON.stringify(all.map(({ name }) => name).sort());

/** `public.add(a => integer, b => integer)` */
const signatureOf = ({ schema, name, arguments: all }: DatabaseFunction): string =>
  `${schema}.${name}(${all.map((argument) => `${argument.name} => ${argument.type}`).join(", ")})`;

function argumentsType({ arguments: all }: DatabaseFunction, catalog: VisibleCatalog): Type {
  if (all.length === 0) return "Record<PropertyKey, never>";
  return object(byName(all).map((each) => [each.name, argumentType(each, catalog), !each.isRequired]));
}

/** Missing fields of a row are null. An unnamed argument is the whole body, or the row of which the function is a field. */
function argumentType({ name, shape }: FunctionArgument, catalog: VisibleCatalog): Type {
  const table = tableOf(catalog, shape);
  if (name === "") return table ? rowEntry(table) : valueType(shape, catalog);
  const type = shape.category === "composite" ? partialOf(shape, catalog) : valueType(shape, catalog);
  return isNotNullDomain(shape, catalog) ? type : orNull(type);
}

function partialOf(shape: TypeShape, catalog: VisibleCatalog): Type {
  const row = valueType({ ...shape, isArray: false }, catalog);
  const partial = row === "unknown" ? row : `Partial<${row}>`;
  return shape.isArray ? array(partial) : partial;
}

function resultType(called: DatabaseFunction, catalog: VisibleCatalog): Type {
  const { returns } = called;
  if (returns.kind === "void") return "undefined";
  const item = itemType(returns, catalog);
  if (returns.isSet) return isToOne(called, catalog) ? item : array(item);
  return returns.kind === "scalar" ? item : orNull(item);
}

/** The type of a single value or row, or of an element of a set. */
function itemType(returns: Exclude<FunctionResult, { kind: "void" }>, catalog: VisibleCatalog): Type {
  switch (returns.kind) {
    case "scalar":
      return nullableType(returns.shape, catalog);
    case "composite":
      return openEntries(returns.columns, ({ shape }) => nullableType(shape, catalog));
    case "table": {
      const table = tableOf(catalog, returns.table);
      return table ? openObject(rowMembers(table, catalog)) : RECORD;
    }
    case "record":
      return RECORD;
  }
}

/** `from`: the table whose rows are the argument, or "*". `to`: the table whose rows are returned. The client expects both in one schema. */
function rowOptions(called: DatabaseFunction, catalog: VisibleCatalog): Member[] {
  const { returns, schema } = called;
  if (returns.kind !== "table" || returns.table.schema !== schema) return [];
  const source = sourceOf(called, catalog);
  const options = openObject([
    ["from", literal(source?.schema === schema ? source.name : "*")],
    ["to", literal(returns.table.name)],
    ["isOneToOne", String(!returns.isSet || isToOne(called, catalog))],
    ["isSetofReturn", String(returns.isSet)],
  ]);
  return [["SetofOptions", options]];
}

/** Whether the function is a to-one relationship. For a direct call, the client makes the type an array. */
function isToOne(called: DatabaseFunction, catalog: VisibleCatalog): boolean {
  const relationships = sourceOf(called, catalog)?.relationships ?? [];
  return relationships.some(
    (each) =>
      each.kind === "computed" &&
      each.isToOne &&
      each.function.schema === called.schema &&
      each.function.name === called.name,
  );
}

/** The table whose row is the single argument. */
function sourceOf({ arguments: all }: DatabaseFunction, catalog: VisibleCatalog): VisibleTable | undefined {
  const [argument, ...others] = all;
  if (!argument || others.length > 0 || argument.shape.isArray) return undefined;
  return tableOf(catalog, argument.shape);
}
