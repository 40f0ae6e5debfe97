-- warning: Without a revoke, Postgres lets every role execute a new function.
select 'function ' || f.name as object, f.comment,
  'every role may execute it, anonymous callers too' as reason,
  format(e'revoke execute on function %s from public;\ngrant execute on function %s to authenticated;', f.name, f.name) as fix
from functions as f
join pg_proc as p on p.oid = f.oid
where f.is_served and f.returns not in ('trigger'::regtype, 'event_trigger'::regtype)
  and exists (
    select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
    where a.grantee = 0 and a.privilege_type = 'EXECUTE'
  )
