-- Not served: only the service calls what is in this schema.
create schema if not exists internal;

-- The row of a new account. security definer: auth_owner, which calls the hook, has no rights in public.
create or replace function internal.new_user(fields jsonb) returns uuid
language sql volatile security definer set search_path = '' as $$
  insert into public.users (name)
  values (fields ->> 'name')
  returning id
$$;

grant usage on schema internal to auth_owner;
grant execute on function internal.new_user(jsonb) to auth_owner;
select auth.use_hook('new_user', 'internal.new_user(jsonb)');
-- An account is deleted with its user.
select auth.use_users('public.users');
