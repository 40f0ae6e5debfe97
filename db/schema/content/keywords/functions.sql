-- The pattern of ilike that finds the keyword anywhere in a text.
create or replace function internal.substring_pattern(keyword text) returns text
language sql immutable strict parallel safe
return '%' || pg_catalog.regexp_replace(keyword, '([\\%_])', '\\\1', 'g') || '%';

grant execute on function internal.substring_pattern(text) to anon, authenticated, service_role;
