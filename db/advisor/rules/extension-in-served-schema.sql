-- warning: The functions and tables of an extension in a served schema are part of the API.
select 'extension ' || e.extname as object, obj_description(e.oid, 'pg_extension') as comment,
  format('its functions are in the served schema %I', n.nspname) as reason,
  format(e'create schema if not exists extensions;\nalter extension %I set schema extensions;', e.extname) as fix
from pg_extension as e
join pg_namespace as n on n.oid = e.extnamespace
where n.nspname = any ($1)
