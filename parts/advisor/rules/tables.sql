-- error table-without-row-security: Without row-level security, a grant gives access to all rows of the table.
select 'table ' || t.name as object, t.comment,
  case when exists (select from policies as p where p.relation = t.oid)
    then format('it has policies, but row-level security is not enabled: %s may use all rows', array_to_string(t.granted_to, ', '))
    else format('it has no row-level security: %s may use all rows', array_to_string(t.granted_to, ', '))
  end as reason,
  -- Without the policy nothing would be found: both, or neither.
  case when exists (select from policies as p where p.relation = t.oid)
    then format(e'-- Callers then use only the rows that its policies allow.\nalter table %s enable row level security;', t.name)
    else format(e'begin;\ncreate policy "…" on %1$s to %2$s using (…);\nalter table %1$s enable row level security;\ncommit;', t.name,
      array_to_string(case when t.grantees <> '{}' then t.grantees else t.granted_to end, ', '))
  end as fix
from relations as t
where t.kind in ('r', 'p') and not t.has_row_security and t.granted_to <> '{}'

-- warning relation-without-policies: Materialized views and foreign tables cannot have policies: a grant shows all rows.
select case r.kind when 'm' then 'materialized view ' else 'foreign table ' end || r.name as object, r.comment,
  format('policies cannot apply to it: %s may use all rows', array_to_string(r.granted_to, ', ')) as reason,
  format(e'-- If they may not, and no other application needs these grants:\n-- revoke all on %s from %s;', r.name,
    (select string_agg(quote_ident(name), ', ') from unnest(r.granted_to) as name)) as fix
from relations as r
where r.kind in ('m', 'f') and r.granted_to <> '{}'

-- error view-without-security-invoker: A view reads with the rights of its owner, so the policies of its tables do not apply to callers. Only a note if its tables have no policies.
with recursive
views as (
  select v.oid, v.name, v.comment, v.owner, v.granted_to
  from relations as v
  where v.kind = 'v' and v.granted_to <> '{}'
    and not v.options
      && array['security_invoker=true', 'security_invoker=on', 'security_invoker=yes', 'security_invoker=1']
),
-- What each view reads, also through other views.
below as (
  select v.oid as view, v.oid as relation from views as v
  union
  select b.view, d.refobjid
  from below as b
  join pg_rewrite as w on w.ev_class = b.relation
  join pg_depend as d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass
),
judged as (
  select v.*, bool_or(c.relrowsecurity) as has_policies,
    bool_and(not exists (
      select from unnest(v.granted_to) as caller where not has_table_privilege(caller, c.oid, 'select')
    )) as is_readable,
    string_agg(distinct c.oid::regclass::text, ', ') as names
  from views as v
  join below as b on b.view = v.oid
  join pg_class as c on c.oid = b.relation and c.oid <> v.oid
  group by v.oid, v.name, v.comment, v.owner, v.granted_to
)
select 'view ' || v.name as object, v.comment, case when v.has_policies then 'error' else 'note' end as level,
  format(
    case
      when v.has_policies then 'it reads as its owner %s: %s see rows that the policies of its tables hide'
      else 'it reads as its owner %s: if its tables get policies, they will not apply to %s'
    end,
    v.owner::regrole, array_to_string(v.granted_to, ', ')) as reason,
  -- Where the answers of the view stay the same, it is a statement.
  case when v.has_policies or not v.is_readable
    then format(e'-- If they may see only the rows that the policies of %s allow%s:\n-- ', v.names,
      case when v.is_readable then '' else ', and after a grant of select on what they lack' end) else '' end
    || format('alter view %s set (security_invoker = true);', v.name) as fix
from judged as v

-- warning secret-column: Callers can read a column whose name suggests a secret.
select format('column %s.%I', t.name, a.attname) as object, col_description(t.oid, a.attnum) as comment,
  format('%s may read it', array_to_string(readers.names, ', ')) as reason,
  format(e'-- If nothing reads it with these roles, also with select *:\n-- revoke select on %s from %s;\n-- grant select (%s) on %s to %s;',
    t.name, readers.idents, others.names, t.name, readers.idents) as fix
from relations as t
join pg_attribute as a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
cross join lateral (
  select array_agg(r.name order by r.name) as names, string_agg(quote_ident(r.name), ', ' order by r.name) as idents
  from callers as r where has_column_privilege(r.oid, t.oid, a.attnum, 'select')
) as readers
cross join lateral (
  select string_agg(quote_ident(o.attname), ', ' order by o.attnum) as names from pg_attribute as o
  where o.attrelid = t.oid and o.attnum > 0 and not o.attisdropped and o.attnum <> a.attnum
) as others
where readers.names is not null
  and a.attname ~* '(^|_)(password|passwd|pwd|secret|api_?key|access_?token|refresh_?token|private_?key|card_?number|cvv|iban|ssn)($|_(hash|digest)$)'

-- note table-without-primary-key: Without a primary key there is no access to one row: no thing(id), updateThing and deleteThing, no upsert and no subscription.
select 'table ' || t.name as object, t.comment,
  'it has no primary key: GraphQL has no query, update or delete of one row and no subscription, only lists and writes with a filter' as reason,
  format('alter table %s add column id bigint generated always as identity primary key;', t.name) as fix
from relations as t
where t.kind in ('r', 'p') and not t.is_partition and t.granted_to <> '{}'
  and not exists (select from pg_constraint as k where k.conrelid = t.oid and k.contype = 'p')

-- warning foreign-key-without-index: Without an index on the foreign key, GraphQL has no list on the other side, and deletes and joins scan the table.
select format('constraint %I on %s', k.conname, t.name) as object,
  obj_description(k.oid, 'pg_constraint') as comment,
  format('%s has no index that begins with %s: GraphQL leaves out its list in %s, and deleting there scans %s',
    t.name, columns.names, k.confrelid::regclass, t.name) as reason,
  -- Writes to a table of more than a megabyte would wait for a plain one.
  format('create index %son %s (%s);',
    case when t.kind = 'r' and pg_relation_size(t.oid) > 1000000 then 'concurrently ' end, t.name, columns.names) as fix
from pg_constraint as k
join relations as t on t.oid = k.conrelid
cross join lateral (
  select string_agg(quote_ident(a.attname), ', ' order by key.place) as names
  from unnest(k.conkey) with ordinality as key (number, place)
  join pg_attribute as a on a.attrelid = k.conrelid and a.attnum = key.number
) as columns
where k.contype = 'f' and not t.is_partition
  and not exists (
    select from pg_index as i
    where i.indrelid = k.conrelid and i.indisvalid and i.indpred is null
      -- The first columns of the index, in any order.
      and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey
      and i.indnkeyatts >= cardinality(k.conkey)
  )

-- note duplicate-index: With two identical indexes, every write updates both.
select 'index ' || later.indexrelid::regclass as object,
  obj_description(later.indexrelid, 'pg_class') as comment,
  format('it is equal to %s', first.indexrelid::regclass) as reason,
  format('drop index %s;', later.indexrelid::regclass) as fix
from pg_index as later
join relations as t on t.oid = later.indrelid
join pg_index as first on first.indrelid = later.indrelid
  and regexp_replace(pg_get_indexdef(first.indexrelid), '^CREATE (UNIQUE )?INDEX \S+', '')
    = regexp_replace(pg_get_indexdef(later.indexrelid), '^CREATE (UNIQUE )?INDEX \S+', '')
  -- The one that a constraint uses, or that is unique, stays.
  and (first.indisunique, -first.indexrelid::bigint) > (later.indisunique, -later.indexrelid::bigint)
-- The replica identity is what a publication needs of a table: without it, updates and deletes fail.
where not later.indisreplident and not exists (select from pg_constraint as k where k.conindid = later.indexrelid)

-- warning invalid-index: An index that failed to build is written by every change, and never read.
select 'index ' || i.indexrelid::regclass as object,
  obj_description(i.indexrelid, 'pg_class') as comment,
  format('it failed to build on %s: it costs writes and serves no query', t.name) as reason,
  format('reindex index concurrently %s;', i.indexrelid::regclass) as fix
from pg_index as i
join relations as t on t.oid = i.indrelid
where not i.indisvalid

-- note check-without-message: Clients that violate a CHECK receive its comment as the message, and its name.
select format('constraint %I on %s', k.conname, t.name) as object,
  obj_description(k.oid, 'pg_constraint') as comment,
  case when is_unnamed then 'its name was generated, and it has no comment: clients get a general message'
    else 'it has no comment: clients get a general message' end as reason,
  case when is_unnamed then format(e'alter table %s rename constraint %I to …;\n', t.name, k.conname) else '' end
    || format('comment on constraint %s on %s is %L;', case when is_unnamed then '…' else quote_ident(k.conname) end, t.name,
      -- With its smart tags.
      concat_ws(e'\n', nullif(btrim(obj_description(k.oid, 'pg_constraint'), e' \n'), ''), '…'))
    as fix
from pg_constraint as k
join relations as t on t.oid = k.conrelid
cross join lateral (select k.conname ~ '_check[0-9]*$' as is_unnamed) as name
where k.contype = 'c' and k.conparentid = 0 and k.coninhcount = 0
  and t.granted_to <> '{}'
  and coalesce(regexp_replace(obj_description(k.oid, 'pg_constraint'), '^@.*$', '', 'gn'), '') !~ '\S'

-- warning extension-in-served-schema: The functions and tables of an extension in a served schema are part of the API.
select 'extension ' || e.extname as object, obj_description(e.oid, 'pg_extension') as comment,
  format('its functions are in the served schema %I', n.nspname) as reason,
  case when e.extrelocatable then format(e'-- If no function, query or application finds it by this schema or its search_path:\n'
    '-- create schema if not exists extensions;\n-- alter extension %I set schema extensions;', e.extname) end as fix
from pg_extension as e
join pg_namespace as n on n.oid = e.extnamespace
where n.nspname = any ($1)

-- warning unknown-smart-tag: A smart tag, or a word of @behavior, that the service does not know has no effect.
with known (tag) as (
  values
    -- Of this service.
    ('accept'), ('filterable'), ('notNullItems'), ('order'), ('unpaged'),
    -- Of PostGraphile.
    ('behavior'), ('behaviour'), ('deprecated'), ('enum'), ('enumName'), ('fieldName'), ('foreignConnectionFieldName'),
    ('foreignFieldName'), ('foreignKey'), ('foreignSimpleFieldName'), ('foreignSingleFieldName'), ('hasDefault'),
    ('implements'), ('interface'), ('isIndexed'), ('name'), ('nodeIdCodec'), ('notNull'), ('omit'), ('partitionExpose'),
    ('primaryKey'), ('ref'), ('refVia'), ('resultFieldName'), ('returnType'), ('simpleCollections'), ('sortable'),
    ('type'), ('unionMember'), ('unique')
),
-- The parts of `+queryField:resource:list`.
known_behaviors (tag) as (
  values
    -- Of this service.
    ('aggregates'), ('bulk'), ('changes'), ('manyToMany'),
    -- Of PostGraphile.
    ('array'), ('attribute'), ('backwards'), ('base'), ('condition'), ('connection'), ('constraint'), ('delete'),
    ('filter'), ('filterBy'), ('filterProc'), ('flatMutationField'), ('insert'), ('interface'), ('jwt'), ('list'),
    ('manyRelation'), ('mutationField'), ('node'), ('nodeId'), ('order'), ('orderBy'), ('proc'), ('query'),
    ('queryField'), ('record'), ('resource'), ('select'), ('single'), ('singularRelation'), ('table'), ('totalCount'),
    ('type'), ('typeField'), ('update')
),
commented as (
  select 'table ' || name as object, comment from relations where kind in ('r', 'p', 'f')
  union all
  select 'view ' || name, comment from relations where kind = 'v'
  union all
  select 'materialized view ' || name, comment from relations where kind = 'm'
  union all
  select format('column %s.%I', r.name, a.attname), col_description(r.oid, a.attnum)
  from relations as r join pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  union all
  select format('constraint %I on %s', k.conname, r.name), obj_description(k.oid, 'pg_constraint')
  from relations as r join pg_constraint as k on k.conrelid = r.oid
  union all
  select 'function ' || name, comment from functions where is_served
  union all
  select 'type ' || t.oid::regtype, obj_description(t.oid, 'pg_type')
  from pg_type as t join pg_namespace as n on n.oid = t.typnamespace where n.nspname = any ($1)
),
tags as (
  -- Smart tags are the lines with an @ before the description.
  select c.object, c.comment, line.text, substring(line.text from '^@([A-Za-z]\w*)') as tag
  from commented as c
  cross join lateral regexp_split_to_table(substring(ltrim(c.comment, e' \n\r\t') from '^(?:@[A-Za-z][^\n]*(?:\n|$))*'), e'\n')
    as line (text)
  where c.comment like '%@%'
),
unknown as (
  select object, comment, '@' || tag as word, 'smart tag' as noun, tag
  from tags
  where tag is not null and tag not in (select tag from known) and tag !~ '^arg[0-9]+variant$'
  union all
  select t.object, t.comment, behavior.text, 'behavior', part.text
  from tags as t
  cross join lateral regexp_split_to_table(btrim(regexp_replace(t.text, '^@behaviou?r', '')), '\s+') as behavior (text)
  cross join lateral regexp_split_to_table(ltrim(behavior.text, '+-'), ':') as part (text)
  where t.tag in ('behavior', 'behaviour') and part.text ~ '^[A-Za-z]+$' and part.text not in (select tag from known_behaviors)
),
guesses as (
  select u.*, replace(u.word, u.tag, guess.tag) as guess
  from unknown as u
  left join lateral (
    -- The known word with the most letters in common, if that is most of them.
    select k.tag
    from (
      select tag from known where u.noun = 'smart tag' union all select tag from known_behaviors where u.noun = 'behavior'
    ) as k
    cross join lateral (
      select sum(least(a.count, b.count)) as common
      from (select letter, count(*) from regexp_split_to_table(lower(u.tag), '') as letter group by letter) as a
      join (select letter, count(*) from regexp_split_to_table(lower(k.tag), '') as letter group by letter) as b using (letter)
    ) as letters
    where letters.common >= 0.75 * greatest(length(k.tag), length(u.tag))
    order by letters.common::numeric / greatest(length(k.tag), length(u.tag)) desc, k.tag
    limit 1
  ) as guess on true
)
select object, comment,
  format('%s is not a %s', word, noun) || coalesce(': did you mean ' || guess || '?', '') as reason,
  case when guess is not null then format('comment on %s is %L;', object, replace(comment, word, guess)) end as fix
from guesses
