-- warning: With row-level security, a grant without a policy has no effect: reads find no rows, and writes fail.
with commands (code, name) as (values ('r'::"char", 'select'), ('a', 'insert'), ('w', 'update'), ('d', 'delete')),
missing as (
  select t.name, t.comment, c.name as command, array_agg(r.name order by r.name) as roles
  from relations as t
  cross join commands as c
  cross join callers as r
  where t.kind in ('r', 'p') and t.has_row_security
    and case when c.code = 'd' then has_table_privilege(r.oid, t.oid, 'delete')
      else has_any_column_privilege(r.oid, t.oid, c.name) end
    and not pg_has_role(r.oid, t.owner, 'usage')
    and not exists (
      select from policies as p
      where p.relation = t.oid and p.is_permissive and p.command in (c.code, '*')
        and exists (select from unnest(p.roles) as role where role = 0 or pg_has_role(r.oid, nullif(role, 0), 'usage'))
    )
  group by t.name, t.comment, c.name
)
select 'table ' || name as object, comment,
  format('%s may %s, but no policy allows a row: %s', array_to_string(roles, ', '), command,
    case command when 'insert' then 'inserts fail with 42501' else 'nothing is found' end) as reason,
  format('create policy "…" on %s for %s to %s %s (…);', name, command,
    (select string_agg(quote_ident(role), ', ') from unnest(roles) as role),
    case command when 'insert' then 'with check' else 'using' end) as fix
from missing
