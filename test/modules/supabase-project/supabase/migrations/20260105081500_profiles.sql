create table profiles (
  id uuid primary key references auth.users on delete cascade,
  full_name text,
  card uuid not null default uuid_generate_v4()
);
alter table profiles enable row level security;
create policy "members see themselves" on profiles for select using (auth.uid() = id);
create policy "members change themselves" on profiles for update to authenticated
  using (auth.role() = 'authenticated' and (auth.jwt() ->> 'sub')::uuid = id and auth.email() like '%@garden.example');

create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if new.raw_user_meta_data ->> 'full_name' = '' then raise exception 'a name is needed'; end if;
  insert into public.profiles (id, full_name) values (new.id, new.raw_user_meta_data ->> 'full_name');
  return new;
end $$;
create trigger on_auth_user_created after insert on auth.users for each row execute procedure public.handle_new_user();
