-- public is the API. By default, PUBLIC has no rights in it or in the other schemas.
revoke all on schema public from public;
alter default privileges revoke execute on functions from public;
grant usage on schema public to anon, authenticated, users_editor, service_role, auth_owner;
comment on schema public is 'The API: objects granted here are served.';

-- Functions that read the caller, for policies and other functions.
create schema if not exists auth;
grant usage on schema auth to anon, authenticated, service_role, auth_owner;
comment on schema auth is 'The caller: auth.uid(), auth.claims(), auth.is_admin().';

-- Triggers and checks of the API's tables; not served.
create schema if not exists internal;
grant usage on schema internal to anon, authenticated, users_editor, service_role, auth_owner;
comment on schema internal is 'Helpers of the API''s tables; not served.';

-- Accounts and tokens. No role of the API may read them.
create schema if not exists auth_private;
alter schema auth_private owner to auth_owner;
comment on schema auth_private is 'Accounts and tokens; only auth_owner may read them.';

-- The functions that the gateway calls to sign users in.
create schema if not exists auth_api;
alter schema auth_api owner to auth_owner;
comment on schema auth_api is 'Functions that the gateway calls to sign users in.';

-- Asynchronous work: tasks that a client does not wait for.
create schema if not exists tasks;
alter schema tasks owner to tasks_owner;
grant usage on schema tasks to anon, authenticated, service_role;
comment on schema tasks is 'Asynchronous work: functions for callers and for workers; not served.';

-- The queue of tasks. graphile-worker creates its objects as tasks_owner (db/cluster/migrate.ts).
create schema if not exists graphile_worker;
alter schema graphile_worker owner to tasks_owner;

-- Committed changes of rows, for subscribers.
create schema if not exists changes;
alter schema changes owner to changes_owner;
comment on schema changes is 'Committed changes of rows, for subscribers; not served.';

-- Private channels.
create schema if not exists realtime;
grant usage on schema realtime to anon, authenticated, service_role;
comment on schema realtime is 'Who may use private channels; not served.';

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

-- Settings of the service that functions read.
create table if not exists internal.settings (
  name  text primary key,
  value text not null
);
comment on table internal.settings is
  'Settings of the service that functions read. The service writes them at each start.';
alter table internal.settings enable row level security;
drop policy if exists "every caller reads them" on internal.settings;
create policy "every caller reads them" on internal.settings for select using (true);
insert into internal.settings
values ('recent_sign_in', '600'), ('registrations', '60'), ('registrations_window', '900 seconds')
on conflict (name) do nothing;
grant select on internal.settings to anon, authenticated, service_role, auth_owner;
grant insert, update (value) on internal.settings to auth_owner;
drop policy if exists "authentication stores its limits" on internal.settings;
create policy "authentication stores its limits" on internal.settings to auth_owner
  using (name in ('registrations', 'registrations_window'))
  with check (name in ('registrations', 'registrations_window'));
