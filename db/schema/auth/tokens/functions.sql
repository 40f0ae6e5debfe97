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
