-- What migrations of Supabase find there: roles, schemas, default grants and a table of the users, which follows the accounts.
-- Roles exist once in a server. They cannot log in.
do $$
declare role text;
begin
  foreach role in array array[
    'postgres', 'authenticator', 'dashboard_user', 'supabase_admin', 'supabase_auth_admin', 'supabase_storage_admin']
  loop
    if not exists (select from pg_roles where rolname = role) then
      execute format('create role %I nologin', role);
    end if;
  end loop;
end $$;

create schema extensions;
grant usage on schema public, extensions to anon, authenticated, service_role;
create extension if not exists "uuid-ossp" with schema extensions;
create extension if not exists pgcrypto with schema extensions;
do $$ begin
  execute format('alter database %I set search_path = "$user", public, extensions', current_database());
end $$;
alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
alter default privileges in schema public grant execute on functions to anon, authenticated, service_role;
-- Not read: the service publishes the tables that callers may read.
create publication supabase_realtime;

-- Columns without a comment have what your SQL writes. The service writes the others.
create table auth.users (
  instance_id uuid,
  id uuid primary key default gen_random_uuid(),
  aud text default 'authenticated',
  role text default 'authenticated',
  email text unique, -- that of the account
  encrypted_password text, -- never that of the account; with a bcrypt hash, a row of a seed gets an account with this password
  email_confirmed_at timestamptz, -- as of the latest sign-in
  invited_at timestamptz,
  confirmation_token text,
  confirmation_sent_at timestamptz,
  recovery_token text,
  recovery_sent_at timestamptz,
  email_change_token_new text,
  email_change text,
  email_change_sent_at timestamptz,
  last_sign_in_at timestamptz, -- the latest sign-in
  raw_app_meta_data jsonb default '{"provider": "email", "providers": ["email"]}', -- as of the latest sign-in
  raw_user_meta_data jsonb default '{}', -- the data of the user
  is_super_admin boolean,
  created_at timestamptz default now(), -- the sign-up
  updated_at timestamptz default now(), -- the latest change
  phone text unique,
  phone_confirmed_at timestamptz,
  phone_change text default '',
  phone_change_token text default '',
  phone_change_sent_at timestamptz,
  confirmed_at timestamptz generated always as (least(email_confirmed_at, phone_confirmed_at)) stored,
  email_change_token_current text default '',
  email_change_confirm_status smallint default 0,
  banned_until timestamptz,
  reauthentication_token text default '',
  reauthentication_sent_at timestamptz,
  is_sso_user boolean not null default false,
  deleted_at timestamptz,
  is_anonymous boolean not null default false -- as of the latest sign-in
);
alter table auth.users enable row level security;
create policy "accounts keep their users" on auth.users to auth_owner using (true) with check (true);
grant select, insert, update, delete on auth.users to auth_owner;

create schema hooks;
grant usage on schema hooks to auth_owner;
create function hooks.new_user(fields jsonb) returns uuid language sql set search_path = '' as $$
  insert into auth.users (id, email, raw_user_meta_data)
  values (coalesce((fields ->> 'id')::uuid, gen_random_uuid()), fields ->> 'email', coalesce(fields -> 'data', '{}'))
  returning id
$$;
create function hooks.new_email(id uuid, email text) returns void language sql set search_path = '' as $$
  update auth.users as u set email = new_email.email, updated_at = now() where u.id = new_email.id
$$;
create function hooks.new_data(id uuid, data jsonb) returns void language sql set search_path = '' as $$
  update auth.users as u set raw_user_meta_data = data, updated_at = now() where u.id = new_data.id
$$;
-- plpgsql: a new version of the service may replace the function that it calls.
create function hooks.public_user(id uuid) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  return auth_api.public_user(id);
end $$;
create function hooks.after_sign_in(id uuid, sign_in jsonb) returns void language sql set search_path = '' as $$
  update auth.users as u
  set last_sign_in_at = now(),
    email_confirmed_at = (account ->> 'email_confirmed_at')::timestamptz,
    raw_app_meta_data = coalesce(account -> 'app_metadata', u.raw_app_meta_data),
    is_anonymous = coalesce((account ->> 'is_anonymous')::boolean, u.is_anonymous)
  from hooks.public_user(after_sign_in.id) as account
  where u.id = after_sign_in.id
$$;
create function hooks.deleted(id uuid, email text) returns void language sql set search_path = '' as $$
  delete from auth.users as u where u.id = deleted.id
$$;
-- A row of a seed, or of a function of yours, gets an account. security definer: any role may have added it.
create function hooks.add_account() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if new.email is not null then
    perform auth.try_add_account(
      new.id,
      coalesce(new.raw_user_meta_data ->> 'name', new.raw_user_meta_data ->> 'full_name', new.email),
      new.email,
      password_hash => new.encrypted_password,
      email_confirmed_at => new.email_confirmed_at,
      user_metadata => new.raw_user_meta_data,
      app_metadata => new.raw_app_meta_data - 'provider' - 'providers');
  end if;
  return null;
end $$;
revoke execute on all functions in schema hooks from public;
grant execute on all functions in schema hooks to auth_owner;

select auth.use_users('auth.users');
select auth.use_hook('new_user', 'hooks.new_user(jsonb)');
select auth.use_hook('new_email', 'hooks.new_email(uuid, text)');
select auth.use_hook('new_data', 'hooks.new_data(uuid, jsonb)');
select auth.use_hook('deleted', 'hooks.deleted(uuid, text)');
select auth.use_hook('after_sign_in', 'hooks.after_sign_in(uuid, jsonb)');
create constraint trigger add_account after insert on auth.users deferrable initially deferred
  for each row execute function hooks.add_account();

-- For functions of the owner.
create view auth.identities as
  select (i.identity ->> 'identity_id')::uuid as id,
    i.identity ->> 'id' as provider_id,
    u.id as user_id,
    i.identity -> 'identity_data' as identity_data,
    i.identity ->> 'provider' as provider,
    i.identity ->> 'email' as email,
    (i.identity ->> 'last_sign_in_at')::timestamptz as last_sign_in_at,
    (i.identity ->> 'created_at')::timestamptz as created_at,
    (i.identity ->> 'updated_at')::timestamptz as updated_at
  from auth.users as u, jsonb_array_elements(hooks.public_user(u.id) -> 'identities') as i (identity);
-- A seed writes them beside auth.users, which is enough here.
create rule leave_out as on insert to auth.identities do instead nothing;
create view auth.mfa_factors as
  select (f.factor ->> 'id')::uuid as id,
    u.id as user_id,
    f.factor ->> 'friendly_name' as friendly_name,
    f.factor ->> 'factor_type' as factor_type,
    f.factor ->> 'status' as status,
    (f.factor ->> 'created_at')::timestamptz as created_at,
    (f.factor ->> 'updated_at')::timestamptz as updated_at
  from auth.users as u, jsonb_array_elements(hooks.public_user(u.id) -> 'factors') as f (factor);
create function hooks.sessions_of(id uuid) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  -- Every session that has not expired, however long ago it was used.
  return auth_api.list_sessions(id, now(), interval '100 years');
end $$;
create view auth.sessions as
  select (s.session ->> 'id')::uuid as id,
    u.id as user_id,
    (s.session ->> 'createdAt')::timestamptz as created_at,
    (s.session ->> 'lastUsedAt')::timestamptz as updated_at,
    (s.session ->> 'expiresAt')::timestamptz as not_after,
    (s.session ->> 'lastUsedAt')::timestamptz at time zone 'UTC' as refreshed_at,
    s.session ->> 'device' as user_agent,
    (s.session ->> 'network')::inet as ip
  from auth.users as u, jsonb_array_elements(hooks.sessions_of(u.id)) as s (session);
-- Deleting a row ends the session.
create function hooks.end_session() returns trigger language plpgsql set search_path = '' as $$
begin
  return case when auth_api.end_session(old.user_id, old.id, now()) then old end;
end $$;
create trigger end_session instead of delete on auth.sessions for each row execute function hooks.end_session();
revoke execute on function hooks.sessions_of(uuid), hooks.end_session() from public;
-- db/seed.sql runs at each start, and fills the database once.
create table hooks.seeds (seeded_at timestamptz not null default now());
set search_path = "$user", public, extensions;
