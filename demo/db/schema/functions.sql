create or replace function internal.touch() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.updated_at := now();
  return new;
end $$;

comment on function internal.touch() is 'Sets updated_at. The trigger decides for which changes.';

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

-- Whether a text has a visible character: not only spaces, line breaks and the like.
create or replace function internal.has_text(value text) returns boolean
language sql immutable parallel safe
return value ~ '[^\s\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]';

grant execute on function internal.has_text(text) to anon, authenticated, users_editor, service_role, auth_owner;
