--! Previous: sha1:120afd525bd82395ba1d106ee0cf35902c20ca16
--! Hash: sha1:0473c6e14dce2b54ba652735716f0762022d3746
--! Message: one clear layout of the schema

-- The schema in its present layout: functions and comments as db/schema has them.
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

grant execute on function auth.claims(), auth.uid(), auth.is_admin() to anon, authenticated, service_role, auth_owner;
--! EndIncluded caller/functions.sql
--! Included changes/functions.sql
create or replace function internal.announce_change() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  changed jsonb := case tg_op when 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  -- NOTIFY payloads end at 8000 bytes: the event carries the keys, which the trigger names, and the reader fetches the
  -- row.
  perform pg_notify('changes', jsonb_build_object(
    'schema', tg_table_schema,
    'table', tg_table_name,
    'operation', tg_op,
    'keys', (select jsonb_object_agg(name, changed ->> name) from unnest(tg_argv) as name)
  )::text);
  return null;
end $$;

comment on function internal.announce_change() is
  'Notifies the channel "changes" of a changed row. The trigger''s arguments name the key columns to send.';

create or replace function internal.announce_schema_change() returns event_trigger
language plpgsql volatile set search_path = '' as $$
begin
  if tg_event = 'ddl_command_end' then
    perform from pg_event_trigger_ddl_commands() where schema_name is distinct from 'pg_temp';
  else
    -- An object that depends on a temporary one, such as the rule of a view, does not count as temporary itself.
    perform from pg_event_trigger_dropped_objects() where original and not is_temporary;
  end if;
  if found then
    perform pg_notify('schema_changes', tg_tag);
  end if;
end $$;

comment on function internal.announce_schema_change() is
  'Notifies the channel "schema_changes" that tables, functions, grants or comments have changed.';

-- Only a superuser may create event triggers. Other owners run `notify pgrst, 'reload schema'` after a schema change.
do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    drop event trigger if exists announce_schema_change;
    create event trigger announce_schema_change on ddl_command_end execute function internal.announce_schema_change();
    drop event trigger if exists announce_schema_drop;
    create event trigger announce_schema_drop on sql_drop execute function internal.announce_schema_change();
  else
    raise warning 'this role may not create event triggers: '
      'after each change of the schema run: notify pgrst, ''reload schema''';
  end if;
end $$;

create or replace function internal.touch() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.updated_at := now();
  return new;
end $$;

comment on function internal.touch() is 'Sets updated_at. The trigger decides for which changes.';
--! EndIncluded changes/functions.sql
--! Included content/keywords/functions.sql
-- The pattern of ilike that finds the keyword anywhere in a text.
create or replace function internal.substring_pattern(keyword text) returns text
language sql immutable strict parallel safe
return '%' || pg_catalog.regexp_replace(keyword, '([\\%_])', '\\\1', 'g') || '%';

grant execute on function internal.substring_pattern(text) to anon, authenticated, service_role;
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
--! EndIncluded content/users/functions.sql
--! Included content/comments/functions.sql
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
  raise no_data_found using message = 'no such article';
end $$;

comment on function public.create_comment(bigint, text) is $$
@notNull
Adds a comment with the caller as its author. Raises P0002 when there is no such article.
$$;

create or replace function internal.comment_matches(comment public.comments, keyword text) returns boolean
language sql immutable parallel safe
return comment.content ilike internal.substring_pattern(keyword);
--! EndIncluded content/comments/functions.sql
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
--! Included auth/accounts/functions.sql
-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.find_account(login text) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'id', a.user_id::text,
    'username', coalesce(a.username, u.email),
    'name', u.name,
    'role', a.role,
    'permissions', a.permissions,
    'passwordHash', a.password_hash,
    'isDisabled', a.disabled_at is not null,
    'epoch', a.epoch,
    'hasFactor', coalesce(f.enabled_at is not null, false))
  from auth_private.accounts as a
  join public.users as u on u.id = a.user_id
  left join auth_private.factors as f on f.user_id = a.user_id
  -- At most one: a username has no @, and an e-mail has one.
  where a.user_id in (
    select named.user_id
    from auth_private.accounts as named
    where lower(named.username) = lower(login)
    union all
    select known.id
    from public.users as known
    where lower(known.email) = lower(login)
  )
$$;

comment on function auth_api.find_account(text) is $$
The account that signs in with this username or e-mail: {id, username, name, role, permissions, passwordHash,
isDisabled, epoch, hasFactor}; null if there is none.
$$;

create or replace function auth_api.account_of(user_id bigint) returns json
language sql stable security definer set search_path = '' as $$
  select auth_api.find_account(u.email)
  from public.users as u
  where u.id = account_of.user_id
$$;

comment on function auth_api.account_of(bigint) is
  'The account of a user, as find_account returns it; null if the user has none.';

create or replace function auth_api.register(name text, email text, age integer, username text, password_hash text)
returns bigint
language plpgsql volatile security definer set search_path = '' as $$
declare user_id bigint;
begin
  insert into public.users (name, email, age)
  values (register.name, register.email, register.age)
  returning id into user_id;

  insert into auth_private.accounts (user_id, username, password_hash)
  values (
    user_id,
    case when lower(register.username) <> lower(register.email) then register.username end,
    register.password_hash);
  return user_id;
end $$;

comment on function auth_api.register(text, text, integer, text, text) is $$
Creates a user with an account and returns the id. If the username is null or the e-mail, the user signs in with the
e-mail. The constraints of both tables say which values are refused.
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

create or replace function auth_api.change_password(
  user_id bigint, old_hash text, password_hash text, address inet)
returns json
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- Read by note_account_change.
  perform set_config('request.address', coalesce(host(change_password.address), ''), true);
  update auth_private.accounts as a
  set password_hash = change_password.password_hash
  where a.user_id = change_password.user_id
    and a.password_hash = old_hash
    and a.disabled_at is null;
  return case when found then auth_api.account_of(change_password.user_id) end;
end $$;

comment on function auth_api.change_password(bigint, text, text, inet) is $$
Sets another password, which ends what was issued to the user, and returns the account as it is then. Null if the old
password has changed since, or the account is disabled.
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
  user_id bigint, epoch integer, token_hash bytea, expires_at timestamptz)
returns uuid
language plpgsql volatile security definer set search_path = '' as $$
declare family_id uuid;
begin
  -- An account that has changed since the password was checked does not sign in.
  insert into auth_private.token_families (user_id, epoch)
  select a.user_id, a.epoch
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

comment on function auth_api.start_tokens(bigint, integer, bytea, timestamptz) is $$
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
    'account', account);
end $$;

comment on function auth_api.rotate_token(bytea, bytea, timestamptz, timestamptz, interval) is $$
Exchanges a refresh token for the next of its family: {outcome, userId, family, account}, where outcome is rotated,
unknown, revoked, expired, or reused: a token that was spent before the grace period revokes its whole family.
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
        and f.revoked_at > account_state.since))
  from auth_private.accounts as a
  where a.user_id = account_state.user_id
    and a.disabled_at is null
$$;

comment on function auth_api.account_state(bigint, timestamptz) is $$
What an access token of this user must match: {epoch, role, revoked}, where `revoked` lists the token families that were
revoked since. Null if the user has no account, or it is disabled.
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
--! EndIncluded auth/sessions/functions.sql
--! Included auth/keys/functions.sql
create or replace function auth_private.announce_key() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', json_build_object('key', encode(old.key_hash, 'hex'))::text);
  return null;
end $$;

comment on function auth_private.announce_key() is
  'Notifies the channel "accounts" that a key has changed or was deleted.';

create or replace trigger _500_announce_delete after delete on auth_private.api_keys
  for each row execute function auth_private.announce_key();
create or replace trigger _500_announce_update after update on auth_private.api_keys
  for each row when ((old.revoked_at, old.expires_at) is distinct from (new.revoked_at, new.expires_at))
  execute function auth_private.announce_key();

create or replace function auth_private.describe_key(key auth_private.api_keys) returns json
language sql stable set search_path = ''
return json_build_object(
  'id', key.id,
  'prefix', key.prefix,
  'name', key.name,
  'createdAt', key.created_at,
  'expiresAt', key.expires_at,
  'lastUsedAt', key.last_used_at);

comment on function auth_private.describe_key(auth_private.api_keys) is
  'A key as its owner reads it, without the key itself.';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.create_key(
  kind text, user_id bigint, name text, prefix text, key_hash bytea,
  now timestamptz, expires_at timestamptz, max_keys integer)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare key auth_private.api_keys;
begin
  -- Locked, so that parallel calls can't exceed max_keys.
  perform from auth_private.accounts as a
  where a.user_id = create_key.user_id
  for update;
  if not found or max_keys <= (
    select count(*)
    from auth_private.api_keys as k
    where k.user_id = create_key.user_id
      and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > create_key.now)
  ) then return null; end if;

  insert into auth_private.api_keys (kind, user_id, name, prefix, key_hash, created_at, expires_at)
  values (
    create_key.kind,
    create_key.user_id,
    create_key.name,
    create_key.prefix,
    create_key.key_hash,
    create_key.now,
    create_key.expires_at)
  returning * into key;
  return auth_private.describe_key(key);
end $$;

comment on function auth_api.create_key(text, bigint, text, text, bytea, timestamptz, timestamptz, integer) is
  'Creates a key of a user; null if the user has `max_keys` valid keys already, or no account.';

create or replace function auth_api.list_keys(user_id bigint) returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(json_agg(auth_private.describe_key(k) order by k.created_at desc, k.id), '[]')
  from auth_private.api_keys as k
  where k.user_id = list_keys.user_id
    and k.revoked_at is null
$$;

comment on function auth_api.list_keys(bigint) is 'The keys of a user that are not revoked, newest first.';

create or replace function auth_api.revoke_key(user_id bigint, id uuid) returns boolean
language sql volatile security definer set search_path = '' as $$
  with revoked as (
    update auth_private.api_keys as k
    set revoked_at = now()
    where k.id = revoke_key.id
      and k.user_id = revoke_key.user_id
      and k.revoked_at is null
    returning k.id
  )
  select exists (select from revoked)
$$;

comment on function auth_api.revoke_key(bigint, uuid) is
  'Revokes a key of a user; false if the user has no valid key with this id.';

create or replace function auth_api.find_key(key_hash bytea) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'id', k.id,
    'kind', k.kind,
    'expiresAt', k.expires_at,
    'account', case when k.user_id is not null then auth_api.account_of(k.user_id) end)
  from auth_private.api_keys as k
  where k.key_hash = find_key.key_hash
    and k.revoked_at is null
$$;

comment on function auth_api.find_key(bytea) is
  'A key that is not revoked: {id, kind, expiresAt, account}; null if there is none.';

create or replace function auth_api.use_keys(ids uuid[]) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.api_keys as k
  set last_used_at = now()
  where k.id = any (ids)
$$;

comment on function auth_api.use_keys(uuid[]) is 'Records that keys were used.';
--! EndIncluded auth/keys/functions.sql
--! Included auth/security_events/access.sql
alter table public.security_events enable row level security;

grant select on public.security_events to service_role;
grant insert (event, user_id, address, detail, at), select, delete on public.security_events to auth_owner;

drop policy if exists "authentication records events and deletes old ones" on public.security_events;
create policy "authentication records events and deletes old ones" on public.security_events to auth_owner
  using (true)
  with check (true);
--! EndIncluded auth/security_events/access.sql
--! Included auth/security_events/functions.sql
-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.note_event(
  event text, user_id bigint, address inet, detail jsonb, now timestamptz)
returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.security_events (event, user_id, address, detail, at)
  values (note_event.event, note_event.user_id, note_event.address, coalesce(note_event.detail, '{}'), note_event.now)
$$;

comment on function auth_api.note_event(text, bigint, inet, jsonb, timestamptz) is 'Records a security event.';

create or replace function auth_api.note_login(
  user_id bigint, epoch integer, address inet, issued text, now timestamptz)
returns void
language sql volatile security definer set search_path = '' as $$
  select auth_api.note_event(
    'login', a.user_id, note_login.address, jsonb_build_object('by', issued), note_login.now)
  from auth_private.accounts as a
  where a.user_id = note_login.user_id
    and a.epoch = note_login.epoch
    and a.disabled_at is null
$$;

comment on function auth_api.note_login(bigint, integer, inet, text, timestamptz) is $$
Records a login that was issued a token or a session, unless the account has changed since it was found.
$$;
--! EndIncluded auth/security_events/functions.sql
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

create or replace function auth_api.try_code(
  user_id bigint, secret bytea, step bigint, code_hashes bytea[], challenge uuid,
  address inet, attempts integer, now timestamptz, span interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  reservation constant json := auth_api.reserve_code(try_code.user_id, attempts, try_code.now, span);
  ids constant bigint[] := array(select json_array_elements_text(reservation -> 'ids')::bigint);
  is_accepted boolean;
begin
  if reservation is null or reservation ->> 'retryAfter' is not null then return reservation; end if;

  if step is not null then
    perform from auth_private.factors as f
    where f.user_id = try_code.user_id
      and f.secret = try_code.secret;
    is_accepted := found and auth_api.accept_step(try_code.user_id, step);
  else
    is_accepted := exists (
      select from unnest(code_hashes) as hash
      where auth_api.use_backup_code(try_code.user_id, hash, try_code.now));
    if is_accepted then
      perform auth_api.note_event('backup_code_used', try_code.user_id, address, null, try_code.now);
    end if;
  end if;

  perform auth_api.settle_attempt(ids, not is_accepted);
  if not is_accepted then
    perform auth_api.note_event('code_failed', try_code.user_id, address, null, try_code.now);
    return json_build_object('outcome', 'wrong');
  end if;
  if challenge is not null and not auth_api.spend_challenge(challenge, try_code.now) then
    return json_build_object('outcome', 'spent');
  end if;
  return json_build_object('outcome', 'accepted');
end $$;

comment on function auth_api.try_code(
  bigint, bytea, bigint, bytea[], uuid, inet, integer, timestamptz, interval) is $$
Spends the code of a second factor, by its step or by the hash of a backup code, and then the challenge, if any:
{outcome}, where outcome is accepted, wrong, or spent: the challenge was used before. A wrong code counts as an attempt.
Otherwise as reserve_attempt: {retryAfter}, or null.
$$;

create or replace function auth_api.purge(now timestamptz, attempt_span interval, event_retention interval)
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

  delete from public.security_events as e
  where e.at < purge.now - event_retention;
$$;

comment on function auth_api.purge(timestamptz, interval, interval) is
  'Deletes expired attempts, tokens, sessions, keys and security events.';
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
  user_id bigint, pending bytea, step bigint, code_hashes bytea[], now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
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
  return found and auth_api.replace_backup_codes(enable_factor.user_id, code_hashes);
end $$;

comment on function auth_api.enable_factor(bigint, bytea, bigint, bytea[], timestamptz) is
  'Enables a pending factor whose first code, of this step, was right; false if it is not pending.';

-- A password alone no longer signs the user in.
create or replace trigger _500_announce after update on auth_private.factors
  for each row when (old.enabled_at is distinct from new.enabled_at)
  execute function auth_private.announce_account();

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

create or replace function auth_api.replace_backup_codes(user_id bigint, code_hashes bytea[]) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform from auth_private.factors as f
  where f.user_id = replace_backup_codes.user_id
    and f.enabled_at is not null
  for update;
  if not found then return false; end if;

  delete from auth_private.backup_codes as c
  where c.user_id = replace_backup_codes.user_id;
  insert into auth_private.backup_codes (user_id, code_hash)
  select replace_backup_codes.user_id, hash
  from unnest(code_hashes) as hash;
  return true;
end $$;

comment on function auth_api.replace_backup_codes(bigint, bytea[]) is
  'Replaces the backup codes of a user; false if no factor is enabled.';

create or replace function auth_api.remove_factor(user_id bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  with removed as (
    delete from auth_private.factors as f
    where f.user_id = remove_factor.user_id
    returning f.enabled_at
  )
  select exists (select from removed where enabled_at is not null)
$$;

comment on function auth_api.remove_factor(bigint) is
  'Removes a second factor and its codes; false if none was enabled.';
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

create or replace function tasks.accept(kind text, request json, total bigint, max_pending integer) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  task tasks.tasks;
  unfinished bigint;
begin
  -- One call at a time for each caller: two concurrent calls would both find room for one task.
  perform pg_advisory_xact_lock(hashtextextended('content-service:tasks:' || tasks.caller(), 0));
  select count(*) into unfinished
  from tasks.tasks as t
  where t.owner = tasks.caller()
    and t.finished_at is null;
  if unfinished >= max_pending then return null; end if;

  insert into tasks.tasks (owner, role, claims, kind, request, total, estimate)
  values (
    tasks.caller(),
    current_setting('role'),
    auth.claims(),
    accept.kind,
    accept.request,
    accept.total,
    tasks.estimate(accept.kind, accept.total)
  )
  returning * into task;
  perform graphile_worker.add_job('perform', json_build_object('task', task.id));
  return tasks.describe(task);
end $$;

comment on function tasks.accept(text, json, bigint, integer) is
  'Creates a task of the caller and its job. Returns null if the caller has `max_pending` unfinished tasks.';

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
begin
  select t.result_limit into allowed
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
  if kept + size > allowed then
    raise program_limit_exceeded using message =
      format('the result of the task is larger than %s bytes: request less data at a time', allowed);
  end if;
  insert into tasks.results (task_id, part, bytes) values (task, part, size);
end $$;

comment on function tasks.keep_result(uuid, json) is $$
Adds a part to the result of a running task of the caller. Several parts are arrays, and are joined to one.
Raises 54000 if the result is too large.
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

create or replace function tasks.begin(task uuid, result_limit bigint) returns json
language sql volatile set search_path = '' as $$
  update tasks.tasks as t
  set
    status = 'running',
    started_at = clock_timestamp(),
    done = 0,
    run = t.run + 1,
    attempts = t.attempts + 1,
    result_limit = begin.result_limit
  where t.id = task
    and t.finished_at is null
  returning json_build_object(
    'id', t.id,
    'kind', t.kind,
    'role', t.role,
    'claims', t.claims,
    'request', t.request,
    'run', t.run,
    'attempts', t.attempts
  )
$$;

comment on function tasks.begin(uuid, bigint) is
  'Begins an attempt, after which no earlier attempt can end the task. Returns null if the task has ended.';

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

create or replace function tasks.purge(keep interval) returns integer
language sql volatile set search_path = '' as $$
  with purged as (
    delete from tasks.tasks
    where finished_at < now() - keep
    returning id
  )
  select count(*)::integer from purged
$$;

comment on function tasks.purge(interval) is
  'Deletes the tasks that ended longer ago than `keep`. Returns how many.';

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
Adds a job for each unfinished task without one: an attempt that was overtaken deletes the job that it shares with the
later attempt, and a worker that loses its connection while it locks a job never runs it. Returns how many it added.
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
  tasks.accept(text, json, bigint, integer),
  tasks.find(uuid),
  tasks.list(text, integer, bigint),
  tasks.cancel(uuid),
  tasks.keep_result(uuid, json),
  tasks.finish(uuid, integer)
  to anon, authenticated, service_role;
--! EndIncluded tasks/functions.sql

-- content/articles/table.sql
comment on table public.articles is $$
@order created_at desc, id desc
An article written by a user.
$$;
comment on type public.article_status is 'The stage of an article.';
comment on column public.articles.status is E'@filterable\nDRAFT until the article is published.';
comment on column public.articles.created_at is 'When the article was created.';
comment on constraint articles_author_id_fkey on public.articles is
  'the author of an article must exist, and cannot be deleted before it';

-- content/comments/table.sql
comment on table public.comments is $$
@order created_at desc, id desc
A comment by a user on an article.
$$;
comment on column public.comments.article_id is 'The article that the comment is about.';
comment on column public.comments.created_at is 'When the comment was created.';
comment on constraint comments_author_id_fkey on public.comments is
  'the author of a comment must exist, and cannot be deleted before it';

-- content/users/table.sql
comment on table public.users is $$
@behavior +query:resource:list -query:resource:connection
A person who writes articles and comments.
$$;
comment on column public.users.email is 'Unique among users, regardless of case.';
comment on column public.users.avatar_url is E'@behavior -select\nThe URL of a picture, http or https.';
comment on column public.users.updated_at is 'When the user was last updated.';
comment on constraint users_avatar_url_format on public.users is 'avatar_url must be an http or https URL';

-- tasks/table.sql
comment on table tasks.tasks is 'Asynchronous work: requests whose clients do not wait for the result.';
comment on table tasks.results is 'The results of tasks, in parts.';

-- auth: the triggers of the channel "accounts" and the functions of attempts have other names.
drop trigger if exists _500_principals on auth_private.accounts;
drop trigger if exists _500_principals on auth_private.factors;
drop trigger if exists _500_principals on auth_private.token_families;
drop trigger if exists _500_principals_delete on auth_private.sessions;
drop trigger if exists _500_principals_update on auth_private.sessions;
drop trigger if exists _500_principals_delete on auth_private.api_keys;
drop trigger if exists _500_principals_update on auth_private.api_keys;
drop function if exists auth_api.count_attempt(bigint[]);
drop function if exists auth_api.forgive_attempt(bigint[]);
drop function if exists auth_api.forget_attempts(bytea);
drop policy if exists "authentication notes what happens, and forgets it in time" on public.security_events;

-- auth/*/table.sql
comment on table auth_private.attempts is 'Attempts that count, such as failed logins, and undecided ones.';
comment on table auth_private.token_families is 'One sign-in and its refresh tokens.';
comment on table auth_private.sessions is 'Sessions by the SHA-256 of their id.';
comment on table public.security_events is $$
@behavior -query:resource:list -query:resource:connection -query:resource:single -insert -update -delete
Sign-ins, failures and changes of accounts.
$$;
comment on column public.security_events.at is 'When it happened.';
comment on column public.security_events.event is
  'What happened: login, login_failed, login_throttled, logout, token_reused, password_changed …';
comment on column public.security_events.user_id is 'The user whose account it is.';
comment on column public.security_events.address is 'The IP address of the client.';
comment on column public.security_events.detail is 'Further details; no secrets.';
