create or replace function auth_private.email_of(user_id auth.user_id) returns text
language sql stable set search_path = ''
return (
  select e.email
  from auth_private.login_emails as e
  where e.user_id = email_of.user_id
    and e.released_at is null);

comment on function auth_private.email_of(auth.user_id) is
  'The e-mail that an account signs in with; null without one.';

create or replace function auth_private.factor_secrets(user_id auth.user_id) returns json
language sql stable set search_path = ''
return (
  select coalesce(json_agg(encode(f.secret, 'hex') order by f.enabled_at), '[]')
  from auth_private.factors as f
  where f.user_id = factor_secrets.user_id
    and f.enabled_at is not null);

comment on function auth_private.factor_secrets(auth.user_id) is
  'The encrypted secrets of the enabled factors of a user, in hex.';

create or replace function auth_private.has_factor(user_id auth.user_id) returns boolean
language sql stable set search_path = ''
return exists (
  select from auth_private.factors as f
  where f.user_id = has_factor.user_id
    and f.enabled_at is not null)
  or exists (select from auth_private.passkeys as p where p.user_id = has_factor.user_id);

comment on function auth_private.has_factor(auth.user_id) is
  'Whether a user has a second factor: an app that is enabled, or a passkey.';

create or replace function auth_private.keeps_factor(user_id auth.user_id) returns boolean
language sql stable set search_path = ''
return exists (
  select from auth_private.factors as f
  where f.user_id = keeps_factor.user_id
    and f.enabled_at is not null
    and not f.is_unconfirmed)
  or exists (
    select from auth_private.passkeys as p
    where p.user_id = keeps_factor.user_id
      and not p.is_unconfirmed);

comment on function auth_private.keeps_factor(auth.user_id) is
  'Whether a user has a second factor that the owner of the mailbox does not replace.';

create or replace function auth_private.factor_kinds(user_id auth.user_id) returns text[]
language sql stable set search_path = ''
return array_remove(array[
  case when exists (
    select from auth_private.factors as f
    where f.user_id = factor_kinds.user_id
      and f.enabled_at is not null
  ) then 'totp' end,
  case when exists (
    select from auth_private.passkeys as p
    where p.user_id = factor_kinds.user_id
  ) then 'passkey' end
], null);

comment on function auth_private.factor_kinds(auth.user_id) is 'The second factors of a user: totp, passkey.';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.account_of(user_id auth.user_id) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'id', a.user_id::text,
    'userId', a.user_id,
    'username', coalesce(a.username, e.email, a.name),
    'name', a.name,
    'email', coalesce(e.email, ''),
    'emailConfirmedAt', a.email_confirmed_at,
    'mustConfirm', a.must_confirm and a.email_confirmed_at is null,
    'role', a.role,
    'permissions', a.permissions,
    'passwordHash', a.password_hash,
    'isDisabled', a.disabled_at is not null,
    'epoch', a.epoch,
    'hasFactor', auth_private.has_factor(a.user_id),
    'factorKinds', auth_private.factor_kinds(a.user_id),
    'claims', auth_private.claims_of(a))
  from auth_private.accounts as a
  left join auth_private.login_emails as e on e.user_id = a.user_id and e.released_at is null
  where a.user_id = account_of.user_id
$$;

comment on function auth_api.account_of(auth.user_id) is $$
The account of a user: {id, userId, username, name, email, emailConfirmedAt, mustConfirm, role, permissions,
passwordHash, isDisabled, epoch, hasFactor, factorKinds, claims}; null if the user has none. `id` is a text, `userId` a
JSON value of its type. The e-mail is the one that the account signs in with, "" if it has none, and the username if it
has no other. The claims are those that the application adds; null without the hook.
$$;

create or replace function auth_private.lift_bans(user_id auth.user_id, now timestamptz) returns void
language sql volatile set search_path = '' as $$
  update auth_private.accounts as a
  set disabled_at = null,
    disabled_until = null
  where a.disabled_until <= lift_bans.now
    and (lift_bans.user_id is null or a.user_id = lift_bans.user_id)
$$;

comment on function auth_private.lift_bans(auth.user_id, timestamptz) is
  'Enables a user whose ban has ended, or all such users.';

-- security definer, here and below: whoever changes the row of a user may not change accounts.
create or replace function auth_api.disable_account() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  update auth_private.accounts as a
  set disabled_at = now()
  where a.user_id = (to_jsonb(new) ->> tg_argv[0])::auth.user_id
    and a.disabled_at is null;
  return null;
end $$;

comment on function auth_api.disable_account() is $$
For triggers of the application: disables the account of a user, which ends all sign-ins. The argument is the column of
the id.
$$;

create or replace function auth_api.enable_account() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  update auth_private.accounts as a
  set disabled_at = null,
    disabled_until = null
  where a.user_id = (to_jsonb(new) ->> tg_argv[0])::auth.user_id
    and a.disabled_at is not null;
  return null;
end $$;

comment on function auth_api.enable_account() is
  'For triggers of the application: enables the account of a user again. The argument is the column of the id.';

create or replace function auth_private.normalize_username() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  -- Only UTF8 has several forms of a text.
  if current_setting('server_encoding') = 'UTF8' then new.username := normalize(new.username, nfkc); end if;
  return new;
end $$;

comment on function auth_private.normalize_username() is
  'Usernames are stored in NFKC, also those that SQL of an application or an import writes.';

create or replace trigger _100_normal before insert or update of username on auth_private.accounts
  for each row execute function auth_private.normalize_username();

create or replace function auth_private.login_key(login text) returns text
language sql stable set search_path = ''
return case
  when position('@' in login) > 0 then auth_private.email_key(login)
  when current_setting('server_encoding') = 'UTF8' then lower(normalize(login, nfkc))
  else lower(login)
end;

comment on function auth_private.login_key(text) is
  'How a login is looked up: an e-mail has an @ and a username has none.';

create or replace function auth_api.find_account(login text) returns json
language sql stable security definer set search_path = '' as $$
  -- A username has no @, and an e-mail has one. Old usernames were not normalized, and two of them may have the same
  -- normalized form. So the login is first looked up as it was sent.
  select auth_api.account_of(coalesce(
    (select a.user_id from auth_private.accounts as a where lower(a.username) = lower(login)),
    (select a.user_id from auth_private.accounts as a where lower(a.username) = auth_private.login_key(login)),
    (
      select e.user_id from auth_private.login_emails as e
      where auth_private.email_key(e.email) = auth_private.email_key(login)
        and e.released_at is null
    )))
$$;

comment on function auth_api.find_account(text) is
  'The account that signs in with this username or e-mail, as account_of returns it; null if there is none.';

create or replace function auth_api.has_account(user_id auth.user_id) returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (select from auth_private.accounts as a where a.user_id = has_account.user_id)
$$;

comment on function auth_api.has_account(auth.user_id) is 'Whether a user has an account.';

create or replace function auth.has_account(user_id auth.user_id) returns boolean
language sql stable set search_path = ''
return auth_api.has_account(user_id);

comment on function auth.has_account(auth.user_id) is
  'For seeds and imports of the application: whether a user has an account.';

create or replace function auth_private.new_public_id(user_id auth.user_id) returns uuid
language plpgsql volatile set search_path = '' as $$
begin
  if auth_private.base_type('auth.user_id'::regtype) = 'uuid' then return user_id::text::uuid; end if;
  return gen_random_uuid();
end $$;

comment on function auth_private.new_public_id(auth.user_id) is
  'How /auth/v1 names a new user: the id itself, if it is a uuid.';

create or replace function auth_private.insert_accounts(new_accounts jsonb) returns void
language sql volatile set search_path = '' as $$
  insert into auth_private.accounts (
    user_id, public_id, name, username, password_hash, role, disabled_at, disabled_until, created_at,
    email_confirmed_at, must_confirm, import_key, user_metadata, app_metadata)
  select
    n."userId",
    coalesce(n."publicId", auth_private.new_public_id(n."userId")),
    n.name,
    case when lower(n.username) <> lower(n.email) then n.username end,
    n."passwordHash",
    coalesce(n.role, 'authenticated'),
    coalesce(n."disabledAt", case when n."disabledUntil" > now() then now() end),
    case when n."disabledUntil" > now() then n."disabledUntil" end,
    coalesce(n."createdAt", now()),
    n."emailConfirmedAt",
    coalesce(n."mustConfirm", false),
    n."importKey",
    coalesce(n."userMetadata", '{}'),
    coalesce(n."appMetadata", '{}')
  from jsonb_to_recordset(new_accounts) as n (
    "userId" auth.user_id, "publicId" uuid, name text, email text, username text, "passwordHash" text,
    role text, "disabledAt" timestamptz, "disabledUntil" timestamptz, "createdAt" timestamptz,
    "emailConfirmedAt" timestamptz, "mustConfirm" boolean, "importKey" uuid, "userMetadata" jsonb,
    "appMetadata" jsonb);

  insert into auth_private.login_emails (user_id, email)
  select n."userId", n.email
  from jsonb_to_recordset(new_accounts) as n ("userId" auth.user_id, email text)
$$;

comment on function auth_private.insert_accounts(jsonb) is $$
Inserts the accounts of users who exist: [{userId, name, email, username, passwordHash, role, disabledAt, publicId,
disabledUntil, createdAt, emailConfirmedAt, mustConfirm, importKey, userMetadata, appMetadata}]. All but the first three
may be missing. If the username is null or the e-mail, the user signs in with the e-mail.
$$;

create or replace function auth.add_account(
  user_id auth.user_id, name text, email text, username text default null, password_hash text default null,
  role text default 'authenticated', disabled_at timestamptz default null,
  email_confirmed_at timestamptz default null)
returns void
language sql volatile set search_path = '' as $$
  select auth_private.insert_accounts(jsonb_build_array(jsonb_build_object(
    'userId', add_account.user_id,
    'name', add_account.name,
    'email', add_account.email,
    'username', add_account.username,
    'passwordHash', add_account.password_hash,
    'role', add_account.role,
    'disabledAt', add_account.disabled_at,
    'emailConfirmedAt', add_account.email_confirmed_at)))
$$;

comment on function auth.add_account(
  auth.user_id, text, text, text, text, text, timestamptz, timestamptz) is $$
For seeds and imports of the application: a user who exists can sign in from now on. If the username is null or the
e-mail, the user signs in with the e-mail. The password is a hash in a form of docs/existing-database.md;
without one, the user signs in with an identity of a provider.
$$;

revoke all on function
  auth.has_account(auth.user_id),
  auth.add_account(auth.user_id, text, text, text, text, text, timestamptz, timestamptz)
  from public;
grant execute on function
  auth.has_account(auth.user_id),
  auth.add_account(auth.user_id, text, text, text, text, text, timestamptz, timestamptz)
  to auth_owner;

create or replace function auth_private.with_data(fields jsonb, user_metadata jsonb) returns jsonb
language sql stable set search_path = ''
return fields || case when user_metadata = '{}' then '{}' else jsonb_build_object('data', user_metadata) end;

comment on function auth_private.with_data(jsonb, jsonb) is
  'The fields of a new user for the hooks: what the user says about themselves at /auth/v1 is `data`, if there is any.';

create or replace function auth_private.sign_up(
  fields jsonb, username text, password_hash text,
  user_metadata jsonb default '{}')
returns auth.user_id
language plpgsql volatile set search_path = '' as $$
declare
  accepted constant jsonb := auth_private.before_sign_up(
    auth_private.with_data(fields, sign_up.user_metadata));
  new_id constant auth.user_id := auth_private.new_user(accepted);
begin
  perform auth_private.insert_accounts(jsonb_build_array(jsonb_build_object(
    'userId', new_id,
    'name', coalesce(accepted ->> 'name', sign_up.username, accepted ->> 'email'),
    'email', accepted ->> 'email',
    'username', sign_up.username,
    'passwordHash', sign_up.password_hash,
    'userMetadata', sign_up.user_metadata)));
  perform auth_private.call_hook('after_sign_up', new_id, accepted);
  return new_id;
end $$;

comment on function auth_private.sign_up(jsonb, text, text, jsonb) is $$
Creates a user with an account, and returns the id. The fields are those of the request; the hooks of the application
say what they mean. The account keeps the metadata as they are.
$$;

create or replace function auth_private.require_open_sign_up() returns void
language plpgsql stable set search_path = '' as $$
begin
  if auth_api.setting('signup') = 'open' then return; end if;
  raise sqlstate 'CS403' using message = 'sign-up is closed';
end $$;

comment on function auth_private.require_open_sign_up() is 'Raises CS403 unless SIGNUP=open.';

create or replace function auth_api.refuse_sign_up() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare
  -- The role of the caller, in contrast to current_user.
  role constant text := current_setting('role');
begin
  -- SQL clients and other applications add users of their own; the service has asked already.
  if auth_private.is_request() and not pg_has_role(role, 'admin', 'member')
    and not (select r.rolbypassrls from pg_roles as r where r.rolname = role)
  then
    perform auth_private.require_open_sign_up();
  end if;
  return null;
end $$;

comment on function auth_api.refuse_sign_up() is
  'For the users of an application: unless SIGNUP=open, only administrators and the service key add users.';

create or replace function auth_private.is_taken(email text) returns boolean
language sql stable set search_path = ''
return exists (
  select from auth_private.login_emails as e
  where auth_private.email_key(e.email) = auth_private.email_key(is_taken.email));

comment on function auth_private.is_taken(text) is
  'Whether an account signs in with this e-mail, or it is reserved for an account.';

create or replace function auth_private.try_sign_up(
  fields jsonb, username text, password_hash text, user_metadata jsonb)
returns void
language plpgsql volatile set search_path = '' as $$
declare
  email constant text := gen_random_uuid() || '@' || split_part(fields ->> 'email', '@', 2);
begin
  perform auth_private.sign_up(
    fields || jsonb_build_object('email', email), username, password_hash, user_metadata);
  raise sqlstate 'CS000';
exception when sqlstate 'CS000' then
  return;
end $$;

comment on function auth_private.try_sign_up(jsonb, text, text, jsonb) is $$
Signs up with another e-mail and undoes it: an e-mail that is taken gets the same errors as one that is not.
$$;

create or replace function auth_api.register(
  fields jsonb, username text, password_hash text,
  user_metadata jsonb default '{}', by_operator boolean default false, mail jsonb default '{}')
returns auth.user_id
language plpgsql volatile security definer set search_path = '' as $$
declare
  sends constant boolean := not by_operator and auth_api.setting('email_confirm') <> 'off';
  confirms constant boolean := sends and auth_api.setting('email_confirm') = 'required';
  email constant text := register.fields ->> 'email';
  new_id auth.user_id;
begin
  if register.password_hash is null then
    raise not_null_violation using
      message = 'password must not be null',
      schema = 'auth_private',
      table = 'accounts',
      column = 'password_hash';
  end if;
  if not by_operator then perform auth_private.require_open_sign_up(); end if;

  if not confirms or not auth_private.is_taken(email) then
    begin
      new_id := auth_private.sign_up(
        register.fields,
        register.username,
        register.password_hash,
        register.user_metadata);
    exception when unique_violation then
      -- Otherwise another sign-up, at the same time, was first.
      if not confirms or not auth_private.is_taken(email) then raise; end if;
    end;
  end if;
  if new_id is null then
    perform auth_private.try_sign_up(
      register.fields,
      register.username,
      register.password_hash,
      register.user_metadata);
    perform auth_private.add_limited_mail('account-exists', null, email, register.mail);
    return null;
  end if;
  if confirms then
    update auth_private.accounts as a
    set must_confirm = true
    where a.user_id = new_id;
  end if;
  if sends then perform auth_private.add_limited_mail('confirm', new_id, email, register.mail); end if;
  return new_id;
end $$;

comment on function auth_api.register(jsonb, text, text, jsonb, boolean, jsonb) is $$
Creates a user with an account that has a password, as auth_private.sign_up does, and returns the id. Raises CS403
unless SIGNUP=open or an operator adds the user. Unless EMAIL_CONFIRM=off, an e-mail to confirm the address is added;
with EMAIL_CONFIRM=required, if the address is taken, its owner hears of that, and the result is null. `mail` is
the data of these e-mails.
$$;

create or replace function auth_api.register_anonymous(
  name text, user_metadata jsonb, address inet, now timestamptz)
returns auth.user_id
language plpgsql volatile security definer set search_path = '' as $$
declare
  -- The application's users may need an e-mail. No mail server has this domain: RFC 2606.
  email constant text := gen_random_uuid() || '@anonymous.invalid';
  accepted jsonb;
  new_id auth.user_id;
begin
  perform auth_private.require_open_sign_up();
  accepted := auth_private.before_sign_up(auth_private.with_data(
    jsonb_build_object('name', register_anonymous.name, 'email', email), register_anonymous.user_metadata));
  new_id := auth_private.new_user(accepted);
  insert into auth_private.accounts (user_id, public_id, name, user_metadata, is_anonymous)
  values (
    new_id,
    auth_private.new_public_id(new_id),
    coalesce(accepted ->> 'name', register_anonymous.name),
    register_anonymous.user_metadata,
    true);
  perform auth_private.call_hook('after_sign_up', new_id, accepted);
  perform auth_api.note_event('registered', new_id, address, '{"by": "anonymous"}', register_anonymous.now);
  return new_id;
end $$;

comment on function auth_api.register_anonymous(text, jsonb, inet, timestamptz) is $$
Creates a user with an anonymous account, which has no e-mail and no password, and returns the id. The hooks get an
e-mail without a mailbox. Raises CS403 unless SIGNUP=open.
$$;

create or replace function auth_private.mark_update() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.updated_at := now();
  return new;
end $$;

comment on function auth_private.mark_update() is 'Sets when an account was last changed.';

create or replace trigger _100_updated before update on auth_private.accounts
  for each row execute function auth_private.mark_update();

create or replace function auth_private.is_other_password(old_hash text, new_hash text) returns boolean
language sql stable set search_path = ''
return old_hash is distinct from new_hash
  and current_setting('request.same_password', true) is distinct from 'on';

comment on function auth_private.is_other_password(text, text) is
  'Whether the hash of an account changes because its password does; auth_api.replace_hash stores the same one.';

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
    or auth_private.is_other_password(old.password_hash, new.password_hash)
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

create or replace function auth_private.end_pending_change(user_id auth.user_id) returns void
language plpgsql volatile set search_path = '' as $$
begin
  -- First the e-mails that may be adding a token at this moment.
  delete from auth_private.mails as m
  where m.user_id = end_pending_change.user_id
    and m.kind = 'confirm'
    and m.data ? 'from';
  delete from auth_private.one_time_tokens as t
  where t.user_id = end_pending_change.user_id
    and (t.kind = 'change' or t.kind = 'confirm' and t.data ? 'from');
end $$;

comment on function auth_private.end_pending_change(auth.user_id) is
  'Ends a change of the e-mail that waits for its confirmation: one of the sign-ins that end may have requested it.';

create or replace function auth_private.lock_account(user_id auth.user_id, password_hash text) returns boolean
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

comment on function auth_private.lock_account(auth.user_id, text) is $$
Locks an account whose password was verified; false if the password has changed since, or the account is disabled.
$$;

create or replace function auth_api.change_password(
  user_id auth.user_id, old_hash text, password_hash text, sent jsonb, session uuid, address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare tried json;
begin
  if not auth_private.lock_account(change_password.user_id, old_hash)
    or not auth_private.lock_sign_in(change_password.user_id, session)
  then return json_build_object('outcome', 'changed'); end if;
  if not exists (select from auth_private.sessions as s where s.id = session and s.aal = 2) then
    tried := auth_private.require_code(change_password.user_id, sent);
    if tried ->> 'outcome' is distinct from 'accepted' then return tried; end if;
  end if;

  -- Read by note_account_change.
  perform set_config('request.address', coalesce(host(change_password.address), ''), true);
  update auth_private.accounts as a
  set password_hash = change_password.password_hash
  where a.user_id = change_password.user_id;
  -- The new password has begun an epoch; another one keeps this session.
  if session is not null then
    perform auth_private.end_other_sign_ins(change_password.user_id, session, change_password.now);
  end if;
  return json_build_object('outcome', 'accepted', 'account', auth_api.account_of(change_password.user_id));
end $$;

comment on function auth_api.change_password(auth.user_id, text, text, jsonb, uuid, inet, timestamptz) is $$
Sets another password, which ends what was issued to the user but this session, if any: {outcome, account}, with the
account as it is then. The outcome is "changed" if the old password has changed since, the session has ended or the
account is disabled; otherwise as require_code. No code is needed if the session has proved the second factor.
$$;

create or replace function auth_api.replace_hash(user_id auth.user_id, old_hash text, password_hash text)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare is_replaced boolean;
begin
  -- Triggers see that the password stays.
  perform set_config('request.same_password', 'on', true);
  update auth_private.accounts as a
  set password_hash = replace_hash.password_hash
  where a.user_id = replace_hash.user_id
    and a.password_hash = replace_hash.old_hash;
  is_replaced := found;
  perform set_config('request.same_password', '', true);
  return is_replaced;
end $$;

comment on function auth_api.replace_hash(auth.user_id, text, text) is $$
Replaces the hash of a password that was just verified by another hash of the same password, which ends nothing. False
if the password has changed since.
$$;

create or replace function auth_private.note_account_change() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  client constant inet := nullif(current_setting('request.address', true), '')::inet;
  happened text;
begin
  foreach happened in array array_remove(array[
    case
      when auth_private.is_other_password(old.password_hash, new.password_hash) then 'password_changed'
    end,
    case when old.disabled_at is null and new.disabled_at is not null then 'account_disabled' end,
    case when old.disabled_at is not null and new.disabled_at is null then 'account_enabled' end,
    case when old.permissions is distinct from new.permissions then 'permissions_changed' end,
    case when old.role is distinct from new.role then 'role_changed' end
  ], null) loop
    insert into auth_private.security_events (event, user_id, address, detail)
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
