--! Previous: sha1:2b099a7a922949721f846ca44902e9cf16748a2f
--! Hash: sha1:6ef726afedd2d2ee7f0fddb259b60b1099d9c5f5
--! Message: act as a caller

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
grant execute on function
  public.me(), public.create_user(public.users), public.users_avatar(public.users, integer)
  to anon, authenticated, service_role;
--! EndIncluded content/users/access.sql
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
The signed-in caller. Fails with AUTH_REQUIRED if the caller is not signed in.
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
Creates a user. Fails with RESOURCE_CONFLICT if the e-mail is already registered.
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
Adds a comment with the caller as its author. Fails with RESOURCE_NOT_FOUND if there is no such article.
$$;

create or replace function internal.comment_matches(comment public.comments, keyword text) returns boolean
language sql immutable parallel safe
return comment.content ilike internal.substring_pattern(keyword);
--! EndIncluded content/comments/functions.sql
--! Included caller/act_as.sql
-- For psql: what does a caller see? Callers themselves may not execute it.
create or replace function auth.act_as(login text default null) returns text
language plpgsql volatile set search_path = '' as $$
declare
  claims jsonb;
begin
  if not pg_has_role(session_user, (select datdba from pg_database where datname = current_database()), 'usage') then
    raise insufficient_privilege using message = 'only a superuser or the owner of the database may act as a caller';
  end if;
  select jsonb_build_object('sub', u.id::text, 'name', u.name, 'role', coalesce(a.role, 'authenticated'),
      'permissions', coalesce(to_jsonb(a.permissions), '[]'), 'type', 'access', 'auth_time', extract(epoch from now()))
    into claims
  from public.users as u
  left join auth_private.accounts as a on a.user_id = u.id
  where lower(a.username) = lower(login) or lower(u.email) = lower(login) or u.id::text = login
  order by a.username is null
  limit 1;
  if claims is null and login in ('anon', 'service_role') then
    claims := jsonb_build_object('role', login);
  end if;
  if claims is null and login is not null then
    raise no_data_found using message = format('no user has the username, e-mail or id %s', login),
      hint = 'Also possible: anon, service_role.';
  end if;
  perform set_config('request.jwt.claims', coalesce(claims::text, ''), true);
  perform set_config('role', coalesce(claims ->> 'role', 'anon'), true);
  return format('%s until the end of the transaction; reset role ends it sooner',
    case when claims ? 'sub'
      then format('user %s (%s), role %s', claims ->> 'sub', claims ->> 'name', claims ->> 'role')
      else 'role ' || coalesce(claims ->> 'role', 'anon') end);
end $$;

comment on function auth.act_as(text) is $$
@accept function-sets-role only superusers and the owner may call it
For psql: `begin; select auth.act_as('ada');` takes on role and claims of a user (username, e-mail or id), of anon, or
of service_role, until the transaction ends.
$$;
--! EndIncluded caller/act_as.sql
