export type NamedStatement = { readonly name: string; readonly text: string };

// Limits are literal: Postgres expects `limit $1` to be a tenth of the table, and would make a new plan each time.
const MAX_LIMIT = 1000;
const limitOf = (asked: number) => Math.min(asked, MAX_LIMIT);

/** The statements of the hand-written server, each prepared under its name. */
export const STATEMENTS = {
  /** $1: id. */
  article: {
    name: "article",
    text: `
      select a.id, a.title, a.content, a.status, a.tags, a.created_at, u.id as author_id, u.name as author_name
      from articles as a join users as u on u.id = a.author_id
      where a.id = $1`,
  },

  articles: (first: number): NamedStatement => ({
    name: `articles ${limitOf(first)}`,
    text: `
      select a.id, a.title, u.id as author_id, u.name as author_name
      from articles as a join users as u on u.id = a.author_id
      order by a.created_at desc, a.id desc
      limit ${limitOf(first)}`,
  }),

  /** One row: the total, and the page as JSON. */
  articlesOfAuthors: (first: number, limit: number): NamedStatement => ({
    name: `articlesOfAuthors ${limitOf(first)} ${limitOf(limit)}`,
    text: `
      select
        (select count(*) from articles)::int as total,
        coalesce(json_agg(
          json_build_object('id', a.id::text, 'title', a.title, 'author',
            json_build_object('id', u.id::text, 'name', u.name, 'articles', written.articles))
          order by a.created_at desc, a.id desc), '[]') as articles
      from (select * from articles order by created_at desc, id desc limit ${limitOf(first)}) as a
      join users as u on u.id = a.author_id
      cross join lateral (
        select coalesce(json_agg(
          json_build_object('id', w.id::text, 'title', w.title, 'status', w.status)
          order by w.created_at desc, w.id desc), '[]') as articles
        from (select * from articles where author_id = u.id order by created_at desc, id desc limit ${limitOf(limit)}) as w
      ) as written`,
  }),

  /** $1: the input as JSON. */
  createArticle: {
    name: "createArticle",
    text: `
      select r.success, (r.article).id, (r.article).title, u.name as author_name
      from create_article(jsonb_populate_record(null::articles, $1::jsonb)) as r
      left join users as u on u.id = (r.article).author_id`,
  },
};
