--! Previous: -
--! Hash: sha1:2a8f2d4f76d37d27d233f7a52e973aa4dacbcc7c
--! Message: the demo

--! Included roles.sql
-- With USERS_WRITE=open, the role of callers who change and delete users without credentials.
do $$
begin
  if not exists (select from pg_roles where rolname = 'users_editor') then
    create role users_editor nologin;
  end if;
end $$;
--! EndIncluded roles.sql
--! Included public.sql
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
--! EndIncluded public.sql
--! Included functions.sql
create or replace function internal.touch() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.updated_at := now();
  return new;
end $$;

comment on function internal.touch() is 'Sets updated_at. The trigger decides for which changes.';

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

-- Whether a text has a visible character: not only spaces, line breaks and the like.
create or replace function internal.has_text(value text) returns boolean
language sql immutable parallel safe
return value ~ '[^\s\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]';

grant execute on function internal.has_text(text) to anon, authenticated, users_editor, service_role, auth_owner;
--! EndIncluded functions.sql
--! Included users/table.sql
-- The text that a keyword search looks through, one field per line.
create or replace function internal.user_text(name text, email text) returns text
language plpgsql immutable parallel safe set search_path = '' as $$
begin
  return name || e'\n' || email;
end $$;

grant execute on function internal.user_text(text, text) to anon, authenticated, users_editor, service_role, auth_owner;

grant usage on schema auth to users_editor;
grant execute on function auth.is_email(text) to users_editor;

create table public.users (
  id         bigint generated always as identity primary key,
  name       text not null,
  email      text not null,
  age        integer,
  avatar_url text,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),

  constraint users_name_length check (internal.has_text(name) and char_length(name) <= 200),
  constraint users_email_format check (auth.is_email(email)),
  constraint users_age_range check (age between 0 and 150),
  constraint users_avatar_url_format check (avatar_url ~ '^https?://[^[:space:]]+$' and char_length(avatar_url) <= 2000)
);

-- E-mails are unique regardless of case; sign-in by e-mail.
create unique index users_email_key on public.users (lower(email));
-- users by keyword.
create index users_search_idx on public.users using gin (internal.user_text(name, email) extensions.gin_trgm_ops);
-- users sorted by name.
create index users_name_id_idx on public.users (name, id);
-- users sorted by the time of sign-up.
create index users_created_at_id_idx on public.users (created_at, id);

-- Runs for every update, even one that changes no value.
create or replace trigger _100_timestamps before update on public.users
  for each row execute function internal.touch();

comment on table public.users is $$
@behavior +query:resource:list
A person who writes articles and comments.
$$;
comment on column public.users.id is 'Assigned by the service, increasing.';
comment on column public.users.name is 'The name shown to others; 1 to 200 characters.';
comment on column public.users.email is 'Unique among users, regardless of case.';
comment on column public.users.age is 'In years, 0 to 150.';
comment on column public.users.avatar_url is E'@behavior -select\nThe URL of a picture, http or https.';
comment on column public.users.created_at is 'When the user signed up.';
comment on column public.users.updated_at is 'When the user was last updated.';

-- The comment of a constraint is the message that a client receives when a value violates it.
comment on index public.users_email_key is 'email already registered';
comment on constraint users_name_length on public.users is 'name must have 1 to 200 characters';
comment on constraint users_email_format on public.users is 'email must be a valid address';
comment on constraint users_age_range on public.users is 'age must be from 0 to 150';
comment on constraint users_avatar_url_format on public.users is 'avatar_url must be an http or https URL';
--! EndIncluded users/table.sql
--! Included users/private_emails.sql
-- With USERS_EMAIL=private, the e-mails of users. public.users then has placeholders, so that no interface, filter,
-- order, aggregate or event can tell an e-mail.
create table if not exists internal.private_emails (
  user_id bigint primary key,
  email   text not null,

  -- Deferred: the e-mail of a new user is stored before the row of the user.
  constraint private_emails_user_id_fkey foreign key (user_id) references public.users on delete cascade
    deferrable initially deferred,
  constraint users_email_format check (auth.is_email(email))
);
-- E-mails are unique regardless of case, as in public.users.
create unique index if not exists users_email_key on internal.private_emails (lower(email));
alter table internal.private_emails enable row level security;

comment on table internal.private_emails is 'With USERS_EMAIL=private, the e-mails of users.';
comment on index internal.users_email_key is 'email already registered';
comment on constraint users_email_format on internal.private_emails is 'email must be a valid address';

create or replace function internal.is_placeholder(email text) returns boolean
language sql immutable parallel safe
return email ~ '^hidden-[0-9]+@users[.]invalid$';

comment on function internal.is_placeholder(text) is 'Whether a text stands in public.users for a private e-mail.';

-- security definer: callers may change e-mails, but may not read private ones.
create or replace function internal.hide_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare placeholder constant text := format('hidden-%s@users.invalid', new.id);
begin
  if current_setting('internal.shows_emails', true) = 'on' then
    -- The user has not changed.
    new.updated_at := old.updated_at;
  elsif internal.is_placeholder(new.email) and new.email <> placeholder then
    raise check_violation using
      message = 'email must be a valid address',
      schema = 'public',
      table = 'users',
      constraint = 'users_email_format';
  end if;
  -- A client that sends back what it has read changes nothing.
  if new.email = placeholder or auth_api.setting('users_email') is distinct from 'private' then return new; end if;

  insert into internal.private_emails as p (user_id, email)
  values (new.id, new.email)
  on conflict on constraint private_emails_pkey do update
  set email = excluded.email
  where p.email <> excluded.email;
  new.email := placeholder;
  return new;
end $$;

comment on function internal.hide_email() is
  'With USERS_EMAIL=private, stores the e-mail of a user where callers cannot read it, and a placeholder in its place.';

create or replace trigger _200_email before insert or update of email on public.users
  for each row when (new.email is not null) execute function internal.hide_email();

create or replace trigger _300_login_email_insert after insert on internal.private_emails
  for each row execute function auth_api.refuse_email('user_id', 'email', 'users_email_key');
create or replace trigger _300_login_email_update after update on internal.private_emails
  for each row execute function auth_api.refuse_email('user_id', 'email', 'users_email_key');
create or replace trigger _600_email after update on internal.private_emails
  for each row execute function auth_api.follow_email('user_id', 'email');

create or replace function internal.show_emails(are_public boolean) returns void
language plpgsql volatile set search_path = '' as $$
declare
  hiding constant text := (
    select string_agg(quote_ident(policy.polname), ', ' order by policy.polname)
    from pg_policy as policy
    where policy.polrelid = 'public.users'::regclass
      and not policy.polpermissive
      and policy.polcmd in ('*', 'r', 'w')
      and exists (
        select from unnest(policy.polroles) as role
        where role = 0
          or pg_has_role(role, 'usage')));
begin
  -- What a policy hides from this function would stay visible to others.
  if not are_public and hiding is not null then
    raise insufficient_privilege using
      message = format(
        'USERS_EMAIL=private cannot hide all e-mails: the restrictive policy %s on public.users applies to auth_owner',
        hiding),
      hint = 'Name the roles of its callers: alter policy … on public.users to anon, authenticated, service_role;';
  end if;
  if are_public and not exists (select from internal.private_emails) then return; end if;

  perform set_config('internal.shows_emails', 'on', true);
  if are_public then
    update public.users as u
    set email = p.email
    from internal.private_emails as p
    where p.user_id = u.id;
    delete from internal.private_emails;
  else
    update public.users as u
    set email = u.email
    where not internal.is_placeholder(u.email);
  end if;
  perform set_config('internal.shows_emails', '', true);
end $$;

comment on function internal.show_emails(boolean) is
  'For a changed USERS_EMAIL: moves the e-mails of all users to where callers can read them, or cannot.';

-- security definer: the function decides who may read.
create or replace function internal.private_email(user_id bigint, shown text) returns text
language sql stable security definer set search_path = '' as $$
  select coalesce(
    (select p.email from internal.private_emails as p where p.user_id = private_email.user_id),
    shown)
  where private_email.user_id = auth.uid()
    or exists (
      select from pg_roles as r
      -- The role of the caller, in contrast to current_user.
      where r.rolname = current_setting('role')
        and (r.rolbypassrls or pg_has_role(r.oid, 'admin', 'member')))
$$;

comment on function internal.private_email(bigint, text) is
  'The e-mail of a user, which public.users shows in this form; null unless the caller is the user or an operator.';

create or replace function public.users_private_email(person public.users) returns text
language sql stable set search_path = ''
return internal.private_email(person.id, person.email);

comment on function public.users_private_email(public.users) is
  'The e-mail, whatever USERS_EMAIL says; null unless the caller is the user or an administrator.';

revoke all on function
  internal.is_placeholder(text), internal.show_emails(boolean), internal.private_email(bigint, text),
  internal.hide_email()
  from public;
grant execute on function internal.show_emails(boolean) to auth_owner;
grant execute on function internal.is_placeholder(text) to auth_owner;
grant execute on function internal.private_email(bigint, text) to anon, authenticated, service_role;
grant execute on function public.users_private_email(public.users) to anon, authenticated, service_role;

select auth.use_hook('users_email', 'internal.show_emails(boolean)');

-- As auth_owner, which may call the functions of authentication.
do $$
begin
  grant create on schema internal to auth_owner;
  alter table internal.private_emails owner to auth_owner;
  alter function internal.hide_email() owner to auth_owner;
  alter function internal.private_email(bigint, text) owner to auth_owner;
  revoke create on schema internal from auth_owner;
end $$;
--! EndIncluded users/private_emails.sql
--! Included users/functions.sql
create or replace function public.me() returns public.users
language plpgsql stable set search_path = '' as $$
declare caller public.users;
begin
  select * into caller from public.users where id = auth.uid();
  if found then
    caller.email := coalesce(internal.private_email(caller.id, caller.email), caller.email);
    return caller;
  end if;
  raise invalid_authorization_specification using message = 'login required';
end $$;

comment on function public.me() is $$
@notNull
The signed-in caller. Fails with AUTH_REQUIRED if the caller is not signed in.
$$;

create or replace function internal.add_user(fields jsonb) returns public.users
language plpgsql volatile set search_path = '' as $$
declare
  columns constant text := (select string_agg(quote_ident(name), ', ') from jsonb_object_keys(fields) as name);
  given constant text :=
    '(' || columns || ') select ' || columns || ' from jsonb_populate_record(null::public.users, $1)';
  added public.users;
begin
  execute 'insert into public.users ' || coalesce(given, 'default values') || ' returning *' into added using fields;
  return added;
end $$;

comment on function internal.add_user(jsonb) is $$
Inserts a user with these columns; the others get their defaults. It runs with the rights of its caller, so the grants
on the columns decide what a new user may have.
$$;

create or replace function internal.new_user(fields jsonb) returns bigint
language plpgsql volatile set search_path = '' as $$
begin
  perform internal.release_email(fields ->> 'email');
  -- What users say about themselves at /auth/v1 is no column: the account keeps it.
  return (internal.add_user(fields - 'data')).id;
end $$;

comment on function internal.new_user(jsonb) is $$
For sign-up: inserts a user with these columns, and returns the id. A user whom a caller has added without an account
loses the e-mail.
$$;

create or replace function internal.new_email(user_id bigint, email text) returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform internal.release_email(new_email.email);
  update public.users as u
  set email = new_email.email
  where u.id = new_email.user_id
    and u.email <> new_email.email;
end $$;

comment on function internal.new_email(bigint, text) is
  'For POST /auth/email and operators: changes the e-mail of a user together with the e-mail of the account.';

create or replace function public.create_user(input public.users) returns public.users
language sql volatile
return internal.add_user(jsonb_strip_nulls(to_jsonb(input)));

comment on function public.create_user(public.users) is $$
@behavior -flatMutationField
Creates a user, for clients of /rest/v1. The createUser of GraphQL inserts into the table instead, which is faster.
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

create or replace function internal.is_open_to_editors() returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from pg_auth_members as m
    join pg_roles as login on login.oid = m.member
    where m.roleid = 'users_editor'::regrole
      and login.rolname = session_user
  )
$$;

comment on function internal.is_open_to_editors() is
  'Whether callers without credentials may change and delete every user (USERS_WRITE=open).';

create or replace function internal.protect_account() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  if old.id = auth.uid() and not internal.is_open_to_editors() then
    perform auth.require_recent_sign_in();
  end if;
  return old;
end $$;

comment on function internal.protect_account() is
  'A user who deletes themselves needs a recent sign-in: a stolen token must not delete its owner.';

-- Not for users_editor, the role of callers without credentials: they do not delete their own user.
create or replace trigger _200_protect_account before delete on public.users
  for each row when (current_user <> 'users_editor')
  execute function internal.protect_account();

-- Accounts keep the name of the user, and the e-mail that the account signs in with.
create or replace trigger _300_login_email_insert after insert on public.users
  for each row execute function auth_api.refuse_email('id', 'email', 'users_email_key');
create or replace trigger _300_login_email_update after update of email on public.users
  for each row when (old.email is distinct from new.email)
  execute function auth_api.refuse_email('id', 'email', 'users_email_key');
-- Not while USERS_EMAIL hides the e-mails, or shows them again.
create or replace trigger _600_email after update of email on public.users
  for each row when (
    old.email is distinct from new.email
    and old.email not like 'hidden-%@users.invalid'
    and new.email not like 'hidden-%@users.invalid'
  ) execute function auth_api.follow_email('id', 'email');
create or replace trigger _600_name after update of name on public.users
  for each row when (old.name is distinct from new.name) execute function auth_api.follow_name('id', 'name');
--! EndIncluded users/functions.sql
--! Included users/added.sql
-- Users whom callers have added without an account, at POST /users for example. An account may take their e-mail.
create table if not exists internal.added_users (
  user_id bigint primary key references public.users on delete cascade
);
comment on table internal.added_users is
  'Users whom callers, and not operators, have added without an account: their e-mails are not reserved.';
alter table internal.added_users enable row level security;

-- security definer: callers may add users, but may not read which ones.
create or replace function internal.note_added_users() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare
  -- The role of the caller, in contrast to current_user.
  role constant text := current_setting('role');
  total constant bigint := (select count(*) from added);
begin
  -- "none": the service, which counts registrations itself, and SQL clients.
  if role = 'none' or pg_has_role(role, 'admin', 'member')
    or (select r.rolbypassrls from pg_roles as r where r.rolname = role)
  then
    return null;
  end if;

  insert into internal.added_users (user_id)
  select a.id
  from added as a;
  if internal.is_open_to_editors() then return null; end if;

  if total > 1 and auth.uid() is null then
    raise insufficient_privilege using message = 'sign in to add several users at once';
  end if;
  perform auth_api.count_added_users(total);
  return null;
end $$;

comment on function internal.note_added_users() is $$
Counts the users that a statement has added like registrations from the network of the caller, unless the caller is an
administrator or bypasses row-level security. Raises 42501 if an anonymous caller adds several. With USERS_WRITE=open
they do not count: every caller may change and delete every user.
$$;

create or replace trigger _400_added_users after insert on public.users
  referencing new table as added
  for each statement execute function internal.note_added_users();

create or replace function internal.release_email(email text) returns void
language sql volatile set search_path = '' as $$
  update public.users as u
  set email = 'released-' || gen_random_uuid() || '@users.invalid'
  where (
      lower(u.email) = lower(release_email.email)
      or u.id = (select p.user_id from internal.private_emails as p where lower(p.email) = lower(release_email.email))
    )
    and exists (select from internal.added_users as a where a.user_id = u.id)
    and not auth_api.has_account(u.id)
$$;

comment on function internal.release_email(text) is $$
Takes an e-mail from a user whom a caller has added without an account, so that a person can sign in with it. The user
keeps everything else: nothing that was prepared for this row gets to the person.
$$;

-- As auth_owner: callers may add users, but may not read who has an account. It may create nothing else here.
do $$
begin
  grant create on schema internal to auth_owner;
  alter table internal.added_users owner to auth_owner;
  alter function internal.note_added_users() owner to auth_owner;
  revoke create on schema internal from auth_owner;
end $$;
--! EndIncluded users/added.sql
--! Included users/access.sql
alter table public.users enable row level security;

grant select on public.users to anon, authenticated, users_editor, auth_owner;
-- The columns of a new user, on every interface and at sign-up.
grant insert (name, email, age) on public.users to anon, authenticated, auth_owner;
grant update (name, email, age, avatar_url), delete on public.users to authenticated;
grant update (name, email, age), delete on public.users to users_editor;
grant update (email) on public.users to auth_owner;
grant all on public.users to service_role;

drop policy if exists "everyone reads users" on public.users;
create policy "everyone reads users" on public.users for select
  using (true);

drop policy if exists "everyone may sign up" on public.users;
create policy "everyone may sign up" on public.users for insert to anon, authenticated
  with check (true);
comment on policy "everyone may sign up" on public.users is
  '@accept policy-always-true constraints check the values of a new user';

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
comment on policy "editors of users change everyone" on public.users is
  '@accept policy-always-true the operator decides with USERS_WRITE=open';

drop policy if exists "editors of users delete everyone" on public.users;
create policy "editors of users delete everyone" on public.users for delete to users_editor
  using (true);
comment on policy "editors of users delete everyone" on public.users is
  '@accept policy-always-true the operator decides with USERS_WRITE=open';

grant execute on function internal.user_matches(public.users, text) to anon, authenticated, service_role;
grant execute on function internal.is_open_to_editors() to authenticated, service_role, auth_owner;
grant execute on function internal.add_user(jsonb) to anon, authenticated, service_role, auth_owner;
grant execute on function internal.new_user(jsonb), internal.new_email(bigint, text), internal.release_email(text)
  to auth_owner;
grant execute on function
  public.me(), public.create_user(public.users), public.users_avatar(public.users, integer)
  to anon, authenticated, service_role;
--! EndIncluded users/access.sql
--! Included users/sign_up.sql
-- Accounts belong to users, and sign-up creates users.
select auth.use_users('public.users');
select auth.use_hook('new_user', 'internal.new_user(jsonb)');
select auth.use_hook('new_email', 'internal.new_email(bigint, text)');
--! EndIncluded users/sign_up.sql
--! Included users/events.sql
-- Sign-ins, failures and changes of accounts. For service_role, over /rest/v1 too.
create or replace view public.security_events as
  select e.id, e.at, e.event, e.user_id::bigint as user_id, e.address, e.detail, e.operator
  from auth_private.security_events as e;

comment on view public.security_events is $$
@behavior -query:resource:list -query:resource:connection -query:resource:single -insert -update -delete
@accept view-without-security-invoker only service_role, which bypasses policies, may read it
Sign-ins, failures and changes of accounts.
$$;
comment on column public.security_events.id is 'Assigned by the database, increasing.';
comment on column public.security_events.at is 'When it happened.';
comment on column public.security_events.event is
  'What happened: login, login_failed, login_throttled, logout, token_reused, password_changed …';
comment on column public.security_events.user_id is 'The user whose account it is.';
comment on column public.security_events.address is 'The IP address of the client.';
comment on column public.security_events.detail is 'Further details; no secrets.';
comment on column public.security_events.operator is
  'Who acted instead of the user: "user 3", "role service_role", or "login content" for SQL; null if the user acted.';

grant select on public.security_events to service_role;
--! EndIncluded users/events.sql
--! Included articles/table.sql
do $$
begin
  if to_regtype('public.article_status') is null then
    create type public.article_status as enum ('DRAFT', 'PUBLISHED', 'ARCHIVED');
  end if;
end $$;

-- A check cannot contain the subquery that looks into an array.
create or replace function internal.tags_are_valid(tags text[]) returns boolean
language sql immutable parallel safe
return not exists (
  select from pg_catalog.unnest(tags) as tag
  where tag is null or not internal.has_text(tag) or pg_catalog.char_length(tag) > 50
);

-- The text that a search looks through, one field per line. plpgsql, because array_to_string is only marked stable; for
-- text[] it is immutable.
create or replace function internal.search_text(title text, content text, tags text[]) returns text
language plpgsql immutable parallel safe set search_path = '' as $$
begin
  return title || e'\n' || content || e'\n' || array_to_string(tags, e'\n');
end $$;

grant execute on function internal.tags_are_valid(text[]), internal.search_text(text, text, text[])
  to anon, authenticated, service_role;

create table public.articles (
  id         bigint generated always as identity primary key,
  author_id  bigint not null default auth.uid() references public.users on delete restrict,
  title      text not null,
  content    text not null,
  status     public.article_status not null default 'DRAFT',
  tags       text[] not null default '{}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3), -- null until the first update

  constraint articles_title_length check (char_length(title) >= 5),
  -- Shorter titles, and none, violate articles_title_length.
  constraint articles_title_text check (coalesce(char_length(title), 0) < 5 or internal.has_text(title)),
  constraint articles_content_text check (internal.has_text(content)),
  -- None violates articles_content_text.
  constraint articles_content_length check (octet_length(coalesce(content, '')) <= 1048576),
  constraint articles_tags_length check (internal.tags_are_valid(tags))
);

-- articles, newest first.
create index articles_created_at_id_idx on public.articles (created_at desc, id desc);
-- articles(status:), newest first.
create index articles_status_created_at_id_idx on public.articles (status, created_at desc, id desc);
-- User.articles, newest first.
create index articles_author_id_created_at_id_idx on public.articles (author_id, created_at desc, id desc);
-- articles(filter: {tag:}) and Article.relatedArticles.
create index articles_tags_idx on public.articles using gin (tags);
-- search(keyword:) and articles(filter: {keyword:}).
create index articles_search_idx on public.articles
  using gin (internal.search_text(title, content, tags) extensions.gin_trgm_ops);

create or replace trigger _100_timestamps before update on public.articles
  for each row when (old.* is distinct from new.*) execute function internal.touch();

-- The old row is logged with each change, so that policies decide who sees a deletion.
alter table public.articles replica identity full;

comment on table public.articles is $$
@order created_at desc, id desc
An article written by a user.
$$;
comment on type public.article_status is 'The stage of an article.';
comment on column public.articles.id is 'Assigned by the service, increasing.';
comment on column public.articles.author_id is E'@behavior -select\nThe user who wrote the article.';
comment on column public.articles.title is E'@behavior +filterBy +orderBy\nAt least 5 characters.';
comment on column public.articles.content is 'The text, at most 1 MiB.';
comment on column public.articles.status is E'@filterable\nDRAFT until the article is published.';
comment on column public.articles.tags is E'@notNullItems\nKeywords of 1 to 50 characters each.';
comment on column public.articles.created_at is 'When the article was created.';
comment on column public.articles.updated_at is 'When the article last changed; null until the first change.';

comment on constraint articles_title_length on public.articles is 'title must have at least 5 characters';
comment on constraint articles_title_text on public.articles is 'title must not be blank';
comment on constraint articles_content_text on public.articles is 'content must not be empty';
comment on constraint articles_content_length on public.articles is 'content must not be longer than 1 MiB';
comment on constraint articles_tags_length on public.articles is 'each tag must have 1 to 50 characters';
comment on constraint articles_author_id_fkey on public.articles is
  'the author of an article must exist, and cannot be deleted before it';
--! EndIncluded articles/table.sql
--! Included articles/access.sql
alter table public.articles enable row level security;

grant select on public.articles to anon, authenticated;
grant insert (title, content, tags, status), update (title, content, tags, status), delete
  on public.articles to authenticated;
grant all on public.articles to service_role;

drop policy if exists "everyone reads articles" on public.articles;
create policy "everyone reads articles" on public.articles for select
  using (true);

drop policy if exists "authors write their own articles" on public.articles;
create policy "authors write their own articles" on public.articles for insert to authenticated
  with check (author_id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "authors change their own articles, admins all" on public.articles;
create policy "authors change their own articles, admins all" on public.articles for update to authenticated
  using (author_id = (select auth.uid()) or (select auth.is_admin()))
  with check (author_id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "authors delete their own articles, admins all" on public.articles;
create policy "authors delete their own articles, admins all" on public.articles for delete to authenticated
  using (author_id = (select auth.uid()) or (select auth.is_admin()));
--! EndIncluded articles/access.sql
--! Included translations/table.sql
create table public.article_translations (
  article_id bigint not null references public.articles on delete cascade,
  language   text not null,
  title      text not null,

  primary key (article_id, language),
  constraint article_translations_language_format check (language ~ '^[a-z]{2,3}(-[a-z0-9]{2,8})*$'),
  constraint article_translations_title_length check (char_length(title) >= 5),
  -- Shorter titles, and none, violate article_translations_title_length.
  constraint article_translations_title_text check (coalesce(char_length(title), 0) < 5 or internal.has_text(title))
);

comment on table public.article_translations is 'The title of an article in another language.';
comment on column public.article_translations.article_id is E'@behavior -select\nThe article.';
comment on column public.article_translations.language is 'A language tag in lower case, such as de or pt-br.';
comment on column public.article_translations.title is 'At least 5 characters.';
comment on constraint article_translations_language_format on public.article_translations is
  'language must be a tag in lower case, such as de or pt-br';
comment on constraint article_translations_title_length on public.article_translations is
  'title must have at least 5 characters';
comment on constraint article_translations_title_text on public.article_translations is 'title must not be blank';
comment on constraint article_translations_article_id_fkey on public.article_translations is
  E'@foreignFieldName translations\narticle not found';
--! EndIncluded translations/table.sql
--! Included translations/access.sql
alter table public.article_translations enable row level security;

grant select on public.article_translations to anon, authenticated;
grant insert (article_id, language, title), update (title), delete on public.article_translations to authenticated;
grant all on public.article_translations to service_role;

drop policy if exists "everyone reads translations" on public.article_translations;
create policy "everyone reads translations" on public.article_translations for select
  using (true);

drop policy if exists "authors translate their own articles, admins all" on public.article_translations;
create policy "authors translate their own articles, admins all" on public.article_translations to authenticated
  using (
    (select auth.is_admin())
    or exists (select from public.articles as a where a.id = article_id and a.author_id = (select auth.uid()))
  )
  with check (
    (select auth.is_admin())
    or exists (select from public.articles as a where a.id = article_id and a.author_id = (select auth.uid()))
  );
--! EndIncluded translations/access.sql
--! Included comments/table.sql
create table public.comments (
  id         bigint generated always as identity primary key,
  article_id bigint not null references public.articles on delete cascade,
  author_id  bigint not null default auth.uid() references public.users on delete restrict,
  content    text not null,
  created_at timestamptz(3) not null default now(),

  constraint comments_content_text check (internal.has_text(content)),
  -- None violates comments_content_text.
  constraint comments_content_length check (octet_length(coalesce(content, '')) <= 1048576)
);

-- Article.comments, newest first.
create index comments_article_id_created_at_id_idx on public.comments (article_id, created_at desc, id desc);
-- User.comments, newest first.
create index comments_author_id_created_at_id_idx on public.comments (author_id, created_at desc, id desc);
-- comments, newest first.
create index comments_created_at_id_idx on public.comments (created_at desc, id desc);

-- The old row is logged with each change, so that policies decide who sees a deletion.
alter table public.comments replica identity full;

comment on table public.comments is $$
@order created_at desc, id desc
A comment by a user on an article.
$$;
comment on column public.comments.id is 'Assigned by the service, increasing.';
comment on column public.comments.article_id is E'@behavior -select\nThe article that the comment is about.';
comment on column public.comments.author_id is E'@behavior -select\nThe user who wrote the comment.';
comment on column public.comments.content is 'The text, at most 1 MiB.';
comment on column public.comments.created_at is 'When the comment was created.';
comment on constraint comments_content_text on public.comments is 'content must not be empty';
comment on constraint comments_content_length on public.comments is 'content must not be longer than 1 MiB';
comment on constraint comments_article_id_fkey on public.comments is 'article not found';
comment on constraint comments_author_id_fkey on public.comments is
  'the author of a comment must exist, and cannot be deleted before it';
--! EndIncluded comments/table.sql
--! Included comments/functions.sql
create or replace function public.create_comment(article_id bigint, content text) returns public.comments
language plpgsql volatile set search_path = '' as $$
declare
  comment public.comments;
  violated text;
begin
  if article_id is null then raise foreign_key_violation; end if;
  insert into public.comments (article_id, content)
  values (create_comment.article_id, create_comment.content)
  returning * into comment;
  return comment;
exception when foreign_key_violation then
  get stacked diagnostics violated = constraint_name;
  -- The caller's own row is gone: the article is not the cause.
  if violated = 'comments_author_id_fkey' then raise; end if;
  raise no_data_found using message = 'article not found';
end $$;

comment on function public.create_comment(bigint, text) is $$
@notNull
Adds a comment with the caller as its author. Fails with RESOURCE_NOT_FOUND if there is no such article.
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
--! Included articles/functions.sql
do $$
begin
  if to_regtype('public.field_error') is null then
    create type public.field_error as (field text, message text, code text);
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
comment on column public.field_error.code is
  E'@notNull\nThe kind of error: VALIDATION_ERROR, or MISSING_FIELD for a field that needs a value.';
comment on type public.mutation_result is 'The result of a mutation.';
comment on column public.mutation_result.success is E'@notNull\nWhether the article was created.';
comment on column public.mutation_result.message is 'The outcome, as a sentence.';
comment on column public.mutation_result.article is 'The article, when it was created.';
comment on column public.mutation_result.errors is E'@notNullItems\nAll errors in the input.';

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
      errors := errors || row(
        rule.field, coalesce(rule.message, 'invalid value'),
        case when to_jsonb(input) ->> rule.field is null then 'MISSING_FIELD' else 'VALIDATION_ERROR' end
      )::public.field_error;
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
  raise no_data_found using message = 'article not found';
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
Changes the fields that are given. Fails with PERMISSION_DENIED unless the caller is the author, and with
RESOURCE_NOT_FOUND if there is no such article.
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
Sets the status to PUBLISHED. Fails with PERMISSION_DENIED unless the caller is the author, and with RESOURCE_NOT_FOUND
if there is no such article.
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
Deletes the article and its comments; false if there is no such article. Fails with PERMISSION_DENIED unless the caller
is the author.
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
-- The body is text: with `begin atomic` the result would keep the columns of today, and fail when a column is added.
language sql stable rows 100 as $$
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
  limit 1000
$$;

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
--! EndIncluded articles/functions.sql
