-- error definer-without-search-path: A security definer function without a search_path runs what its caller puts into the path, with its owner's rights.
select 'function ' || f.name as object, f.comment,
  format('it runs as %s and looks up names in the search_path of its caller', f.owner::regrole) as reason,
  -- The names that it has without a schema are still found.
  format('alter function %s set search_path = %s, pg_temp;', f.name,
    array_to_string(own.schema || array_remove(lookup.names, own.schema), ', ')) as fix
from functions as f
cross join lookup
cross join lateral (select pronamespace::regnamespace::text as schema from pg_proc where oid = f.oid) as own
where f.is_definer and not exists (select from unnest(f.settings) as setting where setting ~ '^search_path=')

-- warning function-for-everyone: Without a revoke, Postgres lets every role execute a new function.
select 'function ' || f.name as object, f.comment,
  'every role may execute it, anonymous callers too' as reason,
  -- The grant comes first: in between, requests do not fail. All that can call it now still can.
  concat(
    format(e'grant execute on function %s to %s;\n', f.name, nullif(array_to_string(users.names, ', '), '')),
    format('revoke execute on function %s from public;', f.name)
  ) as fix
from functions as f
join pg_proc as p on p.oid = f.oid
join pg_namespace as n on n.oid = p.pronamespace
-- Callers, roles that bypass policies, such as that of the service key, and those that a grant on the schema or on a table in it names.
cross join lateral (
  select array(
    select quote_ident(r.rolname)
    from pg_roles as r
    where not r.rolsuper and r.rolname !~ '^pg_' and r.oid <> f.owner and r.rolname <> all ($3)
      and has_schema_privilege(r.oid, n.oid, 'usage')
      and (
        r.rolbypassrls or r.rolname = any (f.granted_to)
        or exists (select from aclexplode(n.nspacl) as a where a.grantee = r.oid)
        or exists (
          select from pg_class as c cross join lateral aclexplode(c.relacl) as a where c.relnamespace = n.oid and a.grantee = r.oid
        )
      )
    order by r.rolname
  ) as names
) as users
where f.is_served and f.returns not in ('trigger'::regtype, 'event_trigger'::regtype)
  and exists (
    select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
    where a.grantee = 0 and a.privilege_type = 'EXECUTE'
  )

-- warning function-past-policies: A security definer function whose owner is not restricted by policies bypasses the policies of its callers.
select 'function ' || f.name as object, f.comment,
  format('%s may call it, and it runs as %s, to whom no policy applies', array_to_string(f.granted_to, ', '), o.rolname)
    as reason,
  format(e'-- If it checks its callers itself, write why:\ncomment on function %s is %L;\n'
    '-- If not, and if they may use all that it uses:\n-- alter function %s security invoker;',
    f.name, concat_ws(e'\n', '@accept function-past-policies …', f.comment), f.name) as fix
from functions as f
join pg_roles as o on o.oid = f.owner
-- Postgres calls the functions of triggers, and no caller can.
where f.is_served and f.is_definer and f.granted_to <> '{}' and f.returns not in ('trigger'::regtype, 'event_trigger'::regtype)
  and (
    o.rolsuper or o.rolbypassrls
    or exists (select from pg_class as c where c.relowner = o.oid and c.relkind in ('r', 'p') and not c.relforcerowsecurity)
  )

-- warning function-reads-closed-columns: A function with `select *` fails for every caller who may read some columns of the table, and not all.
with closed as (
  select f.oid, c.name as relation, r.name as caller,
    string_agg(quote_ident(a.attname), ', ' order by a.attnum) filter (where not may.read) as names,
    string_agg(quote_ident(a.attname), ', ' order by a.attnum) filter (where may.read) as open
  from functions as f
  join pg_class as t on t.reltype = f.returns
  join relations as c on c.oid = t.oid
  join callers as r on r.name = any (f.granted_to)
  join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  cross join lateral (select has_column_privilege(r.oid, a.attrelid, a.attnum, 'select') as read) as may
  where f.is_served and not f.is_definer and f.language = 'sql' and not f.is_parsed
    -- The table itself, without a subquery or a join.
    and f.body ~* format('\mselect\s+(\w+\.)?\*\s+from\s+(only\s+)?("?%s"?\.)?"?%s"?\M', t.relnamespace::regnamespace, t.relname)
  group by f.oid, c.name, r.name
)
select 'function ' || f.name as object, f.comment,
  format('it reads all columns of %s with *, and %s may not read %s: calls fail', c.relation,
    string_agg(quote_ident(c.caller), ', ' order by c.caller), c.names) as reason,
  format('-- Write the columns that callers may read in place of *, and null::… for the others, in their order; to see it: \sf %s',
    split_part(f.name, '(', 1)) as fix
from closed as c
join functions as f on f.oid = c.oid
where c.names <> '' and c.open <> ''
group by f.name, f.comment, c.relation, c.names

-- warning function-sets-role: The callers of a function that sets a role have the rights of that role until the end of the request.
select 'function ' || f.name as object, f.comment,
  'it sets a role: its callers get the rights of that role until the end of the request' as reason,
  format('-- Take the set role out of it, give it to a role with only the rights that it needs, and:'
    || e'\n-- alter function %s security definer set search_path = '''';', f.name) as fix
from functions as f
where coalesce(case when f.is_parsed then pg_get_function_sqlbody(f.oid) end, f.body) ~* any (array[
    '\mset\s+((local|session)\s+)?(role|session\s+authorization)\M',
    '\mset_config\s*\(\s*''(role|session_authorization)'''
  ])
  or exists (select from unnest(f.settings) as setting where setting ~ '^(role|session_authorization)=')

-- error function-uses-missing-column: Postgres does not check the text of a function when a column is dropped or renamed: the function fails when it is called.
with texts as (
  select f.oid, f.name, f.comment,
    -- Without comments and literals.
    regexp_replace(regexp_replace(f.body, '--[^\n]*|/\*.*?\*/', ' ', 'g'), '''(?:[^'']|'''')*''', '''''', 'g') as text
  from functions as f
  where f.language in ('sql', 'plpgsql') and not f.is_parsed
    -- The migrations of the service change these together with their tables.
    and f.name !~ '^(auth_api|auth_private|tasks|changes)\.'
),
-- What a name before a dot stands for: a table or its alias, a parameter or variable with the type of its rows, new and old.
named as (
  select t.oid, lower(coalesce(source.match[2], split_part('.' || source.match[1], '.', -1))) as alias,
    source.match[1] as relation
  from texts as t
  cross join lateral regexp_matches(t.text,
    '\m(?:from|join|update|into|using)\s+(?:only\s+)?((?:[a-z_][\w$]*\.)?[a-z_][\w$]*)'
    '(?:\s+(?:as\s+)?(?!(?:as|set|where|on|values|select|default|returning|using|join|left|right|full|inner|cross|natural|order'
    '|group|having|limit|offset|fetch|for|union|except|intersect|loop|when|then|and|or|strict)\M)([a-z_][\w$]*))?',
    'gi') as source (match)
  union
  select t.oid, lower(variable.match[1]), variable.match[2]
  from texts as t
  cross join lateral regexp_matches(t.text,
    '\m([a-z_][\w$]*)\s+((?:[a-z_][\w$]*\.)?[a-z_][\w$]*)(?:%rowtype)?\s*(?:;|:=|default\M)', 'gi') as variable (match)
  union
  select t.oid, p.proargnames[parameter.place], c.oid::regclass::text
  from texts as t
  join pg_proc as p on p.oid = t.oid
  cross join lateral unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as parameter (type, place)
  join pg_class as c on c.reltype = parameter.type
  union
  select t.oid, row.name, g.tgrelid::regclass::text
  from texts as t
  join pg_trigger as g on g.tgfoid = t.oid
  cross join (values ('new'), ('old')) as row (name)
),
-- Not to_regclass: it fails without USAGE on the schema, which the login of the service does not have.
tables as (
  select c.oid, n.nspname || '.' || c.relname as name
  from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f', 'c')
),
resolved as (
  select n.oid, n.alias, c.oid as relation
  from named as n
  join tables as c on c.name = lower(case when n.relation like '%.%' then n.relation else 'public.' || n.relation end)
),
uses as (
  select t.oid, lower(used.match[1]) as alias, lower(used.match[2]) as column
  from texts as t
  cross join lateral regexp_matches(t.text,
    '(?<![\w$."])([a-z_][\w$]*)\.([a-z_][\w$]*)(?![\w$]*\s*[(.])', 'gi') as used (match)
  union
  -- insert into posts (title, content)
  select t.oid, lower(split_part('.' || inserted.match[1], '.', -1)), lower(item)
  from texts as t
  cross join lateral regexp_matches(t.text,
    '\minsert\s+into\s+((?:[a-z_][\w$]*\.)?[a-z_][\w$]*)\s*\(\s*([a-z_][\w$]*(?:\s*,\s*[a-z_][\w$]*)*)\s*\)', 'gi')
    as inserted (match)
  cross join lateral regexp_split_to_table(inserted.match[2], '\s*,\s*') as item
),
missing as (
  select u.oid, u.alias, u.column, min(r.relation::regclass::text) as relation
  from uses as u
  join resolved as r on r.oid = u.oid and r.alias = u.alias
  group by u.oid, u.alias, u.column
  having not bool_or(
    exists (
      select from pg_attribute as a where a.attrelid = r.relation and a.attname = u.column and not a.attisdropped
    )
    -- post.summary calls summary(post).
    or exists (
      select from pg_proc as p join pg_class as c on c.oid = r.relation
      where p.proname = u.column and p.pronargs = 1 and p.proargtypes[0] = c.reltype
    )
  )
)
select 'function ' || t.name as object, t.comment,
  format('it uses the column %s of %s, which does not exist: calls fail', string_agg(distinct m.column, ', '), m.relation)
    as reason,
  format('-- Write the function again without the column; to see it: \sf %s', split_part(t.name, '(', 1)) as fix
from missing as m
join texts as t on t.oid = m.oid
-- A schema, a query or a record in the function may have the same name.
where not exists (select from tables as c where c.name = m.alias || '.' || m.column)
  and t.text !~* format('\)\s*(as\s+)?%s\M|\m%s\s+(as\s+(not\s+)?(materialized\s+)?\(|record\M)', m.alias, m.alias)
group by t.name, t.comment, m.relation
