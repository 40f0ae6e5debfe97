-- warning: Without an index on the foreign key, GraphQL has no list on the other side, and deletes and joins scan the table.
select format('constraint %I on %s', k.conname, t.name) as object,
  obj_description(k.oid, 'pg_constraint') as comment,
  format('%s has no index that begins with %s: GraphQL leaves out its list in %s, and deleting there scans %s',
    t.name, columns.names, k.confrelid::regclass, t.name) as reason,
  format('create index on %s (%s);', t.name, columns.names) as fix
from pg_constraint as k
join relations as t on t.oid = k.conrelid
cross join lateral (
  select string_agg(quote_ident(a.attname), ', ' order by key.place) as names
  from unnest(k.conkey) with ordinality as key (number, place)
  join pg_attribute as a on a.attrelid = k.conrelid and a.attnum = key.number
) as columns
where k.contype = 'f' and not t.is_partition
  and not exists (
    select from pg_index as i
    where i.indrelid = k.conrelid and i.indisvalid and i.indpred is null
      -- The first columns of the index, in any order.
      and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey
      and i.indnkeyatts >= cardinality(k.conkey)
  )
