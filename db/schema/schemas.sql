-- public is the API. Nothing in it, nor in the schemas beside it, is open to PUBLIC by default.
revoke all on schema public from public;
alter default privileges revoke execute on functions from public;
grant usage on schema public to anon, authenticated, users_editor, service_role, auth_owner;
comment on schema public is 'The API: what is granted here is served.';

-- Readers of the caller, for policies and functions.
create schema if not exists auth;
grant usage on schema auth to anon, authenticated, service_role, auth_owner;
comment on schema auth is 'Who is asking: auth.uid(), auth.claims(), auth.is_admin().';

-- Triggers and checks of the API's tables; not served.
create schema if not exists internal;
grant usage on schema internal to anon, authenticated, service_role;
comment on schema internal is 'Helpers of the API''s tables; not served.';

-- Accounts and tokens. No role of the API may look in.
create schema if not exists auth_private;
alter schema auth_private owner to auth_owner;
comment on schema auth_private is 'Accounts and tokens; only auth_owner may look in.';

-- What the gateway calls to sign somebody in.
create schema if not exists auth_api;
alter schema auth_api owner to auth_owner;
comment on schema auth_api is 'Functions the gateway calls to sign callers in.';

-- Work that a client does not wait for.
create schema if not exists tasks;
alter schema tasks owner to tasks_owner;
grant usage on schema tasks to anon, authenticated, service_role;
comment on schema tasks is 'Work that a client does not wait for: functions for callers and for those who run it; not served.';

-- The queue of that work. graphile-worker makes what is in it, as tasks_owner (db/cluster/migrate.ts).
create schema if not exists graphile_worker;
alter schema graphile_worker owner to tasks_owner;

-- Extensions stay out of public, where their functions would be served.
create schema if not exists extensions;
grant usage on schema extensions to anon, authenticated, service_role;
create extension if not exists pg_trgm with schema extensions;
grant execute on all functions in schema extensions to anon, authenticated, service_role;

-- Which data the service has put in by itself, so that it does so once.
create table if not exists internal.seeds (
  name      text primary key,
  seeded_at timestamptz not null default now()
);
comment on table internal.seeds is 'Data that the service put in by itself, once.';
alter table internal.seeds enable row level security;
