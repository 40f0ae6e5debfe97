alter table public.notes enable row level security;

grant select on public.notes to authenticated;
grant insert (text), update (text), delete on public.notes to authenticated;
grant all on public.notes to service_role;

drop policy if exists "authors have their own notes" on public.notes;
create policy "authors have their own notes" on public.notes to authenticated
  using (author_id = (select auth.uid()))
  with check (author_id = (select auth.uid()));
