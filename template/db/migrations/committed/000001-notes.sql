--! Previous: -
--! Hash: sha1:156a90110bdce7553b116449cad99ec71fd0938a
--! Message: notes

--! Included schema.sql
-- The database of the application, in order of creation. Migrations include the same files.
--! Included public.sql
-- public is the API: what is granted here is served. By default, PUBLIC has no rights in it.
revoke all on schema public from public;
alter default privileges revoke execute on functions from public;
grant usage on schema public to anon, authenticated, service_role;
--! EndIncluded public.sql
--! Included users/table.sql
create table if not exists public.users (
  id         uuid primary key default gen_random_uuid(),
  name       text not null constraint users_name_length check (length(name) between 1 and 100),
  created_at timestamptz not null default now()
);
comment on constraint users_name_length on public.users is 'a name has 1 to 100 characters';
--! EndIncluded users/table.sql
--! Included users/access.sql
alter table public.users enable row level security;

grant select, update (name) on public.users to authenticated;
grant all on public.users to service_role;

drop policy if exists "users have their own row" on public.users;
create policy "users have their own row" on public.users to authenticated
  using (id = (select auth.uid()))
  with check (id = (select auth.uid()));
--! EndIncluded users/access.sql
--! Included users/sign-up.sql
-- Not served: only the service calls what is in this schema.
create schema if not exists internal;

-- The row of a new account. security definer: auth_owner, which calls the hook, has no rights in public.
create or replace function internal.new_user(fields jsonb) returns uuid
language sql volatile security definer set search_path = '' as $$
  insert into public.users (name)
  values (fields ->> 'name')
  returning id
$$;

grant usage on schema internal to auth_owner;
grant execute on function internal.new_user(jsonb) to auth_owner;
select auth.use_hook('new_user', 'internal.new_user(jsonb)');
-- An account is deleted with its user.
select auth.use_users('public.users');
--! EndIncluded users/sign-up.sql
--! Included notes/table.sql
create table if not exists public.notes (
  id         bigint generated always as identity primary key,
  author_id  uuid not null default auth.uid() references public.users on delete cascade,
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
