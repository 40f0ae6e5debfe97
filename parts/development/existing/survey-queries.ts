import { MODULES } from "../../../db/modules/modules.ts";

const list = (names: readonly string[]) => names.map((name) => `'${name}'`).join(", ");

/** The roles that the service makes or needs. */
export const SERVICE_ROLES = [
  "anon",
  "authenticated",
  "admin",
  "service_role",
  "auth_owner",
  "tasks_owner",
  "changes_owner",
];
/** The schemas of the service. */
export const SERVICE_SCHEMAS = ["content_service", "graphile_migrate", ...MODULES.flatMap(({ schemas }) => schemas)];

/** Where other tools record the migrations that a database has. */
const LEDGERS = [
  "_prisma_migrations",
  "schema_migrations",
  "ar_internal_metadata",
  "flyway_schema_history",
  "databasechangelog",
  "knex_migrations",
  "django_migrations",
  "alembic_version",
  "__drizzle_migrations",
  "goose_db_version",
  "SequelizeMeta",
  "typeorm_migrations",
  "migrations",
  "pgmigrations",
  "_sqlx_migrations",
  "__diesel_schema_migrations",
  "__EFMigrationsHistory",
  "schema_version",
];

/** The settings of a database on which its code may depend. Others may be secrets, or are of the machine. */
const SETTINGS = [
  "datestyle",
  "default_text_search_config",
  "intervalstyle",
  "plpgsql.variable_conflict",
  "search_path",
  "timezone",
];

/** Only a database with the modules has such schemas of the service; otherwise they are of something else. */
const HAS_MODULES = "to_regclass('content_service.modules') is not null";
const isOwn = (namespace: string) => `
  ${namespace}.nspname !~ '^(pg_|information_schema$)'
  and not (${HAS_MODULES} and ${namespace}.nspname in (${list(SERVICE_SCHEMAS)}))
  and ${namespace}.nspname <> 'graphile_migrate'`;
const isMember = (catalog: string, oid: string) => `
  exists (select from pg_depend as e where e.classid = '${catalog}'::regclass and e.objid = ${oid} and e.deptype = 'e')`;
const roleName = (oid: string) => `case ${oid} when 0 then 'public' else pg_get_userbyid(${oid})::text end`;

/** What `readSurvey` selects. The names of columns are those of its types. */
export const SQL = {
  general: `
    select current_setting('server_version') as version, quote_ident(current_database()) as database,
      (select pg_get_userbyid(datdba)::text from pg_database where datname = current_database()) as "databaseOwner",
      pg_is_in_recovery() as "isReplica",
      array(
        select nspname::text from pg_namespace
        where not ${HAS_MODULES} and nspname in (${list(SERVICE_SCHEMAS)}) order by 1) as "foreignSchemas",
      (select format_type(typbasetype, null) from pg_type
       where ${HAS_MODULES} and oid = to_regtype('auth.user_id')) as "installedId",
      (select c.oid::regclass::text from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
       where c.relkind = 'r' and (c.relname in (${list(LEDGERS)}) or n.nspname = 'sqitch') and ${isOwn("n")}
         -- Those of the parts of Supabase are not of the application.
         and n.nspname not in ('auth', 'storage', 'realtime', '_realtime', 'supabase_functions')
       order by c.relname limit 1) as "otherTool",
      (select substr(setting, strpos(setting, '=') + 1)
       from pg_db_role_setting as s cross join unnest(s.setconfig) as setting
       where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
         and setting like 'pgrst.db\\_schemas=%'
       order by s.setdatabase desc limit 1) as "postgrestSchemas",
      current_setting('app.settings.jwt_secret', true) as "jwtSecret",
      (select json_build_object('sql', quote_ident(rolname), 'memberOf', array(
          select pg_get_userbyid(roleid)::text from pg_auth_members where member = r.oid))
       from pg_roles as r
       where rolcanlogin and not rolsuper and not rolbypassrls and (rolname = 'authenticator' or exists (
         select from pg_db_role_setting, unnest(setconfig) as setting where setrole = r.oid and setting like 'pgrst.%'))
       order by rolname = 'authenticator' desc, rolname limit 1) as "postgrestLogin"`,

  login: `
    select rolname::text as name, quote_ident(rolname) as sql, rolsuper as "isSuperuser", rolcreaterole as "createsRoles",
      rolsuper or rolbypassrls as "bypassesPolicies",
      has_database_privilege(current_database(), 'create') as "createsSchemas",
      rolsuper or rolcreatedb and pg_has_role(datdba, 'usage') as "copiesDatabase"
    from pg_roles, pg_database where rolname = current_user and datname = current_database()`,

  schemas: `
    select n.nspname::text as name, quote_ident(n.nspname) as sql, has_schema_privilege(n.oid, 'create') as "mayCreate",
      -- A role that stands for the owner of the database owns schema public.
      pg_get_userbyid(case n.nspowner when 'pg_database_owner'::regrole then d.datdba else n.nspowner end)::text as owner
    from pg_namespace as n, pg_database as d
    where d.datname = current_database() and ${isOwn("n")}`,

  serviceRoles: `
    select rolname::text as name, pg_has_role(oid, 'member with admin option') as "isGrantable",
      rolsuper or rolbypassrls as bypasses
    from pg_roles where rolname in (${list(SERVICE_ROLES)})`,

  tables: `
    select n.nspname::text as schema, c.relname::text as name, c.oid::regclass::text as sql, c.relkind in ('r', 'p') as "isTable",
      pg_has_role(c.relowner, 'usage') as "isOwned", c.relrowsecurity as "hasRowSecurity",
      exists (select from pg_policy where polrelid = c.oid) as "hasPolicies",
      c.reltuples::float8 as rows,
      coalesce((
        select array_agg(a.attname::text order by k.place)
        from pg_index as i, unnest(i.indkey) with ordinality as k (number, place)
        join pg_attribute as a on a.attnum = k.number
        where i.indrelid = c.oid and i.indisprimary and a.attrelid = c.oid), '{}') as key,
      coalesce((
        select json_agg(json_build_object('table', f.confrelid::regclass::text, 'column', a.attname) order by f.conname)
        from pg_constraint as f join pg_attribute as a on a.attrelid = c.oid and a.attnum = f.conkey[1]
        where f.conrelid = c.oid and f.contype = 'f' and cardinality(f.conkey) = 1), '[]') as references,
      array(
        select distinct ${roleName("g.grantee")} from aclexplode(c.relacl) as g where g.grantee <> c.relowner
        union
        select distinct ${roleName("g.grantee")} from pg_attribute as a, aclexplode(a.attacl) as g
        where a.attrelid = c.oid and g.grantee <> c.relowner order by 1) as grantees,
      (select coalesce(json_agg(json_build_object(
          'name', a.attname, 'sql', quote_ident(a.attname), 'type', format_type(a.atttypid, a.atttypmod),
          'base', format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null),
          'isRequired', a.attnotnull or t.typnotnull,
          'hasDefault', a.atthasdef or a.attidentity <> '' or t.typdefault is not null,
          'readers', (
            select coalesce(json_agg(distinct ${roleName("g.grantee")}), '[]')
            from (select * from aclexplode(c.relacl) union all select * from aclexplode(a.attacl)) as g
            where g.privilege_type = 'SELECT' and g.grantee <> c.relowner)
        ) order by a.attnum), '[]')
       from pg_attribute as a join pg_type as t on t.oid = a.atttypid
       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition and ${isOwn("n")}
      and not ${isMember("pg_class", "c.oid")}
    order by n.nspname, c.relname`,

  roles: `
    with named as (
      select refobjid as oid from pg_shdepend
      where refclassid = 'pg_authid'::regclass and dbid = (select oid from pg_database where datname = current_database())
      union
      select roleid from pg_auth_members where member = quote_ident(current_user)::regrole
    )
    select r.rolname::text as name, quote_ident(r.rolname) as sql, r.rolcanlogin as "canLogin", r.rolsuper or r.rolbypassrls as "bypassesPolicies",
      r.rolinherit as inherits,
      array(
        select pg_get_userbyid(m.roleid)::text from pg_auth_members as m
        where m.member = r.oid and m.roleid in (select oid from named) order by 1) as "memberOf",
      pg_has_role(r.oid, 'member') as "isMine", pg_has_role(r.oid, 'member with admin option') as "isGrantable"
    from pg_roles as r
    where r.oid in (select oid from named) and r.rolname !~ '^pg_'
      and r.oid <> 10
    order by r.rolname`,

  settings: `
    select distinct on (name) name, value
    from pg_db_role_setting as s
    join pg_database as d on d.datname = current_database() and s.setdatabase in (0, d.oid) and s.setrole in (0, d.datdba)
    cross join unnest(s.setconfig) as setting
    cross join lateral (
      select lower(split_part(setting, '=', 1)) as name, substr(setting, strpos(setting, '=') + 1) as value
    ) as parts
    where name in (${list(SETTINGS)})
    order by name, s.setrole desc, s.setdatabase desc`,

  extensions: `
    select extname::text as name, extnamespace::regnamespace::text as schema
    from pg_extension where extname <> 'plpgsql' order by extname`,
} as const;

export const isServiceRole = (name: string): boolean => SERVICE_ROLES.includes(name);
