create table public.article_translations (
  article_id bigint not null references public.articles on delete cascade,
  language   text not null,
  title      text not null,

  primary key (article_id, language),
  constraint article_translations_language_format check (language ~ '^[a-z]{2,3}(-[a-z0-9]{2,8})*$'),
  constraint article_translations_title_length check (char_length(title) >= 5),
  -- Shorter titles, and none, violate article_translations_title_length.
  constraint article_translations_title_text check (coalesce(char_length(title), 0) < 5 or internal.has_text(title))
);

comment on table public.article_translations is 'The title of an article in another language.';
comment on column public.article_translations.article_id is E'@behavior -select\nThe article.';
comment on column public.article_translations.language is 'A language tag in lower case, such as de or pt-br.';
comment on column public.article_translations.title is 'At least 5 characters.';
comment on constraint article_translations_language_format on public.article_translations is
  'language must be a tag in lower case, such as de or pt-br';
comment on constraint article_translations_title_length on public.article_translations is
  'title must have at least 5 characters';
comment on constraint article_translations_title_text on public.article_translations is 'title must not be blank';
comment on constraint article_translations_article_id_fkey on public.article_translations is
  E'@foreignFieldName translations\narticle not found';
