--! Previous: sha1:0a7af54e366d2249aa2754cd131d828b20b7491d
--! Hash: sha1:61de6dde56878290d8a5d9a0dc257ad99cc11b2a
--! Message: users resource

--! Included roles.sql
-- Who a request can be. Roles belong to the whole server, so each is made only when it is missing.
-- The login roles that may become these are made at start, with their passwords (db/cluster/provision.ts).
do $$
declare name text;
begin
  foreach name in array array['anon', 'authenticated', 'admin', 'users_editor', 'service_role', 'auth_owner'] loop
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

  -- The migrating role hands the tables of authentication to their owner.
  if not pg_has_role('auth_owner', 'member') then
    execute format('grant auth_owner to %I', current_user);
  end if;
end $$;
--! EndIncluded roles.sql
--! Included schemas.sql
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
--! EndIncluded schemas.sql
--! Included keywords/functions.sql
create or replace function internal.substring_pattern(keyword text) returns text
language sql immutable strict parallel safe
return '%' || pg_catalog.regexp_replace(keyword, '([\\%_])', '\\\1', 'g') || '%';

grant execute on function internal.substring_pattern(text) to anon, authenticated, service_role;
--! EndIncluded keywords/functions.sql

comment on function internal.touch() is 'Writes updated_at; the trigger says at which changes.';

-- Every update counts, also one that changes nothing.
create or replace trigger _100_timestamps before update on public.users
  for each row execute function internal.touch();
comment on column public.users.updated_at is 'When the user was last written.';

create or replace function internal.user_text(name text, email text) returns text
language plpgsql immutable parallel safe set search_path = '' as $$
begin
  return name || e'\n' || email;
end $$;
grant execute on function internal.user_text(text, text) to anon, authenticated, users_editor, service_role, auth_owner;

create index if not exists users_search_idx on public.users
  using gin (internal.user_text(name, email) extensions.gin_trgm_ops);
create index if not exists users_name_id_idx on public.users (name, id);
create index if not exists users_created_at_id_idx on public.users (created_at, id);
--! Included users/functions.sql
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
The signed-in caller. Raises 28000 for anybody else.
$$;

create or replace function public.create_user(input public.users) returns public.users
language sql volatile
begin atomic
  insert into public.users (name, email, age) values (input.name, input.email, input.age) returning *;
end;

comment on function public.create_user(public.users) is $$
@notNull
Signs somebody up. Raises 23505 when the e-mail is already registered.
$$;

create or replace function public.users_avatar(person public.users, size integer default 80) returns text
language plpgsql immutable set search_path = '' as $$
begin
  size := coalesce(size, 80);
  if size not between 1 and 2048 then
    raise invalid_parameter_value using message = 'size must be from 1 to 2048';
  end if;
  return person.avatar_url || case when position('?' in person.avatar_url) > 0 then '&' else '?' end || 'size=' || size;
end $$;

comment on function public.users_avatar(public.users, integer) is
  'Address of the user''s picture, `size` pixels wide; null when the user has none.';

create or replace function internal.user_matches(person public.users, keyword text) returns boolean
language sql immutable parallel safe
-- The first condition is for the trigram index; the others keep a match from reaching over the end of a field.
return internal.user_text(person.name, person.email) ilike internal.substring_pattern(keyword)
  and (person.name ilike internal.substring_pattern(keyword) or person.email ilike internal.substring_pattern(keyword));
--! EndIncluded users/functions.sql
--! Included users/access.sql
alter table public.users enable row level security;

grant select on public.users to anon, authenticated, users_editor, auth_owner;
grant insert (name, email, age) on public.users to anon, authenticated, auth_owner;
grant update (name, email, age, avatar_url), delete on public.users to authenticated;
grant update (name, email, age), delete on public.users to users_editor;
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

drop policy if exists "users change themselves, admins everyone" on public.users;
create policy "users change themselves, admins everyone" on public.users for update to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()))
  with check (id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "users delete themselves, admins everyone" on public.users;
create policy "users delete themselves, admins everyone" on public.users for delete to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()));

-- Whoever comes without credentials is one where USERS_WRITE=open; elsewhere nobody is.
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
--! EndIncluded users/access.sql
--! Included comments/functions.sql
create or replace function public.create_comment(article_id bigint, content text) returns public.comments
language plpgsql volatile set search_path = '' as $$
declare
  comment public.comments;
  broken text;
begin
  if article_id is null then raise foreign_key_violation; end if;
  insert into public.comments (article_id, content) values (create_comment.article_id, create_comment.content)
  returning * into comment;
  return comment;
exception when foreign_key_violation then
  get stacked diagnostics broken = constraint_name;
  -- The caller's own row is gone: that is not the article's fault.
  if broken = 'comments_author_id_fkey' then raise; end if;
  raise no_data_found using message = 'no such article';
end $$;

comment on function public.create_comment(bigint, text) is $$
@notNull
Adds a comment; its author is the caller. Raises P0002 when there is no such article.
$$;

create or replace function internal.comment_matches(comment public.comments, keyword text) returns boolean
language sql immutable parallel safe
return comment.content ilike internal.substring_pattern(keyword);
--! EndIncluded comments/functions.sql
--! Included comments/access.sql
alter table public.comments enable row level security;

grant select on public.comments to anon, authenticated;
grant insert (article_id, content), update (content), delete on public.comments to authenticated;
grant all on public.comments to service_role;

drop policy if exists "everyone reads comments" on public.comments;
create policy "everyone reads comments" on public.comments for select
  using (true);

drop policy if exists "callers comment as themselves" on public.comments;
create policy "callers comment as themselves" on public.comments for insert to authenticated
  with check (author_id = (select auth.uid()));

drop policy if exists "authors change their own comments, admins all" on public.comments;
create policy "authors change their own comments, admins all" on public.comments for update to authenticated
  using (author_id = (select auth.uid()) or (select auth.is_admin()))
  with check (author_id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "authors delete their own comments, admins all" on public.comments;
create policy "authors delete their own comments, admins all" on public.comments for delete to authenticated
  using (author_id = (select auth.uid()) or (select auth.is_admin()));

grant execute on function public.create_comment(bigint, text), internal.comment_matches(public.comments, text)
  to anon, authenticated, service_role;
--! EndIncluded comments/access.sql

-- A username with an @ might be somebody else's e-mail: its owner signs in with his own.
alter table auth_private.accounts alter column username drop not null;
update auth_private.accounts set username = null where username like '%@%';
alter table auth_private.accounts
  drop constraint if exists accounts_username_format,
  add constraint accounts_username_format check (username ~ '^[^@:[:space:][:cntrl:]]+$' and char_length(username) <= 100);
comment on index auth_private.accounts_username_key is 'username already taken';
comment on constraint accounts_username_format on auth_private.accounts is
  'username must have 1 to 100 characters, without spaces, colons and @; without a username the e-mail is used';
--! Included accounts/functions.sql
-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.find_account(login text)
returns table (user_id bigint, name text, role text, permissions text[], password_hash text, disabled boolean)
language sql stable security definer set search_path = '' as $$
  select a.user_id, u.name, a.role, a.permissions, a.password_hash, a.disabled_at is not null
  from auth_private.accounts as a
  join public.users as u on u.id = a.user_id
  -- One at most: no username looks like an e-mail.
  where a.user_id in (
    select named.user_id from auth_private.accounts as named where lower(named.username) = lower(login)
    union all
    select known.id from public.users as known where lower(known.email) = lower(login)
  )
$$;

comment on function auth_api.find_account(text) is 'The account that signs in with this username or e-mail; no row when there is none.';

-- security definer: see above.
create or replace function auth_api.register(name text, email text, age integer, username text, password_hash text)
returns bigint
language plpgsql volatile security definer set search_path = '' as $$
declare user_id bigint;
begin
  insert into public.users (name, email, age) values (register.name, register.email, register.age) returning id into user_id;
  -- The check of accounts would only say that it looks like an e-mail.
  perform from public.users as u where lower(u.email) = lower(register.username) and u.id <> user_id;
  if found then
    raise unique_violation using
      message = 'username already taken', schema = 'auth_private', table = 'accounts', constraint = 'accounts_username_key';
  end if;
  insert into auth_private.accounts (user_id, username, password_hash)
  values (user_id, case when lower(register.username) <> lower(register.email) then register.username end, register.password_hash);
  return user_id;
end $$;

comment on function auth_api.register(text, text, integer, text, text) is
  'Signs somebody up with a password and gives the id. The username may be null or the e-mail: either way the e-mail is the login. Raises 23505 when the e-mail or the username is taken.';

-- security definer: see above.
create or replace function auth_api.keep_refresh_token(user_id bigint, token_hash bytea, expires_at timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  insert into auth_private.refresh_tokens (token_hash, user_id, expires_at)
  values (keep_refresh_token.token_hash, keep_refresh_token.user_id, keep_refresh_token.expires_at)
$$;

comment on function auth_api.keep_refresh_token(bigint, bytea, timestamptz) is 'Remembers a refresh token that was issued, by its SHA-256.';

-- The owner of these functions is no superuser: that is all they can do.
alter function auth_api.find_account(text) owner to auth_owner;
alter function auth_api.register(text, text, integer, text, text) owner to auth_owner;
alter function auth_api.keep_refresh_token(bigint, bytea, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded accounts/functions.sql
