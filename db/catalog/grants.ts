import type { Catalog, Column, DatabaseFunction, Role, Schema, Setting, Table, TablePrivilege } from "./catalog.ts";
import type { Oid } from "./relations.ts";

export type RoleRow = {
  readonly oid: Oid;
  readonly name: string;
  readonly isSuperuser: boolean;
  readonly bypassesRowSecurity: boolean;
  /** Roles whose privileges it inherits by direct membership. */
  readonly inherits: readonly Oid[];
  /** Roles that it may become by direct membership. */
  readonly becomes: readonly Oid[];
  /** `["statement_timeout=3s"]`; without settings that the current login may not set. */
  readonly settings: readonly string[] | null;
  /** Its settings in this database, which take precedence. */
  readonly databaseSettings: readonly string[] | null;
};

// Settings that only superusers may set, and role itself, would make each request of the role fail.
const settable = (settings: string) => `(
  select array_agg(each.text order by each.position)
  from unnest(${settings}) with ordinality as each (text, position)
  left join pg_settings as known on known.name = split_part(each.text, '=', 1)
  where split_part(each.text, '=', 1) not in ('role', 'session_authorization')
    and (
      known.name is null or known.context = 'user'
      or known.context = 'superuser' and has_parameter_privilege(known.name, 'set')
    )
)`;

// Up to PostgreSQL 15 a role inherits from all its roles or from none; later versions decide per membership.
// The owner of the database is an implicit member of pg_database_owner.
export const ROLES = `
  select r.oid, r.rolname as name, r.rolsuper as "isSuperuser", r.rolbypassrls as "bypassesRowSecurity",
    array(
      select m.roleid from pg_auth_members as m
      where m.member = r.oid and coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, r.rolinherit)
      union
      select 'pg_database_owner'::regrole from pg_database where datname = current_database() and datdba = r.oid
    ) as inherits,
    array(
      select m.roleid from pg_auth_members as m
      where m.member = r.oid and coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
      order by m.roleid
    ) as becomes,
    ${settable("everywhere.setconfig")} as settings, ${settable("here.setconfig")} as "databaseSettings"
  from pg_roles as r
  left join pg_db_role_setting as everywhere on everywhere.setrole = r.oid and everywhere.setdatabase = 0
  left join pg_db_role_setting as here on here.setrole = r.oid
    and here.setdatabase = (select oid from pg_database where datname = current_database())
  order by r.rolname`;

/** The grants of each access control list in use; grantee "0" is public. */
export type AclRow = {
  readonly acl: string;
  readonly grants: readonly { readonly grantee: Oid; readonly privilege: string }[];
};

export const ACLS = `
  select acl::text as acl, (
    select coalesce(json_agg(json_build_object('grantee', grantee, 'privilege', lower(privilege_type))), '[]')
    from aclexplode(acl)
    where privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'EXECUTE', 'USAGE')
  ) as grants
  from (
    select acl from relations where "isServed"
    union
    select a.attacl from pg_attribute as a join relations as r on r.oid = a.attrelid and r."isServed"
    union
    select p.proacl from pg_proc as p join searched as s on s.oid = p.pronamespace and s."isServed"
    union
    select n.nspacl from pg_namespace as n join searched as s on s.oid = n.oid
  ) as used
  where acl is not null
  order by acl::text`;

type TableGrants = ReadonlyMap<string, ReadonlySet<TablePrivilege>>;

const PUBLIC = "public";
const NO_GRANTS: TableGrants = new Map();

/** Grants by access control list. Equal lists share one object. */
export class Grants {
  readonly #roles: ReadonlyMap<Oid, string>;
  readonly #byAcl = new Map<string, Map<string, Set<string>>>();

  constructor(acls: readonly AclRow[], roles: readonly RoleRow[]) {
    this.#roles = new Map([["0", PUBLIC], ...roles.map(({ oid, name }) => [oid, name] as const)]);
    for (const { acl, grants } of acls) this.#byAcl.set(acl, this.#byGrantee(grants));
  }

  /** `{anon=r/postgres}` → `{ anon: { select } }`. Without a list only the owner has privileges. */
  onTable(acl: string | null): TableGrants {
    return acl === null ? NO_GRANTS : (this.#byAcl.get(acl) as TableGrants);
  }

  /** Without a list every role may execute the function. */
  onFunction(acl: string | null): ReadonlySet<string> {
    return acl === null ? new Set([PUBLIC]) : new Set(this.#byAcl.get(acl)!.keys());
  }

  /** The roles that may use the objects of a schema. Without a list only the owner may. */
  onSchema(acl: string | null): ReadonlySet<string> {
    const usage = [...(acl === null ? [] : this.#byAcl.get(acl)!)].filter(([, privileges]) => privileges.has("usage"));
    return new Set(usage.map(([grantee]) => grantee));
  }

  /** "" for a role that has been dropped meanwhile. */
  roleOf(oid: Oid): string {
    return this.#roles.get(oid) ?? "";
  }

  #byGrantee(grants: AclRow["grants"]): Map<string, Set<string>> {
    const byGrantee = new Map<string, Set<string>>();
    for (const { grantee, privilege } of grants) {
      const name = this.roleOf(grantee);
      byGrantee.set(name, (byGrantee.get(name) ?? new Set()).add(privilege));
    }
    return byGrantee;
  }
}

export function buildRoles(rows: readonly RoleRow[]): ReadonlyMap<string, Role> {
  const byOid = new Map(rows.map((row) => [row.oid, row]));
  return new Map(
    rows.map((row) => {
      const settings = new Map([...parseSettings(row.settings), ...parseSettings(row.databaseSettings)]);
      const { name, isSuperuser } = row;
      const bypassesRowSecurity = isSuperuser || row.bypassesRowSecurity;
      const inherits = new Set([...closure(row, "inherits", byOid), PUBLIC]);
      const mayBecome = closure(row, "becomes", byOid);
      const role: Role = { name, inherits, mayBecome, isSuperuser, bypassesRowSecurity, settings: [...settings] };
      return [name, Object.freeze(role)];
    }),
  );
}

/** The names of the role and of all roles that it leads to through others. */
function closure(
  row: RoleRow,
  memberships: "inherits" | "becomes",
  byOid: ReadonlyMap<Oid, RoleRow>,
  names = new Set<string>(),
): Set<string> {
  if (names.has(row.name)) return names;
  names.add(row.name);
  for (const oid of row[memberships]) {
    const parent = byOid.get(oid);
    if (parent) closure(parent, memberships, byOid, names);
  }
  return names;
}

/** `["statement_timeout=3s"]` → `[["statement_timeout", "3s"]]` */
export const parseSettings = (settings: readonly string[] | null): readonly Setting[] =>
  (settings ?? []).map((setting) => {
    const end = setting.indexOf("=");
    return [setting.slice(0, end), setting.slice(end + 1)];
  });

/** A role with the names of all roles whose privileges it has. An unknown role has the privileges of public. */
type Holder = { readonly names: ReadonlySet<string>; readonly isSuperuser: boolean };

/** Predefined roles whose members have the privilege on every table. */
const ON_ALL_TABLES: Readonly<Record<TablePrivilege, string>> = {
  select: "pg_read_all_data",
  insert: "pg_write_all_data",
  update: "pg_write_all_data",
  delete: "pg_write_all_data",
};

/** Whether the role has the privilege on the table, or on at least one of its columns. */
export function mayUseTable(catalog: Catalog, role: string, table: Table, privilege: TablePrivilege): boolean {
  const holder = holderOf(catalog, role);
  return (
    mayUseWhole(holder, table, privilege) ||
    [...table.columns.values()].some((column) => isGranted(holder, column.grants, privilege))
  );
}

/** Whether the role has the privilege on the table itself, which its system columns need. */
export const mayUseEveryColumn = (catalog: Catalog, role: string, table: Table, privilege: TablePrivilege): boolean =>
  mayUseWhole(holderOf(catalog, role), table, privilege);

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

/** Whether the role may use the objects of the schema. */
export function mayUseSchema(catalog: Catalog, role: string, { owner, usage }: Schema): boolean {
  const { names, isSuperuser } = holderOf(catalog, role);
  return isSuperuser || names.has(owner) || names.has(ON_ALL_TABLES.select) || !names.isDisjointFrom(usage);
}

export function mayExecute(
  catalog: Catalog,
  role: string,
  { owner, grantees }: Pick<DatabaseFunction, "owner" | "grantees">,
): boolean {
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
