-- warning: A smart tag, or a word of @behavior, that the service does not know has no effect.
with known (tag) as (
  values
    -- Of this service.
    ('accept'), ('filterable'), ('order'), ('unpaged'),
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
    ('aggregates'), ('manyToMany'),
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
