create or replace function auth_private.announce_session() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', json_build_object('session', encode(old.cookie_hash, 'hex'))::text);
  return null;
end $$;

comment on function auth_private.announce_session() is
  'Notifies the channel "accounts" that a session with a cookie has ended.';

create or replace trigger _500_announce_delete after delete on auth_private.sessions
  for each row when (old.cookie_hash is not null) execute function auth_private.announce_session();
create or replace trigger _500_announce_update after update on auth_private.sessions
  for each row when (old.cookie_hash is distinct from new.cookie_hash and old.cookie_hash is not null)
  execute function auth_private.announce_session();
create or replace trigger _500_announce_tokens after update on auth_private.sessions
  for each row when (old.revoked_at is distinct from new.revoked_at)
  execute function auth_private.announce_account();

create or replace function auth_private.end_sessions(ids uuid[], now timestamptz) returns void
language sql volatile set search_path = '' as $$
  delete from auth_private.sessions as s
  where s.id = any (ids)
    and s.cookie_hash is not null;

  -- Its access tokens name it until they expire.
  update auth_private.sessions as s
  set revoked_at = end_sessions.now
  where s.id = any (ids)
    and s.revoked_at is null;
$$;

comment on function auth_private.end_sessions(uuid[], timestamptz) is 'Ends sessions, with all their tokens.';

create or replace function auth_private.methods_at(methods text[], now timestamptz) returns jsonb
language sql stable set search_path = ''
return (
  select coalesce(
    jsonb_agg(
      jsonb_build_object('method', m.method, 'timestamp', extract(epoch from now)::bigint) order by m.place),
    '[]')
  from unnest(methods) with ordinality as m (method, place));

comment on function auth_private.methods_at(text[], timestamptz) is
  'How a user has proved who they are, as tokens say it: [{method, timestamp}].';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.start_session(
  user_id auth.user_id, epoch integer, cookie_hash bytea, token_hash bytea, device text, network cidr,
  now timestamptz, expires_at timestamptz, max integer, methods text[] default '{}', provider text default null)
returns uuid
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  has_hook constant boolean := auth_private.hook('after_sign_in') is not null;
  -- Before the session makes it known.
  is_new_device constant boolean := has_hook
    and auth_private.is_new_device(start_session.user_id, start_session.device);
  level constant integer := case when start_session.methods && '{totp,passkey,mfa/webauthn}' then 2 else 1 end;
  session_id uuid;
  oldest uuid[];
begin
  -- An account that has changed since the password was checked does not sign in.
  insert into auth_private.sessions as s (
    user_id, epoch, cookie_hash, device, network, started_at, seen_at, expires_at, methods, aal)
  select
    a.user_id,
    a.epoch,
    start_session.cookie_hash,
    start_session.device,
    start_session.network,
    start_session.now,
    start_session.now,
    start_session.expires_at,
    auth_private.methods_at(start_session.methods, start_session.now),
    level
  from auth_private.accounts as a
  where a.user_id = start_session.user_id
    and a.epoch = start_session.epoch
    and a.disabled_at is null
  on conflict (user_id) where s.cookie_hash is not null do update
  set id = excluded.id,
    epoch = excluded.epoch,
    cookie_hash = excluded.cookie_hash,
    device = excluded.device,
    network = excluded.network,
    started_at = excluded.started_at,
    seen_at = excluded.seen_at,
    expires_at = excluded.expires_at,
    methods = excluded.methods,
    aal = excluded.aal,
    kept_at = null
  returning s.id into session_id;
  if not found then return null; end if;

  if start_session.token_hash is not null then
    insert into auth_private.refresh_tokens (token_hash, session_id, expires_at)
    values (start_session.token_hash, session_id, start_session.expires_at);
  end if;

  oldest := array(
    select s.id
    from auth_private.sessions as s
    where s.user_id = start_session.user_id
      and s.epoch = start_session.epoch
      and s.revoked_at is null
    order by s.id = session_id desc, s.seen_at desc
    offset start_session.max);
  if oldest <> '{}' then perform auth_private.end_sessions(oldest, start_session.now); end if;

  if has_hook then
    perform auth_private.call_hook('after_sign_in', start_session.user_id, jsonb_build_object(
      -- The first proof comes last.
      'method', start_session.methods[cardinality(start_session.methods)],
      'methods', to_jsonb(start_session.methods),
      'aal', level,
      'provider', start_session.provider,
      'session', session_id,
      'kind', case when start_session.cookie_hash is null then 'token' else 'cookie' end,
      'device', start_session.device,
      'isNewDevice', is_new_device,
      'network', start_session.network));
  end if;
  return session_id;
end $$;

comment on function
  auth_api.start_session(
    auth.user_id, integer, bytea, bytea, text, cidr, timestamptz, timestamptz, integer, text[], text) is $$
Starts a session of an account that was found in this epoch, and returns its id: with a cookie, which ends the session
that the user has with another cookie, or with a first refresh token, each by its SHA-256. Beyond `max` sessions, those
end that were used longest ago. `methods` are how the user has proved who they are, newest first; `provider` is the name
of the one that has confirmed it. Calls the hook after_sign_in, whose error refuses the sign-in. Null if the account has
changed since, or is disabled.
$$;

create or replace function auth_api.touch_session(cookie_hash bytea, now timestamptz, idle interval) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  session auth_private.sessions;
  account json;
begin
  select *
  into session
  from auth_private.sessions as s
  where s.cookie_hash = touch_session.cookie_hash;
  if not found then return null; end if;
  account := auth_api.account_of(session.user_id);
  if session.expires_at <= touch_session.now
    or session.seen_at + idle <= touch_session.now
    or account is null
    or (account ->> 'isDisabled')::boolean
    or (account ->> 'epoch')::integer <> session.epoch
  then
    -- Unless it was used or started again in the meantime.
    delete from auth_private.sessions as s
    where s.cookie_hash = touch_session.cookie_hash
      and s.seen_at = session.seen_at;
    return null;
  end if;
  update auth_private.sessions as s
  set seen_at = touch_session.now
  where s.cookie_hash = touch_session.cookie_hash
    and s.seen_at < touch_session.now;
  return json_build_object(
    'id', session.id,
    'account', account,
    'startedAt', session.started_at,
    'expiresAt', session.expires_at);
end $$;

comment on function auth_api.touch_session(bytea, timestamptz, interval) is $$
Marks the session of a cookie as seen now and returns {id, account, startedAt, expiresAt}. Null if there is none, or it
has ended: it was idle for too long, or its account has changed.
$$;

create or replace function auth_api.end_cookie(cookie_hash bytea) returns auth.user_id
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.sessions as s
  where s.cookie_hash = end_cookie.cookie_hash
  returning s.user_id
$$;

comment on function auth_api.end_cookie(bytea) is
  'Ends the session of a cookie and returns its user; null if there is none.';

create or replace function auth_api.list_sessions(user_id auth.user_id, now timestamptz, idle interval) returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(
    json_agg(
      json_build_object(
        'id', s.id,
        'kind', case when s.cookie_hash is null then 'token' else 'cookie' end,
        'device', s.device,
        'network', s.network,
        'createdAt', s.started_at,
        'lastUsedAt', s.seen_at,
        'expiresAt', case
          when s.cookie_hash is null then s.expires_at
          else least(s.expires_at, s.seen_at + list_sessions.idle)
        end)
      order by s.seen_at desc, s.id),
    '[]')
  from auth_private.sessions as s
  join auth_private.accounts as a on a.user_id = s.user_id and a.epoch = s.epoch
  where s.user_id = list_sessions.user_id
    and s.revoked_at is null
    and s.expires_at > list_sessions.now
    and (s.cookie_hash is null or s.seen_at + list_sessions.idle > list_sessions.now)
$$;

comment on function auth_api.list_sessions(auth.user_id, timestamptz, interval) is
  'The sessions of a user that have not ended, those that were used last first.';

create or replace function auth_api.end_session(user_id auth.user_id, id uuid, now timestamptz) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform from auth_private.sessions as s
  where s.id = end_session.id
    and s.user_id = end_session.user_id
    and s.revoked_at is null
  for no key update;
  if found then perform auth_private.end_sessions(array[end_session.id], end_session.now); end if;
  return found;
end $$;

comment on function auth_api.end_session(auth.user_id, uuid, timestamptz) is
  'Ends a session of a user; false if there is none.';

create or replace function auth_private.lock_sign_in(user_id auth.user_id, session uuid) returns boolean
language sql volatile set search_path = '' as $$
  with account as (
    select a.user_id, a.epoch
    from auth_private.accounts as a
    where a.user_id = lock_sign_in.user_id
      and a.disabled_at is null
    for no key update
  )
  select exists (
    select from account as a
    where session is null
      or exists (
        select from auth_private.sessions as s
        where s.id = session
          and s.user_id = a.user_id
          and s.epoch = a.epoch
          and s.revoked_at is null))
$$;

comment on function auth_private.lock_sign_in(auth.user_id, uuid) is $$
Locks the account of a caller who is signed in with this session, if any; false if it has ended or the account is
disabled.
$$;

create or replace function auth_private.lock_proved_sign_in(user_id auth.user_id, session uuid) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  if not auth_private.lock_sign_in(user_id, session) then return false; end if;
  return not exists (
    select from auth_private.sessions as s
    where s.id = session
      and s.aal = 1
      and auth_private.has_factor(s.user_id));
end $$;

comment on function auth_private.lock_proved_sign_in(auth.user_id, uuid) is
  'The same; false also if the session has not proved a second factor that the user has.';

create or replace function auth_private.end_other_sign_ins(user_id auth.user_id, session uuid, now timestamptz)
returns void
language plpgsql volatile set search_path = '' as $$
declare begun integer;
begin
  update auth_private.accounts as a
  set epoch = a.epoch + 1
  where a.user_id = end_other_sign_ins.user_id
  returning a.epoch into begun;

  update auth_private.sessions as s
  set epoch = begun,
    kept_at = end_other_sign_ins.now
  where s.id = session;
end $$;

comment on function auth_private.end_other_sign_ins(auth.user_id, uuid, timestamptz) is
  'Ends all sign-ins of a user except this session.';

create or replace function auth_api.sign_out(
  user_id auth.user_id, session uuid, scope text, by text, address inet, now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  if scope = 'local' then
    perform auth_api.end_session(sign_out.user_id, session, sign_out.now);
  else
    if scope = 'others' and not auth_private.lock_sign_in(sign_out.user_id, session) then return false; end if;
    perform auth_private.end_other_sign_ins(
      sign_out.user_id, case when scope = 'others' then session end, sign_out.now);
    perform auth_private.end_pending_change(sign_out.user_id);
  end if;
  perform auth_api.note_event(
    'logout', sign_out.user_id, sign_out.address, jsonb_build_object('by', by, 'scope', scope), sign_out.now);
  return true;
end $$;

comment on function auth_api.sign_out(auth.user_id, uuid, text, text, inet, timestamptz) is $$
Ends this session of a user (local), all others, or all (global), and records it. All but local end a pending change of
the e-mail too. API keys remain valid. False if the session that would stay has ended.
$$;
