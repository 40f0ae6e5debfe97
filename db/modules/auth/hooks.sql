create or replace function auth_private.base_type(type oid) returns text
language sql stable set search_path = ''
return (
  select format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null)
  from pg_catalog.pg_type as t
  where t.oid = type);

comment on function auth_private.base_type(oid) is 'The name of a type, or of the type of a domain: bigint, uuid.';

-- Hooks run as auth_owner: an application lets it execute the function, and do what the function does.
create or replace function auth.use_hook(point text, function regprocedure) returns void
language plpgsql volatile set search_path = '' as $$
declare
  -- Arguments and result.
  expected constant text := replace(
    case point
      when 'before_sign_up' then '(jsonb) returns jsonb'
      when 'new_user' then '(jsonb) returns ID'
      when 'after_sign_up' then '(ID, jsonb) returns void'
      when 'after_sign_in' then '(ID, jsonb) returns void'
      when 'new_email' then '(ID, text) returns void'
      when 'new_data' then '(ID, jsonb) returns void'
      when 'deleted' then '(ID, text) returns void'
      when 'claims' then '(ID, jsonb) returns jsonb'
      when 'send_message' then '(jsonb) returns boolean'
      when 'users_email' then '(boolean) returns void'
    end,
    'ID',
    auth_private.base_type('auth.user_id'::regtype));
  found_signature text;
  home name;
  is_definer boolean;
  callers text;
begin
  if function is null then
    delete from auth_private.hooks as h
    where h.point = use_hook.point;
    return;
  end if;
  if expected is null then
    raise invalid_parameter_value using
      message = format('there is no hook %L', point),
      hint = 'The hooks are before_sign_up, new_user, after_sign_up, after_sign_in, new_email, new_data, deleted, '
        'claims, send_message and users_email.';
  end if;

  select format('(%s) returns %s', (
      select string_agg(auth_private.base_type(given.type), ', ' order by given.place)
      from unnest(p.proargtypes) with ordinality as given (type, place)
    ), auth_private.base_type(p.prorettype)), n.nspname, p.prosecdef
  into found_signature, home, is_definer
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  where p.oid = function;
  if found_signature <> expected then
    raise invalid_function_definition using
      message = format('the hook %s must be a function %s, but %s is %s', point, expected, function, found_signature);
  end if;
  if not has_schema_privilege('auth_owner', home, 'usage')
    or not has_function_privilege('auth_owner', function, 'execute')
  then
    raise insufficient_privilege using
      message = format('hooks run as auth_owner, which may not execute %s', function),
      hint = format(
        'grant usage on schema %I to auth_owner; grant execute on function %s to auth_owner;', home, function);
  end if;

  -- The API would serve it with the rights of its owner. Default privileges may grant what no migration has granted.
  if is_definer then
    select string_agg(r.name, ', ')
    into callers
    from unnest(array['anon', 'authenticated']) as r (name)
    where has_schema_privilege(r.name, home, 'usage')
      and has_function_privilege(r.name, function, 'execute');
  end if;
  if callers is not null then
    raise insufficient_privilege using
      message = format('the hook %s has the rights of its owner, and callers may execute it: %s', function, callers),
      hint = format('revoke execute on function %s from public, anon, authenticated;', function);
  end if;

  insert into auth_private.hooks as h (point, function)
  values (use_hook.point, use_hook.function::text)
  on conflict on constraint hooks_pkey do update
  set function = excluded.function;
  -- The next start calls it.
  if point = 'users_email' then delete from auth_private.settings as s where s.name = 'users_email'; end if;
end $$;

comment on function auth.use_hook(text, regprocedure) is $$
For migrations of the application: names its function that sign-up, sign-in or an e-mail calls at this point; null
removes the hook. Raises an error if the function has another signature, if auth_owner may not execute it, or if it is
security definer and callers may execute it.
$$;

create or replace function auth_private.hook(point text) returns text
language plpgsql stable set search_path = '' as $$
declare
  signature text;
  name text;
begin
  select h.function
  into signature
  from auth_private.hooks as h
  where h.point = hook.point;
  if not found then return null; end if;

  select format('%I.%I', n.nspname, p.proname)
  into name
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  where p.oid = to_regprocedure(signature);
  if found then return name; end if;
  raise undefined_function using
    message = format('the function %s of the hook %s does not exist', signature, point);
end $$;

comment on function auth_private.hook(text) is 'The name of the function of a hook; null without one.';

create or replace function auth_private.call_hook(point text, user_id auth.user_id, about anyelement) returns void
language plpgsql volatile set search_path = '' as $$
declare hook constant text := auth_private.hook(point);
begin
  if hook is null then return; end if;
  execute format('select %s($1, $2)', hook) using user_id, about;
end $$;

comment on function auth_private.call_hook(text, auth.user_id, anyelement) is $$
Calls a hook about a user: after_sign_up, after_sign_in, new_email, new_data or deleted. An error of the hook undoes
what has called it.
$$;

create or replace function auth_private.before_sign_up(fields jsonb) returns jsonb
language plpgsql volatile set search_path = '' as $$
declare
  hook constant text := auth_private.hook('before_sign_up');
  accepted jsonb;
begin
  if hook is null then return fields; end if;
  execute format('select %s($1)', hook) into accepted using fields;
  -- The service has checked and normalized the e-mail.
  if accepted ->> 'email' is distinct from fields ->> 'email' then
    raise invalid_parameter_value using message = 'the hook before_sign_up must not change the e-mail';
  end if;
  return accepted;
end $$;

comment on function auth_private.before_sign_up(jsonb) is
  'The fields of a new user, as the hook before_sign_up changes them. The hook may raise an error.';

create or replace function auth_private.new_user(fields jsonb, id auth.user_id default null) returns auth.user_id
language plpgsql volatile set search_path = '' as $$
declare
  hook constant text := auth_private.hook('new_user');
  new_id auth.user_id;
begin
  if hook is not null then
    -- A client must not choose its id.
    execute format('select %s($1)', hook) into new_id using
      fields - 'id' || case when id is null then '{}' else jsonb_build_object('id', id) end;
    if id <> new_id then
      raise invalid_parameter_value using
        message = format(
          'the hook new_user has returned the id %s, and not %s, which fields ->> ''id'' is', new_id, id);
    end if;
    return new_id;
  end if;
  if id is not null then return id; end if;
  if auth_private.base_type('auth.user_id'::regtype) in ('bigint', 'integer') then
    return nextval('auth_private.user_ids')::text::auth.user_id;
  end if;
  return gen_random_uuid()::text::auth.user_id;
end $$;

comment on function auth_private.new_user(jsonb, auth.user_id) is $$
The id of a new user, whose row the hook new_user creates. Without the hook, a new id: a uuid or the next number. An
import may choose the id.
$$;

-- security definer: the login role of the service may call it but not read the hooks.
create or replace function auth_api.after_sign_in(user_id auth.user_id, sign_in jsonb) returns void
language sql volatile security definer set search_path = ''
return auth_private.call_hook('after_sign_in', user_id, sign_in);

comment on function auth_api.after_sign_in(auth.user_id, jsonb) is
  'Calls the hook after_sign_in for a sign-in without a session: a password that is sent with a request.';

create or replace function auth_private.send_message(message jsonb) returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  hook constant text := auth_private.hook('send_message');
  is_sent boolean;
begin
  if hook is null then return false; end if;
  execute format('select %s($1)', hook) into is_sent using message;
  return coalesce(is_sent, false);
end $$;

comment on function auth_private.send_message(jsonb) is
  'Whether the application sends an e-mail itself, as the hook send_message says; false without the hook.';

create or replace function auth_private.show_emails(are_public boolean) returns void
language plpgsql volatile set search_path = '' as $$
declare hook constant text := auth_private.hook('users_email');
begin
  if hook is null then return; end if;
  execute format('select %s($1)', hook) using are_public;
end $$;

comment on function auth_private.show_emails(boolean) is 'Calls the hook users_email for a changed USERS_EMAIL.';

create or replace function auth_private.claims_of(account auth_private.accounts) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  hook constant text := auth_private.hook('claims');
  -- Null without any.
  own constant jsonb := nullif(
    jsonb_strip_nulls(jsonb_build_object(
      'is_anonymous', case when account.is_anonymous then true end,
      'email_confirmed', case
        when auth_api.setting('email_confirm') = 'claim' then account.email_confirmed_at is not null
      end)),
    '{}');
  added jsonb;
begin
  if hook is null then return own; end if;
  execute format('select %s($1, $2)', hook) into added using
    account.user_id,
    jsonb_build_object('name', account.name, 'role', account.role, 'permissions', account.permissions)
      || coalesce(own, '{}')
      || coalesce(
        (select jsonb_build_object('email', e.email, 'email_confirmed', account.email_confirmed_at is not null)
         from auth_private.login_emails as e
         where e.user_id = account.user_id and e.released_at is null),
        '{}');
  if jsonb_typeof(added) = 'object' then
    -- What the service says itself.
    return added - array[
        'sub', 'name', 'role', 'permissions', 'type', 'identity', 'iss', 'aud', 'iat', 'nbf', 'exp', 'jti',
        'auth_time', 'sid', 'session_id', 'epoch', 'amr', 'acr', 'aal', 'mfa', 'is_anonymous']
      || coalesce(own, '{}');
  end if;
  raise invalid_parameter_value using message = 'the hook claims must return a JSON object';
end $$;

comment on function auth_private.claims_of(auth_private.accounts) is
$$
The claims that an account has besides those of the service: of the hook claims, is_anonymous, and with
EMAIL_CONFIRM=claim email_confirmed; null for none.
$$;

create or replace function auth.use_users(users regclass) returns void
language plpgsql volatile set search_path = '' as $$
declare
  previous constant regclass := (
    select c.confrelid
    from pg_constraint as c
    where c.conrelid = 'auth_private.accounts'::regclass
      and c.conname = 'accounts_user_id_fkey');
begin
  alter table auth_private.accounts drop constraint if exists accounts_user_id_fkey;
  if previous is not null then execute format('drop trigger if exists _050_sign_up on %s', previous); end if;
  if users is null then return; end if;
  execute format(
    'create or replace trigger _050_sign_up before insert on %s
       for each statement execute function auth_api.refuse_sign_up()',
    users);
  execute format(
    'alter table auth_private.accounts add constraint accounts_user_id_fkey
       foreign key (user_id) references %s on delete cascade',
    users);
end $$;

comment on function auth.use_users(regclass) is $$
For migrations of the application: accounts belong to rows of this table, and are deleted with them. The table has a
primary key of the type of the ids. With SIGNUP=off, only administrators and the service key add rows.
$$;

revoke all on function auth.use_hook(text, regprocedure), auth.use_users(regclass) from public;
