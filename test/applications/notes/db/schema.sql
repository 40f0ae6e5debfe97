-- The tables of the application, which a test creates in its database.
create table public.notes (
  id         bigint generated always as identity primary key,
  author_id  bigint not null default auth.uid() references public.users on delete cascade,
  text       text not null,
  tags       text[] not null default '{}',
  created_at timestamptz not null default now(),

  constraint notes_text_length check (length(text) <= 100)
);
comment on constraint notes_text_length on public.notes is 'text must have at most 100 characters';
create index notes_author_id_idx on public.notes (author_id);
alter table public.notes enable row level security;
grant select on public.notes to anon, authenticated;
grant select, insert (author_id, text) on public.notes to service_role;
grant insert (text, tags), delete on public.notes to authenticated;
create policy "everyone reads notes" on public.notes for select using (true);
create policy "authors add their notes" on public.notes for insert to authenticated
  with check (author_id = (select auth.uid()));
