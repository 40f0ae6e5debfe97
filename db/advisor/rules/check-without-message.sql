-- note: Clients that violate a CHECK receive its comment as the message, and its name.
select format('constraint %I on %s', k.conname, t.name) as object,
  obj_description(k.oid, 'pg_constraint') as comment,
  case when is_unnamed then 'its name was generated, and it has no comment: clients get a general message'
    else 'it has no comment: clients get a general message' end as reason,
  case when is_unnamed then format(e'alter table %s rename constraint %I to …;\n', t.name, k.conname) else '' end
    || format('comment on constraint %s on %s is ''…'';', case when is_unnamed then '…' else quote_ident(k.conname) end, t.name)
    as fix
from pg_constraint as k
join relations as t on t.oid = k.conrelid
cross join lateral (select k.conname ~ '_check[0-9]*$' as is_unnamed) as name
where k.contype = 'c' and k.conparentid = 0 and k.coninhcount = 0
  and t.granted_to <> '{}'
  and coalesce(regexp_replace(obj_description(k.oid, 'pg_constraint'), '^@.*$', '', 'gn'), '') !~ '\S'
