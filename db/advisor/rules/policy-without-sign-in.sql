-- warning: A policy that holds when there is no user shows its rows to every anonymous caller.
select p.name as object, p.comment,
  format('its condition holds for every caller who is not signed in: %s', found.text) as reason,
  format('alter policy %s using (…);  -- is not null and …, instead of is null or …', p.identity) as fix
from policies as p
cross join lateral (
  select substring(p.using from '\(\(?(?: SELECT )?auth\.uid\(\)(?: AS uid\))? IS NULL\) OR ') as text
) as found
where p.is_permissive and found.text is not null
