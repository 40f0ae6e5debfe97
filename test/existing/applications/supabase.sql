-- A project in the form of a self-hosted Supabase: its schemas beside public, its roles, a publication, and migrations of its command.
do $$ declare r text; begin
  foreach r in array array['anon', 'authenticated', 'service_role bypassrls', 'authenticator login noinherit password ''x''', 'supabase_auth_admin'] loop
    begin execute 'create role ' || r; exception when duplicate_object then null; end;
  end loop;
end $$;
grant anon, authenticated, service_role to authenticator;
alter role authenticator set pgrst.db_schemas = 'public, graphql_public';
do $$ begin
  execute format('alter database %I set app.settings.jwt_secret = %L', current_database(), repeat('super-secret-jwt-token-', 3));
end $$;
create schema extensions;
create schema graphql_public;
create schema storage;
create table storage.migrations (id int primary key, name text);
create table storage.objects (id uuid primary key default gen_random_uuid(), bucket_id text, name text);
create schema realtime;
create table realtime.messages (id uuid primary key default gen_random_uuid(), topic text not null, extension text not null);
create schema supabase_migrations;
create table supabase_migrations.schema_migrations (version text primary key, statements text[], name text);
create schema auth;
create table auth.users (id uuid primary key default gen_random_uuid(), email text, raw_user_meta_data jsonb);
create function auth.uid() returns uuid language sql stable as
$$ select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid $$;
grant usage on schema auth to anon, authenticated, service_role;
grant usage on schema storage, realtime to anon, authenticated, service_role;
grant all on all tables in schema storage, realtime to anon, authenticated, service_role;
grant all on all tables in schema auth to supabase_auth_admin;

create table public.profiles (id uuid primary key references auth.users on delete cascade, username text unique);
create table public.rooms (id bigint generated always as identity primary key, name text not null, owner uuid default auth.uid() references auth.users);
alter table public.profiles enable row level security;
alter table public.rooms enable row level security;
create policy "everyone reads profiles" on public.profiles for select using (true);
create policy "users change theirs" on public.profiles for update to authenticated using (id = (select auth.uid()));
create policy "everyone reads rooms" on public.rooms for select using (true);
create policy "users open rooms" on public.rooms for insert to authenticated with check (owner = (select auth.uid()));
create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  insert into public.profiles (id, username) values (new.id, new.raw_user_meta_data ->> 'username');
  return new;
end $$;
create trigger on_auth_user_created after insert on auth.users for each row execute function public.handle_new_user();
grant usage on schema public to anon, authenticated, service_role;
grant all on all tables in schema public to anon, authenticated, service_role;
create publication supabase_realtime for table public.rooms;

insert into auth.users (email, raw_user_meta_data) values ('ada@example.com', '{"username": "ada"}');
insert into public.rooms (name) values ('lobby');
