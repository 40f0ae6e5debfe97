-- warning: A function call in a policy is executed for every row, unless a subquery makes it once per statement.
with calls as (
  select p.*, call.text
  from policies as p
  cross join lateral (
    -- `auth.uid()` or `current_setting('…', true)`, but not `( SELECT auth.uid() AS uid)`.
    select distinct m[2] as text
    from regexp_matches(
      concat_ws(' ', p.using, p.with_check),
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
