-- warning: A security definer function whose owner is not restricted by policies bypasses the policies of its callers.
select 'function ' || f.name as object, f.comment,
  format('%s may call it, and it runs as %s, to whom no policy applies', array_to_string(f.granted_to, ', '), o.rolname)
    as reason,
  format('alter function %s security invoker;', f.name) as fix
from functions as f
join pg_roles as o on o.oid = f.owner
where f.is_served and f.is_definer and f.granted_to <> '{}'
  and (
    o.rolsuper or o.rolbypassrls
    or exists (select from pg_class as c where c.relowner = o.oid and c.relkind in ('r', 'p') and not c.relforcerowsecurity)
  )
