-- public is the API. By default, PUBLIC has no rights in it or in the other schemas.
revoke all on schema public from public;
alter default privileges revoke execute on functions from public;
grant usage on schema public to anon, authenticated, users_editor, service_role, auth_owner;
comment on schema public is 'The API: objects granted here are served.';

-- Triggers and checks of the API's tables; not served.
create schema if not exists internal;
grant usage on schema internal to anon, authenticated, users_editor, service_role, auth_owner;
comment on schema internal is 'Helpers of the API''s tables; not served.';

-- Extensions stay out of public, where their functions would be served.
create schema if not exists extensions;
grant usage on schema extensions to anon, authenticated, service_role;
create extension if not exists pg_trgm with schema extensions;
grant execute on all functions in schema extensions to anon, authenticated, service_role;

-- Data that the service has inserted, so that it does so only once.
create table if not exists internal.seeds (
  name      text primary key,
  seeded_at timestamptz not null default now()
);
comment on table internal.seeds is 'Data that the service has inserted, so that it does so only once.';
alter table internal.seeds enable row level security;
