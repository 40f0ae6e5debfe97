-- warning: A policy for writes that is always true lets its roles change every row.
select p.name as object, p.comment,
  format('it allows %s to %s every row', coalesce(
      (select string_agg(role::regrole::text, ', ' order by role::regrole::text) from unnest(p.roles) as role where role <> 0),
      'every role'),
    case p.command when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'read and write' end) as reason,
  format('alter policy %s using (…) with check (…);', p.identity) as fix
from policies as p
where p.is_permissive and p.command in ('a', 'w', 'd', '*') and p.has_row_security
  and 'true' = any (array[p.using, p.with_check])
  and (p.roles = '{0}' or exists (select from callers as r where r.oid = any (p.roles)))
