create or replace function auth_private.administrate(
  user_id auth.user_id, changes jsonb, email_skeleton text, password_hash text)
returns void
language plpgsql volatile set search_path = '' as $$
begin
  if changes ->> 'email' is not null then
    perform auth_private.change_email(
      administrate.user_id, changes ->> 'email', administrate.email_skeleton, 'operator');
  end if;
  update auth_private.accounts as a
  set password_hash = coalesce(administrate.password_hash, a.password_hash),
    email_confirmed_at = case
      when (changes ->> 'emailConfirmed')::boolean then coalesce(a.email_confirmed_at, now())
      else a.email_confirmed_at
    end,
    must_confirm = coalesce((changes ->> 'mustConfirm')::boolean, a.must_confirm),
    role = coalesce(changes ->> 'role', a.role),
    disabled_at = case (changes ->> 'isBanned')::boolean
      when true then coalesce(a.disabled_at, now())
      when false then null
      else a.disabled_at
    end,
    user_metadata = auth_private.merged(a.user_metadata, changes -> 'userMetadata'),
    app_metadata = auth_private.merged(a.app_metadata, changes -> 'appMetadata')
  where a.user_id = administrate.user_id;
end $$;

comment on function auth_private.administrate(auth.user_id, jsonb, text, text) is $$
Changes an account for an administrator: {email, emailConfirmed, mustConfirm, role, isBanned, userMetadata,
appMetadata}. What is missing stays.
$$;

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.list_users(first integer, total integer) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'total', (select count(*) from auth_private.accounts),
    'users', (
      select coalesce(json_agg(auth_api.public_user(a.user_id) order by a.created_at desc, a.user_id), '[]')
      from (
        select b.user_id, b.created_at
        from auth_private.accounts as b
        order by b.created_at desc, b.user_id
        offset list_users.first
        limit list_users.total
      ) as a))
$$;

comment on function auth_api.list_users(integer, integer) is
  'For administrators: {total, users}, the users as /auth/v1 shows them, newest first.';

create or replace function auth_api.find_public_user(id uuid) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object('id', a.user_id::text, 'user', auth_api.public_user(a.user_id))
  from auth_private.accounts as a
  where a.public_id = find_public_user.id
$$;

comment on function auth_api.find_public_user(uuid) is
  'For administrators: {id, user} of the user whom /auth/v1 names so; null if there is none.';

create or replace function auth_api.create_user(
  fields jsonb, email_skeleton text, password_hash text, changes jsonb, address inet)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare new_id auth.user_id;
begin
  perform set_config('request.operator', 'role service_role', true);
  new_id := auth_private.sign_up(
    create_user.fields, create_user.email_skeleton, null, null, create_user.password_hash);
  perform auth_private.administrate(new_id, changes, null, null);
  perform auth_api.note_event('registered', new_id, address, null, now());
  return auth_api.public_user(new_id);
end $$;

comment on function auth_api.create_user(jsonb, text, text, jsonb, inet) is
  'For the service key: creates a user with an account, with or without a password, and returns the user.';

create or replace function auth_api.change_user(
  user_id auth.user_id, changes jsonb, email_skeleton text, password_hash text, address inet)
returns json
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.operator', 'role service_role', true),
    set_config('request.address', coalesce(host(change_user.address), ''), true);
  perform auth_private.administrate(
    change_user.user_id, change_user.changes, change_user.email_skeleton, change_user.password_hash);
  return auth_api.public_user(change_user.user_id);
end $$;

comment on function auth_api.change_user(auth.user_id, jsonb, text, text, inet) is
  'For the service key: changes an account, as administrate does, and returns the user.';

create or replace function auth_api.add_token(
  kind text, user_id auth.user_id, data jsonb, token_hash bytea, code_hash bytea, expires_at timestamptz, address inet)
returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.operator', 'role service_role', true);
  insert into auth_private.one_time_tokens (token_hash, kind, user_id, email, data, code_hash, expires_at)
  values (
    add_token.token_hash,
    add_token.kind,
    add_token.user_id,
    (
      select e.email
      from auth_private.login_emails as e
      where e.user_id = add_token.user_id
        and e.released_at is null
    ),
    add_token.data,
    add_token.code_hash,
    add_token.expires_at);
  perform auth_api.note_event(
    'link_created', add_token.user_id, address, jsonb_build_object('kind', add_token.kind), now());
end $$;

comment on function
  auth_api.add_token(text, auth.user_id, jsonb, bytea, bytea, timestamptz, inet) is
  'For the service key: stores the token and the code of a link that the application sends itself.';

create or replace function auth_api.invite_user(
  user_id auth.user_id, email text, data jsonb, address inet, now timestamptz)
returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.operator', 'role service_role', true);
  perform auth_private.add_mail(
    'invitation', invite_user.user_id, invite_user.email, invite_user.data, invite_user.now);
  perform auth_api.note_event(
    'invited', invite_user.user_id, address, jsonb_build_object('email', invite_user.email), invite_user.now);
end $$;

comment on function auth_api.invite_user(auth.user_id, text, jsonb, inet, timestamptz) is
  'For the service key: adds an e-mail with a link that signs in a user who exists.';

create or replace function auth_api.delete_account(user_id auth.user_id, address inet) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.operator', 'role service_role', true);
  delete from auth_private.accounts as a
  where a.user_id = delete_account.user_id;
  if found then
    perform auth_api.note_event('account_deleted', delete_account.user_id, address, null, now());
  end if;
end $$;

comment on function auth_api.delete_account(auth.user_id, inet) is
  'For the service key: deletes an account with all that belongs to it. The user of the application stays.';

create or replace function auth_api.reset_factor(user_id auth.user_id, id uuid, address inet) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.operator', 'role service_role', true),
    set_config('request.address', coalesce(host(reset_factor.address), ''), true);
  if auth_private.reset_factor(reset_factor.user_id, reset_factor.id) then
    perform auth_api.note_event('mfa_disabled', reset_factor.user_id, address, null, now());
  end if;
end $$;

comment on function auth_api.reset_factor(auth.user_id, uuid, inet) is
  'For the service key: removes a second factor of a user, and ends all sign-ins if it was enabled.';
