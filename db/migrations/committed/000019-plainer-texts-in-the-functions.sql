--! Previous: sha1:dc89863d515f9386a5a7d60f390a9a52d8678b37
--! Hash: sha1:79959dbec2cda018c6bebffbe8f890459529c398
--! Message: plainer texts in the functions

-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
set local lock_timeout = '3s';
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

-- Not for users_editor, the role of callers without credentials: they do not delete their own user.
create or replace trigger _200_protect_account before delete on public.users
  for each row when (current_user <> 'users_editor')
  execute function internal.protect_account();
--! EndIncluded content/users/functions.sql
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
--! EndIncluded auth/accounts/functions.sql
--! Included auth/attempts/functions.sql
-- The key that an attempt counts for, as SHA-256: names and IP addresses are not stored.
create or replace function auth_private.attempt_key(variadic parts text[]) returns bytea
language sql stable set search_path = ''
return sha256(convert_to(array_to_json(parts)::text, 'UTF8'));

comment on function auth_private.attempt_key(text[]) is
  'The key of an attempt: attempt_key(''user'', ''1'', ''203.0.113.7'').';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.reserve_attempt(keys bytea[], limits integer[], now timestamptz, span interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  place integer;
  oldest timestamptz;
  undecided integer;
  taken integer;
  is_full boolean := false;
  ids bigint[];
begin
  -- Reservations for one key wait for each other, so that parallel attempts can't exceed the limit.
  for place in select i from generate_subscripts(keys, 1) as i order by keys[i] loop
    perform pg_advisory_xact_lock(hashtextextended('content-service:attempts:' || encode(keys[place], 'hex'), 0));
  end loop;
  for place in select i from generate_subscripts(keys, 1) as i loop
    -- Undecided attempts are counted first: one that is decided in between is counted twice rather than not at all.
    -- An attempt that is undecided for a minute is ignored: its process has ended.
    select count(*)
    into undecided
    from auth_private.attempts as a
    where a.key = keys[place]
      and a.at > reserve_attempt.now - interval '1 minute'
      and not a.counts;

    select count(*), min(a.at)
    into taken, oldest
    from (
      select a.at
      from auth_private.attempts as a
      where a.key = keys[place]
        and a.at > reserve_attempt.now - span
        and a.counts
      order by a.at desc
      limit limits[place]
    ) as a;

    if taken >= limits[place] then
      return json_build_object(
        'retryAfter', greatest(1, ceil(extract(epoch from oldest + span - reserve_attempt.now)))::integer);
    end if;
    is_full := is_full or taken + undecided >= limits[place];
  end loop;
  if is_full then return null; end if;

  with reserved as (
    insert into auth_private.attempts (key, at)
    select key, reserve_attempt.now
    from unnest(keys) as key
    returning id
  )
  select array_agg(id)
  into ids
  from reserved;
  return json_build_object('ids', ids);
end $$;

comment on function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) is $$
Reserves an attempt for each key before it is made: {ids}, or {retryAfter} in seconds when the limit of a key is
reached within `span`. Null while undecided attempts hold the last places.
$$;

create or replace function auth_api.begin_login(
  login text, user_id bigint, address text, attempts integer, attempts_per_address integer,
  now timestamptz, span interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  account constant json := case
    when begin_login.user_id is null then auth_api.find_account(login)
    else auth_api.account_of(begin_login.user_id)
  end;
  found_id constant bigint := coalesce(begin_login.user_id, (account ->> 'id')::bigint);
  reservation json;
  secret bytea;
begin
  reservation := auth_api.reserve_attempt(
    array[
      -- With the IP address, so that attempts from one address cannot lock out the user at another address.
      case
        when found_id is null then auth_private.attempt_key('name', lower(login), address)
        else auth_private.attempt_key('user', found_id::text, address)
      end,
      auth_private.attempt_key('address', address)
    ],
    array[attempts, attempts_per_address],
    begin_login.now,
    span);
  if reservation ->> 'retryAfter' is not null then
    perform auth_api.note_event('login_throttled', found_id, nullif(address, '')::inet, null, begin_login.now);
  end if;

  select f.secret
  into secret
  from auth_private.factors as f
  where f.user_id = found_id;
  return json_build_object('account', account, 'factor', encode(secret, 'hex'), 'attempt', reservation);
end $$;

comment on function auth_api.begin_login(text, bigint, text, integer, integer, timestamptz, interval) is $$
Finds the account of a login, or of a user, and reserves an attempt for it at this address: {account, factor, attempt},
where `factor` is the encrypted secret in hex and `attempt` is as reserve_attempt returns it. An unknown login costs
the same statements as a known one.
$$;

create or replace function auth_api.reserve_code(user_id bigint, attempts integer, now timestamptz, span interval)
returns json
language sql volatile security definer set search_path = '' as $$
  select auth_api.reserve_attempt(
    array[auth_private.attempt_key('factor', reserve_code.user_id::text)],
    array[attempts],
    reserve_code.now,
    span)
$$;

comment on function auth_api.reserve_code(bigint, integer, timestamptz, interval) is $$
Reserves an attempt at a code of a second factor, from any IP address: the client already knows the password.
$$;

create or replace function auth_api.reserve_registration(
  address text, attempts integer, now timestamptz, span interval)
returns json
language sql volatile security definer set search_path = '' as $$
  select auth_api.reserve_attempt(
    array[auth_private.attempt_key('registration', address)],
    array[attempts],
    reserve_registration.now,
    span)
$$;

comment on function auth_api.reserve_registration(text, integer, timestamptz, interval) is
  'Reserves the creation of an account from an address.';

create or replace function auth_api.reserve_response(
  address text, attempts integer, now timestamptz, span interval)
returns json
language sql volatile security definer set search_path = '' as $$
  select auth_api.reserve_attempt(
    array[auth_private.attempt_key('address', address)],
    array[attempts],
    reserve_response.now,
    span)
$$;

comment on function auth_api.reserve_response(text, integer, timestamptz, interval) is
  'Reserves the verification of a provider''s response, which counts like a login from this address.';

create or replace function auth_api.settle_attempt(ids bigint[], counts boolean) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.attempts as a
  set counts = true
  where a.id = any (ids)
    and settle_attempt.counts;

  delete from auth_private.attempts as a
  where a.id = any (ids)
    and not settle_attempt.counts;
$$;

comment on function auth_api.settle_attempt(bigint[], boolean) is
  'Decides reserved attempts: they count, or they are deleted.';

create or replace function auth_api.try_code(user_id bigint, sent jsonb, challenge uuid) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  now constant timestamptz := (sent ->> 'now')::timestamptz;
  address constant inet := (sent ->> 'address')::inet;
  reservation constant json := auth_api.reserve_code(
    try_code.user_id, (sent ->> 'attempts')::integer, now, (sent ->> 'span')::interval);
  ids constant bigint[] := array(select json_array_elements_text(reservation -> 'ids')::bigint);
  is_accepted boolean;
begin
  if reservation is null or reservation ->> 'retryAfter' is not null then return reservation; end if;

  if sent ->> 'step' is not null then
    perform from auth_private.factors as f
    where f.user_id = try_code.user_id
      and f.secret = decode(sent ->> 'secret', 'hex');
    is_accepted := found and auth_api.accept_step(try_code.user_id, (sent ->> 'step')::bigint);
  else
    is_accepted := exists (
      select from jsonb_array_elements_text(sent -> 'hashes') as hash
      where auth_api.use_backup_code(try_code.user_id, decode(hash, 'hex'), now));
    if is_accepted then
      perform auth_api.note_event('backup_code_used', try_code.user_id, address, null, now);
    end if;
  end if;

  perform auth_api.settle_attempt(ids, not is_accepted);
  if not is_accepted then
    perform auth_api.note_event('code_failed', try_code.user_id, address, null, now);
    return json_build_object('outcome', 'wrong');
  end if;
  if challenge is not null and not auth_api.spend_challenge(challenge, now) then
    return json_build_object('outcome', 'spent');
  end if;
  return json_build_object('outcome', 'accepted');
end $$;

comment on function auth_api.try_code(bigint, jsonb, uuid) is $$
Spends the code of a second factor and then the challenge, if any: {outcome}, where outcome is accepted, wrong, or
spent: the challenge was used before. A wrong code counts as an attempt. Otherwise as reserve_attempt: {retryAfter}, or
null. `sent` is {secret, step, hashes, address, attempts, now, span}: a code of the app is sent as its secret and step,
a backup code as the hashes under which it may be stored, in hex.
$$;

create or replace function auth_private.require_code(user_id bigint, sent jsonb) returns json
language plpgsql volatile set search_path = '' as $$
begin
  perform from auth_private.factors as f
  where f.user_id = require_code.user_id
    and f.enabled_at is not null;
  if not found then return json_build_object('outcome', 'accepted'); end if;
  if sent is null then return json_build_object('outcome', 'missing'); end if;
  return auth_api.try_code(require_code.user_id, sent, null);
end $$;

comment on function auth_private.require_code(bigint, jsonb) is $$
Spends the code that a change of an account needs, as try_code; the outcome is "missing" if a factor is enabled and no
code was sent. Without a factor no code is needed. The caller has locked the account.
$$;

create or replace function auth_api.purge(
  now timestamptz, attempt_span interval, event_retention interval, email_reservation interval)
returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a
  where a.at < purge.now - attempt_span;

  delete from auth_private.refresh_tokens as t
  where t.expires_at < purge.now - interval '1 day';

  delete from auth_private.token_families as f
  where f.started_at < purge.now - interval '1 day'
    and not exists (select from auth_private.refresh_tokens as t where t.family_id = f.id);

  delete from auth_private.spent_challenges as c
  where c.spent_at < purge.now - interval '1 day';

  delete from auth_private.one_time_values as v
  where v.expires_at < purge.now;

  delete from auth_private.sessions as s
  where s.expires_at < purge.now;

  delete from auth_private.api_keys as k
  where least(k.revoked_at, k.expires_at) < purge.now - interval '30 days';

  delete from auth_private.login_emails as e
  where e.released_at < purge.now - email_reservation;

  delete from public.security_events as e
  where e.at < purge.now - event_retention;
$$;

comment on function auth_api.purge(timestamptz, interval, interval, interval) is
  'Deletes expired attempts, tokens, one-time values, sessions, keys, reservations of e-mails and security events.';
--! EndIncluded auth/attempts/functions.sql
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
    -- A concurrent first sign-in has registered the identity.
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
  -- Of two concurrent calls, the second one waits here. Otherwise each could remove one of the last two ways
  -- to sign in.
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
Deletes what the service keeps of the user's last sign-in there, and returns it: {subject, signIn}, which the provider
needs to end that sign-in, signIn encrypted and in hex; null if there is none.
$$;
--! EndIncluded auth/identities/functions.sql
--! Included auth/login_emails/functions.sql
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
Records each change of a user's e-mail as a security event. If the user has made it with a recent sign-in, the user also
signs in with the new e-mail; after a change by an API key, an admin or anyone else the user signs in as before.
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
--! EndIncluded auth/login_emails/functions.sql
--! Included auth/one_time_values/functions.sql
-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.keep_once(kind text, key bytea, data jsonb, expires_at timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with kept as (
    insert into auth_private.one_time_values (kind, key, data, expires_at)
    values (keep_once.kind, keep_once.key, keep_once.data, keep_once.expires_at)
    on conflict do nothing
    returning true
  )
  select exists (select from kept)
$$;

comment on function auth_api.keep_once(text, bytea, jsonb, timestamptz) is $$
Keeps a value until it is taken or expires; false if the key is already kept. A value that nothing takes, such as the id
of a SAML assertion, was used before if this returns false.
$$;

create or replace function auth_api.take_once(kind text, key bytea, now timestamptz) returns jsonb
language sql volatile security definer set search_path = '' as $$
  with taken as (
    delete from auth_private.one_time_values as v
    where v.kind = take_once.kind
      and v.key = take_once.key
    returning v.data, v.expires_at
  )
  select t.data
  from taken as t
  where t.expires_at > take_once.now
$$;

comment on function auth_api.take_once(text, bytea, timestamptz) is
  'Returns a value and deletes it; null if there is none or it has expired.';
--! EndIncluded auth/one_time_values/functions.sql
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
      'permissions', coalesce(to_jsonb(a.permissions), '[]'), 'type', 'access', 'auth_time', extract(epoch from now()))
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
of service_role, until the transaction ends.
$$;
--! EndIncluded caller/act_as.sql
--! Included changes/protected-writes.sql
-- Updates and deletes of a published table fail without a replica identity. So after each DDL statement on such a table
-- this trigger sets one, or unpublishes the table.
create or replace function changes.protect_writes() returns event_trigger
-- It runs as its owner: the owner of an altered table need not own the publication.
language plpgsql volatile security definer set search_path = '' as $$
declare
  altered record;
begin
  for altered in
    with recursive relations (oid, root) as (
      select c.objid, coalesce(pg_partition_root(c.objid), c.objid)
      from pg_event_trigger_ddl_commands() as c
      where c.classid = 'pg_class'::regclass
      union
      select i.inhrelid, coalesce(pg_partition_root(i.inhrelid), i.inhrelid)
      from relations as r
      join pg_inherits as i on i.inhparent = r.oid
    )
    select
      c.oid::regclass as name,
      r.root::regclass as published,
      c.relreplident = 'f' as is_full,
      exists (
        select from pg_index as i
        where i.indrelid = c.oid and i.indisprimary and i.indimmediate and i.indisvalid
      ) as has_key,
      exists (
        select from pg_attribute as a
        where a.attrelid = c.oid and a.attgenerated = 'v' and not a.attisdropped
      ) as has_virtual_column
    from relations as r
    join pg_class as c on c.oid = r.oid
    join pg_publication_rel as pr on pr.prrelid = r.root
    join pg_publication as p on p.oid = pr.prpubid
    where c.relkind = 'r' and c.relreplident in ('d', 'f') and p.pubname = 'content_changes'
  loop
    -- The rules of db/changes/publication-plan.ts, for the tables whose updates and deletes would fail from now on.
    if altered.is_full and altered.has_virtual_column and altered.has_key then
      execute format('alter table %s replica identity default', altered.name);
    elsif not altered.is_full and not altered.has_key and not altered.has_virtual_column then
      execute format('alter table %s replica identity full', altered.name);
    elsif altered.has_virtual_column and not altered.has_key then
      execute format('alter publication content_changes drop table %s', altered.published);
      raise warning 'subscribers no longer receive the changes of %', altered.published using
        detail = 'It has a virtual generated column and no primary key, so that its updates and deletes would fail.';
    end if;
  end loop;
end $$;

comment on function changes.protect_writes() is
  'Keeps updates and deletes of published tables possible when DDL changes their columns or primary keys.';

-- Only a superuser may create event triggers. For other owners, the service does the same a moment later.
do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    drop event trigger if exists protect_published_writes;
    create event trigger protect_published_writes on ddl_command_end
      when tag in ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE')
      execute function changes.protect_writes();
  end if;
end $$;
--! EndIncluded changes/protected-writes.sql
