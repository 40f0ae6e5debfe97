-- Whether a text has a visible character: not only spaces, line breaks and the like.
create or replace function internal.has_text(value text) returns boolean
language sql immutable parallel safe
return value ~ '[^\s\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]';

grant execute on function internal.has_text(text) to anon, authenticated, users_editor, service_role, auth_owner;
