create table if not exists public.notes (
  id           bigint generated always as identity primary key,
  author_id    uuid not null default auth.uid(),
  text         text not null,
  is_published boolean not null default false
);
create index if not exists notes_author_id_idx on public.notes (author_id);

create table if not exists public.shares (
  note_id  bigint not null references public.notes on delete cascade,
  user_id  uuid not null,
  owner_id uuid not null default auth.uid(),

  primary key (note_id, user_id)
);
create index if not exists shares_owner_id_idx on public.shares (owner_id);
create index if not exists shares_user_id_idx on public.shares (user_id);

alter table public.notes enable row level security;
grant select on public.notes to anon, authenticated;
grant insert (author_id, text, is_published), update (author_id, text, is_published), delete on public.notes to authenticated;
grant all on public.notes, public.shares to service_role;

drop policy if exists "everyone reads published notes" on public.notes;
create policy "everyone reads published notes" on public.notes for select to anon, authenticated using (is_published);
drop policy if exists "authors read their notes" on public.notes;
create policy "authors read their notes" on public.notes for select to authenticated
  using (author_id = (select auth.uid()));
drop policy if exists "users read notes that are shared with them" on public.notes;
create policy "users read notes that are shared with them" on public.notes for select to authenticated
  using (id in (select s.note_id from public.shares as s where s.user_id = (select auth.uid())));
drop policy if exists "admins read all notes" on public.notes;
create policy "admins read all notes" on public.notes for select to admin using (true);
drop policy if exists "authors add their notes" on public.notes;
create policy "authors add their notes" on public.notes for insert to authenticated
  with check (author_id = (select auth.uid()));
drop policy if exists "authors change their notes" on public.notes;
create policy "authors change their notes" on public.notes for update to authenticated
  using (author_id = (select auth.uid())) with check (author_id = (select auth.uid()));
drop policy if exists "authors delete their drafts" on public.notes;
create policy "authors delete their drafts" on public.notes for delete to authenticated
  using (author_id = (select auth.uid()) and not is_published);

alter table public.shares enable row level security;
grant select, insert, delete on public.shares to authenticated;
drop policy if exists "owners share their notes" on public.shares;
create policy "owners share their notes" on public.shares to authenticated
  using (owner_id = (select auth.uid())) with check (owner_id = (select auth.uid()));
drop policy if exists "users see what is shared with them" on public.shares;
create policy "users see what is shared with them" on public.shares for select to authenticated
  using (user_id = (select auth.uid()));
