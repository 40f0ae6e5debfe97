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
