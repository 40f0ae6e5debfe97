create table if not exists public.notes (
  id         bigint generated always as identity primary key,
  author_id  uuid not null default auth.uid() references public.users on delete cascade,
  text       text not null constraint notes_text_length check (length(text) between 1 and 1000),
  created_at timestamptz not null default now()
);
comment on constraint notes_text_length on public.notes is 'a note has 1 to 1000 characters';
-- The notes of an author, newest first, and the policies.
create index if not exists notes_author_id_id_idx on public.notes (author_id, id desc);
