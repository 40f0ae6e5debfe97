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
