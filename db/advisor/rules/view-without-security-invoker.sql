-- error: A view reads with the rights of its owner, so the policies of its tables do not apply to callers.
select 'view ' || v.name as object, v.comment,
  format('it reads as its owner %s: %s see rows that the policies of its tables hide',
    v.owner::regrole, array_to_string(v.granted_to, ', ')) as reason,
  format('alter view %s set (security_invoker = true);', v.name) as cure
from relations as v
where v.kind = 'v' and v.granted_to <> '{}'
  and not v.options && array['security_invoker=true', 'security_invoker=on', 'security_invoker=yes', 'security_invoker=1']
  and exists (
    select from pg_rewrite as w
    join pg_depend as d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass
    where w.ev_class = v.oid and d.refobjid <> v.oid
  )
