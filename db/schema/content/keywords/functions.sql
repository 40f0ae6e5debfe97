-- The pattern of ilike that finds the keyword anywhere in a text.
create or replace function internal.substring_pattern(keyword text) returns text
language sql immutable strict parallel safe
return '%' || pg_catalog.regexp_replace(keyword, '([\\%_])', '\\\1', 'g') || '%';

grant execute on function internal.substring_pattern(text) to anon, authenticated, service_role;

-- True, or an error for a keyword that takes long to search for. In a subquery it is evaluated once per query and not
-- per row.
create or replace function internal.check_keyword(keyword text) returns boolean
language plpgsql immutable parallel safe set search_path = '' as $$
begin
  if length(keyword) > 10000 then
    raise invalid_parameter_value using message = 'a keyword may have at most 10000 characters';
  end if;
  return true;
end $$;

grant execute on function internal.check_keyword(text) to anon, authenticated, service_role;
