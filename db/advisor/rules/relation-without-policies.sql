-- warning: Materialized views and foreign tables cannot have policies: a grant shows all rows.
select case r.kind when 'm' then 'materialized view ' else 'foreign table ' end || r.name as object, r.comment,
  format('policies cannot apply to it: %s may use all rows', array_to_string(r.granted_to, ', ')) as reason,
  format('revoke all on %s from %s;', r.name, (select string_agg(quote_ident(name), ', ') from unnest(r.granted_to) as name))
    as fix
from relations as r
where r.kind in ('m', 'f') and r.granted_to <> '{}'
