-- note: With two identical indexes, every write updates both.
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
where not exists (select from pg_constraint as k where k.conindid = later.indexrelid)
