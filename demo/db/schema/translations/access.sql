alter table public.article_translations enable row level security;

grant select on public.article_translations to anon, authenticated;
grant insert (article_id, language, title), update (title), delete on public.article_translations to authenticated;
grant all on public.article_translations to service_role;

drop policy if exists "everyone reads translations" on public.article_translations;
create policy "everyone reads translations" on public.article_translations for select
  using (true);

drop policy if exists "authors translate their own articles, admins all" on public.article_translations;
create policy "authors translate their own articles, admins all" on public.article_translations to authenticated
  using (
    (select auth.is_admin())
    or exists (select from public.articles as a where a.id = article_id and a.author_id = (select auth.uid()))
  )
  with check (
    (select auth.is_admin())
    or exists (select from public.articles as a where a.id = article_id and a.author_id = (select auth.uid()))
  );
