import {
  type Catalog,
  type Column,
  type DatabaseFunction,
  quoteName,
  type Schema,
  type Table,
  type TableName,
  type TablePrivilege,
} from "../../db/catalog/catalog.ts";
import { mayExecute, mayUseColumn, mayUseSchema, mayUseTable } from "../../db/catalog/grants.ts";
import { rawBodyOf } from "../../rest-gateway/table/plan/call.ts";

/** What a role may use of a catalog, which is the content of every description. */
export type VisibleCatalog = Omit<Catalog, "schemas"> & { readonly schemas: ReadonlyMap<string, VisibleSchema> };

/** `functions` are those that the role may execute. */
export type VisibleSchema = Omit<Schema, "tables"> & { readonly tables: ReadonlyMap<string, VisibleTable> };

/** Its relationships lead to visible tables, and its computed fields are those that the role may execute. */
export type VisibleTable = Table & {
  /** Whether the role may use at least one column so, and the table supports it. */
  readonly may: Readonly<Record<TablePrivilege, boolean>>;
  readonly readable: readonly Column[];
  readonly insertable: readonly Column[];
  readonly updatable: readonly Column[];
};

/** With the role null, everything is visible. */
export function visibleCatalog(catalog: Catalog, role: string | null): VisibleCatalog {
  const usable = [...catalog.schemas.values()].filter((each) => role === null || mayUseSchema(catalog, role, each));
  const served = functionsOf(catalog.schemas.values());
  const executable = functionsOf(usable).filter((each) => role === null || mayExecute(catalog, role, each));
  const tables = usable
    .flatMap((schema) => [...schema.tables.values()])
    .map((table) => visibleTable(catalog, table, role))
    .filter(({ may }) => Object.values(may).includes(true));
  const isServed = namesOf(served);
  const isExecutable = namesOf(executable);
  const isShown = namesOf(tables);
  // Functions of schemas that are searched and not served are not in the catalog.
  const mayCall = (name: string) => isExecutable.has(name) || !isServed.has(name);
  const shown = tables.map((table) => ({
    ...table,
    computedFields: new Map([...table.computedFields].filter(([, field]) => mayCall(field.function))),
    relationships: table.relationships.filter(
      (each) => isShown.has(quoteName(each.target)) && (each.kind !== "computed" || mayCall(quoteName(each.function))),
    ),
  }));
  const inSchema = ({ name }: Schema) => ({
    tables: new Map(shown.filter(({ schema }) => schema === name).map((table) => [table.name, table])),
    functions: Map.groupBy(
      executable.filter(({ schema }) => schema === name),
      (each) => each.name,
    ),
  });
  return { ...catalog, schemas: new Map(usable.map((schema) => [schema.name, { ...schema, ...inSchema(schema) }])) };
}

/** Whether `/rpc` can call it: arguments are passed by name, or the body is the only one. */
export const isCallable = (fn: DatabaseFunction): boolean =>
  fn.arguments.every(({ name }) => name !== "") || rawBodyOf(fn) !== null;

const functionsOf = (schemas: Iterable<Schema>) =>
  [...schemas].flatMap(({ functions }) => [...functions.values()].flat());

const namesOf = (all: readonly TableName[]): ReadonlySet<string> => new Set(all.map(quoteName));

function visibleTable(catalog: Catalog, table: Table, role: string | null): VisibleTable {
  const mayUse = (privilege: TablePrivilege) => role === null || mayUseTable(catalog, role, table, privilege);
  const columns = (privilege: TablePrivilege) =>
    [...table.columns.values()].filter(
      (column) => role === null || mayUseColumn(catalog, role, table, column, privilege),
    );
  const isWritable = ({ generated }: Column) => generated !== "always";
  return {
    ...table,
    may: {
      select: mayUse("select"),
      insert: table.isInsertable && mayUse("insert"),
      update: table.isUpdatable && mayUse("update"),
      delete: table.isDeletable && mayUse("delete"),
    },
    readable: columns("select"),
    insertable: table.isInsertable ? columns("insert").filter(isWritable) : [],
    updatable: table.isUpdatable ? columns("update").filter(isWritable) : [],
  };
}
