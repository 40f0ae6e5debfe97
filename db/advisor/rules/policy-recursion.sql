-- error: To apply a policy that reads its own table, Postgres would have to apply the policy again, and raises 42P17.
with recursive reads as (
  -- Reading `relation` applies the policy, which reads `other`.
  select p.relation, (other.match)[1]::oid as other, p.oid as policy
  from policies as p, regexp_matches(p.tree, ':relid ([0-9]+)', 'g') as other (match)
  where p.has_row_security and p.command in ('r', '*')
),
paths as (
  -- Every policy begins a path, those for writes too: they read tables as well.
  select p.oid as policy, (other.match)[1]::oid as relation
  from policies as p, regexp_matches(p.tree, ':relid ([0-9]+)', 'g') as other (match)
  where p.has_row_security
  union
  select s.policy, r.other from paths as s join reads as r on r.relation = s.relation
)
select distinct p.name as object, p.comment,
  format('it reads %s, whose policies apply it again: statements that it applies to fail with 42P17', p.table) as reason,
  concat_ws(e'\n', '-- Read the table in a function that policies do not restrict, and call it in the policy:',
    format('create function %s(…) returns boolean language sql stable security definer set search_path = ''''', f.name),
    format('begin atomic select exists (select from %s where …); end;', p.table),
    format('revoke execute on function %s from public;', f.name),
    format('grant execute on function %s to %s;', f.name, coalesce(r.names, '…')),
    format('alter policy %s', p.identity) || case when p.using is not null then format(' using ((select %s(…)))', f.name) else '' end
      || case when p.with_check is not null then format(' with check ((select %s(…)))', f.name) else '' end || ';') as fix
from policies as p
join paths as s on s.policy = p.oid and s.relation = p.relation
join relations as t on t.oid = p.relation
cross join lateral (
  select format('internal.%I', 'is_' || btrim(regexp_replace(p.policy, '\W+', '_', 'g'), '_')) as name
) as f
cross join lateral (
  -- A policy for everyone applies to those whom the grants name.
  select string_agg(name, ', ' order by name) as names
  from unnest(case when p.roles = '{0}' then t.grantees else p.roles::regrole[]::text[] end) as role (name)
) as r
where exists (select from reads as r where r.policy = p.oid)
union all
select distinct p.name, p.comment,
  format('it calls %s, which reads %s with the rights of the caller: the policy applies again, without end', f.name, p.table),
  format('alter function %s security definer set search_path = '''';', f.name)
from policies as p
cross join lateral regexp_matches(p.tree, ':funcid ([0-9]+)', 'g') as called (match)
join functions as f on f.oid = (called.match)[1]::oid and not f.is_definer
where p.has_row_security and p.command in ('r', '*')
  and (
    f.body ~* format('\m(from|join)\s+(only\s+)?("?%s"?\.)?"?%s"?\M',
      split_part(p.table, '.', 1), split_part(p.table, '.', 2))
    or f.is_parsed and exists (
      select from pg_depend as d
      where d.classid = 'pg_proc'::regclass and d.objid = f.oid
        and d.refclassid = 'pg_class'::regclass and d.refobjid = p.relation
    )
  )
