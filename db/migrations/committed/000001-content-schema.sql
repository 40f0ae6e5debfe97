--! Previous: -
--! Hash: sha1:0a7af54e366d2249aa2754cd131d828b20b7491d
--! Message: content schema

--! Included schema.sql
-- The whole database, in the order in which it is made. Migrations include the same files.
--! Included roles.sql
-- Who a request can be. Roles belong to the whole server, so each is made only when it is missing.
-- The login roles that may become these are made at start, with their passwords (db/cluster/provision.ts).
do $$
declare name text;
begin
  foreach name in array array['anon', 'authenticated', 'admin', 'service_role', 'auth_owner'] loop
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
grant usage on schema public to anon, authenticated, service_role, auth_owner;
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
--! Included caller/functions.sql
create or replace function auth.claims() returns jsonb
language sql stable parallel safe
-- On a used connection a setting that is not set reads as '', not as null.
return coalesce(nullif(pg_catalog.current_setting('request.jwt.claims', true), ''), '{}')::jsonb;

comment on function auth.claims() is 'The verified claims of the caller''s token; {} for nobody.';

create or replace function auth.uid() returns bigint
language sql stable parallel safe
return case when auth.claims() ->> 'sub' ~ '^[0-9]{1,18}$' then (auth.claims() ->> 'sub')::bigint end;

comment on function auth.uid() is 'The id of the signed-in user; null for nobody.';

create or replace function auth.is_admin() returns boolean
language sql stable parallel safe
return pg_catalog.pg_has_role(current_user, 'admin', 'member');

comment on function auth.is_admin() is 'Whether the caller''s role is admin.';

grant execute on function auth.claims(), auth.uid(), auth.is_admin() to anon, authenticated, service_role, auth_owner;
--! EndIncluded caller/functions.sql
--! Included changes/functions.sql
create or replace function internal.announce_change() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  changed jsonb := case tg_op when 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  -- NOTIFY payloads end at 8000 bytes: the event carries the keys (the trigger's arguments) and the reader fetches the row.
  perform pg_notify('changes', jsonb_build_object(
    'schema', tg_table_schema,
    'table', tg_table_name,
    'operation', tg_op,
    'keys', (select jsonb_object_agg(name, changed ->> name) from unnest(tg_argv) as name)
  )::text);
  return null;
end $$;

comment on function internal.announce_change() is
  'Tells the listeners of the channel "changes" which row changed; takes the names of the key columns to send.';

create or replace function internal.announce_schema_change() returns event_trigger
language plpgsql volatile set search_path = '' as $$
begin
  if tg_event = 'ddl_command_end' then
    perform from pg_event_trigger_ddl_commands() where schema_name is distinct from 'pg_temp';
  else
    -- What hangs on a temporary object, such as the rule of a view, does not count as temporary itself.
    perform from pg_event_trigger_dropped_objects() where original and not is_temporary;
  end if;
  if found then
    perform pg_notify('schema_changes', tg_tag);
  end if;
end $$;

comment on function internal.announce_schema_change() is
  'Tells the listeners of the channel "schema_changes" that tables, functions, grants or comments have changed.';

-- Only a superuser may make event triggers. Elsewhere: notify pgrst, 'reload schema' after a change of the schema.
do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    drop event trigger if exists announce_schema_change;
    create event trigger announce_schema_change on ddl_command_end execute function internal.announce_schema_change();
    drop event trigger if exists announce_schema_drop;
    create event trigger announce_schema_drop on sql_drop execute function internal.announce_schema_change();
  else
    raise warning 'this role may not create event triggers: after changing the schema run: notify pgrst, ''reload schema''';
  end if;
end $$;

create or replace function internal.touch() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.updated_at := now();
  return new;
end $$;

comment on function internal.touch() is 'Writes updated_at when a row really changes.';
--! EndIncluded changes/functions.sql
--! Included users/table.sql
create table public.users (
  id         bigint generated always as identity primary key,
  name       text not null,
  email      text not null,
  age        integer,
  avatar_url text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),

  constraint users_name_length check (name ~ '\S' and char_length(name) <= 200),
  constraint users_email_format check (
    char_length(email) <= 254 and email ~ '^[^@[:space:]]+@[^@[:space:].]+(\.[^@[:space:].]+)+$'
  ),
  constraint users_age_range check (age between 0 and 150),
  constraint users_avatar_url_format check (avatar_url ~ '^https?://[^[:space:]]+$' and char_length(avatar_url) <= 2000)
);

-- Two addresses that differ only in case are one; login by e-mail.
create unique index users_email_key on public.users (lower(email));

create or replace trigger _100_timestamps before update on public.users
  for each row when (old.* is distinct from new.*) execute function internal.touch();

comment on table public.users is $$
@behavior +query:resource:list -query:resource:connection
Somebody who writes articles and comments.
$$;
comment on column public.users.id is 'Assigned by the service, increasing.';
comment on column public.users.name is 'The name shown to others; 1 to 200 characters.';
comment on column public.users.email is 'Unique among users, whatever its case.';
comment on column public.users.age is 'In years, 0 to 150.';
comment on column public.users.avatar_url is E'@behavior -select\nAddress of a picture, http or https.';
comment on column public.users.created_at is 'When the user signed up.';
comment on column public.users.updated_at is 'When the user last changed.';

-- The comment of a constraint is the message that a client gets when a value breaks it.
comment on index public.users_email_key is 'email already registered';
comment on constraint users_name_length on public.users is 'name must have 1 to 200 characters';
comment on constraint users_email_format on public.users is 'email must be a valid address';
comment on constraint users_age_range on public.users is 'age must be from 0 to 150';
comment on constraint users_avatar_url_format on public.users is 'avatar_url must be an http or https address';
--! EndIncluded users/table.sql
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
--! EndIncluded users/functions.sql
--! Included users/access.sql
alter table public.users enable row level security;

grant select on public.users to anon, authenticated, auth_owner;
grant insert (name, email, age) on public.users to anon, authenticated;
grant update (name, email, age, avatar_url), delete on public.users to authenticated;
grant all on public.users to service_role;
-- Accounts refer to users.
grant references on public.users to auth_owner;

drop policy if exists "everyone reads users" on public.users;
create policy "everyone reads users" on public.users for select
  using (true);

drop policy if exists "everyone may sign up" on public.users;
create policy "everyone may sign up" on public.users for insert to anon, authenticated
  with check (true);

drop policy if exists "users change themselves, admins everyone" on public.users;
create policy "users change themselves, admins everyone" on public.users for update to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()))
  with check (id = (select auth.uid()) or (select auth.is_admin()));

drop policy if exists "users delete themselves, admins everyone" on public.users;
create policy "users delete themselves, admins everyone" on public.users for delete to authenticated
  using (id = (select auth.uid()) or (select auth.is_admin()));

grant execute on function
  public.me(), public.create_user(public.users), public.users_avatar(public.users, integer)
  to anon, authenticated, service_role;
--! EndIncluded users/access.sql
--! Included articles/table.sql
do $$
begin
  if to_regtype('public.article_status') is null then
    create type public.article_status as enum ('DRAFT', 'PUBLISHED', 'ARCHIVED');
  end if;
end $$;

-- A check can't look into an array by itself.
create or replace function internal.tags_are_valid(tags text[]) returns boolean
language sql immutable parallel safe
return not exists (select from pg_catalog.unnest(tags) as tag where tag is null or pg_catalog.char_length(tag) not between 1 and 50);

-- What search looks through, one field a line. array_to_string is only stable for types whose text depends on settings.
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
  created_at timestamptz not null default now(),
  updated_at timestamptz, -- null until the first update

  constraint articles_title_length check (char_length(title) >= 5),
  constraint articles_content_length check (octet_length(content) between 1 and 1048576),
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

comment on table public.articles is $$
@order created_at desc, id desc
A text by a user.
$$;
comment on type public.article_status is 'How far an article has come.';
comment on column public.articles.id is 'Assigned by the service, increasing.';
comment on column public.articles.author_id is 'The user who wrote the article.';
comment on column public.articles.title is 'At least 5 characters.';
comment on column public.articles.content is 'The text, at most 1 MiB.';
comment on column public.articles.status is E'@filterable\nDRAFT until somebody publishes the article.';
comment on column public.articles.tags is 'Keywords of 1 to 50 characters each.';
comment on column public.articles.created_at is 'When the article was written.';
comment on column public.articles.updated_at is 'When the article last changed; null until the first change.';

comment on constraint articles_title_length on public.articles is 'title must have at least 5 characters';
comment on constraint articles_content_length on public.articles is 'content must not be empty, nor longer than 1 MiB';
comment on constraint articles_tags_length on public.articles is 'each tag must have 1 to 50 characters';
comment on constraint articles_author_id_fkey on public.articles is 'the author of an article must exist, and can not be deleted before it';
--! EndIncluded articles/table.sql
--! Included articles/access.sql
alter table public.articles enable row level security;

grant select on public.articles to anon, authenticated;
grant insert (title, content, tags, status), update (title, content, tags, status), delete on public.articles to authenticated;
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
  constraint article_translations_title_length check (char_length(title) >= 5)
);

comment on table public.article_translations is 'The title of an article in another language.';
comment on column public.article_translations.article_id is 'The article.';
comment on column public.article_translations.language is 'A language tag in lower case, such as de or pt-br.';
comment on column public.article_translations.title is 'At least 5 characters.';
comment on constraint article_translations_language_format on public.article_translations is 'language must be a tag in lower case, such as de or pt-br';
comment on constraint article_translations_title_length on public.article_translations is 'title must have at least 5 characters';
comment on constraint article_translations_article_id_fkey on public.article_translations is
  E'@foreignFieldName translations\nno such article';
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
  created_at timestamptz not null default now(),

  constraint comments_content_length check (octet_length(content) between 1 and 1048576)
);

-- Article.comments, newest first.
create index comments_article_id_created_at_id_idx on public.comments (article_id, created_at desc, id desc);
-- User.comments, newest first.
create index comments_author_id_created_at_id_idx on public.comments (author_id, created_at desc, id desc);
-- comments, newest first.
create index comments_created_at_id_idx on public.comments (created_at desc, id desc);

comment on table public.comments is $$
@order created_at desc, id desc
What a user says about an article.
$$;
comment on column public.comments.id is 'Assigned by the service, increasing.';
comment on column public.comments.article_id is 'The article it is about.';
comment on column public.comments.author_id is 'The user who wrote the comment.';
comment on column public.comments.content is 'The text, at most 1 MiB.';
comment on column public.comments.created_at is 'When the comment was written.';
comment on constraint comments_content_length on public.comments is 'content must not be empty, nor longer than 1 MiB';
comment on constraint comments_article_id_fkey on public.comments is 'no such article';
comment on constraint comments_author_id_fkey on public.comments is 'the author of a comment must exist, and can not be deleted before it';
--! EndIncluded comments/table.sql
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

grant execute on function public.create_comment(bigint, text) to anon, authenticated, service_role;
--! EndIncluded comments/access.sql
--! Included articles/functions.sql
do $$
begin
  if to_regtype('public.field_error') is null then
    create type public.field_error as (field text, message text);
  end if;
  if to_regtype('public.mutation_result') is null then
    create type public.mutation_result as (success boolean, message text, article public.articles, errors public.field_error[]);
  end if;
end $$;

comment on type public.field_error is 'What is wrong with one field of the input.';
comment on column public.field_error.field is E'@notNull\nThe name of the field.';
comment on column public.field_error.message is E'@notNull\nWhat is wrong, as a sentence.';
comment on type public.mutation_result is 'How a mutation ended.';
comment on column public.mutation_result.success is E'@notNull\nWhether the article was written.';
comment on column public.mutation_result.message is 'The outcome, as a sentence.';
comment on column public.mutation_result.article is 'The article, when it was written.';
comment on column public.mutation_result.errors is 'What is wrong with the input, all at once.';

create or replace function public.create_article(input public.articles) returns public.mutation_result
language plpgsql volatile set search_path = '' as $$
declare
  faults public.field_error[];
  article public.articles;
begin
  if auth.uid() is null then
    return row(false, 'login required', null, null)::public.mutation_result;
  end if;

  -- The constraints of the table, asked for all at once.
  select array_agg(row(rule.field, rule.message)::public.field_error) into faults
  from (values
    ('title', char_length(input.title) >= 5, 'title must have at least 5 characters'),
    ('content', octet_length(input.content) between 1 and 1048576, 'content must not be empty, nor longer than 1 MiB'),
    ('tags', internal.tags_are_valid(coalesce(input.tags, '{}')), 'each tag must have 1 to 50 characters')
  ) as rule (field, holds, message)
  where rule.holds is not true;
  if faults is not null then
    return row(false, 'the article was not created: ' || (select string_agg(f.message, '; ') from unnest(faults) as f),
      null, faults)::public.mutation_result;
  end if;

  insert into public.articles (title, content, tags, status)
  values (input.title, input.content, coalesce(input.tags, '{}'), coalesce(input.status, 'DRAFT'))
  returning * into article;
  return row(true, 'article created', article, null)::public.mutation_result;
end $$;

comment on function public.create_article(public.articles) is $$
@notNull
Writes an article; its author is the caller. What is wrong with the input is told in the result.
$$;

create or replace function internal.refuse_article(id bigint, action text) returns void
language plpgsql stable set search_path = '' as $$
begin
  -- Nothing was written: the policy hides the row from this caller's changes, or there is no row.
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
  update public.articles as a set status = 'PUBLISHED' where a.id = publish_article.id returning * into article;
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
Removes the article and its comments; false when there is none. Raises 42501 to anyone but the author.
$$;

create or replace function internal.substring_pattern(keyword text) returns text
language sql immutable strict parallel safe
return '%' || pg_catalog.regexp_replace(keyword, '([\\%_])', '\\\1', 'g') || '%';

create or replace function internal.any_tag_matches(tags text[], pattern text) returns boolean
language sql immutable parallel safe
return exists (select from pg_catalog.unnest(tags) as tag where tag ilike pattern);

-- Has no subquery of its own: Postgres would not inline it then, nor use the index.
create or replace function internal.article_matches(article public.articles, keyword text) returns boolean
language sql immutable parallel safe
-- The first condition is for the trigram index; the others keep a match from reaching over the end of a field.
return internal.search_text(article.title, article.content, article.tags) ilike internal.substring_pattern(keyword)
  and (article.title ilike internal.substring_pattern(keyword)
    or article.content ilike internal.substring_pattern(keyword)
    or internal.any_tag_matches(article.tags, internal.substring_pattern(keyword)));

create or replace function public.search(keyword text) returns setof public.articles
language sql stable rows 100
begin atomic
  select a.*
  from public.articles as a
  where internal.article_matches(a, keyword)
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
Articles whose title, content or tags contain the keyword, whatever its case; best match first, at most 1000.
$$;

create or replace function public.articles_title(article public.articles, language text) returns text
language sql stable parallel safe
return coalesce(
  (select t.title from public.article_translations as t
   where t.article_id = article.id and t.language = lower(articles_title.language)),
  article.title);

comment on function public.articles_title(public.articles, text) is $$
@behavior -typeField
The title in a language such as `de`; the original where there is no translation.
$$;

create or replace function public.articles_summary(article public.articles, length integer default 200) returns text
language plpgsql immutable set search_path = '' as $$
begin
  length := coalesce(length, 200);
  if length not between 1 and 10000 then
    raise invalid_parameter_value using message = 'length must be from 1 to 10000';
  end if;
  if char_length(article.content) <= length then return article.content; end if;
  -- Up to the last word that ends before the limit, unless the first word is longer than that.
  return rtrim(coalesce(
    substring(left(article.content, length) from '^(.*\S)\s+\S*$'),
    left(article.content, length - 1))) || '…';
end $$;

comment on function public.articles_summary(public.articles, integer) is $$
@notNull
The beginning of the content, at most `length` characters and whole words, with … where something was left out.
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
Articles that share tags with this one, most first.
$$;

grant execute on function
  internal.refuse_article(bigint, text), internal.substring_pattern(text), internal.any_tag_matches(text[], text),
  internal.article_matches(public.articles, text)
  to anon, authenticated, service_role;
grant execute on function
  public.create_article(public.articles), public.update_article(bigint, public.articles),
  public.publish_article(bigint), public.delete_article(bigint), public.search(text),
  public.articles_title(public.articles, text), public.articles_summary(public.articles, integer),
  public.articles_related_articles(public.articles, integer)
  to anon, authenticated, service_role;
--! EndIncluded articles/functions.sql
--! Included articles/events.sql
create or replace trigger _500_changes_insert after insert on public.articles
  for each row execute function internal.announce_change('id', 'author_id');
create or replace trigger _500_changes_update after update on public.articles
  for each row when (old.* is distinct from new.*) execute function internal.announce_change('id', 'author_id');
create or replace trigger _500_changes_delete after delete on public.articles
  for each row execute function internal.announce_change('id', 'author_id');
--! EndIncluded articles/events.sql
--! Included comments/events.sql
create or replace trigger _500_changes_insert after insert on public.comments
  for each row execute function internal.announce_change('id', 'article_id', 'author_id');
create or replace trigger _500_changes_update after update on public.comments
  for each row when (old.* is distinct from new.*) execute function internal.announce_change('id', 'article_id', 'author_id');
create or replace trigger _500_changes_delete after delete on public.comments
  for each row execute function internal.announce_change('id', 'article_id', 'author_id');
--! EndIncluded comments/events.sql
--! Included accounts/table.sql
-- How a user signs in. A user without an account can be read, but not signed in.
create table auth_private.accounts (
  user_id       bigint primary key references public.users on delete cascade,
  username      text not null,
  password_hash text not null, -- argon2id, as a PHC string
  role          text not null default 'authenticated',
  permissions   text[] not null default '{}',
  disabled_at   timestamptz, -- null while the account may sign in
  created_at    timestamptz not null default now(),

  constraint accounts_role_known check (role in ('authenticated', 'admin')),
  constraint accounts_password_hash_format check (password_hash like '$argon2id$%')
);
-- Login.
create unique index accounts_username_key on auth_private.accounts (lower(username));

-- Refresh tokens that were issued, by their SHA-256: a token that is not here is worth nothing.
create table auth_private.refresh_tokens (
  token_hash bytea primary key,
  user_id    bigint not null references auth_private.accounts on delete cascade,
  issued_at  timestamptz not null default now(),
  expires_at timestamptz not null,

  constraint refresh_tokens_token_hash_length check (octet_length(token_hash) = 32)
);
-- Revoking all tokens of a user.
create index refresh_tokens_user_id_idx on auth_private.refresh_tokens (user_id);

alter table auth_private.accounts owner to auth_owner;
alter table auth_private.refresh_tokens owner to auth_owner;
-- Only the owner is granted anything; the policies say so too, should a grant ever slip in.
alter table auth_private.accounts enable row level security;
alter table auth_private.refresh_tokens enable row level security;
--! EndIncluded accounts/table.sql
--! Included accounts/functions.sql
-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.find_account(login text)
returns table (user_id bigint, name text, role text, permissions text[], password_hash text, disabled boolean)
language sql stable security definer set search_path = '' as $$
  select a.user_id, u.name, a.role, a.permissions, a.password_hash, a.disabled_at is not null
  from auth_private.accounts as a
  join public.users as u on u.id = a.user_id
  where lower(a.username) = lower(login) or lower(u.email) = lower(login)
  -- A username that is somebody else's e-mail wins over that e-mail.
  order by lower(a.username) = lower(login) desc
  limit 1
$$;

comment on function auth_api.find_account(text) is 'The account that signs in with this username or e-mail; no row when there is none.';

-- security definer: see above.
create or replace function auth_api.keep_refresh_token(user_id bigint, token_hash bytea, expires_at timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  insert into auth_private.refresh_tokens (token_hash, user_id, expires_at)
  values (keep_refresh_token.token_hash, keep_refresh_token.user_id, keep_refresh_token.expires_at)
$$;

comment on function auth_api.keep_refresh_token(bigint, bytea, timestamptz) is 'Remembers a refresh token that was issued, by its SHA-256.';

-- The owner of these functions is no superuser: that is all they can do.
alter function auth_api.find_account(text) owner to auth_owner;
alter function auth_api.keep_refresh_token(bigint, bytea, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;
--! EndIncluded accounts/functions.sql
--! EndIncluded schema.sql
