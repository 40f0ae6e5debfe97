-- warning policy-always-true: A policy for writes that is always true lets its roles change every row.
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

-- warning policy-per-row: A function call in a policy is executed for every row, unless a subquery makes it once per statement.
with calls as (
  select p.*, call.text
  from policies as p
  cross join lateral (
    -- `auth.uid()` or `current_setting('…', true)`, but not `( SELECT auth.uid() AS uid)`.
    select distinct m[2] as text
    from regexp_matches(
      -- Without `( SELECT NULLIF(current_setting(…), ''::text)::uuid)`, which runs once, because it reads no table.
      regexp_replace(concat_ws(' ', p.using, p.with_check),
        '\( SELECT ' || repeat('(?:(?! FROM )[^()]|\(', 8) || '(?:(?! FROM )[^()])*' || repeat('\))*', 8) || '\)', '', 'g'),
      '(SELECT\s+)?(\m(?:[a-z_][a-z0-9_$]*\.[a-z_][a-z0-9_$]*\(\)|current_setting\(''[^'']*''(?:::text)?(?:, (?:true|false))?\)))',
      'g') as m
    where m[1] is null
  ) as call
)
select c.name as object, c.comment,
  format('it calls %s once per row', string_agg(c.text, ', ' order by c.text)) as reason,
  concat_ws(e'\n  ', format('alter policy %s', c.identity),
    'using (' || (select wrapped.text) || ')',
    'with check (' || (select checked.text) || ')') || ';' as fix
from calls as c
cross join lateral (
  select regexp_replace(c.using,
    '(?<!SELECT )(\m(?:[a-z_][a-z0-9_$]*\.[a-z_][a-z0-9_$]*\(\)|current_setting\(''[^'']*''(?:::text)?(?:, (?:true|false))?\)))',
    '(select \1)', 'g') as text
) as wrapped
cross join lateral (
  select regexp_replace(c.with_check,
    '(?<!SELECT )(\m(?:[a-z_][a-z0-9_$]*\.[a-z_][a-z0-9_$]*\(\)|current_setting\(''[^'']*''(?:::text)?(?:, (?:true|false))?\)))',
    '(select \1)', 'g') as text
) as checked
group by c.name, c.comment, c.identity, wrapped.text, checked.text

-- error policy-recursion: To apply a policy that reads its own table, Postgres would have to apply the policy again, and raises 42P17.
with recursive reads as (
  -- Reading `relation` applies the policy, which reads `other`.
  select p.relation, (other.match)[1]::oid as other, p.oid as policy
  from policies as p, regexp_matches(p.tree, ':relid ([0-9]+)', 'g') as other (match)
  where p.has_row_security and p.command in ('r', '*')
),
paths as (
  -- Every policy begins a path, those for writes too: they read tables as well. `begin` is the table that the policy itself reads.
  select p.oid as policy, (other.match)[1]::oid as begin, (other.match)[1]::oid as relation
  from policies as p, regexp_matches(p.tree, ':relid ([0-9]+)', 'g') as other (match)
  where p.has_row_security
  union
  select s.policy, s.begin, r.other from paths as s join reads as r on r.relation = s.relation
),
circles as (
  select s.policy, string_agg(distinct format('%I.%I', n.nspname, c.relname), ', ') as tables
  from paths as s
  join policies as p on p.oid = s.policy and p.relation = s.relation
  join pg_class as c on c.oid = s.begin
  join pg_namespace as n on n.oid = c.relnamespace
  group by s.policy
)
select distinct p.name as object, p.comment,
  format('it reads %s, whose policies apply it again: statements that it applies to fail with 42P17', s.tables) as reason,
  concat_ws(e'\n', '-- Read the table in a function that policies do not restrict, and call it in the policy:',
    format('create function %s(…) returns boolean language sql stable security definer set search_path = ''''', f.name),
    format('begin atomic select exists (select from %s where …); end;', s.tables),
    format('revoke execute on function %s from public;', f.name),
    format('grant execute on function %s to %s;', f.name, coalesce(r.names, '…')),
    format('alter policy %s', p.identity) || case when p.using is not null then format(' using ((select %s(…)))', f.name) else '' end
      || case when p.with_check is not null then format(' with check ((select %s(…)))', f.name) else '' end || ';') as fix
from policies as p
join circles as s on s.policy = p.oid
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
  format('alter function %s security definer set search_path = %s, pg_temp;', f.name, lookup.path)
from policies as p
cross join lookup
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

-- error policy-without-execute: A policy that calls a function which its roles may not execute makes their statements fail with 42501.
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

-- note policy-without-grant: A policy is never applied if its roles have no grant for its command.
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

-- warning policy-with-current-user: In a policy, current_user and session_user are the same for all callers of a role, so they name no user.
with texts as (
  select p.*, t.text
  from policies as p
  -- `lower((owner)::text) = ( SELECT (CURRENT_USER)::text AS me)` becomes `owner = CURRENT_USER`, and each literal ''.
  cross join lateral regexp_replace(concat_ws(' ', p.using, p.with_check), '''([^'']|'''')*''', '''''', 'g') as l (text)
  cross join lateral regexp_replace(l.text,
    '\s+|::("[^"]+"|[a-z_][\w.]*)( varying)?(\(\d+\))?(\[\])*', ' ', 'g') as c (text)
  cross join lateral regexp_replace(c.text, '(\m(lower|upper)|(?<![\w"]))\(+([\w.$"]+)[ )]*\)', '\3', 'g') as w (text)
  cross join lateral regexp_replace(regexp_replace(w.text, ' +', ' ', 'g'),
    '\( SELECT ((CURRENT|SESSION)_USER|CURRENT_ROLE|USER) AS [\w"]+\)', '\1', 'g') as t (text)
),
-- With a constant, or in a call such as pg_has_role(current_user, …), a policy means the role itself.
compared as (
  select t.*, m[1] as column, m[2] as word
  from texts as t, regexp_matches(t.text,
    '((?:[\w$]+\.|"[^"]+"\.)*(?:"[^"]+"|\m[a-z_][\w$]*)) (?:[=<>~!@&][=<>~!@&*]*|IS DISTINCT FROM) '
    '(?:\(|ARRAY\[)?\m((?:CURRENT|SESSION)_USER|CURRENT_ROLE|USER)\M', 'g') as m
  union all
  select t.*, m[2], m[1]
  from texts as t, regexp_matches(t.text,
    '\m((?:CURRENT|SESSION)_USER|CURRENT_ROLE|USER) (?:[=<>~!@&][=<>~!@&*]*|IN|IS DISTINCT FROM) (?:ANY |ALL )?'
    '\(?(?: ?SELECT )?(?:ARRAY\[)?((?:[\w$]+\.|"[^"]+"\.)*(?:"[^"]+"|[a-z_][\w$]*))(?![\w$.(])', 'g') as m
)
select c.name as object, c.comment,
  format('it compares %s, which is the same for all callers of a role and names no user',
    string_agg(distinct format('%s with %s', c.column, lower(c.word)), ' and ')) as reason,
  format(e'-- Compare with the id of the user: %s\nalter policy %s%s%s;', uid.text, c.identity,
    case when c.using is not null then ' using (…)' end,
    case when c.with_check is not null then ' with check (…)' end) as fix
from compared as c
cross join lateral (
  select case when to_regprocedure('auth.uid()') is not null then '(select auth.uid())'
    else '(select nullif(current_setting(''request.jwt.claims'', true), '''')::jsonb ->> ''sub'')' end as text
) as uid
where c.has_row_security and c.column !~ '(^|\.)(rolname|usename)$'
  and (c.roles = '{0}' or exists (select from callers as r where r.oid = any (c.roles)))
group by c.name, c.comment, c.identity, c.using, c.with_check, uid.text

-- warning policy-without-sign-in: A policy that holds when there is no user opens its rows to every anonymous caller.
-- The advisor tries `condition` as a caller without a user, and keeps the finding if it holds for every row, and no
-- condition of `restrictive` prevents that. `beside`: instead of it, conditions of which one must read the user.
with conditions as (
  select p.*, c.clause, c.condition, t.relname as alias, p.tree ~ '\{VAR ' as reads_row, lookup.path,
    (
      -- Of those that the login may become, the one with the fewest rights.
      select r.name from callers as r where (p.roles = '{0}' or r.oid = any (p.roles)) and pg_has_role(r.oid, 'member')
      order by (select count(*) from callers as other where pg_has_role(r.oid, other.oid, 'member')), r.name limit 1
    ) as role,
    array(
      select case c.clause when 'using' then r.using else coalesce(r.with_check, r.using) end from policies as r
      where r.relation = p.relation and not r.is_permissive and (r.roles = '{0}' or r.roles @> p.roles)
        and (r.command in (p.command, '*') or p.command = '*' and r.command = 'r')
    ) as restrictive
  from policies as p
  cross join lateral (values ('using', p.using), ('with check', p.with_check)) as c (clause, condition)
  cross join lookup
  join pg_class as t on t.oid = p.relation
  where p.is_permissive and p.has_row_security and (c.clause = 'using' or p.with_check is distinct from p.using)
    and (p.roles = '{0}' or exists (select from callers as r where r.oid = any (p.roles)))
)
select c.name as object, c.comment, c.relation, c.table, c.alias, c.role, c.path, c.reads_row, c.condition, c.restrictive, null::text[] as beside,
  format('its condition holds for every row if the claims of the caller name no user: %s', c.condition) as reason,
  format('alter policy %s %s (…);  -- is not null and …, instead of is null or …', c.identity, c.clause) as fix
from conditions as c
where c.condition <> 'true'
union all
select c.name, c.comment, c.relation, c.table, c.alias, c.role, c.path, c.reads_row, c.condition, c.restrictive, b.conditions,
  format('it shows every row to every role, so the policies for users have no effect: %s', b.names),
  format('alter policy %1$s to …;  -- or: drop policy %1$s;', c.identity)
from conditions as c
cross join lateral (
  select array_agg(o.using) as conditions, string_agg(o.policy, ', ' order by o.policy) as names
  from policies as o
  where o.relation = c.relation and o.is_permissive and o.command = 'r' and o.using <> 'true'
) as b
where c.condition = 'true' and c.command = 'r' and c.roles = '{0}' and b.conditions is not null

-- warning grant-without-policy: With row-level security, a grant without a policy has no effect: reads find no rows, and writes fail.
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
