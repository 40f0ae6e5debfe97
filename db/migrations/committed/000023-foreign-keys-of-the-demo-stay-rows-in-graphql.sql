--! Previous: sha1:13f765361ac9b8aeb449d4e3f7e6336316542000
--! Hash: sha1:7819311f6d0cf84454b9037ab9c91420c1591bd7
--! Message: foreign keys of the demo stay rows in GraphQL

-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
-- The fields of these columns are the rows that they refer to.
comment on column public.articles.author_id is E'@behavior -select\nThe user who wrote the article.';
comment on column public.article_translations.article_id is E'@behavior -select\nThe article.';
comment on column public.comments.article_id is E'@behavior -select\nThe article that the comment is about.';
comment on column public.comments.author_id is E'@behavior -select\nThe user who wrote the comment.';
