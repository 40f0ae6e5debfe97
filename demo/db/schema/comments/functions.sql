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
