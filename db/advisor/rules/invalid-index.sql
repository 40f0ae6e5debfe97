-- warning: An index that failed to build is written by every change, and never read.
select 'index ' || i.indexrelid::regclass as object,
  obj_description(i.indexrelid, 'pg_class') as comment,
  format('it failed to build on %s: it costs writes and serves no query', t.name) as reason,
  format('reindex index concurrently %s;', i.indexrelid::regclass) as fix
from pg_index as i
join relations as t on t.oid = i.indrelid
where not i.indisvalid
