import type { Catalog, Column, DatabaseFunction, Table, TablePrivilege } from "./catalog.ts";

/** Who asks: the names whose rights a role has. A role that the server does not have has those of everybody. */
type Holder = { readonly names: ReadonlySet<string>; readonly isSuperuser: boolean };

/** What members of these roles may do on every table. */
const ON_ALL_TABLES: Readonly<Record<TablePrivilege, string>> = {
  select: "pg_read_all_data",
  insert: "pg_write_all_data",
  update: "pg_write_all_data",
  delete: "pg_write_all_data",
};

/** Whether the role may use the table so, be it on some of its columns only. */
export function mayUseTable(catalog: Catalog, role: string, table: Table, privilege: TablePrivilege): boolean {
  const holder = holderOf(catalog, role);
  return (
    mayUseWhole(holder, table, privilege) ||
    [...table.columns.values()].some((column) => isGranted(holder, column.grants, privilege))
  );
}

export function mayUseColumn(
  catalog: Catalog,
  role: string,
  table: Table,
  column: Column,
  privilege: TablePrivilege,
): boolean {
  const holder = holderOf(catalog, role);
  return mayUseWhole(holder, table, privilege) || isGranted(holder, column.grants, privilege);
}

export function mayExecute(catalog: Catalog, role: string, { owner, grantees }: DatabaseFunction): boolean {
  const { names, isSuperuser } = holderOf(catalog, role);
  return isSuperuser || names.has(owner) || !names.isDisjointFrom(grantees);
}

function holderOf(catalog: Catalog, role: string): Holder {
  const known = catalog.roles.get(role);
  return { names: known?.inherits ?? new Set(["public"]), isSuperuser: known?.isSuperuser ?? false };
}

const mayUseWhole = (holder: Holder, { owner, grants }: Table, privilege: TablePrivilege): boolean =>
  holder.isSuperuser ||
  holder.names.has(owner) ||
  holder.names.has(ON_ALL_TABLES[privilege]) ||
  isGranted(holder, grants, privilege);

const isGranted = ({ names }: Holder, grants: Table["grants"], privilege: TablePrivilege): boolean =>
  [...grants].some(([grantee, privileges]) => names.has(grantee) && privileges.has(privilege));
