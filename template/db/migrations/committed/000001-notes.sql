--! Previous: -
--! Hash: sha1:6984a030002021be70159341972453bd94a626a4
--! Message: notes

--! Included schema.sql
-- The database of the application, in order of creation. Migrations include the same files.
--! Included public.sql
-- public is the API: what is granted here is served. By default, PUBLIC has no rights in it.
revoke all on schema public from public;
alter default privileges revoke execute on functions from public;
grant usage on schema public to anon, authenticated, service_role;
--! EndIncluded public.sql
--! Included notes/table.sql
create table if not exists public.notes (
  id         bigint generated always as identity primary key,
  author_id  uuid not null default auth.uid(),
  text       text not null constraint notes_text_length check (length(text) between 1 and 1000),
  created_at timestamptz not null default now()
);
comment on constraint notes_text_length on public.notes is 'a note has 1 to 1000 characters';
-- The notes of an author, newest first, and the policies.
create index if not exists notes_author_id_id_idx on public.notes (author_id, id desc);
--! EndIncluded notes/table.sql
--! Included notes/access.sql
alter table public.notes enable row level security;

grant select on public.notes to authenticated;
grant insert (text), update (text), delete on public.notes to authenticated;
grant all on public.notes to service_role;

drop policy if exists "authors have their own notes" on public.notes;
create policy "authors have their own notes" on public.notes to authenticated
  using (author_id = (select auth.uid()))
  with check (author_id = (select auth.uid()));
--! EndIncluded notes/access.sql
--! EndIncluded schema.sql
