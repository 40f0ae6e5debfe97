-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.factors_of(user_id auth.user_id, now timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(
    json_agg(
      json_build_object(
        'id', f.id,
        'name', f.friendly_name,
        'secret', encode(f.secret, 'hex'),
        'pending', encode(f.pending, 'hex'))
      order by f.created_at, f.id),
    '[]')
  from auth_private.factors as f
  where f.user_id = factors_of.user_id
    and (f.enabled_at is not null or f.pending_until > factors_of.now)
$$;

comment on function auth_api.factors_of(auth.user_id, timestamptz) is
  'The second factors of a user, oldest first: [{id, name, secret, pending}], secrets encrypted, in hex.';

create or replace function auth_api.begin_factor(
  user_id auth.user_id, pending bytea, until timestamptz, now timestamptz,
  friendly_name text default null, max integer default null)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  name constant text := coalesce(begin_factor.friendly_name, '');
  is_first constant boolean := begin_factor.friendly_name is null;
  has_enabled boolean;
  new_id uuid;
begin
  -- Parallel enrolments count together.
  perform from auth_private.accounts as a
  where a.user_id = begin_factor.user_id
  for no key update;

  has_enabled := auth_private.factor_kinds(begin_factor.user_id) @> '{totp}';
  if is_first and has_enabled then return json_build_object('outcome', 'enabled'); end if;

  delete from auth_private.factors as f
  where f.user_id = begin_factor.user_id
    and f.enabled_at is null
    and (f.pending_until <= begin_factor.now or is_first and f.friendly_name = name);
  if exists (
    select from auth_private.factors as f
    where f.user_id = begin_factor.user_id
      and f.friendly_name = name
  ) then return json_build_object('outcome', 'taken'); end if;
  if max <= (select count(*) from auth_private.factors as f where f.user_id = begin_factor.user_id) then
    return json_build_object('outcome', 'full');
  end if;

  insert into auth_private.factors as f (user_id, friendly_name, pending, pending_until)
  values (begin_factor.user_id, name, begin_factor.pending, begin_factor.until)
  returning f.id into new_id;
  if not auth_private.has_factor(begin_factor.user_id) then
    -- Earlier attempts were at codes of another secret. A user with a passkey has backup codes, which stay.
    delete from auth_private.attempts as a
    where a.key = auth_private.attempt_key('factor', begin_factor.user_id::text);
  end if;
  return json_build_object('outcome', 'begun', 'id', new_id);
end $$;

comment on function auth_api.begin_factor(auth.user_id, bytea, timestamptz, timestamptz, text, integer) is $$
Begins an enrolment: {outcome, id}. Without a name, it is that of the only factor, in place of a pending one: the
outcome is "enabled" if a factor is enabled. With a name, it is one of several: "taken" if a factor has the name, "full"
if there are `max` factors. Otherwise it is "begun".
$$;

create or replace function auth_api.enable_factor(
  user_id auth.user_id, session uuid, pending bytea, secret bytea, step bigint, code_hashes bytea[],
  address inet, now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare is_first boolean;
begin
  if not auth_private.lock_proved_sign_in(enable_factor.user_id, session) then return false; end if;
  is_first := not auth_private.has_factor(enable_factor.user_id);
  -- The second of two parallel calls no longer finds a pending secret.
  update auth_private.factors as f
  set secret = enable_factor.secret,
    pending = null,
    pending_until = null,
    enabled_at = enable_factor.now,
    last_step = enable_factor.step,
    is_unconfirmed = auth_private.awaits_confirmation(enable_factor.user_id)
  where f.user_id = enable_factor.user_id
    and f.pending = enable_factor.pending
    and f.pending_until > enable_factor.now;
  if not found then return false; end if;

  if is_first or code_hashes <> '{}' then
    perform auth_private.store_backup_codes(enable_factor.user_id, code_hashes);
  end if;
  if is_first then
    perform auth_private.require_factor(enable_factor.user_id, session, 'totp', enable_factor.now);
  end if;
  perform auth_api.note_event('mfa_enabled', enable_factor.user_id, address, null, enable_factor.now);
  return true;
end $$;

comment on function auth_api.enable_factor(auth.user_id, uuid, bytea, bytea, bigint, bytea[], inet, timestamptz) is $$
Enables a pending factor whose first code, of this step, was right. The first factor of a user ends all sign-ins except
the session that enables it. `secret` is the pending one, encrypted with the current key. False if the factor is not
pending, or that sign-in has ended, or has not proved a second factor that the user has.
$$;

create or replace function auth_private.require_factor(
  user_id auth.user_id, session uuid, method text, now timestamptz)
returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform auth_private.end_other_sign_ins(require_factor.user_id, session, require_factor.now);
  update auth_private.sessions as s
  set methods = auth_private.methods_at(array[method], require_factor.now) || s.methods,
    aal = 2
  where s.id = require_factor.session;
end $$;

comment on function auth_private.require_factor(auth.user_id, uuid, text, timestamptz) is $$
After the first second factor: a password alone no longer signs the user in, so what was issued for one ends, except the
session that has just proved the factor.
$$;

create or replace function auth_api.accept_step(user_id auth.user_id, secret bytea, step bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  with accepted as (
    update auth_private.factors as f
    set last_step = accept_step.step
    where f.user_id = accept_step.user_id
      and f.secret = accept_step.secret
      and f.last_step < accept_step.step
    returning f.user_id
  )
  select exists (select from accepted)
$$;

comment on function auth_api.accept_step(auth.user_id, bytea, bigint) is $$
Spends the code of a step of the factor with this secret; false if it, or a later one, was spent before.
$$;

create or replace function auth_api.use_backup_code(user_id auth.user_id, code_hash bytea, now timestamptz)
returns boolean
language sql volatile security definer set search_path = '' as $$
  with used as (
    update auth_private.backup_codes as c
    set used_at = use_backup_code.now
    where c.user_id = use_backup_code.user_id
      and c.code_hash = use_backup_code.code_hash
      and c.used_at is null
    returning c.user_id
  )
  select exists (select from used)
$$;

comment on function auth_api.use_backup_code(auth.user_id, bytea, timestamptz) is
  'Spends a backup code; false if it does not exist, or was spent before.';

create or replace function auth_private.store_backup_codes(user_id auth.user_id, code_hashes bytea[]) returns void
language sql volatile set search_path = '' as $$
  delete from auth_private.backup_codes as c
  where c.user_id = store_backup_codes.user_id;

  insert into auth_private.backup_codes (user_id, code_hash)
  select store_backup_codes.user_id, hash
  from unnest(code_hashes) as hash;
$$;

comment on function auth_private.store_backup_codes(auth.user_id, bytea[]) is 'Replaces the backup codes of a user.';

create or replace function auth_private.confirm_factor_change(user_id auth.user_id, password_hash text, sent jsonb)
returns json
language plpgsql volatile set search_path = '' as $$
begin
  if not auth_private.lock_account(confirm_factor_change.user_id, confirm_factor_change.password_hash) then
    return json_build_object('outcome', 'changed');
  end if;
  if not auth_private.has_factor(confirm_factor_change.user_id) then
    return json_build_object('outcome', 'none');
  end if;
  return auth_private.require_code(confirm_factor_change.user_id, sent);
end $$;

comment on function auth_private.confirm_factor_change(auth.user_id, text, jsonb) is $$
Locks the account and spends the code that a change of its second factor needs. The outcome is "changed" if the password
has changed since it was verified or the account is disabled, "none" if no factor is enabled; otherwise as require_code.
$$;

create or replace function auth_api.replace_backup_codes(
  user_id auth.user_id, password_hash text, sent jsonb, code_hashes bytea[], address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  tried constant json := auth_private.confirm_factor_change(
    replace_backup_codes.user_id, replace_backup_codes.password_hash, sent);
begin
  if tried ->> 'outcome' is distinct from 'accepted' then return tried; end if;
  perform auth_private.store_backup_codes(replace_backup_codes.user_id, code_hashes);
  perform auth_api.note_event(
    'backup_codes_renewed', replace_backup_codes.user_id, address, null, replace_backup_codes.now);
  return tried;
end $$;

comment on function auth_api.replace_backup_codes(auth.user_id, text, jsonb, bytea[], inet, timestamptz) is
  'Replaces the backup codes of a user: {outcome}, as confirm_factor_change.';

create or replace function auth_private.delete_factors(
  user_id auth.user_id, ids uuid[], session uuid, detail jsonb, now timestamptz)
returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  address constant inet := nullif(current_setting('request.address', true), '')::inet;
  apps integer;
  removed text;
  is_left boolean;
begin
  with deleted as (
    delete from auth_private.factors as f
    where f.user_id = delete_factors.user_id
      and f.id = any (ids)
    returning f.enabled_at
  )
  select count(d.enabled_at)
  into apps
  from deleted as d;

  for removed in
    delete from auth_private.passkeys as p
    where p.user_id = delete_factors.user_id
      and p.id = any (ids)
    returning p.name
  loop
    perform auth_api.note_event(
      'passkey_removed', delete_factors.user_id, address, detail || jsonb_build_object('name', removed),
      delete_factors.now);
  end loop;
  if apps = 0 and removed is null then return false; end if;

  is_left := auth_private.has_factor(delete_factors.user_id);
  if apps > 0 or not is_left then
    perform auth_api.note_event('mfa_disabled', delete_factors.user_id, address, detail, delete_factors.now);
  end if;
  delete from auth_private.backup_codes as c
  where c.user_id = delete_factors.user_id
    and not is_left;
  -- They may have begun with this passkey; and a session with a cookie cannot prove the factor that is left.
  perform auth_private.end_sessions(
    array(
      select s.id
      from auth_private.sessions as s
      where s.user_id = delete_factors.user_id
        and s.id is distinct from delete_factors.session
        and (
          removed is not null and s.methods -> -1 ->> 'method' = 'passkey'
          or is_left and s.aal = 2 and s.cookie_hash is not null)),
    delete_factors.now);
  update auth_private.sessions as s
  set aal = 1
  where s.user_id = delete_factors.user_id
    and s.aal = 2
    and (s.id is distinct from delete_factors.session or not is_left);
  return true;
end $$;

comment on function auth_private.delete_factors(auth.user_id, uuid[], uuid, jsonb, timestamptz) is $$
Deletes these apps and passkeys of a user, and the backup codes with the last second factor, and records it with this
detail. Other sessions than the given one, which may have proved a deleted factor, fall to aal1; those end that have
begun with a passkey if one is deleted, and that with a cookie if another factor is left. False if none of them was
enabled. The caller has locked the account, and set request.address.
$$;

create or replace function auth_private.is_unconfirmed(user_id auth.user_id) returns boolean
language sql stable set search_path = ''
return exists (
  select from auth_private.accounts as a
  where a.user_id = is_unconfirmed.user_id
    and a.email_confirmed_at is null);

comment on function auth_private.is_unconfirmed(auth.user_id) is
  'Whether a user has not shown that the login e-mail is theirs.';

create or replace function auth_private.awaits_confirmation(user_id auth.user_id) returns boolean
language sql stable set search_path = ''
return auth_api.setting('email_confirm') <> 'off' and auth_private.is_unconfirmed(user_id);

comment on function auth_private.awaits_confirmation(auth.user_id) is $$
Whether the second factors that a user enables now end when the owner of the mailbox shows up without them. With
EMAIL_CONFIRM=off nobody confirms, and a second factor protects every account from whoever reads its e-mails.
$$;

create or replace function auth_private.confirm_factors() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  update auth_private.factors as f
  set is_unconfirmed = false
  where f.user_id = new.user_id
    and f.is_unconfirmed;
  update auth_private.passkeys as p
  set is_unconfirmed = false
  where p.user_id = new.user_id
    and p.is_unconfirmed;
  return null;
end $$;

comment on function auth_private.confirm_factors() is
  'Second factors that are left when the e-mail is confirmed are those of the owner of the mailbox.';

create or replace trigger _300_factors after update on auth_private.accounts
  for each row when (old.email_confirmed_at is null and new.email_confirmed_at is not null)
  execute function auth_private.confirm_factors();

create or replace function auth_private.drop_unconfirmed_factors(user_id auth.user_id, now timestamptz) returns void
language sql volatile set search_path = '' as $$
  select auth_private.delete_factors(
    drop_unconfirmed_factors.user_id,
    array(
      select f.id
      from auth_private.factors as f
      where f.user_id = drop_unconfirmed_factors.user_id
        and f.is_unconfirmed
      union all
      select p.id
      from auth_private.passkeys as p
      where p.user_id = drop_unconfirmed_factors.user_id
        and p.is_unconfirmed),
    null,
    '{"by": "e-mail"}',
    drop_unconfirmed_factors.now)
$$;

comment on function auth_private.drop_unconfirmed_factors(auth.user_id, timestamptz) is $$
Removes the second factors that were enabled before the e-mail was confirmed, because its owner has shown up without
them.
$$;

create or replace function auth_api.disable_factor(
  user_id auth.user_id, id uuid, session uuid, password_hash text, sent jsonb, address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  tried constant json := auth_private.confirm_factor_change(
    disable_factor.user_id, disable_factor.password_hash, sent);
  removed constant uuid := coalesce(disable_factor.id, (
    select f.id
    from auth_private.factors as f
    where f.user_id = disable_factor.user_id
      and f.enabled_at is not null
    order by f.secret = decode(sent ->> 'secret', 'hex') desc nulls last, f.enabled_at
    limit 1));
begin
  if tried ->> 'outcome' is distinct from 'accepted' then return tried; end if;
  perform set_config('request.address', coalesce(host(disable_factor.address), ''), true);
  if not auth_private.delete_factors(
    disable_factor.user_id, array[removed], disable_factor.session, '{}', disable_factor.now)
  then return json_build_object('outcome', 'none'); end if;
  return json_build_object('outcome', 'accepted', 'hasFactor', auth_private.has_factor(disable_factor.user_id));
end $$;

comment on function auth_api.disable_factor(auth.user_id, uuid, uuid, text, jsonb, inet, timestamptz) is $$
Removes this app or passkey of a user; without `id`, the app whose code was sent, or the oldest one for a backup code.
`session` is that of the caller, if any. {outcome, hasFactor}, as confirm_factor_change, and whether another factor is
enabled.
$$;

create or replace function auth_api.remove_factor(
  user_id auth.user_id, session uuid, id uuid, address inet, now timestamptz)
returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.address', coalesce(host(remove_factor.address), ''), true);
  if auth_private.lock_sign_in(remove_factor.user_id, session) then
    perform auth_private.delete_factors(
      remove_factor.user_id, array[remove_factor.id], session, '{}', remove_factor.now);
  end if;
end $$;

comment on function auth_api.remove_factor(auth.user_id, uuid, uuid, inet, timestamptz) is
  'Removes a factor. The caller has verified that the session has proved a factor.';

create or replace function auth_api.raise_session(
  user_id auth.user_id, session uuid, method text, token_hash bytea, now timestamptz, expires_at timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare raised auth_private.sessions;
begin
  if not auth_private.lock_sign_in(raise_session.user_id, raise_session.session) then return null; end if;
  update auth_private.sessions as s
  set methods = case
      when s.aal = 1 then auth_private.methods_at(array[method], raise_session.now) || s.methods
      else s.methods
    end,
    aal = 2,
    seen_at = greatest(s.seen_at, raise_session.now),
    expires_at = greatest(s.expires_at, raise_session.expires_at)
  where s.id = raise_session.session
  returning *
  into raised;

  update auth_private.refresh_tokens as t
  set spent_at = raise_session.now
  where t.session_id = raise_session.session
    and t.spent_at is null;
  insert into auth_private.refresh_tokens (token_hash, session_id, expires_at)
  values (raise_session.token_hash, raise_session.session, raise_session.expires_at);
  return json_build_object(
    'account', auth_api.account_of(raised.user_id),
    'user', auth_api.public_user(raised.user_id),
    'methods', raised.methods,
    'aal', raised.aal,
    'startedAt', raised.started_at);
end $$;

comment on function auth_api.raise_session(auth.user_id, uuid, text, bytea, timestamptz, timestamptz) is $$
Records that a session has proved a second factor by this method, and replaces its refresh token: {account, user,
methods, aal, startedAt}. Null if it has ended.
$$;
