-- Common table expressions that the rules (rules/) read. $1: the served schemas. $2: the roles of callers. $3: the logins that
-- take on these roles.
logins as materialized (
  select oid, rolname as name, 'role ' || quote_ident(rolname) as object, rolsuper as is_superuser,
    rolreplication as may_replicate, shobj_description(oid, 'pg_authid') as comment
  from pg_roles where rolname = any ($3)
),
callers as materialized (
  select oid, rolname as name from pg_roles where rolname = any ($2)
),
-- Tables and views of the served schemas. `kind`: r, p (partitioned), v, m (materialized), f (foreign). `granted_to`: the
-- callers with a privilege, also through another role. `grantees`: the roles that the grants to these callers name, as in SQL.
relations as materialized (
  select c.oid, c.oid::regclass::text as name, c.relkind as kind, c.relowner as owner,
    c.relrowsecurity as has_row_security, coalesce(c.reloptions, '{}') as options, c.relispartition as is_partition,
    obj_description(c.oid, 'pg_class') as comment,
    array(
      select r.name from callers as r
      where has_any_column_privilege(r.oid, c.oid, 'select, insert, update') or has_table_privilege(r.oid, c.oid, 'delete')
      order by r.name
    ) as granted_to,
    array(
      select distinct case granted.grantee when 0 then 'public' else granted.grantee::regrole::text end
      from (
        select c.relacl as acl
        union all
        select a.attacl from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      ) as acls
      cross join lateral aclexplode(acls.acl) as granted
      where granted.grantee = 0
        or exists (select from callers as r where pg_has_role(r.oid, nullif(granted.grantee, 0), 'usage'))
      order by 1
    ) as grantees
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
  where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and not exists (
      select from pg_depend as d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
    )
),
-- Functions of all schemas but those of Postgres, extensions and the task queue.
functions as materialized (
  select p.oid, p.oid::regprocedure::text as name, n.nspname = any ($1) as is_served, p.prosecdef as is_definer,
    p.proowner as owner, coalesce(p.proconfig, '{}') as settings, p.prosrc as body, p.prosqlbody is not null as is_parsed,
    l.lanname as language, p.prorettype as returns, obj_description(p.oid, 'pg_proc') as comment,
    array(
      select r.name from callers as r
      where has_function_privilege(r.oid, p.oid, 'execute') and has_schema_privilege(r.oid, n.oid, 'usage')
      order by r.name
    ) as granted_to
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  join pg_language as l on l.oid = p.prolang
  where p.prokind in ('f', 'p') and n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'graphile_worker')
    and not exists (
      select from pg_depend as d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
    )
),
-- Where a function finds the names that it has without a schema, whoever calls it.
lookup as materialized (
  select string_agg(quote_ident(name), ', ' order by place) as path,
    array_agg(quote_ident(name) order by place) as names
  from (
    select name, min(place) as place
    from (
      select * from unnest($1::text[]) with ordinality as served (name, place)
      union all
      select 'public', 1000
      union all
      select extnamespace::regnamespace::text, 1001 from pg_extension where extnamespace <> 'pg_catalog'::regnamespace
    ) as schemas
    group by name
  ) as each
),
-- Policies of served tables. `using` and `with_check` are the texts of the conditions, `tree` the parsed form of both together.
policies as materialized (
  select p.oid, p.polname as policy, p.polrelid as relation, c.name as table, c.has_row_security,
    format('policy %I on %s', p.polname, c.name) as name, format('%I on %s', p.polname, c.name) as identity,
    p.polcmd as command, p.polpermissive as is_permissive, p.polroles as roles,
    pg_get_expr(p.polqual, p.polrelid) as using, pg_get_expr(p.polwithcheck, p.polrelid) as with_check,
    concat_ws(' ', p.polqual::text, p.polwithcheck::text) as tree,
    obj_description(p.oid, 'pg_policy') as comment
  from pg_policy as p
  join relations as c on c.oid = p.polrelid
)
