--! Previous: sha1:3b850f19d2e4cd08cd2c31a357a11df4b8c730b9
--! Hash: sha1:5071e1ca578c28bca3ad65158cb9ef6dae181b8a
--! Message: authentication

alter table public.users drop constraint if exists users_name_length;
alter table public.users add constraint users_name_length
  check (name ~ '[^\s\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]' and char_length(name) <= 200);
alter table public.users drop constraint if exists users_email_format;
alter table public.users add constraint users_email_format check (
  char_length(email) <= 254 and email ~ '^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:].]+(\.[^@[:space:][:cntrl:].]+)+$'
);
comment on constraint users_name_length on public.users is 'name must have 1 to 200 characters';
comment on constraint users_email_format on public.users is 'email must be a valid address';

-- Nothing but the service's own sign-in took refresh tokens, and nobody could spend them: there is nothing to keep.
alter table auth_private.accounts add column if not exists epoch integer not null default 0;
drop function if exists auth_api.keep_refresh_token(bigint, bytea, timestamptz);
drop function if exists auth_api.find_account(text);
drop table if exists auth_private.refresh_tokens;
drop table if exists auth_private.token_families;
drop table if exists auth_private.backup_codes;
drop table if exists auth_private.factors;
drop table if exists auth_private.sessions;
drop table if exists auth_private.api_keys cascade;
drop table if exists auth_private.attempts;
drop table if exists public.security_events;
--! Included factors/table.sql
-- The second factor of an account. Secrets are encrypted by the gateway, with a key that is not in this database.
create table auth_private.factors (
  user_id       bigint primary key references auth_private.accounts on delete cascade,
  secret        bytea, -- null until it is enabled
  pending       bytea, -- null unless somebody is enrolling
  pending_until timestamptz,
  enabled_at    timestamptz, -- null until it is enabled
  last_step     bigint not null default 0, -- the last 30 s whose code was accepted: a code is accepted once

  constraint factors_secret_known check ((secret is null) = (enabled_at is null)),
  constraint factors_pending_known check ((pending is null) = (pending_until is null))
);

-- Codes for those who have lost the other thing, as keyed hashes; each is good once.
create table auth_private.backup_codes (
  user_id   bigint not null references auth_private.factors on delete cascade,
  code_hash bytea not null,
  used_at   timestamptz, -- null while it is good

  primary key (user_id, code_hash),
  constraint backup_codes_code_hash_length check (octet_length(code_hash) = 32)
);

comment on table auth_private.factors is 'The second factor of an account; secrets are encrypted.';
comment on table auth_private.backup_codes is 'Codes in place of a second factor, as keyed hashes.';

alter table auth_private.factors owner to auth_owner;
alter table auth_private.backup_codes owner to auth_owner;
alter table auth_private.factors enable row level security;
alter table auth_private.backup_codes enable row level security;
--! EndIncluded factors/table.sql
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

-- Whoever has signed in before loses it: tokens, sessions and keys carry the epoch that they were issued in.
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

comment on function auth_private.announce_account() is 'Tells the listeners of the channel "principals" whose account has changed, or is gone.';

create or replace trigger _500_principals after update or delete on auth_private.accounts
  for each row execute function auth_private.announce_account();

-- security definer: see above.
create or replace function auth_api.account_state(user_id bigint) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object('epoch', a.epoch, 'role', a.role)
  from auth_private.accounts as a
  where a.user_id = account_state.user_id and a.disabled_at is null
$$;

comment on function auth_api.account_state(bigint) is
  'What a token of this user must agree with: {epoch, role}; null for a user without an account, and for one that is disabled.';

-- security definer: see above.
create or replace function auth_api.end_epoch(user_id bigint) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.accounts as a set epoch = a.epoch + 1 where a.user_id = end_epoch.user_id
$$;

comment on function auth_api.end_epoch(bigint) is 'Ends all access and refresh tokens, sessions and keys that were issued to a user.';

-- security definer: see above.
create or replace function auth_api.change_password(user_id bigint, password_hash text) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.accounts as a set password_hash = change_password.password_hash where a.user_id = change_password.user_id
$$;

comment on function auth_api.change_password(bigint, text) is 'Sets a password; what was issued to the user before is worth nothing then.';

-- The owner of these functions is no superuser: that is all they can do.
alter function auth_api.find_account(text) owner to auth_owner;
alter function auth_api.account_of(bigint) owner to auth_owner;
alter function auth_api.register(text, text, integer, text, text) owner to auth_owner;
alter function auth_private.begin_epoch() owner to auth_owner;
alter function auth_private.announce_account() owner to auth_owner;
alter function auth_api.account_state(bigint) owner to auth_owner;
alter function auth_api.end_epoch(bigint) owner to auth_owner;
alter function auth_api.change_password(bigint, text) owner to auth_owner;
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
--! Included tokens/table.sql
-- One sign-in and all the refresh tokens that came of it, each in place of the one before.
create table auth_private.token_families (
  id         uuid primary key default gen_random_uuid(),
  user_id    bigint not null references auth_private.accounts on delete cascade,
  epoch      integer not null, -- that of the account at sign-in
  started_at timestamptz not null default now(),
  revoked_at timestamptz -- null while it is good
);
-- Revoking all tokens of a user.
create index token_families_user_id_idx on auth_private.token_families (user_id);

-- Refresh tokens that were issued, by their SHA-256: a token that is not here is worth nothing.
create table auth_private.refresh_tokens (
  token_hash bytea primary key,
  family_id  uuid not null references auth_private.token_families on delete cascade,
  issued_at  timestamptz not null default now(),
  expires_at timestamptz not null,
  spent_at   timestamptz, -- null until it was used

  constraint refresh_tokens_token_hash_length check (octet_length(token_hash) = 32)
);
-- The tokens of a family.
create index refresh_tokens_family_id_idx on auth_private.refresh_tokens (family_id);
-- Those that may be forgotten.
create index refresh_tokens_expires_at_idx on auth_private.refresh_tokens (expires_at);

comment on table auth_private.token_families is 'One sign-in and the refresh tokens that came of it.';
comment on table auth_private.refresh_tokens is 'Refresh tokens that were issued, by their SHA-256.';

alter table auth_private.token_families owner to auth_owner;
alter table auth_private.refresh_tokens owner to auth_owner;
alter table auth_private.token_families enable row level security;
alter table auth_private.refresh_tokens enable row level security;
--! EndIncluded tokens/table.sql
--! Included tokens/functions.sql
-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.start_tokens(user_id bigint, token_hash bytea, expires_at timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  with family as (
    insert into auth_private.token_families (user_id, epoch)
    select a.user_id, a.epoch from auth_private.accounts as a where a.user_id = start_tokens.user_id
    returning id
  )
  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at)
  select start_tokens.token_hash, family.id, start_tokens.expires_at from family
$$;

comment on function auth_api.start_tokens(bigint, bytea, timestamptz) is 'Remembers the first refresh token of a sign-in, by its SHA-256.';

-- security definer: see above.
create or replace function auth_api.rotate_token(old_hash bytea, new_hash bytea, now timestamptz, expires_at timestamptz) returns json
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
  if token.spent_at is not null then
    -- Two have it: the thief, and whom it was stolen from. Both sign in again.
    update auth_private.token_families as f set revoked_at = rotate_token.now where f.id = family.id;
    return json_build_object('outcome', 'reused', 'userId', family.user_id::text);
  end if;
  if token.expires_at <= rotate_token.now then
    return json_build_object('outcome', 'expired', 'userId', family.user_id::text);
  end if;

  update auth_private.refresh_tokens as t set spent_at = rotate_token.now where t.token_hash = old_hash;
  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at) values (new_hash, family.id, rotate_token.expires_at);
  return json_build_object('outcome', 'rotated', 'userId', family.user_id::text, 'account', account);
end $$;

comment on function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz) is
  'Spends a refresh token for another one: {outcome, userId, account}, where outcome is rotated, unknown, revoked, expired, or reused: a token that was spent before ends its whole family.';

-- security definer: see above.
create or replace function auth_api.revoke_tokens(user_id bigint, now timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.token_families as f set revoked_at = revoke_tokens.now
  where f.user_id = revoke_tokens.user_id and f.revoked_at is null
$$;

comment on function auth_api.revoke_tokens(bigint, timestamptz) is 'Ends all refresh tokens of a user.';

alter function auth_api.start_tokens(bigint, bytea, timestamptz) owner to auth_owner;
alter function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz) owner to auth_owner;
alter function auth_api.revoke_tokens(bigint, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded tokens/functions.sql
--! Included sessions/table.sql
-- Who is signed in by cookie, by the SHA-256 of the session's id. One for each user.
create table auth_private.sessions (
  id_hash    bytea primary key,
  user_id    bigint not null references auth_private.accounts on delete cascade,
  epoch      integer not null, -- that of the account at sign-in
  started_at timestamptz not null,
  seen_at    timestamptz not null,
  expires_at timestamptz not null, -- however busy it is

  constraint sessions_id_hash_length check (octet_length(id_hash) = 32)
);
-- At most one session for each user is a rule, not a habit.
create unique index sessions_user_id_key on auth_private.sessions (user_id);

comment on table auth_private.sessions is 'Who is signed in by cookie, by the SHA-256 of the session''s id.';

alter table auth_private.sessions owner to auth_owner;
alter table auth_private.sessions enable row level security;
--! EndIncluded sessions/table.sql
--! Included sessions/functions.sql
create or replace function auth_private.announce_session() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('principals', json_build_object('session', encode(old.id_hash, 'hex'))::text);
  return null;
end $$;

comment on function auth_private.announce_session() is 'Tells the listeners of the channel "principals" which session has ended.';

create or replace trigger _500_principals_delete after delete on auth_private.sessions
  for each row execute function auth_private.announce_session();
create or replace trigger _500_principals_update after update on auth_private.sessions
  for each row when (old.id_hash is distinct from new.id_hash) execute function auth_private.announce_session();

-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.start_session(user_id bigint, id_hash bytea, now timestamptz, expires_at timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  insert into auth_private.sessions as s (id_hash, user_id, epoch, started_at, seen_at, expires_at)
  select start_session.id_hash, a.user_id, a.epoch, start_session.now, start_session.now, start_session.expires_at
  from auth_private.accounts as a
  where a.user_id = start_session.user_id and a.disabled_at is null
  on conflict (user_id) do update set
    id_hash = excluded.id_hash, epoch = excluded.epoch,
    started_at = excluded.started_at, seen_at = excluded.seen_at, expires_at = excluded.expires_at
$$;

comment on function auth_api.start_session(bigint, bytea, timestamptz, timestamptz) is 'Begins a session; one that the user has elsewhere ends.';

-- security definer: see above.
create or replace function auth_api.touch_session(id_hash bytea, now timestamptz, idle interval) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  session auth_private.sessions;
  account json;
begin
  select * into session from auth_private.sessions as s where s.id_hash = touch_session.id_hash;
  if not found then return null; end if;
  account := auth_api.account_of(session.user_id);
  if session.expires_at <= touch_session.now or session.seen_at + idle <= touch_session.now
    or account is null or (account ->> 'isDisabled')::boolean or (account ->> 'epoch')::integer <> session.epoch then
    delete from auth_private.sessions as s where s.id_hash = touch_session.id_hash;
    return null;
  end if;
  update auth_private.sessions as s set seen_at = touch_session.now
  where s.id_hash = touch_session.id_hash and s.seen_at < touch_session.now;
  return json_build_object('account', account, 'startedAt', session.started_at, 'expiresAt', session.expires_at);
end $$;

comment on function auth_api.touch_session(bytea, timestamptz, interval) is
  'Whose session it is: {account, startedAt, expiresAt}; it has been seen now. Null when there is none, or none any more: it was idle for too long, or its account has changed.';

-- security definer: see above.
create or replace function auth_api.end_session(id_hash bytea) returns bigint
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.sessions as s where s.id_hash = end_session.id_hash returning s.user_id
$$;

comment on function auth_api.end_session(bytea) is 'Ends a session and gives its user; null when there is none.';

alter function auth_private.announce_session() owner to auth_owner;
alter function auth_api.start_session(bigint, bytea, timestamptz, timestamptz) owner to auth_owner;
alter function auth_api.touch_session(bytea, timestamptz, interval) owner to auth_owner;
alter function auth_api.end_session(bytea) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded sessions/functions.sql
--! Included keys/table.sql
-- Keys for programs, by their SHA-256. A key of a user stands for him; anon and service keys stand for their role.
create table auth_private.api_keys (
  id           uuid primary key default gen_random_uuid(),
  kind         text not null,
  user_id      bigint references auth_private.accounts on delete cascade,
  name         text not null,
  prefix       text not null, -- what people tell it by
  key_hash     bytea not null,
  created_at   timestamptz not null default now(),
  expires_at   timestamptz, -- null: never
  revoked_at   timestamptz, -- null while it is good
  last_used_at timestamptz, -- within a minute

  constraint api_keys_kind_known check (kind in ('user', 'anon', 'service')),
  constraint api_keys_user_id_known check ((kind = 'user') = (user_id is not null)),
  constraint api_keys_name_length check (name ~ '\S' and char_length(name) <= 100),
  constraint api_keys_key_hash_length check (octet_length(key_hash) = 32)
);
-- A request with a key.
create unique index api_keys_key_hash_key on auth_private.api_keys (key_hash);
-- The keys of a user, newest first.
create index api_keys_user_id_created_at_idx on auth_private.api_keys (user_id, created_at desc);

comment on table auth_private.api_keys is 'Keys for programs, by their SHA-256.';
comment on constraint api_keys_name_length on auth_private.api_keys is 'name must have 1 to 100 characters';

alter table auth_private.api_keys owner to auth_owner;
alter table auth_private.api_keys enable row level security;
--! EndIncluded keys/table.sql
--! Included keys/functions.sql
create or replace function auth_private.announce_key() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('principals', json_build_object('key', encode(old.key_hash, 'hex'))::text);
  return null;
end $$;

comment on function auth_private.announce_key() is 'Tells the listeners of the channel "principals" which key has changed, or is gone.';

create or replace trigger _500_principals_delete after delete on auth_private.api_keys
  for each row execute function auth_private.announce_key();
create or replace trigger _500_principals_update after update on auth_private.api_keys
  for each row when ((old.revoked_at, old.expires_at) is distinct from (new.revoked_at, new.expires_at))
  execute function auth_private.announce_key();

create or replace function auth_private.describe_key(key auth_private.api_keys) returns json
language sql stable set search_path = ''
return json_build_object('id', key.id, 'prefix', key.prefix, 'name', key.name, 'createdAt', key.created_at,
  'expiresAt', key.expires_at, 'lastUsedAt', key.last_used_at);

comment on function auth_private.describe_key(auth_private.api_keys) is 'What its owner is told of a key.';

-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.create_key(
  kind text, user_id bigint, name text, prefix text, key_hash bytea, expires_at timestamptz, max_keys integer) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare key auth_private.api_keys;
begin
  -- One after the other for each user: two at once would both find room for one.
  perform from auth_private.accounts as a where a.user_id = create_key.user_id for update;
  if max_keys <= (select count(*) from auth_private.api_keys as k where k.user_id = create_key.user_id and k.revoked_at is null) then
    return null;
  end if;
  insert into auth_private.api_keys (kind, user_id, name, prefix, key_hash, expires_at)
  values (create_key.kind, create_key.user_id, create_key.name, create_key.prefix, create_key.key_hash, create_key.expires_at)
  returning * into key;
  return auth_private.describe_key(key);
end $$;

comment on function auth_api.create_key(text, bigint, text, text, bytea, timestamptz, integer) is
  'Keeps a new key and describes it; null when the user has `max_keys` already.';

-- security definer: see above.
create or replace function auth_api.list_keys(user_id bigint) returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(json_agg(auth_private.describe_key(k) order by k.created_at desc, k.id), '[]')
  from auth_private.api_keys as k
  where k.user_id = list_keys.user_id and k.revoked_at is null
$$;

comment on function auth_api.list_keys(bigint) is 'The keys of a user that are not revoked, newest first.';

-- security definer: see above.
create or replace function auth_api.revoke_key(user_id bigint, id uuid) returns boolean
language sql volatile security definer set search_path = '' as $$
  with revoked as (
    update auth_private.api_keys as k set revoked_at = now()
    where k.id = revoke_key.id and k.user_id = revoke_key.user_id and k.revoked_at is null
    returning k.id
  )
  select exists (select from revoked)
$$;

comment on function auth_api.revoke_key(bigint, uuid) is 'Ends a key of a user; false when he has none with this id.';

-- security definer: see above.
create or replace function auth_api.find_key(key_hash bytea) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object('id', k.id, 'kind', k.kind, 'expiresAt', k.expires_at,
    'account', case when k.user_id is not null then auth_api.account_of(k.user_id) end)
  from auth_private.api_keys as k
  where k.key_hash = find_key.key_hash and k.revoked_at is null
$$;

comment on function auth_api.find_key(bytea) is 'Whom a key stands for: {id, kind, expiresAt, account}; null when there is none, or none any more.';

-- security definer: see above.
create or replace function auth_api.use_keys(ids uuid[]) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.api_keys as k set last_used_at = now() where k.id = any (ids)
$$;

comment on function auth_api.use_keys(uuid[]) is 'Notes that keys have been used.';

-- For the operator's psql: nobody is granted it.
create or replace function auth_private.make_key(kind text, name text) returns text
language sql volatile set search_path = '' as $$
  with made as (
    select format('cs_%s_%s', make_key.kind, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')) as key
  ), kept as (
    insert into auth_private.api_keys (kind, name, prefix, key_hash)
    select make_key.kind, make_key.name, left(made.key, length('cs__') + length(make_key.kind) + 6), sha256(convert_to(made.key, 'UTF8')) from made
  )
  select key from made
$$;

comment on function auth_private.make_key(text, text) is 'Makes a key of the kind anon or service and shows it, this once: select auth_private.make_key(''service'', ''nightly import'')';

alter function auth_private.announce_key() owner to auth_owner;
alter function auth_private.describe_key(auth_private.api_keys) owner to auth_owner;
alter function auth_private.make_key(text, text) owner to auth_owner;
alter function auth_api.create_key(text, bigint, text, text, bytea, timestamptz, integer) owner to auth_owner;
alter function auth_api.list_keys(bigint) owner to auth_owner;
alter function auth_api.revoke_key(bigint, uuid) owner to auth_owner;
alter function auth_api.find_key(bytea) owner to auth_owner;
alter function auth_api.use_keys(uuid[]) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded keys/functions.sql
--! Included security_events/table.sql
-- Who signed in, who failed to, and what was changed about it. For service_role, over /rest/v1 too.
create table public.security_events (
  id      bigint generated always as identity primary key,
  at      timestamptz not null default now(),
  event   text not null,
  user_id bigint, -- null when it is not known; no foreign key: events outlive users
  address inet, -- null when it came from no client
  detail  jsonb not null default '{}'
);
-- Events of a user, newest first.
create index security_events_user_id_at_idx on public.security_events (user_id, at desc);
-- Events, newest first, and those that are old enough to be forgotten.
create index security_events_at_idx on public.security_events (at desc);

comment on table public.security_events is $$
@behavior -query:resource:list -query:resource:connection -query:resource:single -insert -update -delete
What has happened to accounts: sign-ins, failures, changes.
$$;
comment on column public.security_events.event is 'What has happened: login, login_failed, login_throttled, logout, token_reused, password_changed …';
comment on column public.security_events.user_id is 'Whose account it is.';
comment on column public.security_events.address is 'The client''s address.';
comment on column public.security_events.detail is 'What else is known of it; no secrets.';
--! EndIncluded security_events/table.sql
--! Included security_events/access.sql
alter table public.security_events enable row level security;

grant select on public.security_events to service_role;
grant insert (event, user_id, address, detail, at), select, delete on public.security_events to auth_owner;

drop policy if exists "authentication notes what happens, and forgets it in time" on public.security_events;
create policy "authentication notes what happens, and forgets it in time" on public.security_events to auth_owner
  using (true)
  with check (true);
--! EndIncluded security_events/access.sql
--! Included security_events/functions.sql
-- security definer: the gateway's login may call this function and see no table.
create or replace function auth_api.note_event(event text, user_id bigint, address inet, detail jsonb, now timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.security_events (event, user_id, address, detail, at)
  values (note_event.event, note_event.user_id, note_event.address, coalesce(note_event.detail, '{}'), note_event.now)
$$;

comment on function auth_api.note_event(text, bigint, inet, jsonb, timestamptz) is 'Notes a security event.';

alter function auth_api.note_event(text, bigint, inet, jsonb, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded security_events/functions.sql
--! Included attempts/table.sql
-- Attempts to sign in that have failed, or are not decided yet: what throttles guessing.
create table auth_private.attempts (
  id  bigint generated always as identity primary key,
  key bytea not null, -- SHA-256 of what is counted: a username at an address, an address, a user's second factor
  at  timestamptz not null,

  constraint attempts_key_length check (octet_length(key) = 32)
);
-- Attempts within the window.
create index attempts_key_at_idx on auth_private.attempts (key, at);
-- Those that may be forgotten.
create index attempts_at_idx on auth_private.attempts (at);

comment on table auth_private.attempts is 'Attempts to sign in that have failed, or are not decided yet.';

alter table auth_private.attempts owner to auth_owner;
alter table auth_private.attempts enable row level security;
--! EndIncluded attempts/table.sql
--! Included attempts/functions.sql
-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.reserve_attempt(keys bytea[], limits integer[], now timestamptz, span interval) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  place integer;
  oldest timestamptz;
  taken integer;
  ids bigint[];
begin
  -- Before anything is compared, and one after the other for each key: however many come at once, no more are let through.
  for place in select i from generate_subscripts(keys, 1) as i order by keys[i] loop
    perform pg_advisory_xact_lock(hashtextextended('content-service:attempts:' || encode(keys[place], 'hex'), 0));
  end loop;
  for place in select i from generate_subscripts(keys, 1) as i loop
    select count(*), min(a.at) into taken, oldest
    from (
      select a.at from auth_private.attempts as a
      where a.key = keys[place] and a.at > reserve_attempt.now - span
      order by a.at desc limit limits[place]
    ) as a;
    if taken >= limits[place] then
      return json_build_object('retryAfter', greatest(1, ceil(extract(epoch from oldest + span - reserve_attempt.now)))::integer);
    end if;
  end loop;
  with reserved as (
    insert into auth_private.attempts (key, at) select key, reserve_attempt.now from unnest(keys) as key returning id
  )
  select array_agg(id) into ids from reserved;
  return json_build_object('ids', ids);
end $$;

comment on function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) is
  'Counts an attempt for each key before it is made: {ids}, or {retryAfter} in seconds when one of the keys has as many as its limit within `span`.';

-- security definer: see above.
create or replace function auth_api.forgive_attempt(ids bigint[]) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a where a.id = any (ids)
$$;

comment on function auth_api.forgive_attempt(bigint[]) is 'Takes back attempts that have not failed.';

-- security definer: see above.
create or replace function auth_api.purge(now timestamptz, attempt_span interval, event_retention interval) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a where a.at < purge.now - attempt_span;
  delete from auth_private.refresh_tokens as t where t.expires_at < purge.now - interval '1 day';
  delete from auth_private.token_families as f
  where f.started_at < purge.now - interval '1 day'
    and not exists (select from auth_private.refresh_tokens as t where t.family_id = f.id);
  delete from auth_private.sessions as s where s.expires_at < purge.now;
  delete from public.security_events as e where e.at < purge.now - event_retention;
$$;

comment on function auth_api.purge(timestamptz, interval, interval) is 'Forgets what nobody needs any more: old attempts, tokens, sessions and security events.';

alter function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) owner to auth_owner;
alter function auth_api.forgive_attempt(bigint[]) owner to auth_owner;
alter function auth_api.purge(timestamptz, interval, interval) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded attempts/functions.sql
