create or replace function auth_private.has_unused_child(token_hash bytea) returns boolean
language sql stable set search_path = '' as $$
  select coalesce(bool_and(t.spent_at is null or t.spent_at = '-infinity'), false)
  from auth_private.refresh_tokens as t
  where t.parent = has_unused_child.token_hash
$$;

comment on function auth_private.has_unused_child(bytea) is
  'Whether a refresh token was exchanged for tokens of which none was used.';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.rotate_token(
  old_hash bytea, new_hash bytea, now timestamptz, expires_at timestamptz, grace interval,
  accepts_parent boolean default false)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  token auth_private.refresh_tokens;
  session auth_private.sessions;
  account json;
  is_late boolean;
begin
  select *
  into token
  from auth_private.refresh_tokens as t
  where t.token_hash = old_hash;
  if not found then return json_build_object('outcome', 'unknown'); end if;

  -- Uses of one session wait for each other here, then read the token again.
  select *
  into session
  from auth_private.sessions as s
  where s.id = token.session_id
  for update;
  if not found then return json_build_object('outcome', 'unknown'); end if;

  select *
  into token
  from auth_private.refresh_tokens as t
  where t.token_hash = old_hash;
  account := auth_api.account_of(session.user_id);

  if session.revoked_at is not null
    or account is null
    or (account ->> 'isDisabled')::boolean
    or (account ->> 'epoch')::integer <> session.epoch
  then
    return json_build_object('outcome', 'revoked', 'userId', session.user_id::text);
  end if;
  -- Without a grace period reuse is rejected even if the clock of the other process is ahead.
  is_late := case
    when token.spent_at is null then false
    when token.spent_at = '-infinity' then true
    else greatest(rotate_token.now - token.spent_at, '0') >= grace
  end;
  if is_late and accepts_parent and auth_private.has_unused_child(old_hash) then
    -- The client has not received the next token. If that is used later, one of the two was stolen.
    update auth_private.refresh_tokens as t
    set spent_at = '-infinity'
    where t.parent = old_hash;
  elsif is_late then
    -- The token was stolen: the thief and the user both have to sign in again.
    update auth_private.sessions as s
    set revoked_at = rotate_token.now
    where s.id = session.id;
    return json_build_object('outcome', 'reused', 'userId', session.user_id::text);
  end if;
  if token.expires_at <= rotate_token.now then
    return json_build_object('outcome', 'expired', 'userId', session.user_id::text);
  end if;

  update auth_private.refresh_tokens as t
  set spent_at = rotate_token.now
  where t.token_hash = old_hash
    and t.spent_at is null;
  insert into auth_private.refresh_tokens (token_hash, session_id, expires_at, parent)
  values (new_hash, session.id, rotate_token.expires_at, old_hash);
  update auth_private.sessions as s
  set seen_at = greatest(s.seen_at, rotate_token.now),
    expires_at = greatest(s.expires_at, rotate_token.expires_at)
  where s.id = session.id;
  return json_build_object(
    'outcome', 'rotated',
    'userId', session.user_id::text,
    'session', session.id,
    'startedAt', session.started_at,
    'methods', session.methods,
    'aal', session.aal,
    'account', account);
end $$;

comment on function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz, interval, boolean) is $$
Exchanges a refresh token for the next of its session: {outcome, userId, session, startedAt, account}, where outcome is
rotated, unknown, revoked, expired, or reused: a token that was spent before the grace period ends its session, unless
`accepts_parent` and none of the tokens that it was exchanged for was used.
$$;

create or replace function auth_api.account_state(user_id auth.user_id, since timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'epoch', a.epoch,
    'role', a.role,
    'revoked', array(
      select s.id
      from auth_private.sessions as s
      where s.user_id = account_state.user_id
        and s.revoked_at > account_state.since),
    'kept', array(
      select s.id
      from auth_private.sessions as s
      where s.user_id = account_state.user_id
        and s.kept_at > account_state.since
        and s.epoch = a.epoch))
  from auth_private.accounts as a
  where a.user_id = account_state.user_id
    and a.disabled_at is null
$$;

comment on function auth_api.account_state(auth.user_id, timestamptz) is $$
What an access token of this user must match: {epoch, role, revoked, kept}, where `revoked` lists the sessions that were
revoked since, and `kept` those whose tokens may be of an earlier epoch. Null if the user has no account, or
it is disabled.
$$;

create or replace function auth_api.is_spent(challenge uuid) returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (select from auth_private.spent_challenges as c where c.id = is_spent.challenge)
$$;

comment on function auth_api.is_spent(uuid) is 'Whether a challenge was used before.';

create or replace function auth_api.spend_challenge(id uuid, now timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with spent as (
    insert into auth_private.spent_challenges (id, spent_at)
    values (spend_challenge.id, spend_challenge.now)
    on conflict do nothing
    returning id
  )
  select exists (select from spent)
$$;

comment on function auth_api.spend_challenge(uuid, timestamptz) is
  'Spends the challenge of a login, by its jti; false if it was spent before.';
