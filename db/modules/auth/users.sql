create or replace function auth_private.merged(stored jsonb, changes jsonb) returns jsonb
language sql immutable set search_path = ''
return (
  select coalesce(jsonb_object_agg(each.key, each.value), '{}')
  from jsonb_each(stored || coalesce(changes, '{}')) as each
  -- A key that is null in the changes is deleted; a stored null stays.
  where each.value <> 'null'
    or not coalesce(changes, '{}') ? each.key);

comment on function auth_private.merged(jsonb, jsonb) is
  'Metadata with changes, of which each null deletes a key.';

create or replace function auth_private.identities_of(account auth_private.accounts, email text) returns jsonb
language sql stable set search_path = '' as $$
  -- The mailbox, with or without a password, is the identity "email", but not of a user who only signs in at a
  -- provider. Its id is that of the user, because there is one.
  select coalesce(jsonb_agg(each.identity order by each.created_at), '[]')
  from (
    select account.created_at, jsonb_build_object(
        'identity_id', account.public_id,
        'id', account.public_id,
        'user_id', account.public_id,
        'identity_data', jsonb_build_object(
          'sub', account.public_id,
          'email', email,
          'email_verified', account.email_confirmed_at is not null,
          'phone_verified', false),
        'provider', 'email',
        'email', email,
        'created_at', account.created_at,
        'updated_at', account.updated_at) as identity
    where email is not null
      and (
        account.password_hash is not null
        or not exists (select from auth_private.identities as n where n.user_id = account.user_id))
    union all
    select i.linked_at, jsonb_build_object(
        'identity_id', i.id,
        'id', i.subject,
        'user_id', account.public_id,
        'identity_data', jsonb_strip_nulls(jsonb_build_object('sub', i.subject, 'email', i.email)),
        'provider', i.provider,
        'email', coalesce(i.email, ''),
        'last_sign_in_at', i.used_at,
        'created_at', i.linked_at,
        'updated_at', coalesce(i.used_at, i.linked_at))
    from auth_private.identities as i
    where i.user_id = account.user_id
  ) as each
$$;

comment on function auth_private.identities_of(auth_private.accounts, text) is
  'What an account signs in with, oldest first, as /auth/v1 shows it.';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.public_user(user_id auth.user_id) returns json
language sql stable security definer set search_path = '' as $$
  select to_json(jsonb_strip_nulls(jsonb_build_object(
      'id', a.public_id,
      'aud', 'authenticated',
      'role', a.role,
      'email', coalesce(e.email, ''),
      'phone', '',
      'email_confirmed_at', a.email_confirmed_at,
      'confirmed_at', a.email_confirmed_at,
      'invited_at', a.invited_at,
      'confirmation_sent_at', coalesce(
        (
          select max(t.created_at)
          from auth_private.one_time_tokens as t
          where t.user_id = a.user_id
            and t.kind = 'confirm'
            and not t.data ? 'from'
            -- Not of an anonymous user: an address that is taken would have none.
            and t.email = e.email
        ),
        a.invited_at),
      'new_email', c.data ->> 'newEmail',
      'email_change_sent_at', c.created_at,
      'last_sign_in_at', (
        select max(s.started_at) from auth_private.sessions as s where s.user_id = public_user.user_id),
      'banned_until', case
        when a.disabled_at is not null then coalesce(a.disabled_until, 'infinity')
      end,
      'is_anonymous', a.is_anonymous,
      'created_at', a.created_at,
      'updated_at', a.updated_at))
    || jsonb_build_object(
      'app_metadata', a.app_metadata || jsonb_strip_nulls(jsonb_build_object(
        'provider', i.identities -> 0 ->> 'provider',
        'providers', (
          select jsonb_agg(each.provider order by each.place)
          from (
            select n.identity ->> 'provider' as provider, min(n.place) as place
            from jsonb_array_elements(i.identities) with ordinality as n (identity, place)
            group by 1
          ) as each))),
      'user_metadata', a.user_metadata,
      'identities', i.identities)
    || coalesce(
      (
        select jsonb_build_object('factors', jsonb_agg(
          jsonb_build_object(
            'id', f.id,
            'friendly_name', f.name,
            'factor_type', f.type,
            'status', case when f.enabled_at is null then 'unverified' else 'verified' end,
            'created_at', f.created_at,
            'updated_at', coalesce(f.enabled_at, f.created_at))
          order by f.created_at, f.id))
        from (
          select f.id, 'totp' as type, f.friendly_name as name, f.enabled_at, f.created_at
          from auth_private.factors as f
          where f.user_id = a.user_id
            and (f.enabled_at is not null or f.pending_until > now())
          union all
          select p.id, 'webauthn', p.name, p.created_at, p.created_at
          from auth_private.passkeys as p
          where p.user_id = a.user_id
        ) as f
        having count(*) > 0
      ),
      '{}'))
  from auth_private.accounts as a
  left join auth_private.login_emails as e on e.user_id = a.user_id and e.released_at is null
  left join auth_private.one_time_tokens as c
    on c.user_id = a.user_id
      and c.kind = 'change'
      and c.expires_at > now()
      and c.email = e.email
  cross join lateral (select auth_private.identities_of(a, e.email) as identities) as i
  where a.user_id = public_user.user_id
$$;

comment on function auth_api.public_user(auth.user_id) is
  'A user as /auth/v1 shows it; null for a user without an account.';

create or replace function auth_api.signed_in_user(user_id auth.user_id, session uuid) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'user', auth_api.public_user(s.user_id),
    'account', auth_api.account_of(s.user_id),
    'aal', s.aal,
    'startedAt', s.started_at)
  from auth_private.sessions as s
  join auth_private.accounts as a on a.user_id = s.user_id and a.epoch = s.epoch
  where s.id = signed_in_user.session
    and s.user_id = signed_in_user.user_id
    and s.revoked_at is null
    and a.disabled_at is null
$$;

comment on function auth_api.signed_in_user(auth.user_id, uuid) is
  'The user of a session, {user, account, aal, startedAt}; null if it has ended.';

create or replace function auth_private.change_user_metadata(
  user_id auth.user_id, changes jsonb, max integer default null)
returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  previous constant jsonb := (
    select a.user_metadata
    from auth_private.accounts as a
    where a.user_id = change_user_metadata.user_id
    for no key update);
  changed constant jsonb := auth_private.merged(previous, changes);
begin
  if octet_length(changed::text) > max then return false; end if;
  if changed <> previous then
    update auth_private.accounts as a
    set user_metadata = changed
    where a.user_id = change_user_metadata.user_id;
    perform auth_private.call_hook('new_data', change_user_metadata.user_id, changed);
  end if;
  return true;
end $$;

comment on function auth_private.change_user_metadata(auth.user_id, jsonb, integer) is $$
Changes what a user says about themselves, and calls the hook new_data. False if it would have more than `max` bytes.
$$;

create or replace function auth_api.merge_user_metadata(user_id auth.user_id, changes jsonb, max integer)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform auth_private.act_for(merge_user_metadata.user_id);
  return auth_private.change_user_metadata(merge_user_metadata.user_id, changes, max);
end $$;

comment on function auth_api.merge_user_metadata(auth.user_id, jsonb, integer) is $$
Changes the metadata that a user writes: each key that is null is deleted. False if it would have more than `max` bytes.
$$;
