-- error: A security definer function without a search_path runs what its caller puts into the path, with its owner's rights.
select 'function ' || f.name as object, f.comment,
  format('it runs as %s and looks up names in the search_path of its caller', f.owner::regrole) as reason,
  format('alter function %s set search_path = '''';  -- and write every name with its schema', f.name) as fix
from functions as f
where f.is_definer and not exists (select from unnest(f.settings) as setting where setting ~ '^search_path=')
