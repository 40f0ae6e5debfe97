import type { Catalog, DatabaseFunction, Role, Table, TablePrivilege } from "./catalog.ts";
import { mayExecute, mayUseColumn, mayUseSchema, mayUseTable } from "./grants.ts";

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
