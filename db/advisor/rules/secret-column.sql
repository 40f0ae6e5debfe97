-- warning: Callers can read a column whose name suggests a secret.
select format('column %s.%I', t.name, a.attname) as object, col_description(t.oid, a.attnum) as comment,
  format('%s may read it', array_to_string(readers.names, ', ')) as reason,
  format(e'revoke select on %s from %s;\ngrant select (%s) on %s to %s;', t.name, readers.idents, others.names, t.name,
    readers.idents) as fix
from relations as t
join pg_attribute as a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
cross join lateral (
  select array_agg(r.name order by r.name) as names, string_agg(quote_ident(r.name), ', ' order by r.name) as idents
  from callers as r where has_column_privilege(r.oid, t.oid, a.attnum, 'select')
) as readers
cross join lateral (
  select string_agg(quote_ident(o.attname), ', ' order by o.attnum) as names from pg_attribute as o
  where o.attrelid = t.oid and o.attnum > 0 and not o.attisdropped and o.attnum <> a.attnum
) as others
where readers.names is not null
  and a.attname ~* '(^|_)(password|passwd|pwd|secret|api_?key|access_?token|refresh_?token|private_?key|card_?number|cvv|iban|ssn)($|_(hash|digest)$)'
