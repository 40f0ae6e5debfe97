create or replace function auth_private.announce_key() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', json_build_object('key', encode(old.key_hash, 'hex'))::text);
  return null;
end $$;

comment on function auth_private.announce_key() is
  'Notifies the channel "accounts" that a key has changed or was deleted.';

create or replace trigger _500_announce_delete after delete on auth_private.api_keys
  for each row execute function auth_private.announce_key();
create or replace trigger _500_announce_update after update on auth_private.api_keys
  for each row when ((old.revoked_at, old.expires_at) is distinct from (new.revoked_at, new.expires_at))
  execute function auth_private.announce_key();

create or replace function auth_private.describe_key(key auth_private.api_keys) returns json
language sql stable set search_path = ''
return json_build_object(
  'id', key.id,
  'prefix', key.prefix,
  'name', key.name,
  'createdAt', key.created_at,
  'expiresAt', key.expires_at,
  'lastUsedAt', key.last_used_at);

comment on function auth_private.describe_key(auth_private.api_keys) is
  'A key as its owner reads it, without the key itself.';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.create_key(
  kind text, user_id auth.user_id, name text, prefix text, key_hash bytea,
  now timestamptz, expires_at timestamptz, max_keys integer, session uuid)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare key auth_private.api_keys;
begin
  -- Locked, so that parallel calls can't exceed max_keys.
  if not auth_private.lock_sign_in(create_key.user_id, create_key.session) then return '"ended"'; end if;
  if max_keys <= (
    select count(*)
    from auth_private.api_keys as k
    where k.user_id = create_key.user_id
      and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > create_key.now)
  ) then return null; end if;

  insert into auth_private.api_keys (kind, user_id, name, prefix, key_hash, created_at, expires_at)
  values (
    create_key.kind,
    create_key.user_id,
    create_key.name,
    create_key.prefix,
    create_key.key_hash,
    create_key.now,
    create_key.expires_at)
  returning * into key;
  return auth_private.describe_key(key);
end $$;

comment on function
  auth_api.create_key(text, auth.user_id, text, text, bytea, timestamptz, timestamptz, integer, uuid) is $$
Creates a key of a user who is signed in with this session, if any; null if the user has `max_keys` valid keys already,
and "ended" if the session has ended, or the account is disabled or deleted: the key would outlive the sign-in.
$$;

create or replace function auth_api.list_keys(user_id auth.user_id) returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(json_agg(auth_private.describe_key(k) order by k.created_at desc, k.id), '[]')
  from auth_private.api_keys as k
  where k.user_id = list_keys.user_id
    and k.revoked_at is null
$$;

comment on function auth_api.list_keys(auth.user_id) is 'The keys of a user that are not revoked, newest first.';

create or replace function auth_api.revoke_key(user_id auth.user_id, id uuid) returns boolean
language sql volatile security definer set search_path = '' as $$
  with revoked as (
    update auth_private.api_keys as k
    set revoked_at = now()
    where k.id = revoke_key.id
      and k.user_id = revoke_key.user_id
      and k.revoked_at is null
    returning k.id
  )
  select exists (select from revoked)
$$;

comment on function auth_api.revoke_key(auth.user_id, uuid) is
  'Revokes a key of a user; false if the user has no valid key with this id.';

create or replace function auth_api.find_key(key_hash bytea) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'id', k.id,
    'kind', k.kind,
    'expiresAt', k.expires_at,
    'account', case when k.user_id is not null then auth_api.account_of(k.user_id) end)
  from auth_private.api_keys as k
  where k.key_hash = find_key.key_hash
    and k.revoked_at is null
$$;

comment on function auth_api.find_key(bytea) is
  'A key that is not revoked: {id, kind, expiresAt, account}; null if there is none.';

create or replace function auth_api.use_keys(ids uuid[]) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.api_keys as k
  set last_used_at = now()
  where k.id = any (ids)
$$;

comment on function auth_api.use_keys(uuid[]) is 'Records that keys were used.';
