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
