--! Previous: sha1:0a7e7578ea78bbf35250f79e5da30b4f7cecdb8d
--! Hash: sha1:120afd525bd82395ba1d106ee0cf35902c20ca16
--! Message: one announcement of changed accounts

--! Included accounts/functions.sql
-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.find_account(login text) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object('id', a.user_id::text, 'username', coalesce(a.username, u.email), 'name', u.name, 'role', a.role,
    'permissions', a.permissions, 'passwordHash', a.password_hash, 'isDisabled', a.disabled_at is not null, 'epoch', a.epoch,
    'hasFactor', coalesce(f.enabled_at is not null, false))
  from auth_private.accounts as a
  join public.users as u on u.id = a.user_id
  left join auth_private.factors as f on f.user_id = a.user_id
  -- One at most: no username looks like an e-mail.
  where a.user_id in (
    select named.user_id from auth_private.accounts as named where lower(named.username) = lower(login)
    union all
    select known.id from public.users as known where lower(known.email) = lower(login)
  )
$$;

comment on function auth_api.find_account(text) is
  'The account that signs in with this username or e-mail: {id, username, name, role, permissions, passwordHash, isDisabled, epoch, hasFactor}; null when there is none.';

-- security definer: see above.
create or replace function auth_api.account_of(user_id bigint) returns json
language sql stable security definer set search_path = '' as $$
  select auth_api.find_account(u.email) from public.users as u where u.id = account_of.user_id
$$;

comment on function auth_api.account_of(bigint) is 'The same of a user that is known; null when he has no account.';

-- security definer: see above.
create or replace function auth_api.register(name text, email text, age integer, username text, password_hash text)
returns bigint
language plpgsql volatile security definer set search_path = '' as $$
declare user_id bigint;
begin
  insert into public.users (name, email, age) values (register.name, register.email, register.age) returning id into user_id;
  -- The check of accounts would only say that it looks like an e-mail.
  perform from public.users as u where lower(u.email) = lower(register.username) and u.id <> user_id;
  if found then
    raise unique_violation using
      message = 'username already taken', schema = 'auth_private', table = 'accounts', constraint = 'accounts_username_key';
  end if;
  insert into auth_private.accounts (user_id, username, password_hash)
  values (user_id, case when lower(register.username) <> lower(register.email) then register.username end, register.password_hash);
  return user_id;
end $$;

comment on function auth_api.register(text, text, integer, text, text) is
  'Signs somebody up with a password and gives the id. The username may be null or the e-mail: either way the e-mail is the login. Raises 23505 when the e-mail or the username is taken.';

-- Whoever has signed in before loses it: tokens and sessions carry the epoch that they were issued in.
create or replace function auth_private.begin_epoch() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.epoch := old.epoch + 1;
  return new;
end $$;

comment on function auth_private.begin_epoch() is 'Ends what was issued to an account: its role, its password or its being disabled has changed.';

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
  perform pg_notify('principals', json_build_object('user', old.user_id)::text);
  return null;
end $$;

comment on function auth_private.announce_account() is 'Tells the listeners of the channel "principals" whose account, or what was issued to it, has changed, or is gone.';

create or replace trigger _500_principals after update or delete on auth_private.accounts
  for each row execute function auth_private.announce_account();

-- security definer: see above.
create or replace function auth_api.end_epoch(user_id bigint) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.accounts as a set epoch = a.epoch + 1 where a.user_id = end_epoch.user_id
$$;

comment on function auth_api.end_epoch(bigint) is 'Ends all access and refresh tokens and sessions that were issued to a user; his keys go on, for programs run while he is not there.';

-- security definer: see above.
create or replace function auth_api.change_password(user_id bigint, old_hash text, password_hash text, address inet) returns json
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- For the event that is noted of it.
  perform set_config('request.address', coalesce(host(change_password.address), ''), true);
  update auth_private.accounts as a set password_hash = change_password.password_hash
  where a.user_id = change_password.user_id and a.password_hash = old_hash and a.disabled_at is null;
  return case when found then auth_api.account_of(change_password.user_id) end;
end $$;

comment on function auth_api.change_password(bigint, text, text, inet) is
  'Sets another password and gives the account as it is now; what was issued to the user before is worth nothing then. Null when the old one is not his any more.';

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
    values (happened, new.user_id, client,
      case when happened = 'role_changed' then jsonb_build_object('from', old.role, 'to', new.role) else '{}' end);
  end loop;
  return null;
end $$;

comment on function auth_private.note_account_change() is 'Notes the changes of an account as security events, whoever makes them.';

create or replace trigger _600_events after update on auth_private.accounts
  for each row execute function auth_private.note_account_change();

-- The owner of these functions is no superuser: that is all they can do.
alter function auth_api.find_account(text) owner to auth_owner;
alter function auth_api.account_of(bigint) owner to auth_owner;
alter function auth_api.register(text, text, integer, text, text) owner to auth_owner;
alter function auth_private.begin_epoch() owner to auth_owner;
alter function auth_private.announce_account() owner to auth_owner;
alter function auth_api.end_epoch(bigint) owner to auth_owner;
alter function auth_api.change_password(bigint, text, text, inet) owner to auth_owner;
alter function auth_private.note_account_change() owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded accounts/functions.sql
--! Included factors/functions.sql
-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.factor_of(user_id bigint, now timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'secret', encode(f.secret, 'hex'),
    'pending', case when f.pending_until > factor_of.now then encode(f.pending, 'hex') end,
    'lastStep', f.last_step)
  from auth_private.factors as f
  where f.user_id = factor_of.user_id
$$;

comment on function auth_api.factor_of(bigint, timestamptz) is
  'A user''s second factor: {secret, pending, lastStep}, secrets encrypted, in hex; null without one.';

-- security definer: see above.
create or replace function auth_api.begin_factor(user_id bigint, pending bytea, until timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with begun as (
    insert into auth_private.factors as f (user_id, pending, pending_until)
    values (begin_factor.user_id, begin_factor.pending, begin_factor.until)
    on conflict (user_id) do update set pending = excluded.pending, pending_until = excluded.pending_until
    where f.enabled_at is null
    returning f.user_id
  )
  select exists (select from begun)
$$;

comment on function auth_api.begin_factor(bigint, bytea, timestamptz) is 'Begins an enrolment, in place of one that was begun before; false when a factor is enabled.';

-- security definer: see above.
create or replace function auth_api.enable_factor(user_id bigint, pending bytea, step bigint, code_hashes bytea[], now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- Of two at once the second finds nothing pending any more.
  update auth_private.factors as f
  set secret = f.pending, pending = null, pending_until = null, enabled_at = enable_factor.now, last_step = enable_factor.step
  where f.user_id = enable_factor.user_id and f.pending = enable_factor.pending and f.pending_until > enable_factor.now;
  if not found then return false; end if;
  delete from auth_private.backup_codes as c where c.user_id = enable_factor.user_id;
  insert into auth_private.backup_codes (user_id, code_hash) select enable_factor.user_id, hash from unnest(code_hashes) as hash;
  return true;
end $$;

comment on function auth_api.enable_factor(bigint, bytea, bigint, bytea[], timestamptz) is
  'Ends an enrolment whose first code, of this step, was right; false when it was not pending any more.';

-- From now on a password alone is not enough.
create or replace trigger _500_principals after update on auth_private.factors
  for each row when (old.enabled_at is distinct from new.enabled_at)
  execute function auth_private.announce_account();

-- security definer: see above.
create or replace function auth_api.accept_step(user_id bigint, step bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  with accepted as (
    update auth_private.factors as f set last_step = accept_step.step
    where f.user_id = accept_step.user_id and f.enabled_at is not null and f.last_step < accept_step.step
    returning f.user_id
  )
  select exists (select from accepted)
$$;

comment on function auth_api.accept_step(bigint, bigint) is 'Spends the code of a step; false when it, or a later one, was spent before.';

-- security definer: see above.
create or replace function auth_api.use_backup_code(user_id bigint, code_hash bytea, now timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with used as (
    update auth_private.backup_codes as c set used_at = use_backup_code.now
    where c.user_id = use_backup_code.user_id and c.code_hash = use_backup_code.code_hash and c.used_at is null
    returning c.user_id
  )
  select exists (select from used)
$$;

comment on function auth_api.use_backup_code(bigint, bytea, timestamptz) is 'Spends a backup code; false when there is none such, or it was spent before.';

-- security definer: see above.
create or replace function auth_api.replace_backup_codes(user_id bigint, code_hashes bytea[]) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform from auth_private.factors as f where f.user_id = replace_backup_codes.user_id and f.enabled_at is not null for update;
  if not found then return false; end if;
  delete from auth_private.backup_codes as c where c.user_id = replace_backup_codes.user_id;
  insert into auth_private.backup_codes (user_id, code_hash) select replace_backup_codes.user_id, hash from unnest(code_hashes) as hash;
  return true;
end $$;

comment on function auth_api.replace_backup_codes(bigint, bytea[]) is 'New codes in place of the old ones; false without a factor.';

-- security definer: see above.
create or replace function auth_api.remove_factor(user_id bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  with removed as (
    delete from auth_private.factors as f where f.user_id = remove_factor.user_id returning f.enabled_at
  )
  select exists (select from removed where enabled_at is not null)
$$;

comment on function auth_api.remove_factor(bigint) is 'Removes a second factor and its codes; false when none was enabled.';

alter function auth_api.factor_of(bigint, timestamptz) owner to auth_owner;
alter function auth_api.begin_factor(bigint, bytea, timestamptz) owner to auth_owner;
alter function auth_api.enable_factor(bigint, bytea, bigint, bytea[], timestamptz) owner to auth_owner;
alter function auth_api.accept_step(bigint, bigint) owner to auth_owner;
alter function auth_api.use_backup_code(bigint, bytea, timestamptz) owner to auth_owner;
alter function auth_api.replace_backup_codes(bigint, bytea[]) owner to auth_owner;
alter function auth_api.remove_factor(bigint) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded factors/functions.sql
--! Included tokens/functions.sql
-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.start_tokens(user_id bigint, epoch integer, token_hash bytea, expires_at timestamptz)
returns uuid
language plpgsql volatile security definer set search_path = '' as $$
declare family_id uuid;
begin
  -- Whoever signed in as the account was a moment ago, before its password was changed, has not signed in.
  insert into auth_private.token_families (user_id, epoch)
  select a.user_id, a.epoch from auth_private.accounts as a
  where a.user_id = start_tokens.user_id and a.epoch = start_tokens.epoch and a.disabled_at is null
  returning id into family_id;
  if not found then return null; end if;
  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at)
  values (start_tokens.token_hash, family_id, start_tokens.expires_at);
  return family_id;
end $$;

comment on function auth_api.start_tokens(bigint, integer, bytea, timestamptz) is
  'Remembers the first refresh token of a sign-in, by its SHA-256, and gives the id of its family; null when the account is of another epoch by now.';

-- security definer: see above.
create or replace function auth_api.rotate_token(
  old_hash bytea, new_hash bytea, now timestamptz, expires_at timestamptz, grace interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  token auth_private.refresh_tokens;
  family auth_private.token_families;
  account json;
begin
  select * into token from auth_private.refresh_tokens as t where t.token_hash = old_hash;
  if not found then return json_build_object('outcome', 'unknown'); end if;
  -- Uses of one family wait for each other here, and look again.
  select * into family from auth_private.token_families as f where f.id = token.family_id for update;
  if not found then return json_build_object('outcome', 'unknown'); end if;
  select * into token from auth_private.refresh_tokens as t where t.token_hash = old_hash;
  account := auth_api.account_of(family.user_id);

  if family.revoked_at is not null or account is null or (account ->> 'isDisabled')::boolean
    or (account ->> 'epoch')::integer <> family.epoch then
    return json_build_object('outcome', 'revoked', 'userId', family.user_id::text);
  end if;
  -- No grace is none, also when it was spent by a process whose clock is ahead.
  if token.spent_at is not null and greatest(rotate_token.now - token.spent_at, '0') >= grace then
    -- Two have it: the thief, and whom it was stolen from. Both sign in again.
    update auth_private.token_families as f set revoked_at = rotate_token.now where f.id = family.id;
    return json_build_object('outcome', 'reused', 'userId', family.user_id::text);
  end if;
  if token.expires_at <= rotate_token.now then
    return json_build_object('outcome', 'expired', 'userId', family.user_id::text);
  end if;

  update auth_private.refresh_tokens as t set spent_at = rotate_token.now where t.token_hash = old_hash and t.spent_at is null;
  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at) values (new_hash, family.id, rotate_token.expires_at);
  return json_build_object('outcome', 'rotated', 'userId', family.user_id::text, 'family', family.id, 'account', account);
end $$;

comment on function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz, interval) is
  'Spends a refresh token for another one of its family: {outcome, userId, family, account}, where outcome is rotated, unknown, revoked, expired, or reused: a token that was spent before ends its whole family, unless that was within the grace.';

create or replace trigger _500_principals after update on auth_private.token_families
  for each row when (old.revoked_at is distinct from new.revoked_at)
  execute function auth_private.announce_account();

-- security definer: see above.
create or replace function auth_api.account_state(user_id bigint, since timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object('epoch', a.epoch, 'role', a.role, 'revoked', array(
    select f.id from auth_private.token_families as f
    where f.user_id = account_state.user_id and f.revoked_at > account_state.since))
  from auth_private.accounts as a
  where a.user_id = account_state.user_id and a.disabled_at is null
$$;

comment on function auth_api.account_state(bigint, timestamptz) is
  'What a token of this user must agree with: {epoch, role, revoked}, where revoked are the families of tokens that were revoked since; null for a user without an account, and for one that is disabled.';

-- security definer: see above.
create or replace function auth_api.spend_challenge(id uuid, now timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with spent as (
    insert into auth_private.spent_challenges (id, spent_at) values (spend_challenge.id, spend_challenge.now)
    on conflict do nothing
    returning id
  )
  select exists (select from spent)
$$;

comment on function auth_api.spend_challenge(uuid, timestamptz) is
  'Spends the challenge of a login that is complete, by its jti; false when it was spent before.';

alter function auth_api.start_tokens(bigint, integer, bytea, timestamptz) owner to auth_owner;
alter function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz, interval) owner to auth_owner;
alter function auth_api.account_state(bigint, timestamptz) owner to auth_owner;
alter function auth_api.spend_challenge(uuid, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded tokens/functions.sql
drop function if exists auth_private.announce_factor();
drop function if exists auth_private.announce_family();
