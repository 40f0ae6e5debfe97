alter table public.comments enable row level security;

grant select on public.comments to anon, authenticated;
grant insert (article_id, content), update (content), delete on public.comments to authenticated;
grant all on public.comments to service_role;

drop policy if exists "everyone reads comments" on public.comments;
create policy "everyone reads comments" on public.comments for select
  using (true);

drop policy if exists "callers comment as themselves" on public.comments;
create policy "callers comment as themselves" on public.comments for insert to authenticated
  with check (author_id = (select auth.uid()));

drop policy if exists "authors change their own comments, admins all" on public.comments;
create policy "authors change their own comments, admins all" on public.comments for update to authenticated
  using (author_id = (select auth.uid()) or (select auth.is_admin()))
  with check (author_id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "authors delete their own comments, admins all" on public.comments;
create policy "authors delete their own comments, admins all" on public.comments for delete to authenticated
  using (author_id = (select auth.uid()) or (select auth.is_admin()));

grant execute on function public.create_comment(bigint, text), internal.comment_matches(public.comments, text)
  to anon, authenticated, service_role;
