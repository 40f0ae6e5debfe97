import { createServer, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { buildSchema, type DocumentNode, execute, type GraphQLResolveInfo, parse, validate } from "graphql";
import pg from "pg";
import { bearerVerifier, readSettings, type TokenCaller } from "../../peer-settings.ts";

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

  /** One row: the total if it is counted, and the page as JSON. */
  articlesOfAuthors: (first: number, limit: number, isCounted: boolean): NamedStatement => ({
    name: `articlesOfAuthors ${limitOf(first)} ${limitOf(limit)} ${isCounted}`,
    text: `
      select
        ${isCounted ? "(select count(*) from articles)::int" : "null"} as total,
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

  /** $1: the ids of authors, $2: comments with a greater id. */
  filtered: (first: number, limit: number): NamedStatement => ({
    name: `filtered ${limitOf(first)} ${limitOf(limit)}`,
    text: `
      select a.id, a.title, u.id as author_id, u.name as author_name, discussion.comments
      from articles as a
      join users as u on u.id = a.author_id
      cross join lateral (
        select coalesce(json_agg(json_build_object('id', c.id::text, 'content', c.content) order by c.id desc), '[]') as comments
        from (select * from comments where article_id = a.id and id > $2 order by id desc limit ${limitOf(limit)}) as c
      ) as discussion
      where a.status = $3 and a.author_id = any ($1)
      order by a.title, a.id
      limit ${limitOf(first)}`,
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

// A server written without a framework: graphql-js, one statement for each need, in a transaction.
const { databaseUrl, poolSize, secret, port } = readSettings();
const verify = bearerVerifier(secret);
const pool = new pg.Pool({ connectionString: databaseUrl, max: poolSize });

const schema = buildSchema(`
  type Query { article(id: ID!): Article  articles(first: Int, filter: ArticleFilterInput, orderBy: [ArticleOrderBy!]): ArticleConnection! }
  type Mutation { createArticle(input: CreateArticleInput!): MutationResult! }
  type ArticleConnection { edges: [ArticleEdge!]!  totalCount: Int! }
  type ArticleEdge { node: Article! }
  type Article {
    id: ID!  title: String!  content: String!  status: ArticleStatus!  tags: [String!]!  createdAt: Time!  author: User!
    comments(limit: Int, filter: CommentFilter, orderBy: [CommentOrderBy!]): [Comment!]!
  }
  type Comment { id: ID!  content: String! }
  input ArticleFilterInput { status: ArticleStatus!  author: UserFilter! }
  input UserFilter { id: IDFilter! }
  input CommentFilter { id: IDFilter! }
  input IDFilter { in: [ID!]  greaterThan: ID }
  enum ArticleOrderBy { TITLE_ASC }
  enum CommentOrderBy { ID_DESC }
  type User { id: ID!  name: String!  articles(limit: Int): [Article!]! }
  type MutationResult { success: Boolean!  article: Article }
  input CreateArticleInput { title: String!  content: String!  tags: [String!]  status: ArticleStatus }
  enum ArticleStatus { DRAFT PUBLISHED ARCHIVED }
  scalar Time
`);

type Filter = { readonly status: string; readonly author: { readonly id: { readonly in: readonly string[] } } };

const resolvers = {
  async article({ id }: { id: string }, caller: TokenCaller) {
    const [row] = await run(caller, STATEMENTS.article, [id]);
    return (
      row && { ...row, createdAt: row.created_at.toISOString(), author: { id: row.author_id, name: row.author_name } }
    );
  },

  async articles(
    { first = 10, filter }: { first?: number; filter?: Filter },
    caller: TokenCaller,
    info: GraphQLResolveInfo,
  ) {
    if (filter) {
      const { limit, comments } = info.variableValues as { limit: number; comments: { id: { greaterThan: string } } };
      const values = [filter.author.id.in, comments.id.greaterThan, filter.status];
      return { edges: edgesOf(await run(caller, STATEMENTS.filtered(first, limit), values)) };
    }
    const limit = info.variableValues.limit as number | undefined;
    if (limit === undefined) return { edges: edgesOf(await run(caller, STATEMENTS.articles(first), [])) };
    const isCounted = selects(info, "totalCount");
    const [row] = await run(caller, STATEMENTS.articlesOfAuthors(first, limit, isCounted), []);
    return { totalCount: row.total, edges: row.articles.map((node: object) => ({ node })) };
  },

  async createArticle({ input }: { input: object }, caller: TokenCaller) {
    const [row] = await run(caller, STATEMENTS.createArticle, [JSON.stringify(input)]);
    const { success, id, title, author_name } = row;
    return { success, article: id && { id, title, author: { name: author_name } } };
  },
};

const edgesOf = (rows: readonly any[]) =>
  rows.map(({ id, title, author_id, author_name, comments }) => ({
    node: { id, title, author: { id: author_id, name: author_name }, comments },
  }));

const selects = ({ fieldNodes }: GraphQLResolveInfo, name: string): boolean =>
  fieldNodes[0]!.selectionSet!.selections.some((field) => field.kind === "Field" && field.name.value === name);

const SETTINGS = {
  name: "settings",
  text: "select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)",
};

/** The rows of one prepared statement, run as the caller. */
async function run(caller: TokenCaller, statement: NamedStatement, values: unknown[]): Promise<any[]> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    await client.query({ ...SETTINGS, values: [caller.role, caller.claims] });
    const { rows } = await client.query({ ...statement, values });
    await client.query("commit");
    return rows;
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
}

const documents = new Map<string, DocumentNode>();

function checked(query: string): DocumentNode {
  const known = documents.get(query);
  if (known) return known;
  const document = parse(query);
  const [error] = validate(schema, document);
  if (error) throw error;
  documents.set(query, document);
  return document;
}

async function answer(request: IncomingMessage): Promise<string> {
  const { query, variables } = JSON.parse(await text(request));
  const contextValue = verify(request.headers.authorization);
  const document = checked(query);
  return JSON.stringify(
    await execute({ schema, document, rootValue: resolvers, contextValue, variableValues: variables }),
  );
}

const server = createServer(async (request, response) => {
  try {
    const body = await answer(request);
    const headers = { "content-type": "application/json; charset=utf-8", "content-length": Buffer.byteLength(body) };
    response.writeHead(200, headers).end(body);
  } catch (error) {
    response.writeHead(500).end((error as Error).message);
  }
});
server.listen(port, "127.0.0.1");
