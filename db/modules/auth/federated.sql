create or replace function auth_private.announce_providers() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', '{"providers": true}');
  return null;
end $$;

comment on function auth_private.announce_providers() is 'Notifies the channel "accounts" that providers have changed.';

create or replace trigger _500_announce after insert or update or delete on auth_private.providers
  for each statement execute function auth_private.announce_providers();

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.list_providers() returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(json_agg(json_build_object('name', p.name, 'definition', p.definition) order by p.name), '[]')
  from auth_private.providers as p
$$;

comment on function auth_api.list_providers() is 'The providers of the table: [{name, definition}].';

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
  select auth_private.lift_bans(i.user_id, use_identity.now)
  from auth_private.identities as i
  where i.issuer = use_identity.issuer
    and i.subject = use_identity.subject;

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
  issuer text, subject text, provider text, name text, email text, sign_in bytea,
  address inet, now timestamptz)
returns text
language plpgsql volatile security definer set search_path = '' as $$
declare new_id auth.user_id;
begin
  new_id := auth_private.sign_up(
    jsonb_build_object('name', register_identity.name, 'email', register_identity.email),
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

comment on function auth_api.register_identity(text, text, text, text, text, bytea, inet, timestamptz) is $$
Creates a user with an account that has no password, and links the identity to it: "registered". Otherwise nothing
changes: "linked" to an account already, "email taken" by another user, or name or e-mail "malformed".
$$;

create or replace function auth_private.add_email_of_identity(user_id auth.user_id, email text)
returns void
language plpgsql volatile set search_path = '' as $$
begin
  if email is null then return; end if;
  perform auth_private.act_for(add_email_of_identity.user_id);
  perform auth_private.change_email(
    add_email_of_identity.user_id, add_email_of_identity.email, 'owner');
exception
  when unique_violation or check_violation then return;
end $$;

comment on function auth_private.add_email_of_identity(auth.user_id, text) is
  'Adds the e-mail of an identity to an account that has none; nothing if it is taken or malformed.';

create or replace function auth_api.link_identity(
  user_id auth.user_id, session uuid, issuer text, subject text, provider text, email text,
  sign_in bytea, max integer, address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  owner_id auth.user_id;
  new_id uuid;
begin
  -- Locked, so that parallel calls can't exceed max.
  if not auth_private.lock_sign_in(link_identity.user_id, session) then
    return json_build_object('outcome', 'changed');
  end if;
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

  if exists (select from auth_private.accounts as a where a.user_id = link_identity.user_id and a.is_anonymous) then
    perform set_config('request.address', coalesce(host(link_identity.address), ''), true);
    perform auth_private.add_email_of_identity(link_identity.user_id, email);
    perform auth_private.upgrade_account(link_identity.user_id);
  end if;
  perform auth_api.note_event(
    'identity_linked',
    link_identity.user_id,
    link_identity.address,
    jsonb_build_object('provider', link_identity.provider, 'identity', new_id),
    link_identity.now);
  return json_build_object('outcome', 'linked', 'id', new_id);
end $$;

comment on function
  auth_api.link_identity(auth.user_id, uuid, text, text, text, text, bytea, integer, inet, timestamptz) is $$
Links an identity to an account: {outcome: "linked", id}, also if it is already. An anonymous account is then one like
any other, and gets the e-mail of the identity unless it is taken. Otherwise nothing changes: "taken" by
another account, "too many" identities, or "changed": the session that the user is signed in with, if any, has ended, or
the account is disabled or deleted.
$$;

create or replace function auth_api.list_identities(user_id auth.user_id) returns json
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

comment on function auth_api.list_identities(auth.user_id) is 'The identities of an account, newest first.';

create or replace function auth_api.unlink_identity(
  user_id auth.user_id, id uuid, issuers text[], session uuid, address inet, now timestamptz)
returns text
language plpgsql volatile security definer set search_path = '' as $$
declare unlinked text;
begin
  -- Of two concurrent calls, the second one waits here. Otherwise each could remove one of the last two ways
  -- to sign in.
  perform from auth_private.accounts as a
  where a.user_id = unlink_identity.user_id
  for no key update;
  if not auth_private.lock_sign_in(unlink_identity.user_id, session) then return 'changed'; end if;
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
  perform auth_private.end_other_sign_ins(unlink_identity.user_id, session, unlink_identity.now);
  perform auth_api.note_event(
    'identity_unlinked',
    unlink_identity.user_id,
    unlink_identity.address,
    jsonb_build_object('provider', unlinked, 'identity', unlink_identity.id),
    unlink_identity.now);
  return 'unlinked';
end $$;

comment on function auth_api.unlink_identity(auth.user_id, uuid, text[], uuid, inet, timestamptz) is $$
Unlinks an identity from an account and ends all other sign-ins of the user: "unlinked". Otherwise nothing changes:
"missing"; "last": the user could not sign in any more, with a password or with another identity of these issuers; or
"changed": the sign-in of the caller has ended.
$$;

create or replace function auth_api.take_sign_in(user_id auth.user_id, issuer text) returns json
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

comment on function auth_api.take_sign_in(auth.user_id, text) is $$
Deletes what the service keeps of the user's last sign-in there, and returns it: {subject, signIn}, which the provider
needs to end that sign-in, signIn encrypted and in hex; null if there is none.
$$;
