alter table public.users enable row level security;

grant select on public.users to anon, authenticated, auth_owner;
grant insert (name, email, age) on public.users to anon, authenticated;
grant update (name, email, age, avatar_url), delete on public.users to authenticated;
grant all on public.users to service_role;
-- Accounts refer to users.
grant references on public.users to auth_owner;

drop policy if exists "everyone reads users" on public.users;
create policy "everyone reads users" on public.users for select
  using (true);

drop policy if exists "everyone may sign up" on public.users;
create policy "everyone may sign up" on public.users for insert to anon, authenticated
  with check (true);

drop policy if exists "users change themselves, admins everyone" on public.users;
create policy "users change themselves, admins everyone" on public.users for update to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()))
  with check (id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "users delete themselves, admins everyone" on public.users;
create policy "users delete themselves, admins everyone" on public.users for delete to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()));

grant execute on function
  public.me(), public.create_user(public.users), public.users_avatar(public.users, integer)
  to anon, authenticated, service_role;
