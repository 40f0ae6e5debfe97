-- warning login-may-replicate: A login that serves requests and may replicate can copy the whole server.
select l.object, l.comment,
  'it serves requests, and with the attribute replication it could copy the whole server: name another login in CHANGES_URL'
    as reason,
  format(e'-- Let another login read the changes, with CHANGES_URL. Then:\n-- alter role %I noreplication;', l.name) as fix
from logins as l
where l.may_replicate and not l.is_superuser

-- warning login-is-superuser: No policy and no grant restricts a superuser, who may also become every role.
select l.object, l.comment,
  'it serves requests, and is a superuser: a token may name any role, and no policy restricts it' as reason,
  e'create role … login noinherit password ''…'';\n-- Grant it the roles of callers, and name it in DATABASE_URL.' as fix
from logins as l
where l.is_superuser

-- warning login-owns-tables: Policies do not restrict the owner of a table.
select l.object, l.comment,
  format('it serves requests, and owns %s: policies do not restrict it there', string_agg(t.name, ', ' order by t.name)) as reason,
  string_agg(format('alter table %s owner to …;', t.name), e'\n' order by t.name) as fix
from logins as l
join relations as t on t.owner = l.oid and t.kind in ('r', 'p')
where not l.is_superuser
group by l.object, l.comment

-- warning login-bypasses-row-security: A token can name every role that the login may become, also one that no policy restricts.
with recursive reached as (
  select l.oid as login, l.oid as role from logins as l
  union
  select r.login, m.roleid
  from reached as r
  join pg_auth_members as m on m.member = r.role and coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
)
select 'role ' || quote_ident(role.rolname) as object, shobj_description(role.oid, 'pg_authid') as comment,
  case when role.oid = l.oid then 'it serves requests, and policies do not restrict it'
    else format('policies do not restrict it, and a token can name it, because the login %s may become it', l.name) end as reason,
  case when role.oid = l.oid then format(e'-- If no other program uses this login:\n-- alter role %I nobypassrls;', l.name)
    else format(e'-- If no program has a token of this role, such as the service key of Supabase:\n-- revoke %I from %I;',
      role.rolname, l.name) end as fix
from reached as r
join pg_roles as role on role.oid = r.role
join logins as l on l.oid = r.login
where (role.rolbypassrls or role.rolsuper) and not l.is_superuser
