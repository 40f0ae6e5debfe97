alter table public.articles enable row level security;

grant select on public.articles to anon, authenticated;
grant insert (title, content, tags, status), update (title, content, tags, status), delete
  on public.articles to authenticated;
grant all on public.articles to service_role;

drop policy if exists "everyone reads articles" on public.articles;
create policy "everyone reads articles" on public.articles for select
  using (true);

drop policy if exists "authors write their own articles" on public.articles;
create policy "authors write their own articles" on public.articles for insert to authenticated
  with check (author_id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "authors change their own articles, admins all" on public.articles;
create policy "authors change their own articles, admins all" on public.articles for update to authenticated
  using (author_id = (select auth.uid()) or (select auth.is_admin()))
  with check (author_id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "authors delete their own articles, admins all" on public.articles;
create policy "authors delete their own articles, admins all" on public.articles for delete to authenticated
  using (author_id = (select auth.uid()) or (select auth.is_admin()));
