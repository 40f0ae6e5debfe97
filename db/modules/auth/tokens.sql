-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.start_tokens(
  user_id auth.user_id, epoch integer, token_hash bytea, now timestamptz, expires_at timestamptz)
returns uuid
language plpgsql volatile security definer set search_path = '' as $$
declare family_id uuid;
begin
  -- An account that has changed since the password was checked does not sign in.
  insert into auth_private.token_families (user_id, epoch, started_at)
  select a.user_id, a.epoch, start_tokens.now
  from auth_private.accounts as a
  where a.user_id = start_tokens.user_id
    and a.epoch = start_tokens.epoch
    and a.disabled_at is null
  returning id into family_id;
  if not found then return null; end if;

  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at)
  values (start_tokens.token_hash, family_id, start_tokens.expires_at);
  return family_id;
end $$;

comment on function auth_api.start_tokens(auth.user_id, integer, bytea, timestamptz, timestamptz) is $$
Stores the first refresh token of a sign-in, by its SHA-256, and returns the id of its family. Null if the account has
changed since it was found in this epoch.
$$;

create or replace function auth_api.rotate_token(
  old_hash bytea, new_hash bytea, now timestamptz, expires_at timestamptz, grace interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  token auth_private.refresh_tokens;
  family auth_private.token_families;
  account json;
begin
  select *
  into token
  from auth_private.refresh_tokens as t
  where t.token_hash = old_hash;
  if not found then return json_build_object('outcome', 'unknown'); end if;

  -- Uses of one family wait for each other here, then read the token again.
  select *
  into family
  from auth_private.token_families as f
  where f.id = token.family_id
  for update;
  if not found then return json_build_object('outcome', 'unknown'); end if;

  select *
  into token
  from auth_private.refresh_tokens as t
  where t.token_hash = old_hash;
  account := auth_api.account_of(family.user_id);

  if family.revoked_at is not null
    or account is null
    or (account ->> 'isDisabled')::boolean
    or (account ->> 'epoch')::integer <> family.epoch
  then
    return json_build_object('outcome', 'revoked', 'userId', family.user_id::text);
  end if;
  -- Without a grace period reuse is rejected even if the clock of the other process is ahead.
  if token.spent_at is not null and greatest(rotate_token.now - token.spent_at, '0') >= grace then
    -- The token was stolen: the thief and the user both have to sign in again.
    update auth_private.token_families as f
    set revoked_at = rotate_token.now
    where f.id = family.id;
    return json_build_object('outcome', 'reused', 'userId', family.user_id::text);
  end if;
  if token.expires_at <= rotate_token.now then
    return json_build_object('outcome', 'expired', 'userId', family.user_id::text);
  end if;

  update auth_private.refresh_tokens as t
  set spent_at = rotate_token.now
  where t.token_hash = old_hash
    and t.spent_at is null;
  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at)
  values (new_hash, family.id, rotate_token.expires_at);
  return json_build_object(
    'outcome', 'rotated',
    'userId', family.user_id::text,
    'family', family.id,
    'startedAt', family.started_at,
    'account', account);
end $$;

comment on function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz, interval) is $$
Exchanges a refresh token for the next of its family: {outcome, userId, family, startedAt, account}, where outcome is
rotated, unknown, revoked, expired, or reused: a token that was spent before the grace period revokes its whole family.
$$;

create or replace trigger _500_announce after update on auth_private.token_families
  for each row when (old.revoked_at is distinct from new.revoked_at)
  execute function auth_private.announce_account();

create or replace function auth_api.account_state(user_id auth.user_id, since timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'epoch', a.epoch,
    'role', a.role,
    'revoked', array(
      select f.id
      from auth_private.token_families as f
      where f.user_id = account_state.user_id
        and f.revoked_at > account_state.since),
    'kept', array(
      select f.id
      from auth_private.token_families as f
      where f.user_id = account_state.user_id
        and f.kept_at > account_state.since
        and f.epoch = a.epoch))
  from auth_private.accounts as a
  where a.user_id = account_state.user_id
    and a.disabled_at is null
$$;

comment on function auth_api.account_state(auth.user_id, timestamptz) is $$
What an access token of this user must match: {epoch, role, revoked, kept}, where `revoked` lists the token families
that were revoked since, and `kept` those whose tokens may be of an earlier epoch. Null if the user has no account, or
it is disabled.
$$;

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
