--! Previous: sha1:b3f8112fc5788108b19e76cb81d5d62f8f235027
--! Hash: sha1:f8705202af1ab7ab9ac7c4192e87033af51c0e79
--! Message: a new user is one row of columns

-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
grant usage on schema internal to auth_owner;
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
@notNull
Creates a user. Fails with RESOURCE_CONFLICT if the e-mail is already registered.
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

create or replace function internal.protect_account() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  if old.id = auth.uid() and not exists (
    -- With USERS_WRITE=open every caller may delete every user.
    select from pg_auth_members as m
    join pg_roles as login on login.oid = m.member
    where m.roleid = 'users_editor'::regrole
      and login.rolname = session_user
  ) then
    perform auth.require_recent_sign_in();
  end if;
  return old;
end $$;

comment on function internal.protect_account() is
  'A user who deletes themselves needs a recent sign-in: a stolen token must not delete its owner.';

-- Callers without credentials, as users_editor, are no owners.
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
grant execute on function internal.add_user(jsonb) to anon, authenticated, service_role, auth_owner;
grant execute on function
  public.me(), public.create_user(public.users), public.users_avatar(public.users, integer)
  to anon, authenticated, service_role;
--! EndIncluded content/users/access.sql
drop function if exists auth_api.register(text, text, integer, text, text, text, text);
drop function if exists auth_private.add_account(text, text, integer, text, text, text, text);
--! Included auth/accounts/functions.sql
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
  -- A username has no @, and an e-mail has one. The login as it was sent comes first: a username from before usernames
  -- were normalized may differ from another one only in that.
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
  new_id constant bigint := (internal.add_user(fields)).id;
  has_username constant boolean := lower(add_account.username) <> lower(fields ->> 'email');
begin
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
Creates a user with an account and returns the id. The fields are columns of the user. If the username is null or the
e-mail, the user signs in with the e-mail. The skeletons say what e-mail and username look like. If the password is
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
  -- Before the attempts and the factor, here and elsewhere, so that no two changes wait for each other.
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
--! EndIncluded auth/accounts/functions.sql
--! Included auth/identities/functions.sql
create or replace trigger _500_announce after delete on auth_private.identities
  for each row execute function auth_private.announce_account();

create or replace function auth_private.announce_identity() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', json_build_object('user', new.user_id)::text);
  return null;
end $$;

comment on function auth_private.announce_identity() is
  'Notifies the channel "accounts" that an identity was linked to an account.';

create or replace trigger _500_announce_insert after insert on auth_private.identities
  for each row execute function auth_private.announce_identity();

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.account_of_identity(issuer text, subject text) returns json
language sql stable security definer set search_path = '' as $$
  select auth_api.account_of(i.user_id)
  from auth_private.identities as i
  where i.issuer = account_of_identity.issuer
    and i.subject = account_of_identity.subject
$$;

comment on function auth_api.account_of_identity(text, text) is
  'The account that an identity is linked to, as account_of returns it; null if there is none.';

create or replace function auth_api.use_identity(
  issuer text, subject text, provider text, email text, sign_in bytea, now timestamptz)
returns json
language sql volatile security definer set search_path = '' as $$
  with used as (
    update auth_private.identities as i
    set provider = use_identity.provider,
      email = use_identity.email,
      sign_in = use_identity.sign_in,
      used_at = use_identity.now
    where i.issuer = use_identity.issuer
      and i.subject = use_identity.subject
    returning i.user_id
  )
  select auth_api.account_of(u.user_id)
  from used as u
$$;

comment on function auth_api.use_identity(text, text, text, text, bytea, timestamptz) is
  'Records a sign-in with an identity, and returns its account as account_of does; null if it is linked to none.';

create or replace function auth_api.register_identity(
  issuer text, subject text, provider text, name text, email text, email_skeleton text, sign_in bytea,
  address inet, now timestamptz)
returns text
language plpgsql volatile security definer set search_path = '' as $$
declare new_id bigint;
begin
  new_id := auth_private.add_account(
    jsonb_build_object('name', register_identity.name, 'email', register_identity.email),
    register_identity.email_skeleton,
    null,
    null,
    null);
  insert into auth_private.identities (user_id, provider, issuer, subject, email, linked_at, used_at, sign_in)
  values (
    new_id,
    register_identity.provider,
    register_identity.issuer,
    register_identity.subject,
    register_identity.email,
    register_identity.now,
    register_identity.now,
    register_identity.sign_in);
  perform auth_api.note_event(
    'registered',
    new_id,
    register_identity.address,
    jsonb_build_object('provider', register_identity.provider),
    register_identity.now);
  return 'registered';
exception
  when unique_violation then
    -- Of two first sign-ins at once, the other one has registered the identity.
    perform from auth_private.identities as i
    where i.issuer = register_identity.issuer
      and i.subject = register_identity.subject;
    return case when found then 'linked' else 'email taken' end;
  when check_violation then return 'malformed';
end $$;

comment on function auth_api.register_identity(text, text, text, text, text, text, bytea, inet, timestamptz) is $$
Creates a user with an account that has no password, and links the identity to it: "registered". Otherwise nothing
changes: "linked" to an account already, "email taken" by another user, or name or e-mail "malformed".
$$;

create or replace function auth_api.link_identity(
  user_id bigint, issuer text, subject text, provider text, email text, sign_in bytea, max integer,
  address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  owner_id bigint;
  new_id uuid;
begin
  -- Locked, so that parallel calls can't exceed max.
  perform from auth_private.accounts as a
  where a.user_id = link_identity.user_id
    and a.disabled_at is null
  for no key update;
  if not found then return json_build_object('outcome', 'changed'); end if;
  if link_identity.max <= (
    select count(*) from auth_private.identities as i where i.user_id = link_identity.user_id
  ) then return json_build_object('outcome', 'too many'); end if;

  insert into auth_private.identities (user_id, provider, issuer, subject, email, linked_at, sign_in)
  values (
    link_identity.user_id,
    link_identity.provider,
    link_identity.issuer,
    link_identity.subject,
    link_identity.email,
    link_identity.now,
    link_identity.sign_in)
  on conflict do nothing
  returning id into new_id;
  if new_id is null then
    select i.user_id, i.id
    into owner_id, new_id
    from auth_private.identities as i
    where i.issuer = link_identity.issuer
      and i.subject = link_identity.subject;
    if owner_id is distinct from link_identity.user_id then return json_build_object('outcome', 'taken'); end if;
    return json_build_object('outcome', 'linked', 'id', new_id);
  end if;

  perform auth_api.note_event(
    'identity_linked',
    link_identity.user_id,
    link_identity.address,
    jsonb_build_object('provider', link_identity.provider, 'identity', new_id),
    link_identity.now);
  return json_build_object('outcome', 'linked', 'id', new_id);
end $$;

comment on function auth_api.link_identity(bigint, text, text, text, text, bytea, integer, inet, timestamptz) is $$
Links an identity to an account: {outcome: "linked", id}, also if it is already. Otherwise nothing changes: "taken" by
another account, "too many" identities, or "changed": the account is disabled or deleted.
$$;

create or replace function auth_api.list_identities(user_id bigint) returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(
    json_agg(
      json_build_object(
        'id', i.id,
        'provider', i.provider,
        'email', i.email,
        'linkedAt', i.linked_at,
        'lastUsedAt', i.used_at)
      order by i.linked_at desc, i.id),
    '[]')
  from auth_private.identities as i
  where i.user_id = list_identities.user_id
$$;

comment on function auth_api.list_identities(bigint) is 'The identities of an account, newest first.';

create or replace function auth_api.unlink_identity(
  user_id bigint, id uuid, issuers text[], family uuid, session bytea, address inet, now timestamptz)
returns text
language plpgsql volatile security definer set search_path = '' as $$
declare unlinked text;
begin
  -- Of two calls at once, the second one waits here, and then finds the last way to sign in.
  perform from auth_private.accounts as a
  where a.user_id = unlink_identity.user_id
  for no key update;
  if not auth_private.lock_sign_in(unlink_identity.user_id, family, session) then return 'changed'; end if;
  if not exists (
    select from auth_private.identities as i
    where i.id = unlink_identity.id
      and i.user_id = unlink_identity.user_id
  ) then return 'missing'; end if;
  if not exists (
    select from auth_private.accounts as a
    where a.user_id = unlink_identity.user_id
      and a.password_hash is not null
  ) and not exists (
    select from auth_private.identities as i
    where i.user_id = unlink_identity.user_id
      and i.id <> unlink_identity.id
      and i.issuer = any (unlink_identity.issuers)
  ) then return 'last'; end if;

  delete from auth_private.identities as i
  where i.id = unlink_identity.id
    and i.user_id = unlink_identity.user_id
  returning i.provider into unlinked;
  perform auth_private.end_other_sign_ins(unlink_identity.user_id, family, session, unlink_identity.now);
  perform auth_api.note_event(
    'identity_unlinked',
    unlink_identity.user_id,
    unlink_identity.address,
    jsonb_build_object('provider', unlinked, 'identity', unlink_identity.id),
    unlink_identity.now);
  return 'unlinked';
end $$;

comment on function auth_api.unlink_identity(bigint, uuid, text[], uuid, bytea, inet, timestamptz) is $$
Unlinks an identity from an account and ends all other sign-ins of the user: "unlinked". Otherwise nothing changes:
"missing"; "last": the user could not sign in any more, with a password or with another identity of these issuers; or
"changed": the sign-in of the caller has ended.
$$;

create or replace function auth_api.take_sign_in(user_id bigint, issuer text) returns json
language sql volatile security definer set search_path = '' as $$
  with found as (
    select i.id, i.subject, i.sign_in
    from auth_private.identities as i
    where i.user_id = take_sign_in.user_id
      and i.issuer = take_sign_in.issuer
      and i.sign_in is not null
    order by i.used_at desc
    limit 1
    for update
  ), taken as (
    update auth_private.identities as i
    set sign_in = null
    from found as f
    where i.id = f.id
  )
  select json_build_object('subject', f.subject, 'signIn', encode(f.sign_in, 'hex'))
  from found as f
$$;

comment on function auth_api.take_sign_in(bigint, text) is $$
What the provider needs to end the last sign-in of the user there, which is over then: {subject, signIn}, encrypted, in
hex; null if there is none.
$$;
--! EndIncluded auth/identities/functions.sql
--! Included auth/owner.sql
-- Functions of authentication belong to auth_owner, which is not a superuser: they run with its rights.
-- PUBLIC may not execute them.
do $$
declare function regprocedure;
begin
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
