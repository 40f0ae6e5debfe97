create or replace function auth_private.announce_session() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', json_build_object('session', encode(old.id_hash, 'hex'))::text);
  return null;
end $$;

comment on function auth_private.announce_session() is 'Notifies the channel "accounts" that a session has ended.';

create or replace trigger _500_announce_delete after delete on auth_private.sessions
  for each row execute function auth_private.announce_session();
create or replace trigger _500_announce_update after update on auth_private.sessions
  for each row when (old.id_hash is distinct from new.id_hash) execute function auth_private.announce_session();

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.start_session(
  user_id auth.user_id, epoch integer, id_hash bytea, now timestamptz, expires_at timestamptz)
returns boolean
language sql volatile security definer set search_path = '' as $$
  with started as (
    insert into auth_private.sessions as s (id_hash, user_id, epoch, started_at, seen_at, expires_at)
    select start_session.id_hash, a.user_id, a.epoch, start_session.now, start_session.now, start_session.expires_at
    from auth_private.accounts as a
    where a.user_id = start_session.user_id
      and a.epoch = start_session.epoch
      and a.disabled_at is null
    on conflict (user_id) do update
    set id_hash = excluded.id_hash,
      epoch = excluded.epoch,
      started_at = excluded.started_at,
      seen_at = excluded.seen_at,
      expires_at = excluded.expires_at
    returning s.user_id
  )
  select exists (select from started)
$$;

comment on function auth_api.start_session(auth.user_id, integer, bytea, timestamptz, timestamptz) is $$
Starts a session of an account that was found in this epoch, and ends the session that the user has elsewhere. False if
the account has changed since, or is disabled.
$$;

create or replace function auth_api.touch_session(id_hash bytea, now timestamptz, idle interval) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  session auth_private.sessions;
  account json;
begin
  select *
  into session
  from auth_private.sessions as s
  where s.id_hash = touch_session.id_hash;
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
    where s.id_hash = touch_session.id_hash
      and s.seen_at = session.seen_at;
    return null;
  end if;
  update auth_private.sessions as s
  set seen_at = touch_session.now
  where s.id_hash = touch_session.id_hash
    and s.seen_at < touch_session.now;
  return json_build_object('account', account, 'startedAt', session.started_at, 'expiresAt', session.expires_at);
end $$;

comment on function auth_api.touch_session(bytea, timestamptz, interval) is $$
Marks a session as seen now and returns {account, startedAt, expiresAt}. Null if there is none, or it has ended: it was
idle for too long, or its account has changed.
$$;

create or replace function auth_api.end_session(id_hash bytea) returns auth.user_id
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.sessions as s
  where s.id_hash = end_session.id_hash
  returning s.user_id
$$;

comment on function auth_api.end_session(bytea) is 'Ends a session and returns its user; null if there is none.';

create or replace function auth_private.lock_sign_in(user_id auth.user_id, family uuid, session bytea) returns boolean
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
    where (family is null or exists (
        select from auth_private.token_families as f
        where f.id = family
          and f.user_id = a.user_id
          and f.epoch = a.epoch
          and f.revoked_at is null))
      and (session is null or exists (
        select from auth_private.sessions as s
        where s.id_hash = session
          and s.user_id = a.user_id
          and s.epoch = a.epoch)))
$$;

comment on function auth_private.lock_sign_in(auth.user_id, uuid, bytea) is $$
Locks the account of a caller who is signed in with a token of this family or with this session; false if that sign-in
has ended or the account is disabled.
$$;

create or replace function auth_private.end_other_sign_ins(
  user_id auth.user_id, family uuid, session bytea, now timestamptz)
returns void
language plpgsql volatile set search_path = '' as $$
declare begun integer;
begin
  update auth_private.accounts as a
  set epoch = a.epoch + 1
  where a.user_id = end_other_sign_ins.user_id
  returning a.epoch into begun;

  update auth_private.token_families as f
  set epoch = begun,
    kept_at = end_other_sign_ins.now
  where f.id = family;

  update auth_private.sessions as s
  set epoch = begun
  where s.id_hash = session;
end $$;

comment on function auth_private.end_other_sign_ins(auth.user_id, uuid, bytea, timestamptz) is
  'Ends all sign-ins of a user except this token family or session.';
