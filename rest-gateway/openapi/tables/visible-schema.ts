import type { Catalog, Column, DatabaseFunction, Schema, Table, TablePrivilege } from "../../../db/catalog/catalog.ts";
import { mayExecute, mayUseColumn, mayUseTable } from "../../../db/catalog/grants.ts";
import { rawBodyOf } from "../../table/plan/call.ts";
import { noSuchSchema } from "../../table/problem.ts";
import { componentKeys } from "../schema-parts.ts";

/** The reader of a description, and the schema that it describes. */
export type Viewer = {
  readonly schema: string;
  readonly role: string;
  /** Includes everything, regardless of the privileges of the role. */
  readonly ignorePrivileges?: boolean;
};

/** The part of a schema that a role may use, which is the content of its description. */
export type VisibleSchema = {
  readonly schema: Schema;
  /** Whether requests must or may name the schema in a header. */
  readonly profile: "required" | "optional" | "none";
  readonly tables: ReadonlyMap<string, TableAccess>;
  /** The functions that can be called, with their overloads, by name. */
  readonly functions: ReadonlyMap<string, readonly DatabaseFunction[]>;
  /** The names of read-only functions, including those that only `select` can call, as computed columns. */
  readonly readOnlyFunctions: ReadonlySet<string>;
};

/** A table and what the role may do with it. */
export type TableAccess = {
  readonly table: Table;
  readonly isReadable: boolean;
  readonly isInsertable: boolean;
  readonly isUpdatable: boolean;
  readonly isDeletable: boolean;
  readonly readable: readonly Column[];
  readonly insertable: readonly Column[];
  readonly updatable: readonly Column[];
};

/** Throws PGRST106 if the schema is not served. */
export function visibleSchema(catalog: Catalog, viewer: Viewer): VisibleSchema {
  const schema = catalog.schemas.get(viewer.schema);
  const names = [...catalog.schemas.keys()];
  if (schema === undefined) throw noSuchSchema(viewer.schema, names);
  const tables = [...schema.tables.values()].map((table) => tableAccess(catalog, table, viewer)).filter(isVisible);
  const executable = [...schema.functions.values()].flat().filter((fn) => isExecutable(catalog, fn, viewer));
  return {
    schema,
    profile: names.length === 1 ? "none" : names[0] === schema.name ? "optional" : "required",
    tables: new Map(tables.map((access) => [access.table.name, access])),
    functions: Map.groupBy(executable.filter(isCallable), ({ name }) => name),
    readOnlyFunctions: new Set(
      executable.filter(({ volatility }) => volatility !== "volatile").map(({ name }) => name),
    ),
  };
}

export function tableAccess(
  catalog: Catalog,
  table: Table,
  { role, ignorePrivileges = false }: Omit<Viewer, "schema">,
): TableAccess {
  const mayUse = (privilege: TablePrivilege) => ignorePrivileges || mayUseTable(catalog, role, table, privilege);
  const columns = (privilege: TablePrivilege) =>
    [...table.columns.values()].filter(
      (column) => ignorePrivileges || mayUseColumn(catalog, role, table, column, privilege),
    );
  const isWritable = ({ generated }: Column) => generated !== "always";
  return {
    table,
    isReadable: mayUse("select"),
    isInsertable: table.isInsertable && mayUse("insert"),
    isUpdatable: table.isUpdatable && mayUse("update"),
    isDeletable: table.isDeletable && mayUse("delete"),
    readable: columns("select"),
    insertable: table.isInsertable ? columns("insert").filter(isWritable) : [],
    updatable: table.isUpdatable ? columns("update").filter(isWritable) : [],
  };
}

/** Whether the role may use the table for anything. */
export const isVisible = (table: TableAccess) =>
  table.isReadable || table.isInsertable || table.isUpdatable || table.isDeletable;

const isExecutable = (catalog: Catalog, fn: DatabaseFunction, { role, ignorePrivileges = false }: Viewer) =>
  ignorePrivileges || mayExecute(catalog, role, fn);

/** Arguments are passed by name, so all of them must have one. */
const isCallable = (fn: DatabaseFunction) => fn.arguments.every(({ name }) => name !== "") || rawBodyOf(fn) !== null;

/** A visible schema, with component keys for its tables, columns and functions. */
export type NamedSchema = VisibleSchema & {
  tableKey(table: Pick<Table, "name">): string;
  columnKey(table: Table, column: string): string;
  functionKey(fn: Pick<DatabaseFunction, "name">): string;
};

/** Schemas that do not describe a table. Their keys are reserved. */
export const ERROR = "Error";
export const FILTER = "Filter";

export const INSERT = "_insert";
export const UPDATE = "_update";

export function withNames(visible: VisibleSchema): NamedSchema {
  const tables = componentKeys(visible.tables.keys(), ["", INSERT, UPDATE], [ERROR, FILTER]);
  const functions = componentKeys(visible.functions.keys());
  const columns = new Map(
    [...visible.tables.values()].map(({ table }) => [table.name, componentKeys(table.columns.keys())] as const),
  );
  return {
    ...visible,
    tableKey: ({ name }) => tables.get(name)!,
    columnKey: (table, column) => columns.get(table.name)!.get(column)!,
    functionKey: ({ name }) => functions.get(name)!,
  };
}
