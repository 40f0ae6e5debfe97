-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.factor_of(user_id auth.user_id, now timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'secret', encode(f.secret, 'hex'),
    'pending', case when f.pending_until > factor_of.now then encode(f.pending, 'hex') end,
    'lastStep', f.last_step)
  from auth_private.factors as f
  where f.user_id = factor_of.user_id
$$;

comment on function auth_api.factor_of(auth.user_id, timestamptz) is
  'The second factor of a user: {secret, pending, lastStep}, secrets encrypted, in hex; null if there is none.';

create or replace function auth_api.begin_factor(
  user_id auth.user_id, pending bytea, until timestamptz, friendly_name text default null)
returns boolean
language sql volatile security definer set search_path = '' as $$
  with begun as (
    insert into auth_private.factors as f (user_id, pending, pending_until, friendly_name)
    values (begin_factor.user_id, begin_factor.pending, begin_factor.until, begin_factor.friendly_name)
    on conflict (user_id) do update
    set pending = excluded.pending,
      pending_until = excluded.pending_until,
      id = excluded.id,
      friendly_name = excluded.friendly_name,
      created_at = excluded.created_at
    where f.enabled_at is null
    returning f.user_id
  ), forgotten as (
    -- Earlier attempts were at codes of another secret.
    delete from auth_private.attempts as a
    using begun
    where a.key = auth_private.attempt_key('factor', begun.user_id::text)
  )
  select exists (select from begun)
$$;

comment on function auth_api.begin_factor(auth.user_id, bytea, timestamptz, text) is
  'Begins an enrolment in place of a pending one, and forgets attempts at codes; false if a factor is enabled.';

create or replace function auth_api.enable_factor(
  user_id auth.user_id, session uuid, pending bytea, step bigint, code_hashes bytea[],
  address inet, now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  if not auth_private.lock_sign_in(enable_factor.user_id, session) then return false; end if;
  -- The second of two parallel calls no longer finds a pending secret.
  update auth_private.factors as f
  set secret = f.pending,
    pending = null,
    pending_until = null,
    enabled_at = enable_factor.now,
    last_step = enable_factor.step
  where f.user_id = enable_factor.user_id
    and f.pending = enable_factor.pending
    and f.pending_until > enable_factor.now;
  if not found then return false; end if;

  perform auth_private.store_backup_codes(enable_factor.user_id, code_hashes);
  -- A password alone no longer signs the user in, so what was issued for one ends.
  perform auth_private.end_other_sign_ins(enable_factor.user_id, session, enable_factor.now);
  update auth_private.sessions as s
  set methods = auth_private.methods_at('{totp}', enable_factor.now) || s.methods,
    aal = 2
  where s.id = enable_factor.session;
  perform auth_api.note_event('mfa_enabled', enable_factor.user_id, address, null, enable_factor.now);
  return true;
end $$;

comment on function auth_api.enable_factor(auth.user_id, uuid, bytea, bigint, bytea[], inet, timestamptz) is $$
Enables a pending factor whose first code, of this step, was right, and ends all sign-ins of the user except the
session that enables it. False if the factor is not pending, or that sign-in has ended.
$$;

create or replace function auth_api.accept_step(user_id auth.user_id, step bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  with accepted as (
    update auth_private.factors as f
    set last_step = accept_step.step
    where f.user_id = accept_step.user_id
      and f.enabled_at is not null
      and f.last_step < accept_step.step
    returning f.user_id
  )
  select exists (select from accepted)
$$;

comment on function auth_api.accept_step(auth.user_id, bigint) is
  'Spends the code of a step; false if it, or a later one, was spent before.';

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
  if not exists (
    select from auth_private.factors as f
    where f.user_id = confirm_factor_change.user_id
      and f.enabled_at is not null
  ) then return json_build_object('outcome', 'none'); end if;
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

create or replace function auth_api.disable_factor(
  user_id auth.user_id, password_hash text, sent jsonb, address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  tried constant json := auth_private.confirm_factor_change(
    disable_factor.user_id, disable_factor.password_hash, sent);
begin
  if tried ->> 'outcome' is distinct from 'accepted' then return tried; end if;
  delete from auth_private.factors as f
  where f.user_id = disable_factor.user_id;
  perform auth_api.note_event('mfa_disabled', disable_factor.user_id, address, null, disable_factor.now);
  return tried;
end $$;

comment on function auth_api.disable_factor(auth.user_id, text, jsonb, inet, timestamptz) is
  'Removes the second factor of a user and its backup codes: {outcome}, as confirm_factor_change.';

create or replace function auth_api.remove_factor(user_id auth.user_id, id uuid, address inet, now timestamptz)
returns void
language plpgsql volatile security definer set search_path = '' as $$
declare was_enabled boolean;
begin
  perform from auth_private.accounts as a
  where a.user_id = remove_factor.user_id
  for no key update;

  delete from auth_private.factors as f
  where f.user_id = remove_factor.user_id
    and f.id = remove_factor.id
  returning f.enabled_at is not null into was_enabled;
  if was_enabled is not true then return; end if;
  update auth_private.sessions as s
  set aal = 1
  where s.user_id = remove_factor.user_id
    and s.aal = 2;
  perform auth_api.note_event('mfa_disabled', remove_factor.user_id, address, null, remove_factor.now);
end $$;

comment on function auth_api.remove_factor(auth.user_id, uuid, inet, timestamptz) is
  'Removes a factor with its backup codes. The caller has verified that the session of the user has proved it.';

create or replace function auth_api.raise_session(
  user_id auth.user_id, session uuid, token_hash bytea, now timestamptz, expires_at timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare raised auth_private.sessions;
begin
  if not auth_private.lock_sign_in(raise_session.user_id, raise_session.session) then return null; end if;
  update auth_private.sessions as s
  set methods = case
      when s.aal = 1 then auth_private.methods_at('{totp}', raise_session.now) || s.methods
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

comment on function auth_api.raise_session(auth.user_id, uuid, bytea, timestamptz, timestamptz) is $$
Records that a session has proved the second factor, and replaces its refresh token: {account, user, methods, aal,
startedAt}. Null if it has ended.
$$;

create or replace function auth_private.reset_factor(user_id auth.user_id) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  perform from auth_private.accounts as a
  where a.user_id = reset_factor.user_id
  for no key update;
  delete from auth_private.factors as f
  where f.user_id = reset_factor.user_id
    and f.enabled_at is not null;
  if not found then return false; end if;
  perform auth_private.end_other_sign_ins(reset_factor.user_id, null, now());
  return true;
end $$;

comment on function auth_private.reset_factor(auth.user_id) is $$
For operators: removes a lost second factor without a code, and ends all sign-ins of the user. False if none was
enabled.
$$;
