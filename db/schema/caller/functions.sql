create or replace function auth.claims() returns jsonb
language sql stable parallel safe
-- On a reused connection an unset setting reads as '', not as null.
return coalesce(nullif(pg_catalog.current_setting('request.jwt.claims', true), ''), '{}')::jsonb;

comment on function auth.claims() is 'The verified claims of the caller''s token; {} for anonymous callers.';

create or replace function auth.uid() returns bigint
language sql stable parallel safe
-- Defaults call it for each row. One cast to json takes a third of the time of two calls of auth.claims().
return pg_catalog.regexp_substr(
  nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::json ->> 'sub', '^[0-9]{1,18}$')::bigint;

comment on function auth.uid() is 'The id of the signed-in user; null for anonymous callers.';

create or replace function auth.is_admin() returns boolean
language sql stable parallel safe
return pg_catalog.pg_has_role(current_user, 'admin', 'member');

comment on function auth.is_admin() is 'Whether the caller''s role is admin.';

create or replace function auth.has_recent_sign_in() returns boolean
language sql stable parallel safe
-- An operator who acts as the user has not signed in as the user.
return coalesce(pg_catalog.current_setting('request.operator', true), '') = '' and coalesce(
  case when jsonb_typeof(auth.claims() -> 'auth_time') = 'number' then
    (auth.claims() ->> 'auth_time')::numeric > extract(epoch from now())
      - (select value::integer from internal.settings where name = 'recent_sign_in')
  end,
  false);

comment on function auth.has_recent_sign_in() is $$
Whether the caller has proved the password, and the second factor, within the last RECENT_SIGN_IN seconds. Refreshing a
token does not count; false for API keys, anonymous callers, and operators who act as a user.
$$;

create or replace function auth.require_recent_sign_in() returns void
language plpgsql stable set search_path = '' as $$
begin
  if auth.has_recent_sign_in() then return; end if;
  raise sqlstate 'CS401' using message = 'the sign-in is too old for this: sign in again';
end $$;

comment on function auth.require_recent_sign_in() is
  'For triggers and functions: raises CS401 (PASSWORD_REQUIRED) unless auth.has_recent_sign_in().';

grant execute on function auth.claims(), auth.uid(), auth.is_admin(), auth.has_recent_sign_in(),
  auth.require_recent_sign_in()
  to anon, authenticated, service_role, auth_owner;
