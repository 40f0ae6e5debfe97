-- security definer: callers may not read the table. They have no rights in this schema, so only functions call it.
create or replace function auth_api.setting(name text) returns text
language sql stable parallel safe security definer set search_path = '' as $$
  select s.value
  from auth_private.settings as s
  where s.name = setting.name
$$;

comment on function auth_api.setting(text) is 'A setting of the service, for functions that callers execute.';

create or replace function auth.has_recent_sign_in() returns boolean
language sql stable parallel safe
-- An operator who acts as the user has not signed in as the user.
return coalesce(pg_catalog.current_setting('request.operator', true), '') = '' and coalesce(
  case when jsonb_typeof(auth.claims() -> 'auth_time') = 'number' then
    (auth.claims() ->> 'auth_time')::numeric > extract(epoch from now())
      - auth_api.setting('recent_sign_in')::integer
  end,
  false);

comment on function auth.has_recent_sign_in() is $$
Whether the caller has proved the password, and the second factor, within the last ten minutes. Refreshing a
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

revoke all on function auth.has_recent_sign_in(), auth.require_recent_sign_in() from public;
grant execute on function auth.has_recent_sign_in(), auth.require_recent_sign_in()
  to anon, authenticated, service_role, auth_owner;
