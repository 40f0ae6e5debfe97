create table if not exists public.users (
  id         uuid primary key default gen_random_uuid(),
  name       text not null constraint users_name_length check (length(name) between 1 and 100),
  created_at timestamptz not null default now()
);
comment on constraint users_name_length on public.users is 'a name has 1 to 100 characters';
