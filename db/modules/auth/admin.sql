create or replace function auth_private.require_operator(user_id auth.user_id) returns void
language plpgsql volatile set search_path = '' as $$
declare
  operator_id auth.user_id;
  account auth_private.accounts;
begin
  begin
    operator_id := substring(current_setting('request.operator', true) from '^user (.*)$');
  exception when data_exception then
    return; -- the subject of another issuer's token, who has no account
  end;
  if operator_id is null then return; end if;
  -- Both in one order: two administrators who change each other wait, and the second one is none any more.
  for account in
    select *
    from auth_private.accounts as a
    where a.user_id in (operator_id, require_operator.user_id)
    order by a.user_id
    for no key update
  loop
    if account.user_id = operator_id and (account.role <> 'admin' or account.disabled_at is not null) then
      raise insufficient_privilege using message = 'you are no longer an administrator';
    end if;
  end loop;
end $$;

comment on function auth_private.require_operator(auth.user_id) is $$
Locks the account that an operator changes, and that of the operator, who must still be an administrator. The service
key, logins of the database and users without an account have no row to check.
$$;

create or replace function auth_private.administrate(
  user_id auth.user_id, changes jsonb, password_hash text)
returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform auth_private.require_operator(administrate.user_id);
  if changes ->> 'email' is not null then
    perform auth_private.change_email(
      administrate.user_id, changes ->> 'email', 'operator');
  end if;
  update auth_private.accounts as a
  set password_hash = coalesce(administrate.password_hash, a.password_hash),
    email_confirmed_at = case
      when (changes ->> 'emailConfirmed')::boolean then coalesce(a.email_confirmed_at, now())
      else a.email_confirmed_at
    end,
    must_confirm = coalesce((changes ->> 'mustConfirm')::boolean, a.must_confirm),
    invited_at = case when (changes ->> 'isInvited')::boolean then now() else a.invited_at end,
    role = coalesce(changes ->> 'role', a.role),
    disabled_at = case (changes ->> 'isBanned')::boolean
      when true then coalesce(a.disabled_at, now())
      when false then null
      else a.disabled_at
    end,
    disabled_until = case (changes ->> 'isBanned')::boolean
      when true then (changes ->> 'bannedUntil')::timestamptz
      when false then null
      else a.disabled_until
    end,
    app_metadata = auth_private.merged(a.app_metadata, changes -> 'appMetadata')
  where a.user_id = administrate.user_id;
  perform auth_private.change_user_metadata(administrate.user_id, changes -> 'userMetadata');
end $$;

comment on function auth_private.administrate(auth.user_id, jsonb, text) is $$
Changes an account for an administrator: {email, emailConfirmed, mustConfirm, isInvited, role, isBanned, bannedUntil,
userMetadata, appMetadata}. What is missing stays.
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
  fields jsonb, username text, password_hash text, changes jsonb,
  address inet)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare new_id auth.user_id;
begin
  perform set_config('request.address', coalesce(host(create_user.address), ''), true);
  new_id := auth_private.sign_up(
    create_user.fields,
    create_user.username,
    create_user.password_hash,
    auth_private.merged('{}', changes -> 'userMetadata'));
  perform auth_private.administrate(new_id, changes - 'userMetadata', null);
  perform auth_api.note_event('registered', new_id, address, '{"by": "operator"}', now());
  return json_build_object('id', new_id::text, 'user', auth_api.public_user(new_id));
end $$;

comment on function auth_api.create_user(jsonb, text, text, jsonb, inet) is $$
For operators, here and below: creates a user with an account, with or without a password, and returns {id, user}. The
setting request.operator says who acts, unless it is a login of the database.
$$;

create or replace function auth_api.change_user(
  user_id auth.user_id, changes jsonb, password_hash text, address inet)
returns json
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.address', coalesce(host(change_user.address), ''), true);
  perform auth_private.administrate(
    change_user.user_id, change_user.changes, change_user.password_hash);
  return auth_api.public_user(change_user.user_id);
end $$;

comment on function auth_api.change_user(auth.user_id, jsonb, text, inet) is
  'Changes an account, as administrate does, and returns the user.';

create or replace function auth_api.add_token(
  kind text, user_id auth.user_id, data jsonb, token_hash bytea, code_hash bytea, expires_at timestamptz, address inet)
returns void
language plpgsql volatile security definer set search_path = '' as $$
declare
  current constant text := (
    select e.email
    from auth_private.login_emails as e
    where e.user_id = add_token.user_id
      and e.released_at is null);
begin
  insert into auth_private.one_time_tokens (token_hash, kind, user_id, email, data, code_hash, expires_at)
  values (
    add_token.token_hash,
    add_token.kind,
    add_token.user_id,
    coalesce(add_token.data ->> 'newEmail', current),
    -- As request_email stores it.
    case
      when add_token.data ? 'newEmail'
      then add_token.data - 'newEmail' || jsonb_build_object('from', current, 'byOperator', true)
      else add_token.data
    end,
    add_token.code_hash,
    add_token.expires_at);
  perform auth_api.note_event(
    'link_created', add_token.user_id, address, jsonb_build_object('kind', add_token.kind), now());
end $$;

comment on function
  auth_api.add_token(text, auth.user_id, jsonb, bytea, bytea, timestamptz, inet) is
$$
For the service key: stores the token and the code of a link that the application sends itself. With newEmail in the
data, the link changes the e-mail to this one.
$$;

create or replace function auth_api.invite_user(
  user_id auth.user_id, email text, data jsonb, address inet, now timestamptz)
returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform auth_private.add_mail(
    'invitation', invite_user.user_id, invite_user.email, invite_user.data, invite_user.now);
  perform auth_api.note_event(
    'invited', invite_user.user_id, address, jsonb_build_object('email', invite_user.email), invite_user.now);
end $$;

comment on function auth_api.invite_user(auth.user_id, text, jsonb, inet, timestamptz) is
  'For the service key: adds an e-mail with a link that signs in a user who exists.';

create or replace function auth_api.delete_account(user_id auth.user_id, address inet) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare email constant text := auth_private.email_of(user_id);
begin
  perform set_config('request.address', coalesce(host(delete_account.address), ''), true);
  delete from auth_private.accounts as a
  where a.user_id = delete_account.user_id;
  if not found then return false; end if;
  perform auth_private.call_hook('deleted', user_id, email);
  return true;
end $$;

comment on function auth_api.delete_account(auth.user_id, inet) is $$
Deletes an account with all that belongs to it; false if there is none. The user of the application stays, unless the
hook deleted deletes it.
$$;

create or replace function auth_private.note_deleted_account() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform auth_private.require_operator(old.user_id);
  insert into auth_private.security_events (event, user_id, address, detail)
  values (
    'account_deleted',
    old.user_id,
    nullif(current_setting('request.address', true), '')::inet,
    jsonb_strip_nulls(jsonb_build_object(
      'email', auth_private.email_of(old.user_id),
      'handedOverTo', nullif(current_setting('request.successor', true), ''))));
  return old;
end $$;

comment on function auth_private.note_deleted_account() is
  'Records that an account is deleted, also with the row of its user, and by whom.';

-- Before: its e-mail is deleted with it.
create or replace trigger _600_deleted before delete on auth_private.accounts
  for each row execute function auth_private.note_deleted_account();

create or replace function auth_api.reset_factor(user_id auth.user_id, id uuid, address inet) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.address', coalesce(host(reset_factor.address), ''), true);
  perform auth_private.require_operator(reset_factor.user_id);
  perform from auth_private.accounts as a
  where a.user_id = reset_factor.user_id
  for no key update;
  if not auth_private.delete_factors(
    reset_factor.user_id,
    array(
      select f.id
      from (
        select f.id, f.user_id from auth_private.factors as f
        union all
        select p.id, p.user_id from auth_private.passkeys as p
      ) as f
      where f.user_id = reset_factor.user_id
        and (reset_factor.id is null or f.id = reset_factor.id)),
    null,
    '{"by": "operator"}',
    now())
  then return false; end if;
  perform auth_private.end_other_sign_ins(reset_factor.user_id, null, now());
  return true;
end $$;

comment on function auth_api.reset_factor(auth.user_id, uuid, inet) is $$
Removes a lost second factor of a user, or all of them if the id is null, without a code, and ends all sign-ins if it
was enabled; otherwise false.
$$;

create or replace function auth_api.delete_passkey(user_id auth.user_id, id uuid, address inet, now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform set_config('request.address', coalesce(host(delete_passkey.address), ''), true);
  perform auth_private.require_operator(delete_passkey.user_id);
  perform from auth_private.accounts as a
  where a.user_id = delete_passkey.user_id
  for no key update;
  return auth_private.delete_factors(
    delete_passkey.user_id,
    array(select p.id from auth_private.passkeys as p where p.id = delete_passkey.id),
    null,
    '{"by": "operator"}',
    delete_passkey.now);
end $$;

comment on function auth_api.delete_passkey(auth.user_id, uuid, inet, timestamptz) is $$
Removes a passkey of a user, without a code; false if there is none. Sessions end or fall as in delete_factors.
$$;

create or replace function auth_api.end_sign_ins(user_id auth.user_id, address inet) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform auth_private.require_operator(end_sign_ins.user_id);
  perform auth_api.sign_out(end_sign_ins.user_id, null, 'global', 'operator', address, now());
end $$;

comment on function auth_api.end_sign_ins(auth.user_id, inet) is
  'Ends all sign-ins of a user, as sign_out does.';

create or replace function auth_private.described_account(account auth_private.accounts) returns json
language sql stable set search_path = ''
return json_build_object(
  'id', account.user_id,
  'name', account.name,
  'username', account.username,
  'email', auth_private.email_of(account.user_id),
  'emailConfirmed', account.email_confirmed_at is not null,
  'role', account.role,
  'permissions', account.permissions,
  'disabled', account.disabled_at is not null,
  'mfaEnabled', auth_private.has_factor(account.user_id),
  'hasPassword', account.password_hash is not null,
  'createdAt', account.created_at,
  'lastSignInAt', (
    select max(s.started_at)
    from auth_private.sessions as s
    where s.user_id = account.user_id
      and s.epoch = account.epoch
      and s.revoked_at is null
      and s.expires_at > now()));

comment on function auth_private.described_account(auth_private.accounts) is 'An account as an operator sees it.';

create or replace function auth_api.find_described_account(id text) returns json
language plpgsql stable security definer set search_path = '' as $$
declare
  wanted auth.user_id;
  described json;
begin
  begin
    wanted := find_described_account.id;
  exception when data_exception then
    return null;
  end;
  select auth_private.described_account(a)
  into described
  from auth_private.accounts as a
  where a.user_id = wanted;
  return described;
end $$;

comment on function auth_api.find_described_account(text) is
  'The account of a user, as an operator sees it; null if there is none, also for a text that is no id.';

create or replace function auth_api.list_accounts(search text, first bigint, total integer) returns json
language sql stable security definer set search_path = '' as $$
  with matching as materialized (
    select a.user_id, a.created_at
    from auth_private.accounts as a
    left join auth_private.login_emails as e on e.user_id = a.user_id and e.released_at is null
    where search is null
      or position(auth_private.email_key(search) in lower(e.email)) > 0
      or position(lower(search) in lower(a.name)) > 0
      or position(lower(search) in lower(a.username)) > 0
      or a.user_id::text = search
  )
  select json_build_object(
    'total', (select count(*) from matching),
    'users', (
      select coalesce(json_agg(auth_private.described_account(a) order by a.created_at desc, a.user_id), '[]')
      from (
        select m.user_id
        from matching as m
        order by m.created_at desc, m.user_id
        offset list_accounts.first
        limit list_accounts.total
      ) as page
      join auth_private.accounts as a on a.user_id = page.user_id
    ))
$$;

comment on function auth_api.list_accounts(text, bigint, integer) is $$
{total, users}: the accounts whose e-mail, name or username contains a text, or whose id it is, newest first, as an
operator sees them.
$$;

create or replace function auth.remove_user(id auth.user_id, successor auth.user_id default null) returns void
language plpgsql volatile set search_path = '' as $$
declare
  users regclass;
  key name;
  refers record;
begin
  select c.confrelid, a.attname
  into users, key
  from pg_constraint as c
  join pg_attribute as a on a.attrelid = c.confrelid and a.attnum = c.confkey[1]
  join pg_namespace as n on n.oid = c.connamespace
  where c.conname = 'accounts_user_id_fkey'
    and n.nspname = 'auth_private';
  if not found then
    raise object_not_in_prerequisite_state using
      message = 'accounts do not belong to rows of a table: delete the account alone',
      hint = 'select auth.use_users(...) in a migration.';
  end if;
  -- Read by note_deleted_account.
  perform set_config('request.successor', coalesce(successor::text, ''), true);

  for refers in
    select
      c.conrelid::regclass as relation,
      a.attname as name,
      c.confdeltype in ('r', 'a') as is_kept,
      -- One row for each user, such as a profile: the successor has one.
      exists (
        select from pg_index as i
        where i.indrelid = c.conrelid
          and i.indisunique
          and i.indpred is null
          and i.indkey::text = c.conkey[1]::text) as is_one
    from pg_constraint as c
    join pg_namespace as n on n.oid = c.connamespace
    join pg_attribute as a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
    where c.contype = 'f'
      and c.confrelid = users
      and cardinality(c.conkey) = 1
      and c.conparentid = 0
      and n.nspname <> 'auth_private'
    order by c.conrelid, a.attnum
  loop
    if successor is not null and not refers.is_one then
      if not has_column_privilege(refers.relation, refers.name, 'update') then
        raise insufficient_privilege using
          message = format('%s may not update %s of %s', current_user, refers.name, refers.relation),
          hint = format('grant update (%I) on %s to %I;', refers.name, refers.relation, current_user);
      end if;
      execute format('update %s set %I = $2 where %2$I = $1', refers.relation, refers.name) using id, successor;
    elsif refers.is_kept then
      if not has_table_privilege(refers.relation, 'delete') then
        raise insufficient_privilege using
          message = format('%s may not delete rows of %s', current_user, refers.relation),
          hint = format('grant delete on %s to %I;', refers.relation, current_user);
      end if;
      execute format('delete from %s where %I = $1', refers.relation, refers.name) using id;
    end if;
  end loop;
  execute format('delete from %s where %I = $1', users, key) using id;
  perform set_config('request.successor', '', true);
end $$;

comment on function auth.remove_user(auth.user_id, auth.user_id) is $$
For operators, with the rights of the caller: deletes a user with the account, and with the rows of all tables that
refer to the user. With a successor, these rows refer to the successor instead, except those of which each user has one.
$$;

revoke all on function auth.remove_user(auth.user_id, auth.user_id) from public;
grant execute on function auth.remove_user(auth.user_id, auth.user_id) to service_role;
