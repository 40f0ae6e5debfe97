-- error: A policy that calls a function which its roles may not execute makes their statements fail with 42501.
select p.name as object, p.comment,
  format('it calls %s, which %s may not execute: statements that it applies to fail with 42501', f.name,
    array_to_string(denied.roles, ', ')) as reason,
  format('grant execute on function %s to %s;', f.name, array_to_string(
    array(
      -- Not those that inherit the right from another of them.
      select quote_ident(role) from unnest(denied.roles) as role
      where not exists (select from unnest(denied.roles) as other where other <> role and pg_has_role(role, other, 'usage'))
    ), ', ')) as fix
from policies as p
join relations as t on t.oid = p.relation
join functions as f on f.oid in (select (match)[1]::oid from regexp_matches(p.tree, ':funcid ([0-9]+)', 'g') as called (match))
cross join lateral (
  select array_agg(r.name order by r.name) as roles from callers as r
  where r.name = any (t.granted_to) and not has_function_privilege(r.oid, f.oid, 'execute')
    and exists (select from unnest(p.roles) as role where role = 0 or pg_has_role(r.oid, nullif(role, 0), 'usage'))
) as denied
where p.has_row_security and denied.roles is not null
