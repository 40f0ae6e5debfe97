import type { Oid } from "./types.ts";

export type RoleRow = {
  readonly oid: Oid;
  readonly name: string;
  readonly isSuperuser: boolean;
  /** Roles whose rights it has by direct membership. */
  readonly inherits: readonly Oid[];
  /** `["statement_timeout=3s"]`; without those that the reader of the catalog may not set. */
  readonly settings: readonly string[] | null;
  /** Its settings in this database, which win. */
  readonly databaseSettings: readonly string[] | null;
};

// Only superusers may set some, and nobody those of the login itself: each request of the role would fail.
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

// Until PostgreSQL 15 a role inherits from all or none, since then from each membership or not.
// The owner of the database is a member of pg_database_owner without being told so anywhere.
export const ROLES = `
  select r.oid, r.rolname as name, r.rolsuper as "isSuperuser",
    array(
      select m.roleid from pg_auth_members as m
      where m.member = r.oid and coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, r.rolinherit)
      union
      select 'pg_database_owner'::regrole from pg_database where datname = current_database() and datdba = r.oid
    ) as inherits,
    ${settable("everywhere.setconfig")} as settings, ${settable("here.setconfig")} as "databaseSettings"
  from pg_roles as r
  left join pg_db_role_setting as everywhere on everywhere.setrole = r.oid and everywhere.setdatabase = 0
  left join pg_db_role_setting as here on here.setrole = r.oid
    and here.setdatabase = (select oid from pg_database where datname = current_database())
  order by r.rolname`;

/** Who may do what, by an access control list that is in use; grantee "0" is everybody. */
export type AclRow = {
  readonly acl: string;
  readonly grants: readonly { readonly grantee: Oid; readonly privilege: string }[];
};

export const ACLS = `
  select acl::text as acl, (
    select coalesce(json_agg(json_build_object('grantee', grantee, 'privilege', lower(privilege_type))), '[]')
    from aclexplode(acl)
    where privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'EXECUTE')
  ) as grants
  from (
    select acl from relations where "isServed"
    union
    select a.attacl from pg_attribute as a join relations as r on r.oid = a.attrelid and r."isServed"
    union
    select p.proacl from pg_proc as p join searched as s on s.oid = p.pronamespace and s."isServed"
  ) as used
  where acl is not null
  order by acl::text`;
