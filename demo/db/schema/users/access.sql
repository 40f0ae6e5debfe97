alter table public.users enable row level security;

grant select on public.users to anon, authenticated, users_editor, auth_owner;
-- The columns of a new user, on every interface and at sign-up.
grant insert (name, email, age) on public.users to anon, authenticated, auth_owner;
grant update (name, email, age, avatar_url), delete on public.users to authenticated;
grant update (name, email, age), delete on public.users to users_editor;
grant update (email) on public.users to auth_owner;
grant all on public.users to service_role;

drop policy if exists "everyone reads users" on public.users;
create policy "everyone reads users" on public.users for select
  using (true);

drop policy if exists "everyone may sign up" on public.users;
create policy "everyone may sign up" on public.users for insert to anon, authenticated
  with check (true);
comment on policy "everyone may sign up" on public.users is
  '@accept policy-always-true constraints check the values of a new user';

drop policy if exists "signing up with a password adds a user" on public.users;
create policy "signing up with a password adds a user" on public.users for insert to auth_owner
  with check (true);

drop policy if exists "POST /auth/email changes the e-mail of a user" on public.users;
create policy "POST /auth/email changes the e-mail of a user" on public.users for update to auth_owner
  using (true)
  with check (true);

drop policy if exists "users change themselves, admins everyone" on public.users;
create policy "users change themselves, admins everyone" on public.users for update to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()))
  with check (id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "users delete themselves, admins everyone" on public.users;
create policy "users delete themselves, admins everyone" on public.users for delete to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()));

-- With USERS_WRITE=open, callers without credentials have this role. Otherwise it is unused.
drop policy if exists "editors of users change everyone" on public.users;
create policy "editors of users change everyone" on public.users for update to users_editor
  using (true)
  with check (true);
comment on policy "editors of users change everyone" on public.users is
  '@accept policy-always-true the operator decides with USERS_WRITE=open';

drop policy if exists "editors of users delete everyone" on public.users;
create policy "editors of users delete everyone" on public.users for delete to users_editor
  using (true);
comment on policy "editors of users delete everyone" on public.users is
  '@accept policy-always-true the operator decides with USERS_WRITE=open';

grant execute on function internal.user_matches(public.users, text) to anon, authenticated, service_role;
grant execute on function internal.is_open_to_editors() to authenticated, service_role, auth_owner;
grant execute on function internal.add_user(jsonb) to anon, authenticated, service_role, auth_owner;
grant execute on function internal.new_user(jsonb), internal.new_email(bigint, text), internal.release_email(text)
  to auth_owner;
grant execute on function
  public.me(), public.create_user(public.users), public.users_avatar(public.users, integer)
  to anon, authenticated, service_role;
