-- An application in the form of graphile/starter: users without an e-mail, which another table has, roles that a setting names, errors with
-- codes of its own, and the queue of graphile-worker.
create role starter_visitor nologin;
create schema graphile_worker;
create table graphile_worker.jobs (id bigint primary key, task text not null);
create schema app_public;
create schema app_hidden;
create schema app_private;

create table app_public.users (
  id       uuid primary key default gen_random_uuid(),
  username text not null unique,
  name     text,
  is_admin boolean not null default false
);
create table app_public.user_emails (
  id         uuid primary key default gen_random_uuid(),
  user_id    uuid not null references app_public.users on delete cascade,
  email      text not null check (email ~ '[^@]+@[^@]+\.[^@]+'),
  is_primary boolean not null default false,
  unique (user_id, email)
);
create table app_private.user_secrets (user_id uuid primary key references app_public.users on delete cascade, password_hash text);
create table app_private.user_email_secrets (user_email_id uuid primary key references app_public.user_emails on delete cascade, token text);
create function app_public.current_user_id() returns uuid language sql stable as
$$ select nullif(current_setting('jwt.claims.user_id', true), '')::uuid $$;
create function app_public.change_username(username text) returns app_public.users language plpgsql as $$
begin
  if app_public.current_user_id() is null then raise exception 'You must log in' using errcode = 'LOGIN'; end if;
  return null;
end $$;
alter table app_public.users enable row level security;
alter table app_public.user_emails enable row level security;
create policy select_all on app_public.users for select using (true);
create policy select_own on app_public.user_emails for select using (user_id = app_public.current_user_id());
grant usage on schema app_public, app_hidden to starter_visitor;
grant select, update (username, name) on app_public.users to starter_visitor;
grant select, insert (email), delete on app_public.user_emails to starter_visitor;

insert into app_public.users (username) values ('ada');
insert into app_public.user_emails (user_id, email) select id, 'ada@example.com' from app_public.users;
