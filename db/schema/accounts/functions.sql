-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.find_account(login text)
returns table (user_id bigint, name text, role text, permissions text[], password_hash text, disabled boolean)
language sql stable security definer set search_path = '' as $$
  select a.user_id, u.name, a.role, a.permissions, a.password_hash, a.disabled_at is not null
  from auth_private.accounts as a
  join public.users as u on u.id = a.user_id
  -- One at most: no username looks like an e-mail.
  where a.user_id in (
    select named.user_id from auth_private.accounts as named where lower(named.username) = lower(login)
    union all
    select known.id from public.users as known where lower(known.email) = lower(login)
  )
$$;

comment on function auth_api.find_account(text) is 'The account that signs in with this username or e-mail; no row when there is none.';

-- security definer: see above.
create or replace function auth_api.register(name text, email text, age integer, username text, password_hash text)
returns bigint
language plpgsql volatile security definer set search_path = '' as $$
declare user_id bigint;
begin
  insert into public.users (name, email, age) values (register.name, register.email, register.age) returning id into user_id;
  -- The check of accounts would only say that it looks like an e-mail.
  perform from public.users as u where lower(u.email) = lower(register.username) and u.id <> user_id;
  if found then
    raise unique_violation using
      message = 'username already taken', schema = 'auth_private', table = 'accounts', constraint = 'accounts_username_key';
  end if;
  insert into auth_private.accounts (user_id, username, password_hash)
  values (user_id, case when lower(register.username) <> lower(register.email) then register.username end, register.password_hash);
  return user_id;
end $$;

comment on function auth_api.register(text, text, integer, text, text) is
  'Signs somebody up with a password and gives the id. The username may be null or the e-mail: either way the e-mail is the login. Raises 23505 when the e-mail or the username is taken.';

-- security definer: see above.
create or replace function auth_api.keep_refresh_token(user_id bigint, token_hash bytea, expires_at timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  insert into auth_private.refresh_tokens (token_hash, user_id, expires_at)
  values (keep_refresh_token.token_hash, keep_refresh_token.user_id, keep_refresh_token.expires_at)
$$;

comment on function auth_api.keep_refresh_token(bigint, bytea, timestamptz) is 'Remembers a refresh token that was issued, by its SHA-256.';

-- The owner of these functions is no superuser: that is all they can do.
alter function auth_api.find_account(text) owner to auth_owner;
alter function auth_api.register(text, text, integer, text, text) owner to auth_owner;
alter function auth_api.keep_refresh_token(bigint, bytea, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
