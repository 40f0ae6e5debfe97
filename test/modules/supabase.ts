export const ADA = "6b1f3c9e-0a52-4d7e-9c41-2f8d5e7a1b30";
export const BOB = "9d0e7a11-53c8-4c0e-8b1f-7a2c4d5e6f70";

/** As in a database of Supabase. */
export const SUPABASE = `
  create schema auth;
  create table auth.users (id uuid primary key default gen_random_uuid(), email text);
  create function auth.uid() returns uuid language sql stable as $$
    select coalesce(
      nullif(current_setting('request.jwt.claim.sub', true), ''),
      (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')
    )::uuid $$;
  create function auth.is_email(text) returns boolean language sql as 'select true';
  grant usage on schema auth to anon, authenticated, service_role;
  create schema realtime; create table realtime.messages (id bigint primary key);
  create table public.todos (id int primary key, user_id uuid not null default auth.uid() references auth.users, text text);
  alter table public.todos enable row level security;
  create policy "own todos" on public.todos to authenticated using (user_id = (select auth.uid()));
  grant usage on schema public to anon, authenticated; grant select, insert on public.todos to authenticated;
  create function public.add_todo(text text) returns void language sql begin atomic
    insert into public.todos (id, text) values (3, add_todo.text); end;
  insert into auth.users values ('${ADA}', 'ada@example.com'), ('${BOB}', 'bob@example.com');
  insert into public.todos values (1, '${ADA}', 'of Ada'), (2, '${BOB}', 'of Bob');`;
