-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.start_tokens(user_id bigint, epoch integer, token_hash bytea, expires_at timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare family_id uuid;
begin
  -- Whoever signed in as the account was a moment ago, before its password was changed, has not signed in.
  insert into auth_private.token_families (user_id, epoch)
  select a.user_id, a.epoch from auth_private.accounts as a
  where a.user_id = start_tokens.user_id and a.epoch = start_tokens.epoch and a.disabled_at is null
  returning id into family_id;
  if not found then return false; end if;
  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at)
  values (start_tokens.token_hash, family_id, start_tokens.expires_at);
  return true;
end $$;

comment on function auth_api.start_tokens(bigint, integer, bytea, timestamptz) is
  'Remembers the first refresh token of a sign-in, by its SHA-256; false when the account is of another epoch by now.';

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

alter function auth_api.start_tokens(bigint, integer, bytea, timestamptz) owner to auth_owner;
alter function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
