import type { Catalog, Column, DatabaseFunction, Schema, Table, TablePrivilege } from "../../../db/catalog/catalog.ts";
import { mayExecute, mayUseColumn, mayUseTable } from "../../../db/catalog/grants.ts";
import { noSuchSchema } from "../../table/problem.ts";
import { componentKeys } from "../schema-parts.ts";

export type Audience = {
  readonly schema: string;
  readonly role: string;
  /** Tells all that is there, whatever the role may do. */
  readonly ignorePrivileges?: boolean;
};

/** What one role may do in one schema: the part of the catalog that its description tells. */
export type Offer = {
  readonly schema: Schema;
  /** Whether requests must name the schema, and whether they may. */
  readonly profile: "required" | "optional" | "none";
  readonly tables: ReadonlyMap<string, OfferedTable>;
  /** What can be called by name; overloads stand under one name. */
  readonly functions: ReadonlyMap<string, readonly DatabaseFunction[]>;
  /** Names of functions that change nothing, those included that can't be called but from `select`. */
  readonly readers: ReadonlySet<string>;
};

/** A table with what may be done with it; a list of columns is empty where the table may not be used so. */
export type OfferedTable = {
  readonly table: Table;
  readonly isReadable: boolean;
  readonly isInsertable: boolean;
  readonly isUpdatable: boolean;
  readonly isDeletable: boolean;
  readonly readable: readonly Column[];
  readonly insertable: readonly Column[];
  readonly updatable: readonly Column[];
};

/** Throws PGRST106 when the schema is not served. */
export function offerTo(catalog: Catalog, audience: Audience): Offer {
  const schema = catalog.schemas.get(audience.schema);
  const names = [...catalog.schemas.keys()];
  if (schema === undefined) throw noSuchSchema(audience.schema, names);
  const tables = [...schema.tables.values()].map((table) => offerTable(catalog, table, audience)).filter(isOffered);
  const executable = [...schema.functions.values()].flat().filter((fn) => isExecutable(catalog, fn, audience));
  return {
    schema,
    profile: names.length === 1 ? "none" : names[0] === schema.name ? "optional" : "required",
    tables: new Map(tables.map((offered) => [offered.table.name, offered])),
    functions: Map.groupBy(executable.filter(isCallable), ({ name }) => name),
    readers: new Set(executable.filter(({ volatility }) => volatility !== "volatile").map(({ name }) => name)),
  };
}

function offerTable(catalog: Catalog, table: Table, { role, ignorePrivileges = false }: Audience): OfferedTable {
  const mayUse = (privilege: TablePrivilege) => ignorePrivileges || mayUseTable(catalog, role, table, privilege);
  const columns = (privilege: TablePrivilege) =>
    [...table.columns.values()].filter(
      (column) => ignorePrivileges || mayUseColumn(catalog, role, table, column, privilege),
    );
  const isGiven = ({ generated }: Column) => generated !== "always";
  return {
    table,
    isReadable: mayUse("select"),
    isInsertable: table.isInsertable && mayUse("insert"),
    isUpdatable: table.isUpdatable && mayUse("update"),
    isDeletable: table.isDeletable && mayUse("delete"),
    readable: columns("select"),
    insertable: table.isInsertable ? columns("insert").filter(isGiven) : [],
    updatable: table.isUpdatable ? columns("update").filter(isGiven) : [],
  };
}

const isOffered = (table: OfferedTable) =>
  table.isReadable || table.isInsertable || table.isUpdatable || table.isDeletable;

const isExecutable = (catalog: Catalog, fn: DatabaseFunction, { role, ignorePrivileges = false }: Audience) =>
  ignorePrivileges || mayExecute(catalog, role, fn);

/** Types of the one unnamed argument that takes the body as it is, with the media type of such a body. */
const RAW_BODIES: ReadonlyMap<string, string> = new Map([
  ["json", "application/json"],
  ["jsonb", "application/json"],
  ["text", "text/plain"],
  ["xml", "text/xml"],
  ["bytea", "application/octet-stream"],
]);

/** The media type of the body, where it is the one unnamed argument itself; else null. */
export function rawBodyOf({ arguments: [first, ...others] }: DatabaseFunction): string | null {
  if (first === undefined || others.length > 0 || first.name !== "" || first.shape.isArray) return null;
  return RAW_BODIES.get(first.shape.name) ?? null;
}

/** Arguments are given by name, so all must have one. */
const isCallable = (fn: DatabaseFunction) => fn.arguments.every(({ name }) => name !== "") || rawBodyOf(fn) !== null;

/** The offer, and what its tables, columns and functions are called where only plain keys may stand. */
export type NamedOffer = Offer & {
  tableKey(table: Pick<Table, "name">): string;
  columnKey(table: Table, column: string): string;
  functionKey(fn: Pick<DatabaseFunction, "name">): string;
};

/** Components that describe no table: none takes their names. */
export const ERROR = "Error";
export const FILTER = "Filter";

export const INSERT = "_insert";
export const UPDATE = "_update";

export function withNames(offer: Offer): NamedOffer {
  const tables = componentKeys(offer.tables.keys(), ["", INSERT, UPDATE], [ERROR, FILTER]);
  const functions = componentKeys(offer.functions.keys());
  const columns = new Map(
    [...offer.tables.values()].map(({ table }) => [table.name, componentKeys(table.columns.keys())] as const),
  );
  return {
    ...offer,
    tableKey: ({ name }) => tables.get(name)!,
    columnKey: (table, column) => columns.get(table.name)!.get(column)!,
    functionKey: ({ name }) => functions.get(name)!,
  };
}
