--! Previous: sha1:1043b1ca491424c0b6d104ff8db966c8bae99e72
--! Hash: sha1:5c83360a2ef9d5d92e97cf8869f45de7afc73867
--! Message: titles, contents and tags are not blank

-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql

-- Its checks can then be evaluated one by one, to report every fault.
grant usage on schema internal to users_editor;

-- Titles, contents and tags must not be blank. Existing rows stay as they are.
--! Included content/text/functions.sql
-- Whether a text has a visible character: not only spaces, line breaks and the like.
create or replace function internal.has_text(value text) returns boolean
language sql immutable parallel safe
return value ~ '[^\s\u00a0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]';

grant execute on function internal.has_text(text) to anon, authenticated, users_editor, service_role, auth_owner;
--! EndIncluded content/text/functions.sql
create or replace function internal.tags_are_valid(tags text[]) returns boolean
language sql immutable parallel safe
return not exists (
  select from pg_catalog.unnest(tags) as tag
  where tag is null or not internal.has_text(tag) or pg_catalog.char_length(tag) > 50
);

do $$
declare rule record;
begin
  for rule in
    select * from (values
      ('users', 'users_name_length', 'internal.has_text(name) and char_length(name) <= 200',
        'name must have 1 to 200 characters'),
      ('articles', 'articles_title_text', 'coalesce(char_length(title), 0) < 5 or internal.has_text(title)', 'title must not be blank'),
      ('article_translations', 'article_translations_title_text', 'coalesce(char_length(title), 0) < 5 or internal.has_text(title)',
        'title must not be blank'),
      ('articles', 'articles_content_length', 'internal.has_text(content) and octet_length(content) <= 1048576',
        'content must not be empty, nor longer than 1 MiB'),
      ('comments', 'comments_content_length', 'internal.has_text(content) and octet_length(content) <= 1048576',
        'content must not be empty, nor longer than 1 MiB'),
      ('articles', 'articles_tags_length', 'internal.tags_are_valid(tags)', 'each tag must have 1 to 50 characters')
    ) as rules (table_name, name, condition, message)
  loop
    execute format('alter table public.%I drop constraint if exists %I', rule.table_name, rule.name);
    execute format('alter table public.%I add constraint %I check (%s) not valid', rule.table_name, rule.name, rule.condition);
    execute format('comment on constraint %I on public.%I is %L', rule.name, rule.table_name, rule.message);
    begin
      execute format('alter table public.%I validate constraint %I', rule.table_name, rule.name);
    exception when check_violation then
      raise warning 'public.% has rows that violate %: correct them, then run: alter table public.% validate constraint %;',
        rule.table_name, rule.name, rule.table_name, rule.name;
    end;
  end loop;
end $$;
