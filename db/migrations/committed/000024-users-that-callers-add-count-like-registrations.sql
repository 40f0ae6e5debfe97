--! Previous: sha1:7819311f6d0cf84454b9037ab9c91420c1591bd7
--! Hash: sha1:a8adbd4360e71f86a3f7810448f55eb9a9f23be8
--! Message: users that callers add count like registrations

-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
create table if not exists auth_private.added_users (
  user_id bigint primary key references public.users on delete cascade
);
comment on table auth_private.added_users is
  'Users whom callers, and not operators, have added without an account: their e-mails are not reserved.';
--! Included schemas.sql
-- public is the API. By default, PUBLIC has no rights in it or in the other schemas.
revoke all on schema public from public;
alter default privileges revoke execute on functions from public;
grant usage on schema public to anon, authenticated, users_editor, service_role, auth_owner;
comment on schema public is 'The API: objects granted here are served.';

-- Functions that read the caller, for policies and other functions.
create schema if not exists auth;
grant usage on schema auth to anon, authenticated, service_role, auth_owner;
comment on schema auth is 'The caller: auth.uid(), auth.claims(), auth.is_admin().';

-- Triggers and checks of the API's tables; not served.
create schema if not exists internal;
grant usage on schema internal to anon, authenticated, users_editor, service_role, auth_owner;
comment on schema internal is 'Helpers of the API''s tables; not served.';

-- Accounts and tokens. No role of the API may read them.
create schema if not exists auth_private;
alter schema auth_private owner to auth_owner;
comment on schema auth_private is 'Accounts and tokens; only auth_owner may read them.';

-- The functions that the gateway calls to sign users in.
create schema if not exists auth_api;
alter schema auth_api owner to auth_owner;
comment on schema auth_api is 'Functions that the gateway calls to sign users in.';

-- Asynchronous work: tasks that a client does not wait for.
create schema if not exists tasks;
alter schema tasks owner to tasks_owner;
grant usage on schema tasks to anon, authenticated, service_role;
comment on schema tasks is 'Asynchronous work: functions for callers and for workers; not served.';

-- The queue of tasks. graphile-worker creates its objects as tasks_owner (db/cluster/migrate.ts).
create schema if not exists graphile_worker;
alter schema graphile_worker owner to tasks_owner;

-- Committed changes of rows, for subscribers.
create schema if not exists changes;
alter schema changes owner to changes_owner;
comment on schema changes is 'Committed changes of rows, for subscribers; not served.';

-- Private channels.
create schema if not exists realtime;
grant usage on schema realtime to anon, authenticated, service_role;
comment on schema realtime is 'Who may use private channels; not served.';

-- Extensions stay out of public, where their functions would be served.
create schema if not exists extensions;
grant usage on schema extensions to anon, authenticated, service_role;
create extension if not exists pg_trgm with schema extensions;
grant execute on all functions in schema extensions to anon, authenticated, service_role;

-- Data that the service has inserted, so that it does so only once.
create table if not exists internal.seeds (
  name      text primary key,
  seeded_at timestamptz not null default now()
);
comment on table internal.seeds is 'Data that the service has inserted, so that it does so only once.';
alter table internal.seeds enable row level security;

-- Settings of the service that functions read.
create table if not exists internal.settings (
  name  text primary key,
  value text not null
);
comment on table internal.settings is
  'Settings of the service that functions read. The service writes them at each start.';
alter table internal.settings enable row level security;
drop policy if exists "every caller reads them" on internal.settings;
create policy "every caller reads them" on internal.settings for select using (true);
insert into internal.settings
values ('recent_sign_in', '600'), ('registrations', '60'), ('registrations_window', '900 seconds')
on conflict (name) do nothing;
grant select on internal.settings to anon, authenticated, service_role, auth_owner;
grant insert, update (value) on internal.settings to auth_owner;
drop policy if exists "authentication stores its limits" on internal.settings;
create policy "authentication stores its limits" on internal.settings to auth_owner
  using (name in ('registrations', 'registrations_window'))
  with check (name in ('registrations', 'registrations_window'));
--! EndIncluded schemas.sql
--! Included content/users/functions.sql
create or replace function public.me() returns public.users
language plpgsql stable set search_path = '' as $$
declare caller public.users;
begin
  select * into caller from public.users where id = auth.uid();
  if found then return caller; end if;
  raise invalid_authorization_specification using message = 'login required';
end $$;

comment on function public.me() is $$
@notNull
The signed-in caller. Fails with AUTH_REQUIRED if the caller is not signed in.
$$;

create or replace function internal.add_user(fields jsonb) returns public.users
language plpgsql volatile set search_path = '' as $$
declare
  columns constant text := (select string_agg(quote_ident(name), ', ') from jsonb_object_keys(fields) as name);
  given constant text :=
    '(' || columns || ') select ' || columns || ' from jsonb_populate_record(null::public.users, $1)';
  added public.users;
begin
  execute 'insert into public.users ' || coalesce(given, 'default values') || ' returning *' into added using fields;
  return added;
end $$;

comment on function internal.add_user(jsonb) is $$
Inserts a user with these columns; the others get their defaults. It runs with the rights of its caller, so the grants
on the columns decide what a new user may have.
$$;

create or replace function public.create_user(input public.users) returns public.users
language sql volatile
return internal.add_user(jsonb_strip_nulls(to_jsonb(input)));

comment on function public.create_user(public.users) is $$
@behavior -flatMutationField
Creates a user, for clients of /rest/v1. The createUser of GraphQL inserts into the table instead, which is faster.
$$;

create or replace function public.users_avatar(person public.users, size integer default 80) returns text
language plpgsql immutable set search_path = '' as $$
begin
  size := coalesce(size, 80);
  if size not between 1 and 2048 then
    raise invalid_parameter_value using message = 'size must be from 1 to 2048';
  end if;
  return person.avatar_url
    || case when position('?' in person.avatar_url) > 0 then '&' else '?' end
    || 'size=' || size;
end $$;

comment on function public.users_avatar(public.users, integer) is
  'The URL of the user''s picture, `size` pixels wide; null when the user has none.';

create or replace function internal.user_matches(person public.users, keyword text) returns boolean
language sql immutable parallel safe
-- The first condition uses the trigram index; the others refuse a match that spans two fields.
return internal.user_text(person.name, person.email) ilike internal.substring_pattern(keyword)
  and (
    person.name ilike internal.substring_pattern(keyword)
    or person.email ilike internal.substring_pattern(keyword)
  );

create or replace function internal.is_open_to_editors() returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from pg_auth_members as m
    join pg_roles as login on login.oid = m.member
    where m.roleid = 'users_editor'::regrole
      and login.rolname = session_user
  )
$$;

comment on function internal.is_open_to_editors() is
  'Whether callers without credentials may change and delete every user (USERS_WRITE=open).';

create or replace function internal.protect_account() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  if old.id = auth.uid() and not internal.is_open_to_editors() then
    perform auth.require_recent_sign_in();
  end if;
  return old;
end $$;

comment on function internal.protect_account() is
  'A user who deletes themselves needs a recent sign-in: a stolen token must not delete its owner.';

-- Not for users_editor, the role of callers without credentials: they do not delete their own user.
create or replace trigger _200_protect_account before delete on public.users
  for each row when (current_user <> 'users_editor')
  execute function internal.protect_account();
--! EndIncluded content/users/functions.sql
--! Included content/users/access.sql
alter table public.users enable row level security;

grant select on public.users to anon, authenticated, users_editor, auth_owner;
-- The columns of a new user, on every interface and at sign-up.
grant insert (name, email, age) on public.users to anon, authenticated, auth_owner;
grant update (name, email, age, avatar_url), delete on public.users to authenticated;
grant update (name, email, age), delete on public.users to users_editor;
grant update (email) on public.users to auth_owner;
grant all on public.users to service_role;
-- Accounts refer to users.
grant references on public.users to auth_owner;

drop policy if exists "everyone reads users" on public.users;
create policy "everyone reads users" on public.users for select
  using (true);

drop policy if exists "everyone may sign up" on public.users;
create policy "everyone may sign up" on public.users for insert to anon, authenticated
  with check (true);
comment on policy "everyone may sign up" on public.users is
  '@accept policy-always-true constraints check the values of a new user';

drop policy if exists "signing up with a password adds a user" on public.users;
create policy "signing up with a password adds a user" on public.users for insert to auth_owner
  with check (true);

drop policy if exists "POST /auth/email changes the e-mail of a user" on public.users;
create policy "POST /auth/email changes the e-mail of a user" on public.users for update to auth_owner
  using (true)
  with check (true);

drop policy if exists "users change themselves, admins everyone" on public.users;
create policy "users change themselves, admins everyone" on public.users for update to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()))
  with check (id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "users delete themselves, admins everyone" on public.users;
create policy "users delete themselves, admins everyone" on public.users for delete to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()));

-- With USERS_WRITE=open, callers without credentials have this role. Otherwise it is unused.
drop policy if exists "editors of users change everyone" on public.users;
create policy "editors of users change everyone" on public.users for update to users_editor
  using (true)
  with check (true);
comment on policy "editors of users change everyone" on public.users is
  '@accept policy-always-true the operator decides with USERS_WRITE=open';

drop policy if exists "editors of users delete everyone" on public.users;
create policy "editors of users delete everyone" on public.users for delete to users_editor
  using (true);
comment on policy "editors of users delete everyone" on public.users is
  '@accept policy-always-true the operator decides with USERS_WRITE=open';

grant execute on function internal.user_matches(public.users, text) to anon, authenticated, service_role;
grant execute on function internal.is_open_to_editors() to authenticated, service_role, auth_owner;
grant execute on function internal.add_user(jsonb) to anon, authenticated, service_role, auth_owner;
grant execute on function
  public.me(), public.create_user(public.users), public.users_avatar(public.users, integer)
  to anon, authenticated, service_role;
--! EndIncluded content/users/access.sql
--! Included auth/accounts.sql
-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.account_of(user_id bigint) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'id', a.user_id::text,
    'username', coalesce(a.username, e.email),
    'name', u.name,
    'role', a.role,
    'permissions', a.permissions,
    'passwordHash', a.password_hash,
    'isDisabled', a.disabled_at is not null,
    'epoch', a.epoch,
    'hasFactor', coalesce(f.enabled_at is not null, false))
  from auth_private.accounts as a
  join public.users as u on u.id = a.user_id
  join auth_private.login_emails as e on e.user_id = a.user_id and e.released_at is null
  left join auth_private.factors as f on f.user_id = a.user_id
  where a.user_id = account_of.user_id
$$;

comment on function auth_api.account_of(bigint) is $$
The account of a user: {id, username, name, role, permissions, passwordHash, isDisabled, epoch, hasFactor}; null if the
user has none. The username is the e-mail that the account signs in with if it has no username.
$$;

create or replace function auth_api.find_account(login text) returns json
language sql stable security definer set search_path = '' as $$
  -- A username has no @, and an e-mail has one. Old usernames were not normalized, and two of them may have the same
  -- normalized form. So the login is first looked up as it was sent.
  select auth_api.account_of(coalesce(
    (select a.user_id from auth_private.accounts as a where lower(a.username) = lower(login)),
    (select a.user_id from auth_private.accounts as a where lower(a.username) = lower(normalize(login, nfkc))),
    (
      select e.user_id from auth_private.login_emails as e
      where lower(e.email) = lower(login)
        and e.released_at is null
    )))
$$;

comment on function auth_api.find_account(text) is
  'The account that signs in with this username or e-mail, as account_of returns it; null if there is none.';

create or replace function auth_private.add_account(
  fields jsonb, email_skeleton text, username text, username_skeleton text, password_hash text)
returns bigint
language plpgsql volatile set search_path = '' as $$
declare
  new_id bigint;
  has_username constant boolean := lower(add_account.username) <> lower(fields ->> 'email');
begin
  perform auth_private.release_email(fields ->> 'email');
  new_id := (internal.add_user(fields)).id;
  insert into auth_private.accounts (user_id, username, username_skeleton, password_hash)
  values (
    new_id,
    case when has_username then add_account.username end,
    case when has_username then add_account.username_skeleton end,
    add_account.password_hash);

  update auth_private.login_emails as e
  set skeleton = add_account.email_skeleton
  where e.user_id = new_id
    and add_account.email_skeleton is not null;
  return new_id;
end $$;

comment on function auth_private.add_account(jsonb, text, text, text, text) is $$
Creates a user with an account and returns the id. A user whom a caller has added without an account loses the e-mail.
The fields are columns of the user. If the username is null or the
e-mail, the user signs in with the e-mail. Texts that look alike have the same skeleton. If the password is
null, the caller links an identity. The constraints of the tables say which values are refused.
$$;

create or replace function auth_api.register(
  fields jsonb, email_skeleton text, username text, username_skeleton text, password_hash text)
returns bigint
language plpgsql volatile security definer set search_path = '' as $$
begin
  if register.password_hash is null then
    raise not_null_violation using
      message = 'password must not be null',
      schema = 'auth_private',
      table = 'accounts',
      column = 'password_hash';
  end if;
  return auth_private.add_account(
    register.fields,
    register.email_skeleton,
    register.username,
    register.username_skeleton,
    register.password_hash);
end $$;

comment on function auth_api.register(jsonb, text, text, text, text) is
  'Creates a user with an account that has a password, as auth_private.add_account does, and returns the id.';

-- Tokens and sessions carry the epoch that they were issued in: a new epoch ends them.
create or replace function auth_private.begin_epoch() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.epoch := old.epoch + 1;
  return new;
end $$;

comment on function auth_private.begin_epoch() is
  'Ends what was issued to an account when its role, permissions or password change, or it is disabled or enabled.';

create or replace trigger _200_epoch before update on auth_private.accounts
  for each row when (
    old.role is distinct from new.role
    or old.permissions is distinct from new.permissions
    or old.password_hash is distinct from new.password_hash
    or old.disabled_at is distinct from new.disabled_at
  ) execute function auth_private.begin_epoch();

create or replace function auth_private.announce_account() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', json_build_object('user', old.user_id)::text);
  return null;
end $$;

comment on function auth_private.announce_account() is $$
Notifies the channel "accounts" that an account or its credentials have changed or were deleted.
$$;

create or replace trigger _500_announce after update or delete on auth_private.accounts
  for each row execute function auth_private.announce_account();

create or replace function auth_api.end_epoch(user_id bigint) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.accounts as a
  set epoch = a.epoch + 1
  where a.user_id = end_epoch.user_id
$$;

comment on function auth_api.end_epoch(bigint) is $$
Revokes all tokens of a user and ends the session. API keys remain valid.
$$;

create or replace function auth_private.lock_account(user_id bigint, password_hash text) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  -- Locked before the attempts and the factor, here and elsewhere, so that there are no deadlocks.
  perform from auth_private.accounts as a
  where a.user_id = lock_account.user_id
    and a.password_hash is not distinct from lock_account.password_hash
    and a.disabled_at is null
  for no key update;
  return found;
end $$;

comment on function auth_private.lock_account(bigint, text) is $$
Locks an account whose password was verified; false if the password has changed since, or the account is disabled.
$$;

create or replace function auth_api.change_password(
  user_id bigint, old_hash text, password_hash text, sent jsonb, address inet)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare tried json;
begin
  if not auth_private.lock_account(change_password.user_id, old_hash) then
    return json_build_object('outcome', 'changed');
  end if;
  tried := auth_private.require_code(change_password.user_id, sent);
  if tried ->> 'outcome' is distinct from 'accepted' then return tried; end if;

  -- Read by note_account_change.
  perform set_config('request.address', coalesce(host(change_password.address), ''), true);
  update auth_private.accounts as a
  set password_hash = change_password.password_hash
  where a.user_id = change_password.user_id;
  return json_build_object('outcome', 'accepted', 'account', auth_api.account_of(change_password.user_id));
end $$;

comment on function auth_api.change_password(bigint, text, text, jsonb, inet) is $$
Sets another password, which ends what was issued to the user: {outcome, account}, with the account as it is then. The
outcome is "changed" if the old password has changed since or the account is disabled; otherwise as require_code.
$$;

create or replace function auth_private.note_account_change() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  client constant inet := nullif(current_setting('request.address', true), '')::inet;
  happened text;
begin
  foreach happened in array array_remove(array[
    case when old.password_hash is distinct from new.password_hash then 'password_changed' end,
    case when old.disabled_at is null and new.disabled_at is not null then 'account_disabled' end,
    case when old.disabled_at is not null and new.disabled_at is null then 'account_enabled' end,
    case when old.permissions is distinct from new.permissions then 'permissions_changed' end,
    case when old.role is distinct from new.role then 'role_changed' end
  ], null) loop
    insert into public.security_events (event, user_id, address, detail)
    values (
      happened,
      new.user_id,
      client,
      case
        when happened = 'role_changed' then jsonb_build_object('from', old.role, 'to', new.role)
        else '{}'
      end);
  end loop;
  return null;
end $$;

comment on function auth_private.note_account_change() is 'Records each change of an account as a security event.';

create or replace trigger _600_events after update on auth_private.accounts
  for each row execute function auth_private.note_account_change();
--! EndIncluded auth/accounts.sql
--! Included auth/login_emails.sql
create or replace function auth_private.begin_login_email() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  insert into auth_private.login_emails (email, user_id)
  select u.email, u.id
  from public.users as u
  where u.id = new.user_id;
  return null;
end $$;

comment on function auth_private.begin_login_email() is 'A new account signs in with the e-mail of its user.';

create or replace trigger _300_login_email after insert on auth_private.accounts
  for each row execute function auth_private.begin_login_email();

-- security definer, here and below: callers who may change users may not read accounts.
create or replace function auth_private.refuse_login_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- After the row is written: an insert that has waited for a concurrent change sees what the change has reserved.
  perform from auth_private.login_emails as e
  where lower(e.email) = lower(new.email)
    and e.user_id <> new.id;
  if not found then return null; end if;
  raise unique_violation using
    message = 'email already registered',
    schema = 'public',
    table = 'users',
    constraint = 'users_email_key';
end $$;

comment on function auth_private.refuse_login_email() is
  'Raises 23505 for the e-mail of a user if another account signs in with it, or it is reserved for another account.';

create or replace trigger _300_login_email_insert after insert on public.users
  for each row execute function auth_private.refuse_login_email();
create or replace trigger _300_login_email_update after update of email on public.users
  for each row when (old.email is distinct from new.email) execute function auth_private.refuse_login_email();

create or replace function auth_private.set_login_email(user_id bigint, email text, skeleton text, by text)
returns void
language plpgsql volatile set search_path = '' as $$
declare previous text;
begin
  -- Changes of one account wait for each other.
  perform from auth_private.accounts as a
  where a.user_id = set_login_email.user_id
  for no key update;

  select e.email
  into previous
  from auth_private.login_emails as e
  where e.user_id = set_login_email.user_id
    and e.released_at is null;
  if previous is null or previous = set_login_email.email then return; end if;

  update auth_private.login_emails as e
  set released_at = now()
  where e.email = previous;

  insert into auth_private.login_emails as e (email, user_id, skeleton)
  values (set_login_email.email, set_login_email.user_id, set_login_email.skeleton)
  on conflict ((lower(e.email))) do update
  set email = excluded.email,
    released_at = null
  where e.user_id = excluded.user_id;
  if not found then
    raise unique_violation using
      message = 'email already registered',
      schema = 'auth_private',
      table = 'login_emails',
      constraint = 'login_emails_email_key';
  end if;

  perform from auth_private.login_emails as e
  where e.user_id = set_login_email.user_id
    and e.released_at is not null
  offset 20;
  if found then
    raise program_limit_exceeded using
      message = 'the e-mail was changed 20 times, and the earlier ones are still reserved: '
        'go back to one of them, or try again later';
  end if;

  insert into public.security_events (event, user_id, address, detail)
  values (
    'login_email_changed',
    set_login_email.user_id,
    nullif(current_setting('request.address', true), '')::inet,
    jsonb_build_object('from', previous, 'to', set_login_email.email, 'by', set_login_email.by));
  perform pg_notify('accounts', json_build_object('user', set_login_email.user_id)::text);
end $$;

comment on function auth_private.set_login_email(bigint, text, text, text) is $$
Changes the e-mail that an account signs in with, and reserves the previous one for it. Does nothing for a user without
an account. Raises 23505 if another account has the e-mail, and 54000 if the account has 20 reserved ones.
$$;

create or replace function auth_private.follow_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  insert into public.security_events (event, user_id, address, detail)
  values (
    'email_changed',
    new.id,
    nullif(current_setting('request.address', true), '')::inet,
    jsonb_strip_nulls(jsonb_build_object(
      'from', old.email,
      'to', new.email,
      'role', coalesce(auth.claims() ->> 'role', session_user),
      'user', auth.uid())));

  -- An e-mail with other characters needs the skeleton that the service computes for POST /auth/email.
  if new.id = auth.uid() and auth.has_recent_sign_in() and new.email ~ '^[[:ascii:]]+$' then
    perform auth_private.set_login_email(new.id, new.email, null, 'owner');
  end if;
  return null;
end $$;

comment on function auth_private.follow_email() is $$
Records each change of the e-mail of a user as a security event. If the user has made it with a recent sign-in, the user
also signs in with the new e-mail; after a change by an API key, an admin or anyone else the user signs in as before.
$$;

create or replace trigger _600_email after update of email on public.users
  for each row when (old.email is distinct from new.email) execute function auth_private.follow_email();

create or replace function auth_private.store_skeleton(login text, skeleton text) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  if position('@' in login) > 0 then
    update auth_private.login_emails as e
    set skeleton = store_skeleton.skeleton
    where lower(e.email) = lower(login);
  else
    update auth_private.accounts as a
    set username_skeleton = store_skeleton.skeleton
    where lower(a.username) = lower(login);
  end if;
  return true;
exception when unique_violation then
  return false;
end $$;

comment on function auth_private.store_skeleton(text, text) is $$
Stores the skeleton of a username or e-mail. False if it looks like that of another account: both accounts keep what
they sign in with.
$$;

create or replace function auth_api.change_email(user_id bigint, email text, skeleton text, address inet) returns text
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- The triggers on public.users read these settings, so that the change counts as made by the user.
  perform set_config('request.address', coalesce(host(change_email.address), ''), true),
    set_config('request.jwt.claims', json_build_object('sub', a.user_id::text, 'role', a.role)::text, true)
  from auth_private.accounts as a
  where a.user_id = change_email.user_id;

  perform auth_private.release_email(change_email.email);
  update public.users as u
  set email = change_email.email
  where u.id = change_email.user_id
    and u.email <> change_email.email;
  perform auth_private.set_login_email(change_email.user_id, change_email.email, change_email.skeleton, 'owner');
  return 'changed';
exception
  when unique_violation then return 'taken';
  when check_violation then return 'malformed';
  when program_limit_exceeded then return 'too often';
end $$;

comment on function auth_api.change_email(bigint, text, text, inet) is $$
Changes the e-mail of a user and the e-mail that the account signs in with: "changed". Otherwise nothing changes:
"taken" or reserved for another account, "malformed", or "too often": the account has 20 reserved e-mails.
$$;
--! EndIncluded auth/login_emails.sql
--! Included auth/added_users.sql
-- security definer, here and below: callers may add users, but may not read accounts and attempts.
create or replace function auth_private.note_added_users() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare
  -- The role of the caller, in contrast to current_user.
  role constant text := current_setting('role');
  total constant bigint := (select count(*) from added);
begin
  -- "none": the service, which counts registrations itself, and SQL clients.
  if role = 'none' or pg_has_role(role, 'admin', 'member')
    or (select r.rolbypassrls from pg_roles as r where r.rolname = role)
  then
    return null;
  end if;

  insert into auth_private.added_users (user_id)
  select a.id
  from added as a;
  if internal.is_open_to_editors() then return null; end if;

  if total > 1 and auth.uid() is null then
    raise insufficient_privilege using message = 'sign in to add several users at once';
  end if;
  perform auth_private.count_added_users(total);
  return null;
end $$;

comment on function auth_private.note_added_users() is $$
Counts the users that a statement has added like registrations from the network of the caller, unless the caller is an
administrator or bypasses row-level security. Raises 42501 if an anonymous caller adds several. With USERS_WRITE=open
they do not count: every caller may change and delete every user.
$$;

create or replace function auth_private.count_added_users(total bigint) returns void
language plpgsql volatile set search_path = '' as $$
declare
  -- Without a client, for example in a task: all such requests count as one network.
  networks constant jsonb := coalesce(
    nullif(current_setting('request.networks', true), ''), '[{"name": "", "factor": 1}]')::jsonb;
  allowed constant integer := (select value::integer from internal.settings where name = 'registrations');
  span constant interval := (select value::interval from internal.settings where name = 'registrations_window');
  counted record;
  oldest timestamptz;
  taken bigint;
begin
  for counted in
    select auth_private.attempt_key('registration', n.name) as key, n.factor * allowed as allowed
    from jsonb_to_recordset(networks) as n (name text, factor integer)
    order by key
  loop
    -- Requests and registrations of one network wait for each other: they use the same lock.
    perform pg_advisory_xact_lock(hashtextextended('content-service:attempts:' || encode(counted.key, 'hex'), 0));

    select count(*), min(a.at)
    into taken, oldest
    from auth_private.attempts as a
    where a.key = counted.key
      and a.at > now() - span;

    if taken + total > counted.allowed then
      raise sqlstate 'PT429' using message = format(
        'too many new users from your network: try again in %s s',
        greatest(1, ceil(extract(epoch from coalesce(oldest, now()) + span - now()))));
    end if;

    insert into auth_private.attempts (key, at, counts)
    select counted.key, now(), true
    from generate_series(1, total);
  end loop;
end $$;

comment on function auth_private.count_added_users(bigint) is
  'Counts new users for each network of the caller. Raises PT429 beyond REGISTRATIONS_PER_ADDRESS in LOGIN_WINDOW.';

create or replace trigger _400_added_users after insert on public.users
  referencing new table as added
  for each statement execute function auth_private.note_added_users();

create or replace function auth_private.release_email(email text) returns void
language sql volatile set search_path = '' as $$
  update public.users as u
  set email = 'released-' || gen_random_uuid() || '@users.invalid'
  where lower(u.email) = lower(release_email.email)
    and exists (select from auth_private.added_users as a where a.user_id = u.id)
    and not exists (select from auth_private.accounts as a where a.user_id = u.id)
$$;

comment on function auth_private.release_email(text) is $$
Takes an e-mail from a user whom a caller has added without an account, so that a person can sign in with it. The user
keeps everything else: nothing that was prepared for this row gets to the person.
$$;

create or replace function auth_api.limit_added_users(registrations integer, span interval) returns void
language sql volatile security definer set search_path = '' as $$
  insert into internal.settings as s
  values ('registrations', registrations::text), ('registrations_window', span::text)
  on conflict (name) do update
  set value = excluded.value
  where s.value <> excluded.value
$$;

comment on function auth_api.limit_added_users(integer, interval) is
  'Stores REGISTRATIONS_PER_ADDRESS and LOGIN_WINDOW for auth_private.count_added_users.';
--! EndIncluded auth/added_users.sql
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
