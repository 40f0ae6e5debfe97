-- Run this in the database as a superuser, with your names. Leave out the line of a role that exists.
create role content_owner login createrole password 'change me';
create role service_role bypassrls;
grant service_role to content_owner with admin option;
alter database content owner to content_owner;
do $$
declare
  present regrole := 'postgres';
  next text := 'content_owner';
  statement text;
begin
  for statement in
    select format('grant %I to %s with admin option', rolname, next) from pg_roles
    where rolname in ('anon', 'authenticated', 'admin', 'users_editor', 'service_role', 'auth_owner', 'tasks_owner', 'changes_owner')
      or rolname in (select current_database() || suffix
        from unnest(array['_data', '_admin', '_service', '_auth', '_tasks', '_changes']) as suffix)
    union all
    select format('alter schema %I owner to %s', nspname, next) from pg_namespace
    where nspname = 'public' or (nspowner = present and oid >= 16384)
    union all
    select format('alter table %s owner to %s', oid::regclass, next) from pg_class
    where relowner = present and relkind in ('r', 'p', 'v', 'm', 'f') and oid >= 16384
    union all
    select format('alter sequence %s owner to %s', c.oid::regclass, next) from pg_class as c
    where relowner = present and relkind = 'S' and oid >= 16384 and not exists (
      select from pg_depend as d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i'))
    union all
    select format('alter routine %s owner to %s', p.oid::regprocedure, next) from pg_proc as p
    where proowner = present and oid >= 16384 and not exists (
      select from pg_depend as d where d.objid = p.oid and d.classid = 'pg_proc'::regclass and d.deptype = 'e')
    union all
    select format('alter type %s owner to %s', t.oid::regtype, next) from pg_type as t
    where typowner = present and oid >= 16384 and typtype in ('d', 'e', 'r') and not exists (
      select from pg_depend as d where d.objid = t.oid and d.classid = 'pg_type'::regclass and d.deptype = 'e')
  loop
    execute statement;
  end loop;
end $$;
