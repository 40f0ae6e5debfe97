-- error: A view reads with the rights of its owner, so the policies of its tables do not apply to callers. Only a note if its tables have no policies.
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
  select v.*, bool_or(c.relrowsecurity) as has_policies
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
  format('alter view %s set (security_invoker = true);', v.name) as fix
from judged as v
