alter table public.users enable row level security;

grant select, update (name) on public.users to authenticated;
grant all on public.users to service_role;

drop policy if exists "users have their own row" on public.users;
create policy "users have their own row" on public.users to authenticated
  using (id = (select auth.uid()))
  with check (id = (select auth.uid()));
