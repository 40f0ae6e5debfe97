-- warning: The callers of a function that sets a role have the rights of that role until the end of the request.
select 'function ' || f.name as object, f.comment,
  'it sets a role: its callers get the rights of that role until the end of the request' as reason,
  format('-- Take the set role out of it, give it to a role with only the rights that it needs, and:'
    || e'\nalter function %s security definer set search_path = '''';', f.name) as fix
from functions as f
where coalesce(case when f.is_parsed then pg_get_function_sqlbody(f.oid) end, f.body) ~* any (array[
    '\mset\s+((local|session)\s+)?(role|session\s+authorization)\M',
    '\mset_config\s*\(\s*''(role|session_authorization)'''
  ])
  or exists (select from unnest(f.settings) as setting where setting ~ '^(role|session_authorization)=')
