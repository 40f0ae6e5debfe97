-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.find_account(login text)
returns table (user_id bigint, name text, role text, permissions text[], password_hash text, disabled boolean)
language sql stable security definer set search_path = '' as $$
  select a.user_id, u.name, a.role, a.permissions, a.password_hash, a.disabled_at is not null
  from auth_private.accounts as a
  join public.users as u on u.id = a.user_id
  where lower(a.username) = lower(login) or lower(u.email) = lower(login)
  -- A username that is somebody else's e-mail wins over that e-mail.
  order by lower(a.username) = lower(login) desc
  limit 1
$$;

comment on function auth_api.find_account(text) is 'The account that signs in with this username or e-mail; no row when there is none.';

-- security definer: see above.
create or replace function auth_api.keep_refresh_token(user_id bigint, token_hash bytea, expires_at timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  insert into auth_private.refresh_tokens (token_hash, user_id, expires_at)
  values (keep_refresh_token.token_hash, keep_refresh_token.user_id, keep_refresh_token.expires_at)
$$;

comment on function auth_api.keep_refresh_token(bigint, bytea, timestamptz) is 'Remembers a refresh token that was issued, by its SHA-256.';

-- The owner of these functions is no superuser: that is all they can do.
alter function auth_api.find_account(text) owner to auth_owner;
alter function auth_api.keep_refresh_token(bigint, bytea, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
