-- For psql: what does a caller see? Callers themselves may not execute it.
create or replace function auth.act_as(login text default null) returns text
language plpgsql volatile set search_path = '' as $$
declare
  claims jsonb;
begin
  if not pg_has_role(session_user, (select datdba from pg_database where datname = current_database()), 'usage') then
    raise insufficient_privilege using message = 'only a superuser or the owner of the database may act as a caller';
  end if;
  -- Without begin, this statement is its own transaction, and the role would be reset at its end.
  if statement_timestamp() = transaction_timestamp()
    and current_query() ~* '^\s*select\s+(\*\s+from\s+)?auth\s*\.\s*act_as\s*\([^()]*\)\s*;?\s*$'
  then
    raise no_active_sql_transaction using
      message = 'begin a transaction first: auth.act_as lasts until the end of the transaction',
      hint = 'begin; select auth.act_as(...); ...; rollback;';
  end if;
  select coalesce(auth_private.claims_of(a), '{}') || jsonb_build_object(
      'sub', a.user_id::text, 'name', a.name, 'role', a.role, 'permissions', a.permissions, 'type', 'access')
    into claims
  from auth_private.accounts as a
  left join auth_private.login_emails as e on e.user_id = a.user_id and e.released_at is null
  where lower(a.username) = lower(login)
    or auth_private.email_key(e.email) = auth_private.email_key(login)
    or a.user_id::text = login
  order by a.username is null
  limit 1;
  if claims is null and login in ('anon', 'service_role') then
    claims := jsonb_build_object('role', login);
  end if;
  if claims is null and login is not null then
    raise no_data_found using message = format('no account has the username, e-mail or id %s', login),
      hint = 'Also possible: anon, service_role.';
  end if;
  perform set_config('request.operator', 'login ' || session_user, true);
  perform set_config('request.jwt.claims', coalesce(claims::text, ''), true);
  perform set_config('role', coalesce(claims ->> 'role', 'anon'), true);
  -- Not every client lets SQL see whether it has begun a transaction.
  return format(
    '%s until the end of the transaction. Without begin it has ended already. reset role resets the role earlier',
    case when claims ? 'sub'
      then format('user %s (%s), role %s', claims ->> 'sub', claims ->> 'name', claims ->> 'role')
      else 'role ' || coalesce(claims ->> 'role', 'anon') end);
end $$;

comment on function auth.act_as(text) is $$
@accept function-sets-role only superusers and the owner may call it
For psql: `begin; select auth.act_as('ada');` takes on role and claims of a user (username, e-mail or id), of anon, or
of service_role, until the transaction ends. It is no recent sign-in, and security events name the login as operator.
$$;

revoke all on function auth.act_as(text) from public;
