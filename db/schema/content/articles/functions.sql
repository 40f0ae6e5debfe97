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
  internal.refuse_article(bigint, text), internal.any_tag_matches(text[], text),
  internal.article_matches(public.articles, text)
  to anon, authenticated, service_role;
grant execute on function
  public.create_article(public.articles), public.update_article(bigint, public.articles),
  public.publish_article(bigint), public.delete_article(bigint), public.search(text),
  public.articles_title(public.articles, text), public.articles_summary(public.articles, integer),
  public.articles_related_articles(public.articles, integer)
  to anon, authenticated, service_role;
