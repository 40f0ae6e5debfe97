import type { MessageContext } from "../errors.ts";
import {
  type Catalog,
  type DatabaseFunction,
  type Role,
  type Table,
  type TableName,
  type TablePrivilege,
  tableOf,
} from "./catalog.ts";
import { mayExecute, mayUseColumn, mayUseSchema, mayUseTable } from "./grants.ts";
import { conditionFor, policiesFor } from "./policies.ts";

/** What a role may use of a table. Policies restrict the rows. */
export type TableExposure = {
  readonly table: Table;
  /** The columns that may be read and written; "all" for every column. */
  readonly columns: Readonly<Record<Exclude<TablePrivilege, "delete">, readonly string[] | "all">>;
  readonly isDeletable: boolean;
};

export type Exposure = { readonly tables: readonly TableExposure[]; readonly functions: readonly DatabaseFunction[] };

/** The served tables and functions that a role may use, by schema in the order of DB_SCHEMAS, then by name. */
export function exposureOf(catalog: Catalog, role: string): Exposure {
  const schemas = [...catalog.schemas.values()].filter((schema) => mayUseSchema(catalog, role, schema));
  const tables = schemas.flatMap((schema) => [...schema.tables.values()]);
  const functions = schemas.flatMap((schema) => [...schema.functions.values()].flat());
  return {
    tables: tables.map((table) => tableExposure(catalog, role, table)).filter(isExposed),
    functions: functions.filter((each) => mayExecute(catalog, role, each)),
  };
}

/** What the role may use of one table, if it may use the schema. */
export function tableExposure(catalog: Catalog, role: string, table: Table): TableExposure {
  const columnsFor = (privilege: TablePrivilege) => {
    const columns = [...table.columns.values()].filter((column) =>
      mayUseColumn(catalog, role, table, column, privilege),
    );
    return columns.length === table.columns.size ? "all" : columns.map(({ name }) => name);
  };
  return {
    table,
    columns: { select: columnsFor("select"), insert: columnsFor("insert"), update: columnsFor("update") },
    isDeletable: mayUseTable(catalog, role, table, "delete"),
  };
}

const isExposed = ({ columns, isDeletable }: TableExposure) =>
  isDeletable || Object.values(columns).some((each) => each.length > 0);

/**
 * The roles that these logins may become, sorted by name. Left out are the logins themselves, superusers and the roles of Postgres.
 * A superuser may become every role: for it, the owners of served tables are left out too, because policies do not restrict them.
 */
export function callerRoles(
  { roles, schemas }: Pick<Catalog, "roles" | "schemas">,
  logins: readonly string[],
): readonly Role[] {
  const tables = [...schemas.values()].flatMap((schema) => [...schema.tables.values()]);
  const owners = new Set(tables.map(({ owner }) => owner));
  const reached = new Set(
    logins.flatMap((login) => {
      const { isSuperuser = false, mayBecome = [] } = roles.get(login) ?? {};
      return isSuperuser ? [...roles.keys()].filter((name) => !owners.has(name)) : [...mayBecome];
    }),
  );
  return [...roles.values()].filter(
    ({ name, isSuperuser }) => reached.has(name) && !logins.includes(name) && !isSuperuser && !name.startsWith("pg_"),
  );
}

/**
 * The roles whose privileges form the GraphQL schema, which all callers share: that of `anonymous` callers, and those that `login` may
 * become, except roles that bypass policies: with the attribute, as owners of served tables, or as members of such owners. What only
 * they may use would be shown to everyone.
 */
export function schemaRoles(catalog: Catalog, login: string, anonymous: string): readonly Role[] {
  const owners = new Set(
    [...catalog.schemas.values()].flatMap(({ tables }) => [...tables.values()]).map(({ owner }) => owner),
  );
  const reached = callerRoles(catalog, [login]).filter(
    ({ bypassesRowSecurity, inherits }) => !bypassesRowSecurity && inherits.isDisjointFrom(owners),
  );
  const anonymousRole = catalog.roles.get(anonymous);
  return anonymousRole && !reached.includes(anonymousRole) ? [...reached, anonymousRole] : reached;
}

/** Whether the role can read a column of the table. */
export function readsTable(catalog: Catalog, role: string, name: TableName): boolean {
  const table = tableOf(catalog, name);
  const schema = catalog.schemas.get(name.schema);
  return table !== undefined && mayUseSchema(catalog, role, schema!) && mayUseTable(catalog, role, table, "select");
}

/** What the messages of errors say to a caller with this role. */
export const messagesFor = (catalog: Catalog, role: string): MessageContext => ({
  constraintMessages: catalog.constraintMessages,
  mayRead: (table) => readsTable(catalog, role, table),
});

/** Whether the role can read these columns of every row of the table: of policies, only the condition `true` is certain to hold. */
export function readsEveryRow(catalog: Catalog, { name }: Role, table: Table, columns: readonly string[]): boolean {
  const policies = policiesFor(catalog, name, table);
  return (
    readsColumns(catalog, name, table, columns) && (policies === null || conditionFor("select", policies) === "true")
  );
}

/** Whether the role can read these columns of the rows that it sees. */
export function readsColumns(catalog: Catalog, role: string, table: Table, columns: readonly string[]): boolean {
  const schema = catalog.schemas.get(table.schema)!;
  const mayRead = (name: string) => {
    const column = table.columns.get(name);
    return column !== undefined && mayUseColumn(catalog, role, table, column, "select");
  };
  return mayUseSchema(catalog, role, schema) && columns.every(mayRead);
}
