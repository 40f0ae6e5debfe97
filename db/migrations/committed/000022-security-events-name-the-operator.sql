--! Previous: sha1:2ba9075c6aa7db6d425370476987d6cc165174a5
--! Hash: sha1:13f765361ac9b8aeb449d4e3f7e6336316542000
--! Message: security events name the operator

-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
alter table public.security_events add column if not exists operator text;
comment on column public.security_events.operator is
  'Who acted instead of the user: "user 3", "role service_role", or "login content" for SQL; null if the user acted.';
--! Included caller/functions.sql
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
--! EndIncluded caller/functions.sql
--! Included auth/security_events.sql
alter table public.security_events enable row level security;

grant select on public.security_events to service_role;
grant insert (event, user_id, address, detail, at), select, delete on public.security_events to auth_owner;

drop policy if exists "authentication records events and deletes old ones" on public.security_events;
create policy "authentication records events and deletes old ones" on public.security_events to auth_owner
  using (true)
  with check (true);

create or replace function auth_private.operator_for(user_id bigint) returns text
language sql stable set search_path = '' as $$
  select case
    -- An operator who acts as a caller.
    when current_setting('request.operator', true) <> '' then current_setting('request.operator', true)
    when auth.claims() = '{}' then 'login ' || session_user
    -- "none" is the service, which has verified that the user acts.
    when auth.claims() ->> 'role' = 'none' or auth.uid() = operator_for.user_id then null
    else coalesce('user ' || auth.uid(), 'role ' || (auth.claims() ->> 'role'))
  end
$$;

comment on function auth_private.operator_for(bigint) is
  'Who acts in this transaction, if it is not this user: "user 3", "role service_role" or "login content".';

create or replace function auth_private.note_operator() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.operator := auth_private.operator_for(new.user_id);
  return new;
end $$;

comment on function auth_private.note_operator() is 'Adds to a security event who acted, if it was not the user.';

create or replace trigger _100_operator before insert on public.security_events
  for each row execute function auth_private.note_operator();

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.note_event(
  event text, user_id bigint, address inet, detail jsonb, now timestamptz)
returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.security_events (event, user_id, address, detail, at)
  values (note_event.event, note_event.user_id, note_event.address, coalesce(note_event.detail, '{}'), note_event.now)
$$;

comment on function auth_api.note_event(text, bigint, inet, jsonb, timestamptz) is 'Records a security event.';

create or replace function auth_api.note_login(
  user_id bigint, epoch integer, address inet, detail jsonb, now timestamptz)
returns void
language sql volatile security definer set search_path = '' as $$
  select auth_api.note_event('login', a.user_id, note_login.address, note_login.detail, note_login.now)
  from auth_private.accounts as a
  where a.user_id = note_login.user_id
    and a.epoch = note_login.epoch
    and a.disabled_at is null
$$;

comment on function auth_api.note_login(bigint, integer, inet, jsonb, timestamptz) is $$
Records a login that was issued a token or a session, unless the account has changed since it was found. `detail` is
{by, provider}.
$$;
--! EndIncluded auth/security_events.sql
--! Included auth/owner.sql
-- Tables and functions of authentication belong to auth_owner, which is not a superuser: functions run with its rights.
-- Tables have no grants and no policies: even a mistaken grant would show no rows. PUBLIC may not execute functions.
do $$
declare
  private regclass;
  function regprocedure;
begin
  for private in
    select c.oid
    from pg_class as c
    where c.relnamespace = 'auth_private'::regnamespace
      and c.relkind = 'r'
      and not (c.relrowsecurity and c.relowner = 'auth_owner'::regrole)
  loop
    execute format('alter table %s owner to auth_owner', private);
    execute format('alter table %s enable row level security', private);
  end loop;
  for function in
    select p.oid
    from pg_proc as p
    where p.pronamespace in ('auth_api'::regnamespace, 'auth_private'::regnamespace)
  loop
    execute format('alter function %s owner to auth_owner', function);
    execute format('revoke all on function %s from public', function);
  end loop;
end $$;
--! EndIncluded auth/owner.sql
--! Included caller/act_as.sql
-- For psql: what does a caller see? Callers themselves may not execute it.
create or replace function auth.act_as(login text default null) returns text
language plpgsql volatile set search_path = '' as $$
declare
  claims jsonb;
begin
  if not pg_has_role(session_user, (select datdba from pg_database where datname = current_database()), 'usage') then
    raise insufficient_privilege using message = 'only a superuser or the owner of the database may act as a caller';
  end if;
  -- Without begin, this statement is its own transaction, and the role would be reset at its end.
  if statement_timestamp() = transaction_timestamp()
    and current_query() ~* '^\s*select\s+(\*\s+from\s+)?auth\s*\.\s*act_as\s*\([^()]*\)\s*;?\s*$'
  then
    raise no_active_sql_transaction using
      message = 'begin a transaction first: auth.act_as lasts until the end of the transaction',
      hint = 'begin; select auth.act_as(…); …; rollback;';
  end if;
  select jsonb_build_object('sub', u.id::text, 'name', u.name, 'role', coalesce(a.role, 'authenticated'),
      'permissions', coalesce(to_jsonb(a.permissions), '[]'), 'type', 'access')
    into claims
  from public.users as u
  left join auth_private.accounts as a on a.user_id = u.id
  where lower(a.username) = lower(login) or lower(u.email) = lower(login) or u.id::text = login
  order by a.username is null
  limit 1;
  if claims is null and login in ('anon', 'service_role') then
    claims := jsonb_build_object('role', login);
  end if;
  if claims is null and login is not null then
    raise no_data_found using message = format('no user has the username, e-mail or id %s', login),
      hint = 'Also possible: anon, service_role.';
  end if;
  perform set_config('request.operator', 'login ' || session_user, true);
  perform set_config('request.jwt.claims', coalesce(claims::text, ''), true);
  perform set_config('role', coalesce(claims ->> 'role', 'anon'), true);
  -- Not every client lets SQL see whether it has begun a transaction.
  return format(
    '%s until the end of the transaction. Without begin it has ended already. reset role resets the role earlier',
    case when claims ? 'sub'
      then format('user %s (%s), role %s', claims ->> 'sub', claims ->> 'name', claims ->> 'role')
      else 'role ' || coalesce(claims ->> 'role', 'anon') end);
end $$;

comment on function auth.act_as(text) is $$
@accept function-sets-role only superusers and the owner may call it
For psql: `begin; select auth.act_as('ada');` takes on role and claims of a user (username, e-mail or id), of anon, or
of service_role, until the transaction ends. It is no recent sign-in, and security events name the login as operator.
$$;
--! EndIncluded caller/act_as.sql
