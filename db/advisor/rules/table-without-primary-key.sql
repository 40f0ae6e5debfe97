-- note: Without a primary key there is no access to one row: no thing(id), updateThing and deleteThing, and no upsert.
select 'table ' || t.name as object, t.comment,
  'it has no primary key: GraphQL has no field for one row, and no update and delete' as reason,
  format('alter table %s add column id bigint generated always as identity primary key;', t.name) as fix
from relations as t
where t.kind in ('r', 'p') and not t.is_partition and t.granted_to <> '{}'
  and not exists (select from pg_constraint as k where k.conrelid = t.oid and k.contype = 'p')
