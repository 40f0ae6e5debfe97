-- note: A policy is never applied if its roles have no grant for its command.
select p.name as object, p.comment,
  format('%s may not %s %s', roles.names, command.name, p.table) as reason,
  format('grant %s on %s to %s;', command.name, p.table, roles.names) as fix
from policies as p
join relations as t on t.oid = p.relation
cross join lateral (
  select case p.command when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete'
    else 'select' end as name
) as command
cross join lateral (
  select string_agg(quote_ident(r.name), ', ' order by r.name) as names from callers as r
  where p.roles = '{0}' or r.oid = any (p.roles)
) as roles
where roles.names is not null
  and not exists (
    select from callers as r
    where (p.roles = '{0}' or exists (select from unnest(p.roles) as role where pg_has_role(r.oid, nullif(role, 0), 'usage')))
      and (has_any_column_privilege(r.oid, t.oid, 'select, insert, update') or has_table_privilege(r.oid, t.oid, 'delete'))
      and (
        p.command = '*' or p.command = 'd' and has_table_privilege(r.oid, t.oid, 'delete')
        or p.command <> 'd' and has_any_column_privilege(r.oid, t.oid, command.name)
      )
  )
