--! Previous: sha1:0473c6e14dce2b54ba652735716f0762022d3746
--! Hash: sha1:2b099a7a922949721f846ca44902e9cf16748a2f
--! Message: hardening

alter table auth_private.accounts add column if not exists username_skeleton text;
create unique index if not exists accounts_username_skeleton_key
  on auth_private.accounts (coalesce(username_skeleton, lower(username)));
comment on index auth_private.accounts_username_skeleton_key is 'username already taken';

create table if not exists auth_private.login_emails (
  user_id     bigint not null references auth_private.accounts on delete cascade,
  email       text not null,
  skeleton    text,
  released_at timestamptz,

  primary key (user_id, email)
);
create unique index if not exists login_emails_email_key on auth_private.login_emails (lower(email));
create unique index if not exists login_emails_skeleton_key on auth_private.login_emails (coalesce(skeleton, lower(email)));
create unique index if not exists login_emails_user_id_key on auth_private.login_emails (user_id) where released_at is null;
create index if not exists login_emails_released_at_idx on auth_private.login_emails (released_at) where released_at is not null;

comment on table auth_private.login_emails is 'The e-mails that accounts sign in with, and those that are reserved for them.';
comment on index auth_private.login_emails_email_key is 'email already registered';
comment on index auth_private.login_emails_skeleton_key is 'email already registered';

alter table auth_private.login_emails owner to auth_owner;
alter table auth_private.login_emails enable row level security;

-- Existing accounts sign in with the e-mails that they have now.
insert into auth_private.login_emails (email, user_id)
select u.email, a.user_id
from auth_private.accounts as a
join public.users as u on u.id = a.user_id
on conflict do nothing;

drop function if exists auth_api.register(text, text, integer, text, text);
drop function if exists auth_api.purge(timestamptz, interval, interval);
-- The second factor: what an enabled one ends, and the codes that changes of the account need.
alter table auth_private.token_families add column if not exists kept_at timestamptz;
create index if not exists token_families_kept_at_idx on auth_private.token_families (user_id, kept_at)
  where kept_at is not null;
drop trigger if exists _500_announce on auth_private.factors;
drop function if exists auth_api.start_tokens(bigint, integer, bytea, timestamptz);
drop function if exists auth_api.change_password(bigint, text, text, inet);
drop function if exists
  auth_api.try_code(bigint, bytea, bigint, bytea[], uuid, inet, integer, timestamptz, interval);
drop function if exists auth_api.enable_factor(bigint, bytea, bigint, bytea[], timestamptz);
drop function if exists auth_api.replace_backup_codes(bigint, bytea[]);
drop function if exists auth_api.remove_factor(bigint);

-- Changes are read from the write-ahead log; triggers no longer announce them.
drop trigger if exists _500_changes_insert on public.articles;
drop trigger if exists _500_changes_update on public.articles;
drop trigger if exists _500_changes_delete on public.articles;
drop trigger if exists _500_changes_insert on public.comments;
drop trigger if exists _500_changes_update on public.comments;
drop trigger if exists _500_changes_delete on public.comments;
drop function if exists internal.announce_change();
-- Tasks: limits per client and in total.
-- They use the type of the rows, which PostgreSQL 15 would not let change. They are created again below.
drop function if exists tasks.is_visible(tasks.tasks);
drop function if exists tasks.describe(tasks.tasks);
alter table tasks.tasks add column if not exists address text;
alter table tasks.tasks add column if not exists round integer not null default 1;
alter table tasks.tasks add column if not exists has_turn boolean not null default false;
alter table tasks.tasks add column if not exists lacks_space boolean not null default false;
alter table tasks.tasks add column if not exists bytes bigint not null default 0;
drop index if exists tasks.tasks_owner_unfinished_idx;
create index if not exists tasks_client_unfinished_idx on tasks.tasks ((coalesce(address, owner))) where finished_at is null;
create index if not exists tasks_owner_turns_idx on tasks.tasks (owner) where has_turn;
create index if not exists tasks_owner_waiting_idx on tasks.tasks (owner, round, created_at) where finished_at is null and not has_turn;
create table if not exists tasks.storage (
  client text primary key,
  bytes  bigint not null
);
comment on table tasks.storage is 'The stored bytes of each client with tasks.';

-- Earlier tasks have their jobs. Those of callers without an identity have an unknown address.
update tasks.tasks set has_turn = finished_at is null;
update tasks.tasks set address = 'unknown' where owner = role and role <> 'service_role' and address is null;
update tasks.tasks as t
set bytes = 4096
  + octet_length(t.claims::text)
  + coalesce(octet_length(t.request::text), 0)
  + greatest(octet_length(t.error::text) - 1024, 0)
  + (select coalesce(sum(r.bytes), 0)::bigint from tasks.results as r where r.task_id = t.id);
delete from tasks.storage;
insert into tasks.storage (client, bytes)
select c.client, sum(t.bytes)::bigint
from tasks.tasks as t
cross join lateral (
  values ('(all)'), (case when t.address is not null then '(anonymous)' end), (coalesce(t.address, t.owner))
) as c (client)
where c.client is not null
group by c.client;

drop function if exists tasks.accept(text, json, bigint, integer);
drop function if exists tasks.begin(uuid, bigint);
drop function if exists tasks.purge(interval);
--! Included roles.sql
-- The roles of requests. Roles belong to the whole server, so each is created only when it is missing.
-- The login roles that may become these are created at start, with their passwords (db/cluster/provision.ts).
do $$
declare
  name text;
  needed_right text;
begin
  foreach name in array array[
    'anon', 'authenticated', 'admin', 'users_editor', 'service_role', 'auth_owner', 'tasks_owner',
    'changes_owner'
  ] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;

  -- An administrator may do what every signed-in caller may.
  if not pg_has_role('admin', 'authenticated', 'member') then
    grant authenticated to admin;
  end if;

  if not (select rolbypassrls from pg_roles where rolname = 'service_role') then
    alter role service_role bypassrls;
  end if;

  -- Since PostgreSQL 16 the creator of a role is a member of it, but may act as it only after a grant.
  needed_right := case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end;
  -- The migrating role gives the tables of authentication, tasks and changes to these owners.
  foreach name in array array['auth_owner', 'tasks_owner', 'changes_owner'] loop
    if not pg_has_role(name, needed_right) then
      execute format('grant %I to %I', name, current_user);
    end if;
  end loop;
end $$;
--! EndIncluded roles.sql
--! Included schemas.sql
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
grant usage on schema internal to anon, authenticated, service_role;
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
insert into internal.settings values ('recent_sign_in', '600') on conflict (name) do nothing;
grant select on internal.settings to anon, authenticated, service_role, auth_owner;
--! EndIncluded schemas.sql
--! Included caller/functions.sql
create or replace function auth.claims() returns jsonb
language sql stable parallel safe
-- On a reused connection an unset setting reads as '', not as null.
return coalesce(nullif(pg_catalog.current_setting('request.jwt.claims', true), ''), '{}')::jsonb;

comment on function auth.claims() is 'The verified claims of the caller''s token; {} for anonymous callers.';

create or replace function auth.uid() returns bigint
language sql stable parallel safe
return case when auth.claims() ->> 'sub' ~ '^[0-9]{1,18}$' then (auth.claims() ->> 'sub')::bigint end;

comment on function auth.uid() is 'The id of the signed-in user; null for anonymous callers.';

create or replace function auth.is_admin() returns boolean
language sql stable parallel safe
return pg_catalog.pg_has_role(current_user, 'admin', 'member');

comment on function auth.is_admin() is 'Whether the caller''s role is admin.';

create or replace function auth.has_recent_sign_in() returns boolean
language sql stable parallel safe
return coalesce(
  case when jsonb_typeof(auth.claims() -> 'auth_time') = 'number' then
    (auth.claims() ->> 'auth_time')::numeric > extract(epoch from now())
      - (select value::integer from internal.settings where name = 'recent_sign_in')
  end,
  false);

comment on function auth.has_recent_sign_in() is $$
Whether the caller has proved the password, and the second factor, within the last RECENT_SIGN_IN seconds. Refreshing a
token does not count; false for API keys and anonymous callers.
$$;

create or replace function auth.require_recent_sign_in() returns void
language plpgsql stable set search_path = '' as $$
begin
  if auth.has_recent_sign_in() then return; end if;
  raise sqlstate 'CS401' using message = 'the sign-in is too old for this: sign in again';
end $$;

comment on function auth.require_recent_sign_in() is
  'For triggers and functions: raises CS401 (PASSWORD_REQUIRED) unless auth.has_recent_sign_in().';

grant execute on function auth.claims(), auth.uid(), auth.is_admin(), auth.has_recent_sign_in(),
  auth.require_recent_sign_in()
  to anon, authenticated, service_role, auth_owner;
--! EndIncluded caller/functions.sql
--! Included changes/outbox.sql
-- Where the server does not decode its write-ahead log (wal_level is not logical), triggers record changes here.
create table if not exists changes.outbox (
  id           bigint generated always as identity primary key,
  transaction  xid8 not null default pg_current_xact_id(),
  table_schema text not null,
  table_name   text not null,
  operation    text not null,
  changed      jsonb not null
);
-- Changes are read in the order of their transactions.
create index if not exists outbox_transaction_id_idx on changes.outbox (transaction, id);
comment on table changes.outbox is
  'Committed changes for subscribers, used without logical decoding. The service deletes them after about a minute.';
alter table changes.outbox enable row level security;
alter table changes.outbox owner to changes_owner;

create or replace function changes.record_change() returns trigger
-- As changes_owner: writers have no rights on the outbox.
language plpgsql volatile security definer set search_path = '' as $$
begin
  insert into changes.outbox (table_schema, table_name, operation, changed)
  values (tg_table_schema, tg_table_name, tg_op, case tg_op when 'DELETE' then to_jsonb(old) else to_jsonb(new) end);
  return null;
end $$;

comment on function changes.record_change() is 'Records the changed row in changes.outbox.';

create or replace function changes.use_outbox(wanted boolean) returns void
language plpgsql volatile set search_path = '' as $$
declare
  published record;
begin
  for published in
    select p.prrelid::regclass as name,
      exists (
        select from pg_trigger as t
        where t.tgrelid = p.prrelid
          and t.tgname = '_500_outbox_insert'
      ) as is_recorded
    from pg_publication_rel as p
    join pg_publication as publication on publication.oid = p.prpubid
    where publication.pubname = 'content_changes'
  loop
    continue when published.is_recorded = wanted;
    if wanted then
      execute format('create trigger _500_outbox_insert after insert or delete on %s
        for each row execute function changes.record_change()', published.name);
      execute format('create trigger _500_outbox_update after update on %s
        for each row when (old.* is distinct from new.*) execute function changes.record_change()', published.name);
    else
      execute format('drop trigger _500_outbox_insert on %s', published.name);
      execute format('drop trigger _500_outbox_update on %s', published.name);
    end if;
  end loop;
end $$;

comment on function changes.use_outbox(boolean) is
  'Creates or drops the triggers that record the changes of the published tables in changes.outbox.';
alter function changes.record_change() owner to changes_owner;
revoke execute on function changes.record_change(), changes.use_outbox(boolean) from public;
--! EndIncluded changes/outbox.sql
--! Included content/keywords/functions.sql
-- The pattern of ilike that finds the keyword anywhere in a text.
create or replace function internal.substring_pattern(keyword text) returns text
language sql immutable strict parallel safe
return '%' || pg_catalog.regexp_replace(keyword, '([\\%_])', '\\\1', 'g') || '%';

grant execute on function internal.substring_pattern(text) to anon, authenticated, service_role;

-- True, or an error for a keyword that takes long to search for. In a subquery it is evaluated once per query and not
-- per row.
create or replace function internal.check_keyword(keyword text) returns boolean
language plpgsql immutable parallel safe set search_path = '' as $$
begin
  if length(keyword) > 10000 then
    raise invalid_parameter_value using message = 'a keyword may have at most 10000 characters';
  end if;
  return true;
end $$;

grant execute on function internal.check_keyword(text) to anon, authenticated, service_role;
--! EndIncluded content/keywords/functions.sql
--! Included content/users/functions.sql
create or replace function public.me() returns public.users
language plpgsql stable set search_path = '' as $$
declare caller public.users;
begin
  select * into caller from public.users where id = auth.uid();
  if found then return caller; end if;
  raise invalid_authorization_specification using message = 'login required';
end $$;

comment on function public.me() is $$
@notNull
The signed-in caller. Raises 28000 when the caller is not signed in.
$$;

create or replace function public.create_user(input public.users) returns public.users
language sql volatile
begin atomic
  insert into public.users (name, email, age)
  values (input.name, input.email, input.age)
  returning *;
end;

comment on function public.create_user(public.users) is $$
@notNull
Creates a user. Raises 23505 when the e-mail is already registered.
$$;

create or replace function public.users_avatar(person public.users, size integer default 80) returns text
language plpgsql immutable set search_path = '' as $$
begin
  size := coalesce(size, 80);
  if size not between 1 and 2048 then
    raise invalid_parameter_value using message = 'size must be from 1 to 2048';
  end if;
  return person.avatar_url
    || case when position('?' in person.avatar_url) > 0 then '&' else '?' end
    || 'size=' || size;
end $$;

comment on function public.users_avatar(public.users, integer) is
  'The URL of the user''s picture, `size` pixels wide; null when the user has none.';

create or replace function internal.user_matches(person public.users, keyword text) returns boolean
language sql immutable parallel safe
-- The first condition uses the trigram index; the others refuse a match that spans two fields.
return internal.user_text(person.name, person.email) ilike internal.substring_pattern(keyword)
  and (
    person.name ilike internal.substring_pattern(keyword)
    or person.email ilike internal.substring_pattern(keyword)
  );

create or replace function internal.protect_account() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  if old.id = auth.uid() and not exists (
    -- With USERS_WRITE=open every caller may delete every user.
    select from pg_auth_members as m
    join pg_roles as login on login.oid = m.member
    where m.roleid = 'users_editor'::regrole
      and login.rolname = session_user
  ) then
    perform auth.require_recent_sign_in();
  end if;
  return old;
end $$;

comment on function internal.protect_account() is
  'A user who deletes themselves needs a recent sign-in: a stolen token must not delete its owner.';

-- Callers without credentials, as users_editor, are no owners.
create or replace trigger _200_protect_account before delete on public.users
  for each row when (current_user <> 'users_editor')
  execute function internal.protect_account();
--! EndIncluded content/users/functions.sql
--! Included content/users/access.sql
alter table public.users enable row level security;

grant select on public.users to anon, authenticated, users_editor, auth_owner;
grant insert (name, email, age) on public.users to anon, authenticated, auth_owner;
grant update (name, email, age, avatar_url), delete on public.users to authenticated;
grant update (name, email, age), delete on public.users to users_editor;
grant update (email) on public.users to auth_owner;
grant all on public.users to service_role;
-- Accounts refer to users.
grant references on public.users to auth_owner;

drop policy if exists "everyone reads users" on public.users;
create policy "everyone reads users" on public.users for select
  using (true);

drop policy if exists "everyone may sign up" on public.users;
create policy "everyone may sign up" on public.users for insert to anon, authenticated
  with check (true);

drop policy if exists "signing up with a password adds a user" on public.users;
create policy "signing up with a password adds a user" on public.users for insert to auth_owner
  with check (true);

drop policy if exists "POST /auth/email changes the e-mail of a user" on public.users;
create policy "POST /auth/email changes the e-mail of a user" on public.users for update to auth_owner
  using (true)
  with check (true);

drop policy if exists "users change themselves, admins everyone" on public.users;
create policy "users change themselves, admins everyone" on public.users for update to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()))
  with check (id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "users delete themselves, admins everyone" on public.users;
create policy "users delete themselves, admins everyone" on public.users for delete to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()));

-- With USERS_WRITE=open, callers without credentials have this role. Otherwise it is unused.
drop policy if exists "editors of users change everyone" on public.users;
create policy "editors of users change everyone" on public.users for update to users_editor
  using (true)
  with check (true);

drop policy if exists "editors of users delete everyone" on public.users;
create policy "editors of users delete everyone" on public.users for delete to users_editor
  using (true);

grant execute on function internal.user_matches(public.users, text) to anon, authenticated, service_role;
grant execute on function
  public.me(), public.create_user(public.users), public.users_avatar(public.users, integer)
  to anon, authenticated, service_role;
--! EndIncluded content/users/access.sql
--! Included content/articles/functions.sql
do $$
begin
  if to_regtype('public.field_error') is null then
    create type public.field_error as (field text, message text);
  end if;
  if to_regtype('public.mutation_result') is null then
    create type public.mutation_result as (
      success boolean,
      message text,
      article public.articles,
      errors public.field_error[]
    );
  end if;
end $$;

comment on type public.field_error is 'An error in one field of the input.';
comment on column public.field_error.field is E'@notNull\nThe name of the field.';
comment on column public.field_error.message is E'@notNull\nThe error, as a sentence.';
comment on type public.mutation_result is 'The result of a mutation.';
comment on column public.mutation_result.success is E'@notNull\nWhether the article was created.';
comment on column public.mutation_result.message is 'The outcome, as a sentence.';
comment on column public.mutation_result.article is 'The article, when it was created.';
comment on column public.mutation_result.errors is 'All errors in the input.';

create or replace function internal.field_errors(input anyelement) returns public.field_error[]
language plpgsql stable set search_path = '' as $$
declare
  rule record;
  holds boolean;
  errors public.field_error[];
begin
  for rule in
    select a.attname as field, obj_description(c.oid, 'pg_constraint') as message,
      pg_get_expr(c.conbin, c.conrelid) as condition, a.attnotnull as is_required
    from pg_type as t
    join pg_constraint as c on c.conrelid = t.typrelid and c.contype = 'c'
    join pg_attribute as a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
    where t.oid = pg_typeof(input)
    order by a.attnum, c.conname
  loop
    execute format('select %s from (select ($1).*) as input', rule.condition) into holds using input;
    -- A null check passes, except in a column that must not be null.
    if not coalesce(holds, not rule.is_required) then
      errors := errors || row(rule.field, coalesce(rule.message, 'invalid value'))::public.field_error;
    end if;
  end loop;
  return errors;
end $$;

comment on function internal.field_errors(anyelement) is
  'All checks of a table that a row violates, with their comments as messages; an insert stops at the first one.';

create or replace function public.create_article(input public.articles) returns public.mutation_result
language plpgsql volatile set search_path = '' as $$
declare
  article public.articles;
  errors public.field_error[];
  message text;
begin
  if auth.uid() is null then
    return row(false, 'login required', null, null)::public.mutation_result;
  end if;
  insert into public.articles (title, content, tags, status)
  values (input.title, input.content, coalesce(input.tags, '{}'), coalesce(input.status, 'DRAFT'))
  returning * into article;
  return row(true, 'article created', article, null)::public.mutation_result;
exception when check_violation or not_null_violation then
  errors := internal.field_errors(input);
  -- Raised by a trigger or by a column that is not part of the input.
  if errors is null then raise; end if;
  select string_agg(e.message, '; ') into message from unnest(errors) as e;
  return row(false, 'the article was not created: ' || message, null, errors)::public.mutation_result;
end $$;

comment on function public.create_article(public.articles) is $$
@notNull
Creates an article with the caller as its author. The result lists all errors in the input.
$$;

create or replace function internal.refuse_article(id bigint, action text) returns void
language plpgsql stable set search_path = '' as $$
begin
  -- Nothing was written: the policy hides the row from this caller's changes, or there is no such row.
  perform from public.articles as a where a.id = refuse_article.id;
  if found then
    raise insufficient_privilege using message = format('only the author may %s this article', action);
  end if;
  raise no_data_found using message = 'no such article';
end $$;

create or replace function public.update_article(id bigint, input public.articles) returns public.articles
language plpgsql volatile set search_path = '' as $$
declare article public.articles;
begin
  update public.articles as a set
    title = coalesce(input.title, a.title),
    content = coalesce(input.content, a.content),
    tags = coalesce(input.tags, a.tags),
    status = coalesce(input.status, a.status)
  where a.id = update_article.id
  returning * into article;
  if not found then perform internal.refuse_article(id, 'update'); end if;
  return article;
end $$;

comment on function public.update_article(bigint, public.articles) is $$
@notNull
@arg1variant patch
Changes the fields that are given. Raises 42501 to anyone but the author, P0002 when there is no such article.
$$;

create or replace function public.publish_article(id bigint) returns public.articles
language plpgsql volatile set search_path = '' as $$
declare article public.articles;
begin
  update public.articles as a set status = 'PUBLISHED'
  where a.id = publish_article.id
  returning * into article;
  if not found then perform internal.refuse_article(id, 'publish'); end if;
  return article;
end $$;

comment on function public.publish_article(bigint) is $$
@notNull
Sets the status to PUBLISHED. Raises 42501 to anyone but the author, P0002 when there is no such article.
$$;

create or replace function public.delete_article(id bigint) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  delete from public.articles as a where a.id = delete_article.id;
  if found then return true; end if;
  perform internal.refuse_article(id, 'delete');
exception when no_data_found then
  return false;
end $$;

comment on function public.delete_article(bigint) is $$
@notNull
Deletes the article and its comments; false when there is no such article. Raises 42501 to anyone but the author.
$$;

create or replace function internal.any_tag_matches(tags text[], pattern text) returns boolean
language sql immutable parallel safe
return exists (select from pg_catalog.unnest(tags) as tag where tag ilike pattern);

-- Contains no subquery: PostgreSQL would not inline it and would not use the index.
create or replace function internal.article_matches(article public.articles, keyword text) returns boolean
language sql immutable parallel safe
-- The first condition uses the trigram index; the others refuse a match that spans two fields.
return internal.search_text(article.title, article.content, article.tags) ilike internal.substring_pattern(keyword)
  and (
    article.title ilike internal.substring_pattern(keyword)
    or article.content ilike internal.substring_pattern(keyword)
    or internal.any_tag_matches(article.tags, internal.substring_pattern(keyword))
  );

create or replace function public.search(keyword text) returns setof public.articles
language sql stable rows 100
begin atomic
  select a.*
  from public.articles as a
  where (select internal.check_keyword(keyword)) and internal.article_matches(a, keyword)
  order by
    lower(a.title) = lower(keyword) desc,
    a.title ilike internal.substring_pattern(keyword) desc,
    exists (select from unnest(a.tags) as tag where lower(tag) = lower(keyword)) desc,
    extensions.word_similarity(keyword, a.title) desc,
    a.created_at desc,
    a.id desc
  limit 1000;
end;

comment on function public.search(text) is $$
@notNull
@behavior +list -connection
@unpaged
Articles whose title, content or tags contain the keyword, regardless of case; best match first, at most 1000.
$$;

create or replace function public.articles_title(article public.articles, language text) returns text
language sql stable parallel safe
return coalesce(
  (
    select t.title from public.article_translations as t
    where t.article_id = article.id and t.language = lower(articles_title.language)
  ),
  article.title
);

comment on function public.articles_title(public.articles, text) is $$
@behavior -typeField
The title in a language such as `de`; the original title when there is no translation.
$$;

create or replace function public.articles_summary(article public.articles, length integer default 200) returns text
language plpgsql immutable set search_path = '' as $$
begin
  length := coalesce(length, 200);
  if length not between 1 and 10000 then
    raise invalid_parameter_value using message = 'length must be from 1 to 10000';
  end if;
  if char_length(article.content) <= length then return article.content; end if;
  -- Up to the last word that ends before the limit, unless the first word is longer than the limit.
  return rtrim(coalesce(
    substring(left(article.content, length) from '^(.*\S)\s+\S*$'),
    left(article.content, length - 1))) || '…';
end $$;

comment on function public.articles_summary(public.articles, integer) is $$
@notNull
The beginning of the content: whole words, at most `length` characters, with … at the end when it is shortened.
$$;

create or replace function public.articles_related_articles(article public.articles, "limit" integer default 5)
returns setof public.articles
language plpgsql stable rows 5 set search_path = '' as $$
begin
  "limit" := coalesce("limit", 5);
  if "limit" not between 0 and 1000 then
    raise invalid_parameter_value using message = 'limit must be from 0 to 1000';
  end if;
  return query
    select other.*
    from public.articles as other
    where other.tags && article.tags and other.id <> article.id
    order by
      (select count(distinct tag) from unnest(other.tags) as tag where tag = any (article.tags)) desc,
      other.created_at desc,
      other.id desc
    limit articles_related_articles."limit";
end $$;

comment on function public.articles_related_articles(public.articles, integer) is $$
@notNull
@behavior +list -connection
@unpaged
Articles that share tags with this one, ordered by the number of shared tags.
$$;

grant execute on function
  internal.field_errors(anyelement), internal.refuse_article(bigint, text), internal.any_tag_matches(text[], text),
  internal.article_matches(public.articles, text)
  to anon, authenticated, service_role;
grant execute on function
  public.create_article(public.articles), public.update_article(bigint, public.articles),
  public.publish_article(bigint), public.delete_article(bigint), public.search(text),
  public.articles_title(public.articles, text), public.articles_summary(public.articles, integer),
  public.articles_related_articles(public.articles, integer)
  to anon, authenticated, service_role;
--! EndIncluded content/articles/functions.sql
--! Included changes/publication.sql
-- The tables whose changes the service sends to subscribers. The old row is logged with each change, so that an update
-- that changes nothing is recognized.
alter table public.articles replica identity full;
alter table public.comments replica identity full;

do $$
begin
  if not exists (select from pg_publication where pubname = 'content_changes') then
    create publication content_changes for table public.articles, public.comments
      with (publish = 'insert, update, delete');
  end if;
  -- Otherwise a stored generated column in one of the tables would make its updates and deletes fail.
  if current_setting('server_version_num')::integer >= 180000 then
    alter publication content_changes set (publish_generated_columns = 'stored');
  end if;
end $$;
--! EndIncluded changes/publication.sql
--! Included auth/accounts/functions.sql
-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.account_of(user_id bigint) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'id', a.user_id::text,
    'username', coalesce(a.username, e.email),
    'name', u.name,
    'role', a.role,
    'permissions', a.permissions,
    'passwordHash', a.password_hash,
    'isDisabled', a.disabled_at is not null,
    'epoch', a.epoch,
    'hasFactor', coalesce(f.enabled_at is not null, false))
  from auth_private.accounts as a
  join public.users as u on u.id = a.user_id
  join auth_private.login_emails as e on e.user_id = a.user_id and e.released_at is null
  left join auth_private.factors as f on f.user_id = a.user_id
  where a.user_id = account_of.user_id
$$;

comment on function auth_api.account_of(bigint) is $$
The account of a user: {id, username, name, role, permissions, passwordHash, isDisabled, epoch, hasFactor}; null if the
user has none. The username is the e-mail that the account signs in with if it has no username.
$$;

create or replace function auth_api.find_account(login text) returns json
language sql stable security definer set search_path = '' as $$
  -- A username has no @, and an e-mail has one. The login as it was sent comes first: a username from before usernames
  -- were normalized may differ from another one only in that.
  select auth_api.account_of(coalesce(
    (select a.user_id from auth_private.accounts as a where lower(a.username) = lower(login)),
    (select a.user_id from auth_private.accounts as a where lower(a.username) = lower(normalize(login, nfkc))),
    (
      select e.user_id from auth_private.login_emails as e
      where lower(e.email) = lower(login)
        and e.released_at is null
    )))
$$;

comment on function auth_api.find_account(text) is
  'The account that signs in with this username or e-mail, as account_of returns it; null if there is none.';

create or replace function auth_api.register(
  name text, email text, age integer, email_skeleton text,
  username text, username_skeleton text, password_hash text)
returns bigint
language plpgsql volatile security definer set search_path = '' as $$
declare
  new_id bigint;
  has_username constant boolean := lower(register.username) <> lower(register.email);
begin
  insert into public.users (name, email, age)
  values (register.name, register.email, register.age)
  returning id into new_id;

  insert into auth_private.accounts (user_id, username, username_skeleton, password_hash)
  values (
    new_id,
    case when has_username then register.username end,
    case when has_username then register.username_skeleton end,
    register.password_hash);

  update auth_private.login_emails as e
  set skeleton = register.email_skeleton
  where e.user_id = new_id
    and register.email_skeleton is not null;
  return new_id;
end $$;

comment on function auth_api.register(text, text, integer, text, text, text, text) is $$
Creates a user with an account and returns the id. If the username is null or the e-mail, the user signs in with the
e-mail. The skeletons say what e-mail and username look like. The constraints of the tables say which values are
refused.
$$;

-- Tokens and sessions carry the epoch that they were issued in: a new epoch ends them.
create or replace function auth_private.begin_epoch() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.epoch := old.epoch + 1;
  return new;
end $$;

comment on function auth_private.begin_epoch() is
  'Ends what was issued to an account when its role, permissions or password change, or it is disabled or enabled.';

create or replace trigger _200_epoch before update on auth_private.accounts
  for each row when (
    old.role is distinct from new.role
    or old.permissions is distinct from new.permissions
    or old.password_hash is distinct from new.password_hash
    or old.disabled_at is distinct from new.disabled_at
  ) execute function auth_private.begin_epoch();

create or replace function auth_private.announce_account() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', json_build_object('user', old.user_id)::text);
  return null;
end $$;

comment on function auth_private.announce_account() is $$
Notifies the channel "accounts" that an account or its credentials have changed or were deleted.
$$;

create or replace trigger _500_announce after update or delete on auth_private.accounts
  for each row execute function auth_private.announce_account();

create or replace function auth_api.end_epoch(user_id bigint) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.accounts as a
  set epoch = a.epoch + 1
  where a.user_id = end_epoch.user_id
$$;

comment on function auth_api.end_epoch(bigint) is $$
Revokes all tokens of a user and ends the session. API keys remain valid.
$$;

create or replace function auth_private.lock_account(user_id bigint, password_hash text) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  -- Before the attempts and the factor, here and elsewhere, so that no two changes wait for each other.
  perform from auth_private.accounts as a
  where a.user_id = lock_account.user_id
    and a.password_hash = lock_account.password_hash
    and a.disabled_at is null
  for no key update;
  return found;
end $$;

comment on function auth_private.lock_account(bigint, text) is $$
Locks an account whose password was verified; false if the password has changed since, or the account is disabled.
$$;

create or replace function auth_api.change_password(
  user_id bigint, old_hash text, password_hash text, sent jsonb, address inet)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare tried json;
begin
  if not auth_private.lock_account(change_password.user_id, old_hash) then
    return json_build_object('outcome', 'changed');
  end if;
  tried := auth_private.require_code(change_password.user_id, sent);
  if tried ->> 'outcome' is distinct from 'accepted' then return tried; end if;

  -- Read by note_account_change.
  perform set_config('request.address', coalesce(host(change_password.address), ''), true);
  update auth_private.accounts as a
  set password_hash = change_password.password_hash
  where a.user_id = change_password.user_id;
  return json_build_object('outcome', 'accepted', 'account', auth_api.account_of(change_password.user_id));
end $$;

comment on function auth_api.change_password(bigint, text, text, jsonb, inet) is $$
Sets another password, which ends what was issued to the user: {outcome, account}, with the account as it is then. The
outcome is "changed" if the old password has changed since or the account is disabled; otherwise as require_code.
$$;

create or replace function auth_private.note_account_change() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  client constant inet := nullif(current_setting('request.address', true), '')::inet;
  happened text;
begin
  foreach happened in array array_remove(array[
    case when old.password_hash is distinct from new.password_hash then 'password_changed' end,
    case when old.disabled_at is null and new.disabled_at is not null then 'account_disabled' end,
    case when old.disabled_at is not null and new.disabled_at is null then 'account_enabled' end,
    case when old.permissions is distinct from new.permissions then 'permissions_changed' end,
    case when old.role is distinct from new.role then 'role_changed' end
  ], null) loop
    insert into public.security_events (event, user_id, address, detail)
    values (
      happened,
      new.user_id,
      client,
      case
        when happened = 'role_changed' then jsonb_build_object('from', old.role, 'to', new.role)
        else '{}'
      end);
  end loop;
  return null;
end $$;

comment on function auth_private.note_account_change() is 'Records each change of an account as a security event.';

create or replace trigger _600_events after update on auth_private.accounts
  for each row execute function auth_private.note_account_change();
--! EndIncluded auth/accounts/functions.sql
--! Included auth/tokens/functions.sql
-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.start_tokens(
  user_id bigint, epoch integer, token_hash bytea, now timestamptz, expires_at timestamptz)
returns uuid
language plpgsql volatile security definer set search_path = '' as $$
declare family_id uuid;
begin
  -- An account that has changed since the password was checked does not sign in.
  insert into auth_private.token_families (user_id, epoch, started_at)
  select a.user_id, a.epoch, start_tokens.now
  from auth_private.accounts as a
  where a.user_id = start_tokens.user_id
    and a.epoch = start_tokens.epoch
    and a.disabled_at is null
  returning id into family_id;
  if not found then return null; end if;

  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at)
  values (start_tokens.token_hash, family_id, start_tokens.expires_at);
  return family_id;
end $$;

comment on function auth_api.start_tokens(bigint, integer, bytea, timestamptz, timestamptz) is $$
Stores the first refresh token of a sign-in, by its SHA-256, and returns the id of its family. Null if the account has
changed since it was found in this epoch.
$$;

create or replace function auth_api.rotate_token(
  old_hash bytea, new_hash bytea, now timestamptz, expires_at timestamptz, grace interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  token auth_private.refresh_tokens;
  family auth_private.token_families;
  account json;
begin
  select *
  into token
  from auth_private.refresh_tokens as t
  where t.token_hash = old_hash;
  if not found then return json_build_object('outcome', 'unknown'); end if;

  -- Uses of one family wait for each other here, then read the token again.
  select *
  into family
  from auth_private.token_families as f
  where f.id = token.family_id
  for update;
  if not found then return json_build_object('outcome', 'unknown'); end if;

  select *
  into token
  from auth_private.refresh_tokens as t
  where t.token_hash = old_hash;
  account := auth_api.account_of(family.user_id);

  if family.revoked_at is not null
    or account is null
    or (account ->> 'isDisabled')::boolean
    or (account ->> 'epoch')::integer <> family.epoch
  then
    return json_build_object('outcome', 'revoked', 'userId', family.user_id::text);
  end if;
  -- Without a grace period reuse is rejected even if the clock of the other process is ahead.
  if token.spent_at is not null and greatest(rotate_token.now - token.spent_at, '0') >= grace then
    -- The token was stolen: the thief and the user both have to sign in again.
    update auth_private.token_families as f
    set revoked_at = rotate_token.now
    where f.id = family.id;
    return json_build_object('outcome', 'reused', 'userId', family.user_id::text);
  end if;
  if token.expires_at <= rotate_token.now then
    return json_build_object('outcome', 'expired', 'userId', family.user_id::text);
  end if;

  update auth_private.refresh_tokens as t
  set spent_at = rotate_token.now
  where t.token_hash = old_hash
    and t.spent_at is null;
  insert into auth_private.refresh_tokens (token_hash, family_id, expires_at)
  values (new_hash, family.id, rotate_token.expires_at);
  return json_build_object(
    'outcome', 'rotated',
    'userId', family.user_id::text,
    'family', family.id,
    'startedAt', family.started_at,
    'account', account);
end $$;

comment on function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz, interval) is $$
Exchanges a refresh token for the next of its family: {outcome, userId, family, startedAt, account}, where outcome is
rotated, unknown, revoked, expired, or reused: a token that was spent before the grace period revokes its whole family.
$$;

create or replace trigger _500_announce after update on auth_private.token_families
  for each row when (old.revoked_at is distinct from new.revoked_at)
  execute function auth_private.announce_account();

create or replace function auth_api.account_state(user_id bigint, since timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'epoch', a.epoch,
    'role', a.role,
    'revoked', array(
      select f.id
      from auth_private.token_families as f
      where f.user_id = account_state.user_id
        and f.revoked_at > account_state.since),
    'kept', array(
      select f.id
      from auth_private.token_families as f
      where f.user_id = account_state.user_id
        and f.kept_at > account_state.since
        and f.epoch = a.epoch))
  from auth_private.accounts as a
  where a.user_id = account_state.user_id
    and a.disabled_at is null
$$;

comment on function auth_api.account_state(bigint, timestamptz) is $$
What an access token of this user must match: {epoch, role, revoked, kept}, where `revoked` lists the token families
that were revoked since, and `kept` those whose tokens may be of an earlier epoch. Null if the user has no account, or
it is disabled.
$$;

create or replace function auth_api.spend_challenge(id uuid, now timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with spent as (
    insert into auth_private.spent_challenges (id, spent_at)
    values (spend_challenge.id, spend_challenge.now)
    on conflict do nothing
    returning id
  )
  select exists (select from spent)
$$;

comment on function auth_api.spend_challenge(uuid, timestamptz) is
  'Spends the challenge of a login, by its jti; false if it was spent before.';
--! EndIncluded auth/tokens/functions.sql
--! Included auth/sessions/functions.sql
create or replace function auth_private.announce_session() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', json_build_object('session', encode(old.id_hash, 'hex'))::text);
  return null;
end $$;

comment on function auth_private.announce_session() is 'Notifies the channel "accounts" that a session has ended.';

create or replace trigger _500_announce_delete after delete on auth_private.sessions
  for each row execute function auth_private.announce_session();
create or replace trigger _500_announce_update after update on auth_private.sessions
  for each row when (old.id_hash is distinct from new.id_hash) execute function auth_private.announce_session();

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.start_session(
  user_id bigint, epoch integer, id_hash bytea, now timestamptz, expires_at timestamptz)
returns boolean
language sql volatile security definer set search_path = '' as $$
  with started as (
    insert into auth_private.sessions as s (id_hash, user_id, epoch, started_at, seen_at, expires_at)
    select start_session.id_hash, a.user_id, a.epoch, start_session.now, start_session.now, start_session.expires_at
    from auth_private.accounts as a
    where a.user_id = start_session.user_id
      and a.epoch = start_session.epoch
      and a.disabled_at is null
    on conflict (user_id) do update
    set id_hash = excluded.id_hash,
      epoch = excluded.epoch,
      started_at = excluded.started_at,
      seen_at = excluded.seen_at,
      expires_at = excluded.expires_at
    returning s.user_id
  )
  select exists (select from started)
$$;

comment on function auth_api.start_session(bigint, integer, bytea, timestamptz, timestamptz) is $$
Starts a session of an account that was found in this epoch, and ends the session that the user has elsewhere. False if
the account has changed since, or is disabled.
$$;

create or replace function auth_api.touch_session(id_hash bytea, now timestamptz, idle interval) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  session auth_private.sessions;
  account json;
begin
  select *
  into session
  from auth_private.sessions as s
  where s.id_hash = touch_session.id_hash;
  if not found then return null; end if;
  account := auth_api.account_of(session.user_id);
  if session.expires_at <= touch_session.now
    or session.seen_at + idle <= touch_session.now
    or account is null
    or (account ->> 'isDisabled')::boolean
    or (account ->> 'epoch')::integer <> session.epoch
  then
    -- Unless it was used or started again in the meantime.
    delete from auth_private.sessions as s
    where s.id_hash = touch_session.id_hash
      and s.seen_at = session.seen_at;
    return null;
  end if;
  update auth_private.sessions as s
  set seen_at = touch_session.now
  where s.id_hash = touch_session.id_hash
    and s.seen_at < touch_session.now;
  return json_build_object('account', account, 'startedAt', session.started_at, 'expiresAt', session.expires_at);
end $$;

comment on function auth_api.touch_session(bytea, timestamptz, interval) is $$
Marks a session as seen now and returns {account, startedAt, expiresAt}. Null if there is none, or it has ended: it was
idle for too long, or its account has changed.
$$;

create or replace function auth_api.end_session(id_hash bytea) returns bigint
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.sessions as s
  where s.id_hash = end_session.id_hash
  returning s.user_id
$$;

comment on function auth_api.end_session(bytea) is 'Ends a session and returns its user; null if there is none.';

create or replace function auth_private.lock_sign_in(user_id bigint, family uuid, session bytea) returns boolean
language sql volatile set search_path = '' as $$
  with account as (
    select a.user_id, a.epoch
    from auth_private.accounts as a
    where a.user_id = lock_sign_in.user_id
      and a.disabled_at is null
    for no key update
  )
  select exists (
    select from account as a
    where (family is null or exists (
        select from auth_private.token_families as f
        where f.id = family
          and f.user_id = a.user_id
          and f.epoch = a.epoch
          and f.revoked_at is null))
      and (session is null or exists (
        select from auth_private.sessions as s
        where s.id_hash = session
          and s.user_id = a.user_id
          and s.epoch = a.epoch)))
$$;

comment on function auth_private.lock_sign_in(bigint, uuid, bytea) is $$
Locks the account of a caller who is signed in with a token of this family or with this session; false if that sign-in
has ended or the account is disabled.
$$;

create or replace function auth_private.end_other_sign_ins(
  user_id bigint, family uuid, session bytea, now timestamptz)
returns void
language plpgsql volatile set search_path = '' as $$
declare begun integer;
begin
  update auth_private.accounts as a
  set epoch = a.epoch + 1
  where a.user_id = end_other_sign_ins.user_id
  returning a.epoch into begun;

  update auth_private.token_families as f
  set epoch = begun,
    kept_at = end_other_sign_ins.now
  where f.id = family;

  update auth_private.sessions as s
  set epoch = begun
  where s.id_hash = session;
end $$;

comment on function auth_private.end_other_sign_ins(bigint, uuid, bytea, timestamptz) is
  'Ends all sign-ins of a user except this token family or session.';
--! EndIncluded auth/sessions/functions.sql
--! Included auth/login_emails/functions.sql
create or replace function auth_private.begin_login_email() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  insert into auth_private.login_emails (email, user_id)
  select u.email, u.id
  from public.users as u
  where u.id = new.user_id;
  return null;
end $$;

comment on function auth_private.begin_login_email() is 'A new account signs in with the e-mail of its user.';

create or replace trigger _300_login_email after insert on auth_private.accounts
  for each row execute function auth_private.begin_login_email();

-- security definer, here and below: callers who may change users may not read accounts.
create or replace function auth_private.refuse_login_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- After the row is written: an insert that has waited for a concurrent change sees what the change has reserved.
  perform from auth_private.login_emails as e
  where lower(e.email) = lower(new.email)
    and e.user_id <> new.id;
  if not found then return null; end if;
  raise unique_violation using
    message = 'email already registered',
    schema = 'public',
    table = 'users',
    constraint = 'users_email_key';
end $$;

comment on function auth_private.refuse_login_email() is
  'Raises 23505 for the e-mail of a user if another account signs in with it, or it is reserved for another account.';

create or replace trigger _300_login_email_insert after insert on public.users
  for each row execute function auth_private.refuse_login_email();
create or replace trigger _300_login_email_update after update of email on public.users
  for each row when (old.email is distinct from new.email) execute function auth_private.refuse_login_email();

create or replace function auth_private.set_login_email(user_id bigint, email text, skeleton text, by text)
returns void
language plpgsql volatile set search_path = '' as $$
declare previous text;
begin
  -- Changes of one account wait for each other.
  perform from auth_private.accounts as a
  where a.user_id = set_login_email.user_id
  for no key update;

  select e.email
  into previous
  from auth_private.login_emails as e
  where e.user_id = set_login_email.user_id
    and e.released_at is null;
  if previous is null or previous = set_login_email.email then return; end if;

  update auth_private.login_emails as e
  set released_at = now()
  where e.email = previous;

  insert into auth_private.login_emails as e (email, user_id, skeleton)
  values (set_login_email.email, set_login_email.user_id, set_login_email.skeleton)
  on conflict ((lower(e.email))) do update
  set email = excluded.email,
    released_at = null
  where e.user_id = excluded.user_id;
  if not found then
    raise unique_violation using
      message = 'email already registered',
      schema = 'auth_private',
      table = 'login_emails',
      constraint = 'login_emails_email_key';
  end if;

  perform from auth_private.login_emails as e
  where e.user_id = set_login_email.user_id
    and e.released_at is not null
  offset 20;
  if found then
    raise program_limit_exceeded using
      message = 'the e-mail was changed 20 times, and the earlier ones are still reserved: '
        'go back to one of them, or try again later';
  end if;

  insert into public.security_events (event, user_id, address, detail)
  values (
    'login_email_changed',
    set_login_email.user_id,
    nullif(current_setting('request.address', true), '')::inet,
    jsonb_build_object('from', previous, 'to', set_login_email.email, 'by', set_login_email.by));
  perform pg_notify('accounts', json_build_object('user', set_login_email.user_id)::text);
end $$;

comment on function auth_private.set_login_email(bigint, text, text, text) is $$
Changes the e-mail that an account signs in with, and reserves the previous one for it. Does nothing for a user without
an account. Raises 23505 if another account has the e-mail, and 54000 if the account has 20 reserved ones.
$$;

create or replace function auth_private.follow_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  insert into public.security_events (event, user_id, address, detail)
  values (
    'email_changed',
    new.id,
    nullif(current_setting('request.address', true), '')::inet,
    jsonb_strip_nulls(jsonb_build_object(
      'from', old.email,
      'to', new.email,
      'role', coalesce(auth.claims() ->> 'role', session_user),
      'user', auth.uid())));

  -- An e-mail with other characters needs the skeleton that the service computes for POST /auth/email.
  if new.id = auth.uid() and auth.has_recent_sign_in() and new.email ~ '^[[:ascii:]]+$' then
    perform auth_private.set_login_email(new.id, new.email, null, 'owner');
  end if;
  return null;
end $$;

comment on function auth_private.follow_email() is $$
Records each change of a user's e-mail as a security event. If the user has made it with a recent sign-in, the user also
signs in with the new e-mail; after a change by an API key, an admin or anyone else the user signs in as before.
$$;

create or replace trigger _600_email after update of email on public.users
  for each row when (old.email is distinct from new.email) execute function auth_private.follow_email();

create or replace function auth_private.store_skeleton(login text, skeleton text) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  if position('@' in login) > 0 then
    update auth_private.login_emails as e
    set skeleton = store_skeleton.skeleton
    where lower(e.email) = lower(login);
  else
    update auth_private.accounts as a
    set username_skeleton = store_skeleton.skeleton
    where lower(a.username) = lower(login);
  end if;
  return true;
exception when unique_violation then
  return false;
end $$;

comment on function auth_private.store_skeleton(text, text) is $$
Stores the skeleton of a username or e-mail. False if it looks like that of another account: both accounts keep what
they sign in with.
$$;

create or replace function auth_api.change_email(user_id bigint, email text, skeleton text, address inet) returns text
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- Read by the triggers of users: the change is the user's.
  perform set_config('request.address', coalesce(host(change_email.address), ''), true),
    set_config('request.jwt.claims', json_build_object('sub', a.user_id::text, 'role', a.role)::text, true)
  from auth_private.accounts as a
  where a.user_id = change_email.user_id;

  update public.users as u
  set email = change_email.email
  where u.id = change_email.user_id
    and u.email <> change_email.email;
  perform auth_private.set_login_email(change_email.user_id, change_email.email, change_email.skeleton, 'owner');
  return 'changed';
exception
  when unique_violation then return 'taken';
  when check_violation then return 'malformed';
  when program_limit_exceeded then return 'too often';
end $$;

comment on function auth_api.change_email(bigint, text, text, inet) is $$
Changes the e-mail of a user and the e-mail that the account signs in with: "changed". Otherwise nothing changes:
"taken" or reserved for another account, "malformed", or "too often": the account has 20 reserved e-mails.
$$;
--! EndIncluded auth/login_emails/functions.sql
--! Included auth/attempts/functions.sql
-- The key that an attempt counts for, as SHA-256: names and IP addresses are not stored.
create or replace function auth_private.attempt_key(variadic parts text[]) returns bytea
language sql stable set search_path = ''
return sha256(convert_to(array_to_json(parts)::text, 'UTF8'));

comment on function auth_private.attempt_key(text[]) is
  'The key of an attempt: attempt_key(''user'', ''1'', ''203.0.113.7'').';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.reserve_attempt(keys bytea[], limits integer[], now timestamptz, span interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  place integer;
  oldest timestamptz;
  undecided integer;
  taken integer;
  is_full boolean := false;
  ids bigint[];
begin
  -- Reservations for one key wait for each other, so that parallel attempts can't exceed the limit.
  for place in select i from generate_subscripts(keys, 1) as i order by keys[i] loop
    perform pg_advisory_xact_lock(hashtextextended('content-service:attempts:' || encode(keys[place], 'hex'), 0));
  end loop;
  for place in select i from generate_subscripts(keys, 1) as i loop
    -- Undecided attempts are counted first: one that is decided in between is counted twice rather than not at all.
    -- An attempt that is undecided for a minute is ignored: its process has ended.
    select count(*)
    into undecided
    from auth_private.attempts as a
    where a.key = keys[place]
      and a.at > reserve_attempt.now - interval '1 minute'
      and not a.counts;

    select count(*), min(a.at)
    into taken, oldest
    from (
      select a.at
      from auth_private.attempts as a
      where a.key = keys[place]
        and a.at > reserve_attempt.now - span
        and a.counts
      order by a.at desc
      limit limits[place]
    ) as a;

    if taken >= limits[place] then
      return json_build_object(
        'retryAfter', greatest(1, ceil(extract(epoch from oldest + span - reserve_attempt.now)))::integer);
    end if;
    is_full := is_full or taken + undecided >= limits[place];
  end loop;
  if is_full then return null; end if;

  with reserved as (
    insert into auth_private.attempts (key, at)
    select key, reserve_attempt.now
    from unnest(keys) as key
    returning id
  )
  select array_agg(id)
  into ids
  from reserved;
  return json_build_object('ids', ids);
end $$;

comment on function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) is $$
Reserves an attempt for each key before it is made: {ids}, or {retryAfter} in seconds when the limit of a key is
reached within `span`. Null while undecided attempts hold the last places.
$$;

create or replace function auth_api.begin_login(
  login text, user_id bigint, address text, attempts integer, attempts_per_address integer,
  now timestamptz, span interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  account constant json := case
    when begin_login.user_id is null then auth_api.find_account(login)
    else auth_api.account_of(begin_login.user_id)
  end;
  found_id constant bigint := coalesce(begin_login.user_id, (account ->> 'id')::bigint);
  reservation json;
  secret bytea;
begin
  reservation := auth_api.reserve_attempt(
    array[
      -- With the IP address, so that a user cannot be locked out from another one.
      case
        when found_id is null then auth_private.attempt_key('name', lower(login), address)
        else auth_private.attempt_key('user', found_id::text, address)
      end,
      auth_private.attempt_key('address', address)
    ],
    array[attempts, attempts_per_address],
    begin_login.now,
    span);
  if reservation ->> 'retryAfter' is not null then
    perform auth_api.note_event('login_throttled', found_id, nullif(address, '')::inet, null, begin_login.now);
  end if;

  select f.secret
  into secret
  from auth_private.factors as f
  where f.user_id = found_id;
  return json_build_object('account', account, 'factor', encode(secret, 'hex'), 'attempt', reservation);
end $$;

comment on function auth_api.begin_login(text, bigint, text, integer, integer, timestamptz, interval) is $$
Finds the account of a login, or of a user, and reserves an attempt for it at this address: {account, factor, attempt},
where `factor` is the encrypted secret in hex and `attempt` is as reserve_attempt returns it. An unknown login costs
the same statements as a known one.
$$;

create or replace function auth_api.reserve_code(user_id bigint, attempts integer, now timestamptz, span interval)
returns json
language sql volatile security definer set search_path = '' as $$
  select auth_api.reserve_attempt(
    array[auth_private.attempt_key('factor', reserve_code.user_id::text)],
    array[attempts],
    reserve_code.now,
    span)
$$;

comment on function auth_api.reserve_code(bigint, integer, timestamptz, interval) is $$
Reserves an attempt at a code of a second factor, from any IP address: the client already knows the password.
$$;

create or replace function auth_api.reserve_registration(
  address text, attempts integer, now timestamptz, span interval)
returns json
language sql volatile security definer set search_path = '' as $$
  select auth_api.reserve_attempt(
    array[auth_private.attempt_key('registration', address)],
    array[attempts],
    reserve_registration.now,
    span)
$$;

comment on function auth_api.reserve_registration(text, integer, timestamptz, interval) is
  'Reserves the creation of an account from an address.';

create or replace function auth_api.settle_attempt(ids bigint[], counts boolean) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.attempts as a
  set counts = true
  where a.id = any (ids)
    and settle_attempt.counts;

  delete from auth_private.attempts as a
  where a.id = any (ids)
    and not settle_attempt.counts;
$$;

comment on function auth_api.settle_attempt(bigint[], boolean) is
  'Decides reserved attempts: they count, or they are deleted.';

create or replace function auth_api.try_code(user_id bigint, sent jsonb, challenge uuid) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  now constant timestamptz := (sent ->> 'now')::timestamptz;
  address constant inet := (sent ->> 'address')::inet;
  reservation constant json := auth_api.reserve_code(
    try_code.user_id, (sent ->> 'attempts')::integer, now, (sent ->> 'span')::interval);
  ids constant bigint[] := array(select json_array_elements_text(reservation -> 'ids')::bigint);
  is_accepted boolean;
begin
  if reservation is null or reservation ->> 'retryAfter' is not null then return reservation; end if;

  if sent ->> 'step' is not null then
    perform from auth_private.factors as f
    where f.user_id = try_code.user_id
      and f.secret = decode(sent ->> 'secret', 'hex');
    is_accepted := found and auth_api.accept_step(try_code.user_id, (sent ->> 'step')::bigint);
  else
    is_accepted := exists (
      select from jsonb_array_elements_text(sent -> 'hashes') as hash
      where auth_api.use_backup_code(try_code.user_id, decode(hash, 'hex'), now));
    if is_accepted then
      perform auth_api.note_event('backup_code_used', try_code.user_id, address, null, now);
    end if;
  end if;

  perform auth_api.settle_attempt(ids, not is_accepted);
  if not is_accepted then
    perform auth_api.note_event('code_failed', try_code.user_id, address, null, now);
    return json_build_object('outcome', 'wrong');
  end if;
  if challenge is not null and not auth_api.spend_challenge(challenge, now) then
    return json_build_object('outcome', 'spent');
  end if;
  return json_build_object('outcome', 'accepted');
end $$;

comment on function auth_api.try_code(bigint, jsonb, uuid) is $$
Spends the code of a second factor and then the challenge, if any: {outcome}, where outcome is accepted, wrong, or
spent: the challenge was used before. A wrong code counts as an attempt. Otherwise as reserve_attempt: {retryAfter}, or
null. `sent` is {secret, step, hashes, address, attempts, now, span}: a code of the app is sent as its secret and step,
a backup code as the hashes under which it may be stored, in hex.
$$;

create or replace function auth_private.require_code(user_id bigint, sent jsonb) returns json
language plpgsql volatile set search_path = '' as $$
begin
  perform from auth_private.factors as f
  where f.user_id = require_code.user_id
    and f.enabled_at is not null;
  if not found then return json_build_object('outcome', 'accepted'); end if;
  if sent is null then return json_build_object('outcome', 'missing'); end if;
  return auth_api.try_code(require_code.user_id, sent, null);
end $$;

comment on function auth_private.require_code(bigint, jsonb) is $$
Spends the code that a change of an account needs, as try_code; the outcome is "missing" if a factor is enabled and no
code was sent. Without a factor no code is needed. The caller has locked the account.
$$;

create or replace function auth_api.purge(
  now timestamptz, attempt_span interval, event_retention interval, email_reservation interval)
returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a
  where a.at < purge.now - attempt_span;

  delete from auth_private.refresh_tokens as t
  where t.expires_at < purge.now - interval '1 day';

  delete from auth_private.token_families as f
  where f.started_at < purge.now - interval '1 day'
    and not exists (select from auth_private.refresh_tokens as t where t.family_id = f.id);

  delete from auth_private.spent_challenges as c
  where c.spent_at < purge.now - interval '1 day';

  delete from auth_private.sessions as s
  where s.expires_at < purge.now;

  delete from auth_private.api_keys as k
  where least(k.revoked_at, k.expires_at) < purge.now - interval '30 days';

  delete from auth_private.login_emails as e
  where e.released_at < purge.now - email_reservation;

  delete from public.security_events as e
  where e.at < purge.now - event_retention;
$$;

comment on function auth_api.purge(timestamptz, interval, interval, interval) is
  'Deletes expired attempts, tokens, sessions, keys, reservations of e-mails and security events.';
--! EndIncluded auth/attempts/functions.sql
--! Included auth/factors/functions.sql
-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.factor_of(user_id bigint, now timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'secret', encode(f.secret, 'hex'),
    'pending', case when f.pending_until > factor_of.now then encode(f.pending, 'hex') end,
    'lastStep', f.last_step)
  from auth_private.factors as f
  where f.user_id = factor_of.user_id
$$;

comment on function auth_api.factor_of(bigint, timestamptz) is
  'The second factor of a user: {secret, pending, lastStep}, secrets encrypted, in hex; null if there is none.';

create or replace function auth_api.begin_factor(user_id bigint, pending bytea, until timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with begun as (
    insert into auth_private.factors as f (user_id, pending, pending_until)
    values (begin_factor.user_id, begin_factor.pending, begin_factor.until)
    on conflict (user_id) do update
    set pending = excluded.pending,
      pending_until = excluded.pending_until
    where f.enabled_at is null
    returning f.user_id
  ), forgotten as (
    -- Earlier attempts were at codes of another secret.
    delete from auth_private.attempts as a
    using begun
    where a.key = auth_private.attempt_key('factor', begun.user_id::text)
  )
  select exists (select from begun)
$$;

comment on function auth_api.begin_factor(bigint, bytea, timestamptz) is
  'Begins an enrolment in place of a pending one, and forgets attempts at codes; false if a factor is enabled.';

create or replace function auth_api.enable_factor(
  user_id bigint, family uuid, session bytea, pending bytea, step bigint, code_hashes bytea[],
  address inet, now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  if not auth_private.lock_sign_in(enable_factor.user_id, family, session) then return false; end if;
  -- The second of two parallel calls no longer finds a pending secret.
  update auth_private.factors as f
  set secret = f.pending,
    pending = null,
    pending_until = null,
    enabled_at = enable_factor.now,
    last_step = enable_factor.step
  where f.user_id = enable_factor.user_id
    and f.pending = enable_factor.pending
    and f.pending_until > enable_factor.now;
  if not found then return false; end if;

  perform auth_private.store_backup_codes(enable_factor.user_id, code_hashes);
  -- A password alone no longer signs the user in, so what was issued for one ends.
  perform auth_private.end_other_sign_ins(enable_factor.user_id, family, session, enable_factor.now);
  perform auth_api.note_event('mfa_enabled', enable_factor.user_id, address, null, enable_factor.now);
  return true;
end $$;

comment on function auth_api.enable_factor(bigint, uuid, bytea, bytea, bigint, bytea[], inet, timestamptz) is $$
Enables a pending factor whose first code, of this step, was right, and ends all sign-ins of the user except the token
family or the session that enables it. False if the factor is not pending, or that sign-in has ended.
$$;

create or replace function auth_api.accept_step(user_id bigint, step bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  with accepted as (
    update auth_private.factors as f
    set last_step = accept_step.step
    where f.user_id = accept_step.user_id
      and f.enabled_at is not null
      and f.last_step < accept_step.step
    returning f.user_id
  )
  select exists (select from accepted)
$$;

comment on function auth_api.accept_step(bigint, bigint) is
  'Spends the code of a step; false if it, or a later one, was spent before.';

create or replace function auth_api.use_backup_code(user_id bigint, code_hash bytea, now timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with used as (
    update auth_private.backup_codes as c
    set used_at = use_backup_code.now
    where c.user_id = use_backup_code.user_id
      and c.code_hash = use_backup_code.code_hash
      and c.used_at is null
    returning c.user_id
  )
  select exists (select from used)
$$;

comment on function auth_api.use_backup_code(bigint, bytea, timestamptz) is
  'Spends a backup code; false if it does not exist, or was spent before.';

create or replace function auth_private.store_backup_codes(user_id bigint, code_hashes bytea[]) returns void
language sql volatile set search_path = '' as $$
  delete from auth_private.backup_codes as c
  where c.user_id = store_backup_codes.user_id;

  insert into auth_private.backup_codes (user_id, code_hash)
  select store_backup_codes.user_id, hash
  from unnest(code_hashes) as hash;
$$;

comment on function auth_private.store_backup_codes(bigint, bytea[]) is 'Replaces the backup codes of a user.';

create or replace function auth_private.confirm_factor_change(user_id bigint, password_hash text, sent jsonb)
returns json
language plpgsql volatile set search_path = '' as $$
begin
  if not auth_private.lock_account(confirm_factor_change.user_id, confirm_factor_change.password_hash) then
    return json_build_object('outcome', 'changed');
  end if;
  if not exists (
    select from auth_private.factors as f
    where f.user_id = confirm_factor_change.user_id
      and f.enabled_at is not null
  ) then return json_build_object('outcome', 'none'); end if;
  return auth_private.require_code(confirm_factor_change.user_id, sent);
end $$;

comment on function auth_private.confirm_factor_change(bigint, text, jsonb) is $$
Locks the account and spends the code that a change of its second factor needs. The outcome is "changed" if the password
has changed since it was verified or the account is disabled, "none" if no factor is enabled; otherwise as require_code.
$$;

create or replace function auth_api.replace_backup_codes(
  user_id bigint, password_hash text, sent jsonb, code_hashes bytea[], address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  tried constant json := auth_private.confirm_factor_change(
    replace_backup_codes.user_id, replace_backup_codes.password_hash, sent);
begin
  if tried ->> 'outcome' is distinct from 'accepted' then return tried; end if;
  perform auth_private.store_backup_codes(replace_backup_codes.user_id, code_hashes);
  perform auth_api.note_event(
    'backup_codes_renewed', replace_backup_codes.user_id, address, null, replace_backup_codes.now);
  return tried;
end $$;

comment on function auth_api.replace_backup_codes(bigint, text, jsonb, bytea[], inet, timestamptz) is
  'Replaces the backup codes of a user: {outcome}, as confirm_factor_change.';

create or replace function auth_api.disable_factor(
  user_id bigint, password_hash text, sent jsonb, address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  tried constant json := auth_private.confirm_factor_change(
    disable_factor.user_id, disable_factor.password_hash, sent);
begin
  if tried ->> 'outcome' is distinct from 'accepted' then return tried; end if;
  delete from auth_private.factors as f
  where f.user_id = disable_factor.user_id;
  perform auth_api.note_event('mfa_disabled', disable_factor.user_id, address, null, disable_factor.now);
  return tried;
end $$;

comment on function auth_api.disable_factor(bigint, text, jsonb, inet, timestamptz) is
  'Removes the second factor of a user and its backup codes: {outcome}, as confirm_factor_change.';

create or replace function auth_private.reset_factor(user_id bigint) returns boolean
language plpgsql volatile set search_path = '' as $$
begin
  perform from auth_private.accounts as a
  where a.user_id = reset_factor.user_id
  for no key update;
  delete from auth_private.factors as f
  where f.user_id = reset_factor.user_id
    and f.enabled_at is not null;
  if not found then return false; end if;
  perform auth_private.end_other_sign_ins(reset_factor.user_id, null, null, now());
  return true;
end $$;

comment on function auth_private.reset_factor(bigint) is $$
For operators: removes a lost second factor without a code, and ends all sign-ins of the user. False if none was
enabled.
$$;
--! EndIncluded auth/factors/functions.sql
--! Included auth/owner.sql
-- Functions of authentication belong to auth_owner, which is not a superuser: they run with its rights.
-- PUBLIC may not execute them.
do $$
declare function regprocedure;
begin
  for function in
    select p.oid
    from pg_proc as p
    where p.pronamespace in ('auth_api'::regnamespace, 'auth_private'::regnamespace)
  loop
    execute format('alter function %s owner to auth_owner', function);
    execute format('revoke all on function %s from public', function);
  end loop;
end $$;
--! EndIncluded auth/owner.sql
--! Included tasks/access.sql
-- tasks_owner owns the tables, and no other role has a grant. Row-level security is on in case one is added by mistake.
alter table tasks.tasks owner to tasks_owner;
alter table tasks.results owner to tasks_owner;
alter table tasks.storage owner to tasks_owner;
alter table graphile_worker.migrations owner to tasks_owner;
alter table tasks.tasks enable row level security;
alter table tasks.results enable row level security;
alter table tasks.storage enable row level security;

-- The functions of tasks read the caller.
grant usage on schema auth to tasks_owner;
grant execute on function auth.claims(), auth.uid() to tasks_owner;
--! EndIncluded tasks/access.sql
--! Included tasks/limits.sql
-- Limits of tasks that concern several of them: how many of an owner run, and how many bytes are stored.
--
-- A *client* is a user, another role, or an anonymous IP address. All anonymous clients are one *owner* and share its
-- turns, and may use half of the storage.
--
-- The functions below change what tasks share, so they need `tasks.lock()`. To avoid deadlocks, a transaction locks the
-- task that it changes first. The transaction of the work never takes the lock: it has what it needs since its
-- beginning.

create or replace function tasks.lock() returns void
language sql volatile set search_path = '' as $$
  select pg_advisory_xact_lock(hashtextextended('content-service:tasks', 0))
$$;

comment on function tasks.lock() is 'Locks the turns of all owners and the storage until the end of the transaction.';

create or replace function tasks.current_round(owner text) returns integer
language sql stable set search_path = ''
return (
  select coalesce(max(t.round), 0)
  from tasks.tasks as t
  where t.owner = current_round.owner
    and t.has_turn
);

comment on function tasks.current_round(text) is 'The round of the owner''s latest turn; 0 if no task has a turn.';

create or replace function tasks.give_turns(owner text, max_running integer) returns integer
language plpgsql volatile set search_path = '' as $$
declare
  given_turns integer;
  held constant bigint := (select count(*) from tasks.tasks as t where t.owner = give_turns.owner and t.has_turn);
begin
  with next as (
    select t.id
    from tasks.tasks as t
    where t.owner = give_turns.owner
      and t.finished_at is null
      and not t.has_turn
    order by t.round, t.created_at
    limit greatest(max_running - held, 0)
    for no key update skip locked
  ), given as (
    update tasks.tasks as t
    set has_turn = true
    from next as n
    where t.id = n.id
    returning t.id
  )
  select count(graphile_worker.add_job('perform', json_build_object('task', g.id))) into given_turns
  from given as g;
  return given_turns;
end $$;

comment on function tasks.give_turns(text, integer) is $$
Gives the next tasks of an owner a job, as long as less than `max_running` have one. So an owner with many tasks has few
jobs in the queue, and those of other owners come next. Returns how many. Needs the lock.
$$;

create or replace function tasks.settle(task uuid, max_running integer default 0) returns void
language plpgsql volatile set search_path = '' as $$
declare
  ended tasks.tasks;
  stored bigint;
begin
  select * into ended
  from tasks.tasks as t
  where t.id = settle.task
    and t.finished_at is not null
  for no key update;
  if not found then return; end if;
  perform tasks.lock();
  stored := tasks.size_of(ended);
  perform tasks.count_bytes(ended.owner, ended.address, stored - ended.bytes);
  update tasks.tasks as t
  set bytes = stored, has_turn = false
  where t.id = settle.task;
  perform tasks.give_turns(ended.owner, max_running);
end $$;

comment on function tasks.settle(uuid, integer) is $$
Releases what a task that has ended no longer needs: the reserved bytes, and its turn, which the next task of the owner
gets.
$$;

create or replace function tasks.settle_lost(max_running integer) returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform tasks.settle(t.id, max_running)
  from (
    select t.id
    from tasks.tasks as t
    where t.has_turn
      and t.finished_at is not null
      and not exists (select from graphile_worker._private_jobs as j where j.payload ->> 'task' = t.id::text)
    for no key update skip locked
  ) as t;
  perform tasks.lock(), tasks.give_turns(o.owner, max_running)
  from (
    select distinct t.owner
    from tasks.tasks as t
    where t.finished_at is null
      and not t.has_turn
  ) as o;
end $$;

comment on function tasks.settle_lost(integer) is
  'Settles the tasks whose worker died before it could, and gives the turns that are free.';

create or replace function tasks.size_of(task tasks.tasks) returns bigint
language sql stable set search_path = ''
-- 4 KiB are for the row, its index entries, its job and an ordinary error.
return 4096
  + octet_length(task.claims::text)
  + coalesce(octet_length(task.request::text), 0)
  + greatest(octet_length(task.error::text) - 1024, 0)
  + (select coalesce(sum(r.bytes), 0)::bigint from tasks.results as r where r.task_id = task.id);

comment on function tasks.size_of(tasks.tasks) is
  'The bytes that the task takes up, without those that it has reserved.';

create or replace function tasks.count_bytes(owner text, address text, difference bigint) returns void
language sql volatile set search_path = '' as $$
  insert into tasks.storage as s (client, bytes)
  select c.client, difference
  from (values
    ('(all)', true),
    ('(anonymous)', address is not null),
    (coalesce(address, owner), true)
  ) as c (client, is_counted)
  where c.is_counted
  on conflict (client) do update set bytes = s.bytes + excluded.bytes
$$;

comment on function tasks.count_bytes(text, text, bigint) is
  'Adds a difference to the stored bytes of a client and of those with whom it shares. Needs the lock.';

create or replace function tasks.space_for(
  owner text,
  address text,
  max_stored_per_client bigint,
  max_stored bigint,
  out own bigint,
  out shared bigint
)
language sql stable set search_path = ''
begin atomic
  select
    max_stored_per_client - coalesce(max(s.bytes) filter (where s.client = coalesce(address, owner)), 0),
    least(
      max_stored - coalesce(max(s.bytes) filter (where s.client = '(all)'), 0),
      case when address is not null then
        max_stored / 2 - coalesce(max(s.bytes) filter (where s.client = '(anonymous)'), 0)
      end
    )
  from tasks.storage as s
  where s.client in ('(all)', '(anonymous)', coalesce(address, owner));
end;

comment on function tasks.space_for(text, text, bigint, bigint) is $$
The bytes that a client may still store: `own` of its own limit, `shared` of the limit that it shares with others. Needs
the lock.
$$;

create or replace function tasks.reserve(
  task tasks.tasks,
  result_limit bigint,
  max_stored_per_client bigint,
  max_stored bigint
) returns tasks.tasks
language plpgsql volatile set search_path = '' as $$
declare
  -- An earlier attempt has reserved them.
  reserved constant bigint := coalesce(task.result_limit, 0);
  allowed bigint;
begin
  perform tasks.lock();
  select greatest(least(reserve.result_limit, reserved + least(s.own, s.shared)), 0) into allowed
  from tasks.space_for(task.owner, task.address, max_stored_per_client, max_stored) as s;
  perform tasks.count_bytes(task.owner, task.address, allowed - reserved);
  update tasks.tasks as t
  set
    result_limit = allowed,
    lacks_space = allowed < reserve.result_limit,
    bytes = t.bytes + allowed - reserved
  where t.id = task.id
  returning * into task;
  return task;
end $$;

comment on function tasks.reserve(tasks.tasks, bigint, bigint, bigint) is
  'Reserves bytes for the result of a task: `result_limit`, or fewer if the storage is nearly full.';
--! EndIncluded tasks/limits.sql
--! Included tasks/functions.sql
-- For callers. These functions are security definer because no role of the API may access the tables: the functions
-- decide what a caller may see and change. In them, current_user is the owner; the setting `role` is the caller's.

create or replace function tasks.caller() returns text
language sql stable set search_path = ''
return coalesce(auth.uid()::text, current_setting('role'));

comment on function tasks.caller() is
  'The owner of the caller''s tasks: the id of the user, or the role of a caller who is not a user.';

create or replace function tasks.is_visible(task tasks.tasks) returns boolean
language sql stable set search_path = ''
return task.owner = tasks.caller()
  -- A task of an anonymous caller: its id can't be guessed, so anyone who knows it may see the task.
  or (task.owner = task.role and task.role <> 'service_role')
  or exists (
    select from pg_roles
    where rolname = current_setting('role')
      and (pg_has_role(oid, 'admin', 'member') or pg_has_role(oid, 'service_role', 'member'))
  );

comment on function tasks.is_visible(tasks.tasks) is 'Whether the caller may see and cancel the task.';

create or replace function tasks.describe(task tasks.tasks) returns json
language sql stable set search_path = ''
return json_build_object(
  'taskId', task.id,
  'status', task.status,
  'progress', json_build_object('done', task.done, 'total', task.total),
  'createdAt', task.created_at,
  'startedAt', task.started_at,
  'finishedAt', task.finished_at,
  'estimate', json_build_object('seconds', task.estimate),
  'error', task.error
);

comment on function tasks.describe(tasks.tasks) is 'The task as JSON, without its result.';

create or replace function tasks.estimate(kind text, total bigint) returns integer
language sql stable set search_path = '' as $$
  with latest as (
    select
      t.total,
      extract(epoch from t.finished_at - t.started_at) as seconds
    from tasks.tasks as t
    where t.kind = estimate.kind
      and t.status = 'succeeded'
    order by t.finished_at desc
    limit 20
  ), paces as (
    -- A task with few rows spends most of its time on work that does not depend on the rows.
    select
      sum(l.seconds) filter (where l.total >= 100) / sum(l.total) filter (where l.total >= 100) as per_row,
      avg(l.seconds) as per_task
    from latest as l
  )
  select least(greatest(ceil(coalesce(estimate.total * p.per_row, p.per_task)), 1), 2147483647)::integer
  from paces as p
$$;

comment on function tasks.estimate(text, bigint) is
  'The seconds that a task will take, at least 1, derived from the latest tasks of its kind.';

create or replace function tasks.accept(
  kind text,
  request json,
  total bigint,
  max_pending integer,
  address text default null,
  max_running integer default 1000000,
  max_stored_per_client bigint default 9223372036854775807,
  max_stored bigint default 9223372036854775807
) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  task tasks.tasks;
  unfinished bigint;
  latest_round integer;
  own bigint;
  shared bigint;
begin
  task.owner := tasks.caller();
  task.address := accept.address;
  task.claims := auth.claims();
  task.request := accept.request;
  perform tasks.lock();
  select count(*), max(t.round) into unfinished, latest_round
  from tasks.tasks as t
  where coalesce(t.address, t.owner) = coalesce(task.address, task.owner)
    and t.finished_at is null;
  if unfinished >= max_pending then return null; end if;

  task.bytes := tasks.size_of(task);
  select * into own, shared from tasks.space_for(task.owner, task.address, max_stored_per_client, max_stored);
  if task.bytes > own then return json_build_object('full', 'own'); end if;
  if task.bytes > shared then return json_build_object('full', 'shared'); end if;

  insert into tasks.tasks (owner, role, claims, kind, request, total, estimate, address, round, bytes)
  values (
    task.owner,
    current_setting('role'),
    task.claims,
    accept.kind,
    accept.request,
    accept.total,
    tasks.estimate(accept.kind, accept.total),
    task.address,
    greatest(latest_round, tasks.current_round(task.owner)) + 1,
    task.bytes
  )
  returning * into task;
  perform tasks.count_bytes(task.owner, task.address, task.bytes);
  perform tasks.give_turns(task.owner, max_running);
  return tasks.describe(task);
end $$;

comment on function tasks.accept(text, json, bigint, integer, text, integer, bigint, bigint) is $$
Creates a task of the caller, who is anonymous if `address` is given. Returns null if the client has `max_pending`
unfinished tasks, and `{"full": "own"}` or `{"full": "shared"}` if the task does not fit into the storage of the client
or of several.
$$;

create or replace function tasks.find(id uuid) returns table (task json, part json)
language sql stable security definer set search_path = '' as $$
  select tasks.describe(t), r.part
  from tasks.tasks as t
  left join tasks.results as r on r.task_id = t.id
  where t.id = find.id
    and tasks.is_visible(t)
  order by r.id
$$;

comment on function tasks.find(uuid) is
  'A task that the caller may see: one row for each part of its result, in order, or one row with a null part.';

create or replace function tasks.list(status text, page_size integer, skipped bigint)
returns table (tasks json, total bigint)
language sql stable security definer set search_path = '' as $$
  with page as (
    select t as task, t.created_at, t.id
    from tasks.tasks as t
    where t.owner = tasks.caller()
      and (list.status is null or t.status = list.status)
    order by t.created_at desc, t.id desc
    limit page_size
    offset skipped
  )
  select
    (
      select coalesce(json_agg(tasks.describe(p.task) order by p.created_at desc, p.id desc), '[]')
      from page as p
    ),
    (
      select count(*)
      from tasks.tasks as t
      where t.owner = tasks.caller()
        and (list.status is null or t.status = list.status)
    )
$$;

comment on function tasks.list(text, integer, bigint) is
  'A page of the caller''s own tasks, newest first, and the number of all of them. A null status matches every task.';

create or replace function tasks.cancel(id uuid) returns table (task json, was_cancelled boolean)
language plpgsql volatile security definer set search_path = '' as $$
declare
  found_task tasks.tasks;
begin
  -- If the work is being committed, its transaction has locked the row, and this waits for it.
  select * into found_task
  from tasks.tasks as t
  where t.id = cancel.id
    and tasks.is_visible(t)
  for no key update;
  if not found then return; end if;

  was_cancelled := found_task.finished_at is null;
  if was_cancelled then
    update tasks.tasks as t
    set status = 'cancelled', finished_at = clock_timestamp(), request = null
    where t.id = cancel.id
    returning * into found_task;
    -- Otherwise the worker settles it, when its transaction has ended.
    if not found_task.has_turn then perform tasks.settle(cancel.id); end if;
  end if;
  task := tasks.describe(found_task);
  return next;
end $$;

comment on function tasks.cancel(uuid) is
  'Cancels a task that the caller may see, unless it has ended. A worker that runs it stops within about a second.';

-- For the transaction of the work, which has the caller's identity.

create or replace function tasks.keep_result(task uuid, part json) returns void
language plpgsql volatile strict security definer set search_path = '' as $$
declare
  size constant bigint := octet_length(part::text);
  kept bigint;
  allowed bigint;
  lacks_space boolean;
begin
  select t.result_limit, t.lacks_space into allowed, lacks_space
  from tasks.tasks as t
  where t.id = task
    and t.status = 'running'
    and t.role = current_setting('role')
    and t.claims = auth.claims();
  if not found then
    raise object_not_in_prerequisite_state using message = 'the task is no longer running';
  end if;

  select coalesce(sum(r.bytes), 0) into kept
  from tasks.results as r
  where r.task_id = task;
  if kept + size > allowed and lacks_space then
    raise sqlstate 'PT429' using message = format(
      'the result of the task is larger than the %s bytes that are left for stored results: '
      'try again when earlier tasks have been deleted',
      allowed
    );
  elsif kept + size > allowed then
    raise program_limit_exceeded using message =
      format('the result of the task is larger than %s bytes: request less data at a time', allowed);
  end if;
  insert into tasks.results (task_id, part, bytes) values (task, part, size);
end $$;

comment on function tasks.keep_result(uuid, json) is $$
Adds a part to the result of a running task of the caller. Several parts are arrays, and are joined to one.
Raises 54000 if the result is too large, and PT429 if the storage for results is nearly full.
$$;

create or replace function tasks.finish(task uuid, run integer) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  update tasks.tasks as t
  set status = 'succeeded', finished_at = clock_timestamp(), done = coalesce(t.total, t.done), request = null
  where t.id = task
    and t.run = finish.run
    and t.status = 'running'
    and t.role = current_setting('role')
    and t.claims = auth.claims();
  if not found then
    raise object_not_in_prerequisite_state using message = 'the task is no longer running';
  end if;
end $$;

comment on function tasks.finish(uuid, integer) is $$
Ends a task of the caller, in the transaction of its work. Raises 55000 if the task was cancelled or a later attempt has
begun, so that the work is rolled back.
$$;

-- For workers, which are tasks_owner. No other role may call these functions.

create or replace function tasks.begin(
  task uuid,
  result_limit bigint,
  max_stored_per_client bigint default 9223372036854775807,
  max_stored bigint default 9223372036854775807
) returns json
language plpgsql volatile set search_path = '' as $$
declare
  begun tasks.tasks;
begin
  update tasks.tasks as t
  set status = 'running', started_at = clock_timestamp(), done = 0, run = t.run + 1, attempts = t.attempts + 1
  where t.id = task
    and t.finished_at is null
  returning * into begun;
  if not found then return null; end if;
  begun := tasks.reserve(begun, result_limit, max_stored_per_client, max_stored);
  return json_build_object(
    'id', begun.id,
    'kind', begun.kind,
    'role', begun.role,
    'claims', begun.claims,
    'request', begun.request,
    'run', begun.run,
    'attempts', begun.attempts,
    'resultLimit', begun.result_limit
  );
end $$;

comment on function tasks.begin(uuid, bigint, bigint, bigint) is $$
Begins an attempt, after which no earlier attempt can end the task, and reserves the bytes of its result, at most
`result_limit`. Returns null if the task has ended.
$$;

create or replace function tasks.advance(task uuid, run integer, done bigint, total bigint) returns boolean
language sql volatile set search_path = '' as $$
  update tasks.tasks as t
  set done = advance.done, total = advance.total
  where t.id = task
    and t.run = advance.run
    and t.status = 'running'
    and (t.done, t.total) is distinct from (advance.done, advance.total);

  select exists (
    select from tasks.tasks as t
    where t.id = task
      and t.run = advance.run
      and t.status = 'running'
  )
$$;

comment on function tasks.advance(uuid, integer, bigint, bigint) is
  'Saves the progress of an attempt. Returns false if it must stop: the task has ended or a later attempt has begun.';

create or replace function tasks.fail(task uuid, run integer, error json) returns void
language sql volatile set search_path = '' as $$
  update tasks.tasks as t
  set status = 'failed', finished_at = clock_timestamp(), error = fail.error, request = null
  where t.id = task
    and t.run = fail.run
    and t.status = 'running'
$$;

comment on function tasks.fail(uuid, integer, json) is 'Ends a task with an error.';

create or replace function tasks.put_back(task uuid, run integer, delay interval, is_attempt boolean) returns void
language plpgsql volatile set search_path = '' as $$
begin
  update tasks.tasks as t
  set
    status = 'pending',
    started_at = null,
    done = 0,
    attempts = t.attempts - case when is_attempt then 0 else 1 end
  where t.id = task
    and t.run = put_back.run
    and t.status = 'running';
  if found then
    perform graphile_worker.add_job('perform', json_build_object('task', task), run_at => now() + delay);
  end if;
end $$;

comment on function tasks.put_back(uuid, integer, interval, boolean) is
  'Ends an attempt; the next one begins after `delay`. Unless `is_attempt`, the attempt is not counted.';

create or replace function tasks.purge(keep interval, keep_anonymous interval default null) returns integer
language plpgsql volatile set search_path = '' as $$
declare
  client record;
  purged integer := 0;
begin
  -- A loop, because the lock must follow the deletion.
  for client in
    with deleted as (
      delete from tasks.tasks as t
      where t.finished_at < now() - keep
        or t.address is not null and t.finished_at < now() - keep_anonymous
      returning t.owner, t.address, t.bytes
    )
    select d.owner, d.address, sum(d.bytes)::bigint as bytes, count(*)::integer as tasks
    from deleted as d
    group by d.owner, d.address
  loop
    perform tasks.lock();
    perform tasks.count_bytes(client.owner, client.address, -client.bytes);
    purged := purged + client.tasks;
  end loop;
  delete from tasks.storage where bytes = 0;
  return purged;
end $$;

comment on function tasks.purge(interval, interval) is $$
Deletes the tasks that ended longer ago than `keep`, or `keep_anonymous` if their caller was anonymous. Returns how
many.
$$;

create or replace function tasks.lock_of(worker text) returns bigint
language sql immutable set search_path = ''
return hashtextextended('content-service:worker:' || worker, 0);

comment on function tasks.lock_of(text) is 'The key of the advisory lock that a worker holds while it is alive.';

create or replace function tasks.free_jobs() returns text[]
language plpgsql volatile set search_path = '' as $$
declare
  dead text[];
begin
  select array_agg(w.name) into dead
  from (
    select distinct j.locked_by as name
    from graphile_worker.jobs as j
    where j.locked_by is not null
  ) as w
  where pg_try_advisory_xact_lock(tasks.lock_of(w.name));
  if dead is null then return '{}'; end if;
  perform graphile_worker.force_unlock_workers(dead);
  -- graphile-worker sends this notification for new jobs. Without it, workers find them at their next poll.
  perform pg_notify('jobs:insert', json_build_object('r', random(), 'count', cardinality(dead))::text);
  return dead;
end $$;

comment on function tasks.free_jobs() is
  'Unlocks the jobs of dead workers, whose advisory lock is free. Returns the names of these workers.';

create or replace function tasks.restore_jobs() returns integer
language plpgsql volatile set search_path = '' as $$
declare
  restored integer;
begin
  perform graphile_worker.add_job('perform', json_build_object('task', t.id))
  from tasks.tasks as t
  where t.finished_at is null
    and t.has_turn
    and not exists (
      select from graphile_worker._private_jobs as j
      where j.payload ->> 'task' = t.id::text
        and j.attempts < j.max_attempts
        -- A worker begins the task as soon as it has locked the job, unless its connection was lost in between.
        and (t.status = 'running' or coalesce(j.locked_at, 'infinity') >= now() - interval '30 seconds')
    );
  get diagnostics restored = row_count;
  return restored;
end $$;

comment on function tasks.restore_jobs() is $$
Adds a job for each unfinished task that has its turn and no job: an attempt that was overtaken deletes the job that it
shares with the later attempt, and a worker that loses its connection while it locks a job never runs it. Returns how
many it added.
$$;

do $$
declare signature regprocedure;
begin
  for signature in select oid::regprocedure from pg_proc where pronamespace = 'tasks'::regnamespace loop
    execute format('alter function %s owner to tasks_owner', signature);
    execute format('revoke all on function %s from public', signature);
  end loop;
end $$;

grant execute on function
  tasks.accept(text, json, bigint, integer, text, integer, bigint, bigint),
  tasks.find(uuid),
  tasks.list(text, integer, bigint),
  tasks.cancel(uuid),
  tasks.keep_result(uuid, json),
  tasks.finish(uuid, integer)
  to anon, authenticated, service_role;
--! EndIncluded tasks/functions.sql
