-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.list_passkeys(user_id auth.user_id) returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(
    json_agg(
      json_build_object(
        'id', p.id,
        'name', p.name,
        'credentialId', encode(p.credential_id, 'hex'),
        'transports', p.transports,
        'isSynced', p.is_synced,
        'createdAt', p.created_at,
        'lastUsedAt', p.last_used_at)
      order by p.created_at, p.id),
    '[]')
  from auth_private.passkeys as p
  where p.user_id = list_passkeys.user_id
$$;

comment on function auth_api.list_passkeys(auth.user_id) is $$
The passkeys of a user, oldest first: [{id, name, credentialId, transports, isSynced, createdAt, lastUsedAt}], where
`credentialId` is hex.
$$;

create or replace function auth_api.passkey_handle(user_id auth.user_id) returns uuid
language sql stable security definer set search_path = '' as $$
  select a.public_id
  from auth_private.accounts as a
  where a.user_id = passkey_handle.user_id
$$;

comment on function auth_api.passkey_handle(auth.user_id) is 'How authenticators name a user.';

create or replace function auth_api.find_passkey(credential_id bytea) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'id', p.id,
    'userId', p.user_id::text,
    'handle', a.public_id,
    'publicKey', encode(p.public_key, 'hex'))
  from auth_private.passkeys as p
  join auth_private.accounts as a on a.user_id = p.user_id
  where p.credential_id = find_passkey.credential_id
$$;

comment on function auth_api.find_passkey(bytea) is
  'The passkey of a credential: {id, userId, handle, publicKey}, with the key in hex; null if there is none.';

create or replace function auth_api.add_passkey(
  user_id auth.user_id, session uuid, passkey jsonb, challenge uuid, code_hashes bytea[], max integer,
  address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  is_first boolean;
  new_id uuid;
begin
  if not auth_private.lock_proved_sign_in(add_passkey.user_id, session) then
    return json_build_object('outcome', 'ended');
  end if;
  if not auth_api.spend_challenge(challenge, now) then return json_build_object('outcome', 'spent'); end if;
  if max <= (select count(*) from auth_private.passkeys as p where p.user_id = add_passkey.user_id) then
    return json_build_object('outcome', 'full');
  end if;
  is_first := not auth_private.has_factor(add_passkey.user_id);

  insert into auth_private.passkeys as p (
    id, user_id, name, credential_id, public_key, counter, transports, is_synced, created_at, is_unconfirmed)
  values (
    coalesce((passkey ->> 'id')::uuid, gen_random_uuid()),
    add_passkey.user_id,
    passkey ->> 'name',
    decode(passkey ->> 'credentialId', 'hex'),
    decode(passkey ->> 'publicKey', 'hex'),
    (passkey ->> 'counter')::bigint,
    array(select jsonb_array_elements_text(passkey -> 'transports')),
    (passkey ->> 'isSynced')::boolean,
    add_passkey.now,
    auth_private.awaits_confirmation(add_passkey.user_id))
  on conflict do nothing
  returning p.id into new_id;
  if new_id is null then return json_build_object('outcome', 'taken'); end if;

  perform auth_api.note_event(
    'passkey_added', add_passkey.user_id, address, jsonb_build_object('name', passkey ->> 'name'), add_passkey.now);
  if is_first then
    perform auth_private.store_backup_codes(add_passkey.user_id, code_hashes);
    perform auth_private.require_factor(add_passkey.user_id, session, 'mfa/webauthn', add_passkey.now);
    perform auth_api.note_event('mfa_enabled', add_passkey.user_id, address, null, add_passkey.now);
  end if;
  return json_build_object('outcome', 'added', 'id', new_id, 'isFirst', is_first);
end $$;

comment on function
  auth_api.add_passkey(auth.user_id, uuid, jsonb, uuid, bytea[], integer, inet, timestamptz) is $$
Adds a passkey whose registration was verified, and spends its challenge: {outcome, id, isFirst}. If it is the first
second factor of the user, the backup codes are stored, and all sign-ins end except the session that adds it. The
outcome is "ended" as in lock_proved_sign_in, "spent" if the challenge was used before, "full" if the user has `max`
passkeys, and "taken" if the credential is known. Otherwise it is "added".
$$;

create or replace function auth_api.rename_passkey(user_id auth.user_id, id uuid, name text) returns boolean
language sql volatile security definer set search_path = '' as $$
  with renamed as (
    update auth_private.passkeys as p
    set name = rename_passkey.name
    where p.id = rename_passkey.id
      and p.user_id = rename_passkey.user_id
    returning p.id
  )
  select exists (select from renamed)
$$;

comment on function auth_api.rename_passkey(auth.user_id, uuid, text) is
  'Renames a passkey of a user; false if there is none.';

create or replace function auth_private.use_passkey(user_id auth.user_id, used jsonb, address inet, now timestamptz)
returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  known auth_private.passkeys;
  counter constant bigint := (used ->> 'counter')::bigint;
begin
  select *
  into known
  from auth_private.passkeys as p
  where p.id = (used ->> 'id')::uuid
    and p.user_id = use_passkey.user_id
  for no key update;
  if not found or not auth_api.spend_challenge((used ->> 'challenge')::uuid, now) then return false; end if;

  -- An authenticator that counts never signs twice with one number: another one has a copy of the key.
  if counter <= known.counter and greatest(counter, known.counter) > 0 then
    perform auth_api.note_event(
      'passkey_copied', use_passkey.user_id, address, jsonb_build_object('name', known.name), use_passkey.now);
    return false;
  end if;
  update auth_private.passkeys as p
  set counter = (used ->> 'counter')::bigint,
    is_synced = (used ->> 'isSynced')::boolean,
    last_used_at = use_passkey.now
  where p.id = known.id;
  return true;
end $$;

comment on function auth_private.use_passkey(auth.user_id, jsonb, inet, timestamptz) is $$
Records a signature that was verified, {id, counter, isSynced, challenge}, and spends its challenge. False if the user
has no such passkey, the challenge was used before, or the counter has not grown.
$$;
