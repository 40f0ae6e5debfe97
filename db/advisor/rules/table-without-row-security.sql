-- error: Without row-level security, a grant gives access to all rows of the table.
select 'table ' || t.name as object, t.comment,
  case when exists (select from policies as p where p.relation = t.oid)
    then format('it has policies, but row-level security is not enabled: %s may use all rows', array_to_string(t.granted_to, ', '))
    else format('it has no row-level security: %s may use all rows', array_to_string(t.granted_to, ', '))
  end as reason,
  format('alter table %s enable row level security;', t.name)
    || case when exists (select from policies as p where p.relation = t.oid) then ''
      else format(e'\ncreate policy "…" on %s to %s using (…);', t.name, array_to_string(
        case when t.grantees <> '{}' then t.grantees else t.granted_to end, ', '))
    end as fix
from relations as t
where t.kind in ('r', 'p') and not t.has_row_security and t.granted_to <> '{}'
