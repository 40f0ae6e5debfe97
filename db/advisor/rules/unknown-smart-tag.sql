-- warning: A smart tag that the service does not know has no effect.
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
  select c.object, c.comment, substring(line.text from '^@([A-Za-z]\w*)') as tag
  from commented as c
  cross join lateral regexp_split_to_table(substring(ltrim(c.comment, e' \n\r\t') from '^(?:@[A-Za-z][^\n]*(?:\n|$))*'), e'\n')
    as line (text)
  where c.comment like '%@%'
)
select t.object, t.comment,
  format('@%s is not a smart tag', t.tag) || coalesce(': did you mean @' || guess.tag || '?', '') as reason,
  case when guess.tag is not null then
    format('comment on %s is %L;', t.object, replace(t.comment, '@' || t.tag, '@' || guess.tag)) end as cure
from tags as t
left join lateral (
  -- The known tag with the most letters in common, if that is most of them.
  select k.tag
  from known as k
  cross join lateral (
    select sum(least(a.count, b.count)) as common
    from (select letter, count(*) from regexp_split_to_table(lower(t.tag), '') as letter group by letter) as a
    join (select letter, count(*) from regexp_split_to_table(lower(k.tag), '') as letter group by letter) as b using (letter)
  ) as letters
  where letters.common >= 0.75 * greatest(length(k.tag), length(t.tag))
  order by letters.common::numeric / greatest(length(k.tag), length(t.tag)) desc, k.tag
  limit 1
) as guess on true
where t.tag is not null and t.tag not in (select tag from known) and t.tag !~ '^arg[0-9]+variant$'
