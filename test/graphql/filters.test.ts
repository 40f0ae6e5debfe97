import { beforeAll, describe, expect, test } from "vitest";
import type { Operator } from "../../db/filters/operators.ts";
import { useService } from "../support/http-client.ts";

const { data, errors, gql, send, service, sql } = useService();
const unindexed = useService({ GRAPHQL_UNINDEXED_FILTERS: "on" });

/** One table with a column of each kind, and the books of authors. */
const TABLES = `
  create collation public.alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
  create type public.size as enum ('SMALL', 'LARGE');
  create domain public.score as integer check (value >= 0);
  create table public.kinds (
    id bigint primary key, label text not null, amount numeric, flag boolean, born date, moment timestamptz, token uuid,
    size public.size, score public.score, words text[], numbers integer[], doc jsonb, span int4range, address inet,
    found tsvector generated always as (to_tsvector('english', label)) stored, plain text,
    likeness text collate public.alike, device macaddr
  );
  create index on public.kinds (label); create index on public.kinds (amount); create index on public.kinds (flag);
  create index on public.kinds (likeness); create index on public.kinds (device);
  create index on public.kinds (born); create index on public.kinds (moment); create index on public.kinds (token);
  create index on public.kinds (size); create index on public.kinds (score); create index on public.kinds using gin (words);
  create index on public.kinds using gin (numbers); create index on public.kinds using gin (doc);
  create index on public.kinds using gist (span); create index on public.kinds (address);
  create index on public.kinds using gin (found);
  insert into public.kinds values
    (1, 'The first of cats', 1.5, true, '2026-01-01', '2026-01-01T10:00Z', '00000000-0000-0000-0000-000000000001', 'SMALL',
     1, '{a,b}', '{1,2}', '{"a": 1, "b": {"c": "x"}}', '[1,5)', '10.0.0.1/8', default, 'p1'),
    (2, '50% of dogs\\', 2.5, false, '2026-02-01', '2026-02-01T10:00Z', '00000000-0000-0000-0000-000000000002', 'LARGE',
     2, '{b,c}', '{2,3}', '{"a": 2}', '[5,9)', '192.168.0.1', default, 'p2'),
    (3, 'Nothing_at_all', null, null, null, null, null, null, null, null, null, null, null, null, default, null);
  grant select on public.kinds to anon, authenticated;

  create table public.shelves (id bigint primary key, name text not null);
  create index on public.shelves (name);
  create table public.books (
    id bigint primary key, shelf_id bigint references public.shelves, title text not null, hidden boolean not null default false
  );
  create index on public.books (shelf_id); create index on public.books (title);
  alter table public.books enable row level security;
  create policy "not hidden" on public.books using (not hidden);
  insert into public.shelves values (1, 'fiction'), (2, 'facts'), (3, 'empty');
  insert into public.books values (1, 1, 'Emma', false), (2, 1, 'Ulysses', false), (3, 2, 'Atlas', false),
    (4, 2, 'Secret', true), (5, null, 'Lost', false);
  grant select on public.shelves, public.books to anon, authenticated;
  create function public.books_shout(book public.books) returns text language sql stable return upper(book.title);
  create function public.books_whisper(book public.books) returns text language sql stable return lower(book.title);
  comment on function public.books_whisper is '@behavior +filterBy';
  grant execute on function public.books_shout, public.books_whisper to anon, authenticated;
`;

beforeAll(async () => {
  await sql(TABLES);
  await unindexed.sql(TABLES);
});

const kinds = async (filter: unknown, run = data): Promise<string[]> => {
  const query = "query ($filter: KindFilter) { kinds(filter: $filter, orderBy: ID_ASC) { edges { node { id } } } }";
  const { kinds: found } = await run(query, { variables: { filter } });
  return found.edges.map(({ node }: any) => node.id);
};

describe("a filter compares the column", () => {
  test.each([
    [{ id: { equalTo: "2" } }, ["2"]],
    [{ id: { in: ["1", "3", "no id"] } }, ["1", "3"]],
    [{ id: { greaterThan: "1", lessThanOrEqualTo: "3" } }, ["2", "3"]],
    [{ id: { greaterThanOrEqualTo: "2", lessThan: "3" } }, ["2"]],
    [{ id: { notEqualTo: "no id" } }, []],
    [{ label: { includes: "of" } }, ["1", "2"]],
    [{ label: { includes: "0% of" } }, ["2"]],
    [{ label: { includes: "_at_" } }, ["3"]],
    [{ label: { endsWith: "dogs\\" } }, ["2"]],
    [{ label: { startsWithInsensitive: "the FIRST" } }, ["1"]],
    [{ label: { like: "%_of_c%" } }, ["1"]],
    [{ label: { in: ["Nothing_at_all"] } }, ["3"]],
    [{ label: { matches: "^[0-9]+%" } }, ["2"]],
    [{ label: { notMatchesInsensitive: "THE|NOTHING" } }, ["2"]],
    [{ label: { search: { query: "cat", config: "english" } } }, ["1"]],
    [{ label: { search: { query: "first of cats", syntax: "PHRASE", config: "simple" } } }, ["1"]],
    [{ found: { search: { query: "dog or unicorn", config: "english" } } }, ["2"]],
    [{ found: { search: { query: "cat | dog", syntax: "RAW", config: "english" } } }, ["1", "2"]],
    [{ amount: { greaterThan: "1.5" } }, ["2"]],
    [{ amount: { isNull: true } }, ["3"]],
    [{ amount: { distinctFrom: "1.5" } }, ["2", "3"]],
    [{ flag: { equalTo: false } }, ["2"]],
    [{ born: { lessThan: "2026-01-15" } }, ["1"]],
    [{ moment: { greaterThanOrEqualTo: "2026-02-01T10:00:00Z" } }, ["2"]],
    [{ token: { equalTo: "00000000-0000-0000-0000-000000000002" } }, ["2"]],
    [{ size: { in: ["SMALL", "LARGE"] } }, ["1", "2"]],
    [{ score: { greaterThan: 1 } }, ["2"]],
    [{ words: { contains: ["b", "a"] } }, ["1"]],
    [{ words: { overlaps: ["c", "x"] } }, ["2"]],
    [{ words: { anyEqualTo: "b" } }, ["1", "2"]],
    [{ numbers: { containedBy: [1, 2, 7] } }, ["1"]],
    [{ doc: { contains: { b: { c: "x" } } } }, ["1"]],
    [{ doc: { containsKey: "a" } }, ["1", "2"]],
    [{ doc: { matchesPath: "$.a ? (@ > 1)" } }, ["2"]],
    [{ doc: { matchesPath: '$.b.c ? (@ like_regex "^x")' } }, ["1"]],
    [{ span: { containsElement: 5 } }, ["2"]],
    [{ span: { adjacentTo: { start: { value: 9, inclusive: true }, end: { value: 11, inclusive: false } } } }, ["2"]],
    [{ address: { containedBy: "192.168.0.0/16" } }, ["2"]],
  ])("%j", async (filter, expected) => expect(await kinds(filter)).toEqual(expected));
});

/** Every operator of /rest/v1, as a condition there and in GraphQL. */
const OPERATOR_PAIRS: Readonly<Record<Operator, readonly (readonly [url: string, filter: object])[]>> = {
  eq: [
    ["size=eq.SMALL", { size: { equalTo: "SMALL" } }],
    ["id=eq(any).{1,3}", { id: { in: ["1", "3"] } }],
  ],
  neq: [["amount=neq.1.5", { amount: { notEqualTo: "1.5" } }]],
  gt: [["born=gt.2026-01-01", { born: { greaterThan: "2026-01-01" } }]],
  gte: [["score=gte.1", { score: { greaterThanOrEqualTo: 1 } }]],
  lt: [["moment=lt.2026-02-01T00:00:00Z", { moment: { lessThan: "2026-02-01T00:00:00Z" } }]],
  lte: [["label=lte.O", { label: { lessThanOrEqualTo: "O" } }]],
  like: [
    ["label=like.*of*", { label: { like: "%of%" } }],
    ["label=like(all).{*of*,The*}", { and: [{ label: { like: "%of%" } }, { label: { like: "The%" } }] }],
  ],
  ilike: [["label=ilike.the*", { label: { likeInsensitive: "the%" } }]],
  match: [["label=match.^T", { label: { matches: "^T" } }]],
  imatch: [["label=imatch.^t", { label: { matchesInsensitive: "^t" } }]],
  in: [
    ["token=in.(00000000-0000-0000-0000-000000000001)", { token: { in: ["00000000-0000-0000-0000-000000000001"] } }],
  ],
  is: [
    ["flag=is.null", { flag: { isNull: true } }],
    ["flag=is.not_null", { flag: { isNull: false } }],
    ["flag=is.true", { flag: { equalTo: true } }],
    ["flag=not.is.true", { flag: { distinctFrom: true } }],
  ],
  isdistinct: [["score=isdistinct.1", { score: { distinctFrom: 1 } }]],
  cs: [
    ["words=cs.{a}", { words: { contains: ["a"] } }],
    ['doc=cs.{"a":2}', { doc: { contains: { a: 2 } } }],
    ["doc->a=eq.2", { doc: { matchesPath: "$ ? (@.a == 2)" } }],
    ["doc->b->>c=like.x*", { doc: { matchesPath: '$.b.c ? (@ starts with "x")' } }],
    ["span=cs.[2,3)", { span: { contains: range(2, 3) } }],
  ],
  cd: [["numbers=cd.{1,2}", { numbers: { containedBy: [1, 2] } }]],
  ov: [["span=ov.[4,6)", { span: { overlaps: range(4, 6) } }]],
  sl: [["span=sl.[5,6)", { span: { strictlyLeftOf: range(5, 6) } }]],
  sr: [["span=sr.[0,2)", { span: { strictlyRightOf: range(0, 2) } }]],
  nxr: [["span=nxr.[0,5)", { span: { notExtendsRightOf: range(0, 5) } }]],
  nxl: [["span=nxl.[5,6)", { span: { notExtendsLeftOf: range(5, 6) } }]],
  adj: [["span=adj.[9,11)", { span: { adjacentTo: range(9, 11) } }]],
  fts: [["found=fts(english).cat|dog", { found: { search: { query: "cat|dog", syntax: "RAW", config: "english" } } }]],
  plfts: [
    [
      "label=plfts(english).cats first",
      { label: { search: { query: "cats first", syntax: "PLAIN", config: "english" } } },
    ],
  ],
  phfts: [
    ["label=phfts(simple).of cats", { label: { search: { query: "of cats", syntax: "PHRASE", config: "simple" } } }],
  ],
  wfts: [["found=wfts(english).dog or unicorn", { found: { search: { query: "dog or unicorn", config: "english" } } }]],
};

function range(start: number, end: number) {
  return { start: { value: start, inclusive: true }, end: { value: end, inclusive: false } };
}

test("every operator of /rest/v1 has one in GraphQL that finds the same rows", async () => {
  const apikey = service().service.tokens.issueKey("anon");
  const differences: unknown[] = [];
  for (const [url, filter] of Object.values(OPERATOR_PAIRS).flat()) {
    const condition = url.replace(/=(.*)$/s, (_, value: string) => `=${encodeURIComponent(value)}`);
    const { json } = await send(`/rest/v1/kinds?select=id::text&order=id&${condition}`, { headers: { apikey } });
    const rows = Array.isArray(json) ? json.map(({ id }) => id) : json;
    const found = await kinds(filter).catch(String);
    if (rows.length === 0 || rows.length === 3 || JSON.stringify(rows) !== JSON.stringify(found))
      differences.push([url, rows, found]);
  }
  expect(differences).toEqual([]);
});

describe("conditions are combined", () => {
  test.each([
    [{ flag: { equalTo: true }, amount: { lessThan: "2" } }, ["1"]],
    [{ or: [{ id: { equalTo: "1" } }, { id: { equalTo: "3" } }] }, ["1", "3"]],
    [{ and: [{ id: { greaterThan: "1" } }, { not: { label: { startsWith: "N" } } }] }, ["2"]],
    [{ not: { or: [{ id: { equalTo: "1" } }, { amount: { isNull: true } }] } }, ["2"]],
    [{ or: [{ id: { equalTo: "1" }, flag: { equalTo: false } }, { id: { equalTo: "2" } }] }, ["2"]],
  ])("%j", async (filter, expected) => expect(await kinds(filter)).toEqual(expected));

  test.each([
    [null],
    [{}],
    [{ label: null }],
    [{ label: {} }],
    [{ or: [] }],
    [{ and: [{}] }],
    [{ not: {} }],
    [{ not: null }],
  ])("%j sets no condition", async (filter) => expect(await kinds(filter)).toEqual(["1", "2", "3"]));

  test("null as the value of an operator is VALIDATION_ERROR, because it would match every row", async () => {
    const answer = await gql("query ($id: ID) { kinds(filter: { id: { equalTo: $id } }) { totalCount } }");
    expect(answer.data).toEqual({ kinds: { totalCount: 3 } });
    const query = "query ($id: ID) { kinds(filter: { id: { equalTo: $id } }) { totalCount } }";
    expect(await errors(query, { variables: { id: null } })).toEqual([
      "VALIDATION_ERROR: equalTo must not be null: use isNull, or leave out the condition",
    ]);
  });

  test.each([
    [{ label: { matches: "[" } }, "VALIDATION_ERROR: invalid regular expression: brackets [] not balanced"],
    [{ label: { search: { query: "x", config: "klingon" } } }, "VALIDATION_ERROR: unknown name of a database object"],
    [
      { found: { search: { query: "a & & b", syntax: "RAW" } } },
      'VALIDATION_ERROR: syntax error in tsquery: "a & & b"',
    ],
    [{ doc: { matchesPath: "$.a ? (" } }, "VALIDATION_ERROR: syntax error at end of jsonpath input"],
    [
      { likeness: { matches: "a" } },
      `VALIDATION_ERROR: nondeterministic collations are not supported for regular expressions`,
    ],
    [{ doc: { matchesPath: "" } }, 'VALIDATION_ERROR: invalid input syntax for type jsonpath: ""'],
  ])("a value that PostgreSQL refuses is an error: %j", async (filter, message) => {
    const query = "query ($filter: KindFilter) { kinds(filter: $filter) { totalCount } }";
    expect(await errors(query, { variables: { filter } })).toEqual([message]);
  });
});

test("a type has only the operators that PostgreSQL has for it", async () => {
  const { __type: type } = await data('{ __type(name: "MacAddressFilter") { inputFields { name } } }');
  expect(type.inputFields.map(({ name }: any) => name).join(" ")).not.toMatch(/contain/i);
});

describe("a filter on related rows", () => {
  const shelves = async (filter: string) =>
    (await data(`{ shelves(filter: ${filter}, orderBy: NAME_ASC) { edges { node { name } } } }`)).shelves.edges.map(
      ({ node }: any) => node.name,
    );

  test("finds rows of which some, every or none of the related rows match", async () => {
    expect(await shelves('{ books: { some: { title: { startsWith: "E" } } } }')).toEqual(["fiction"]);
    expect(await shelves('{ books: { every: { title: { startsWith: "A" } } } }')).toEqual(["empty", "facts"]);
    expect(await shelves('{ books: { none: { title: { includes: "l" } } } }')).toEqual(["empty"]);
    expect(await shelves("{ booksExist: false }")).toEqual(["empty"]);
  });

  test("finds rows whose referenced row matches or exists", async () => {
    const books = async (filter: string) =>
      (await data(`{ books(filter: ${filter}) { edges { node { title } } } }`)).books.edges.map(
        ({ node }: any) => node.title,
      );
    expect(await books('{ shelf: { name: { equalTo: "facts" } } }')).toEqual(["Atlas"]);
    expect(await books("{ shelfExists: false }")).toEqual(["Lost"]);
    expect(await books('{ shelf: { books: { some: { title: { equalTo: "Emma" } } } } }')).toEqual(["Emma", "Ulysses"]);
  });

  test("does not reveal rows that policies hide", async () => {
    expect(await shelves('{ books: { some: { title: { equalTo: "Secret" } } } }')).toEqual([]);
  });

  test("is one round trip, with filtered nested lists and connections too", async () => {
    const query = `{ shelves(filter: { books: { some: { title: { greaterThan: "A" } } } }, orderBy: NAME_ASC) {
      totalCount
      edges { node { name
        books(filter: { title: { startsWith: "E" } }) { title }
        booksConnection(first: 1, orderBy: TITLE_DESC) { totalCount pageInfo { hasNextPage } edges { node { title } } } } }
    } }`;
    const before = service().service.databaseWaits();
    const { shelves: found } = await data(query);
    expect(service().service.databaseWaits() - before).toBe(1);
    expect(found).toEqual({
      totalCount: 2,
      edges: [
        {
          node: {
            name: "facts",
            books: [],
            booksConnection: { totalCount: 1, pageInfo: { hasNextPage: false }, edges: [{ node: { title: "Atlas" } }] },
          },
        },
        {
          node: {
            name: "fiction",
            books: [{ title: "Emma" }],
            booksConnection: {
              totalCount: 2,
              pageInfo: { hasNextPage: true },
              edges: [{ node: { title: "Ulysses" } }],
            },
          },
        },
      ],
    });
  });
});

test("an operation with many fields is one round trip, with variables and without", async () => {
  const query = `query ($filter: KindFilter, $id: ID!, $keyword: String!, $first: Int, $size: Int) {
    me { name articles { id comments { id author { name } } } } article(id: 1) { title author { name avatar(size: $size) } } user(id: $id) { name }
    users(limit: 2) { name articles { title } } search(keyword: $keyword) { title relatedArticles { id } }
    kinds(filter: $filter, first: $first) { totalCount aggregates { count } edges { node { label } } } shelves { totalCount }
  }`;
  const variables = { filter: { flag: { equalTo: true } }, id: "2", keyword: "a" };
  // The first request of an account reads the account too.
  await data("{ me { id } }", { as: "ada" });
  const before = service().service.databaseWaits();
  const { kinds: found, me } = await data(query, { as: "ada", variables });
  expect(service().service.databaseWaits() - before).toBe(1);
  expect(me.name).toBe("Ada Lovelace");
  expect(found).toMatchObject({ totalCount: 1, aggregates: { count: 1 } });
});

describe("columns without an index", () => {
  const byPlain = '{ kinds(filter: { plain: { equalTo: "p1" } }) { totalCount } }';

  test("cannot be filtered or ordered by", async () => {
    expect(await errors(byPlain)).toEqual([expect.stringMatching(/^VALIDATION_ERROR: .*"plain"/)]);
    expect(await errors("{ kinds(orderBy: PLAIN_ASC) { totalCount } }")).toEqual([expect.stringMatching(/PLAIN_ASC/)]);
  });

  test("can with a smart tag, and computed columns too", async () => {
    const { articles } = await data(
      '{ articles(filter: { title: { startsWith: "Notes" } }, orderBy: TITLE_ASC) { totalCount } }',
    );
    expect(articles.totalCount).toBe(1);
    const { books } = await data('{ books(filter: { whisper: { equalTo: "emma" } }) { edges { node { title } } } }');
    expect(books.edges).toEqual([{ node: { title: "Emma" } }]);
    expect(await errors('{ books(filter: { shout: { equalTo: "EMMA" } }) { totalCount } }')).toHaveLength(1);
  });

  test("can with GRAPHQL_UNINDEXED_FILTERS=on", async () => {
    expect(await unindexed.data(byPlain)).toEqual({ kinds: { totalCount: 1 } });
    expect(await kinds({ plain: { isNull: false } }, unindexed.data)).toEqual(["1", "2"]);
    expect(
      await unindexed.data('{ books(filter: { shout: { equalTo: "EMMA" } }, orderBy: TITLE_ASC) { totalCount } }'),
    ).toEqual({ books: { totalCount: 1 } });
  });
});

describe("the filter of articles", () => {
  const articles = async (filter: string) =>
    (await data(`{ articles(filter: ${filter}) { edges { node { id } } } }`)).articles.edges.map(
      ({ node }: any) => node.id,
    );

  test("has the fields of the contract beside the generated ones", async () => {
    expect(await articles('{ status: PUBLISHED, author: { name: { startsWith: "Ada" } } }')).toEqual(
      (
        await sql(
          "select id from articles where status = 'PUBLISHED' and author_id = 1 order by created_at desc, id desc",
        )
      ).map(({ id }) => id),
    );
    expect(await articles('{ or: [{ status: DRAFT }, { status: ARCHIVED }], tags: { anyEqualTo: "none" } }')).toEqual(
      [],
    );
  });

  test("applies to nested lists and to articles as related rows", async () => {
    const { users, comments } = await data(`{
      users(filter: { articles: { some: { status: PUBLISHED } } }, orderBy: ID_ASC) { id articles(filter: { status: PUBLISHED }) { status } }
      comments(filter: { article: { status: DRAFT } }) { totalCount }
    }`);
    expect(users.map(({ id }: any) => id)).toEqual(
      (await sql("select distinct author_id as id from articles where status = 'PUBLISHED' order by 1")).map(
        ({ id }) => id,
      ),
    );
    expect(users.flatMap((user: any) => user.articles.map(({ status }: any) => status))).not.toContain("DRAFT");
    const [count] = await sql(
      "select count(*)::int from comments join articles a on a.id = article_id where a.status = 'DRAFT'",
    );
    expect(comments.totalCount).toBe(count!.count);
  });

  test("search has a filter and an order", async () => {
    const { search } = await data('{ search(keyword: "a", filter: { authorId: "1" }, orderBy: TITLE_DESC) { title } }');
    const rows = await sql("select title from search('a') where author_id = 1 order by title desc");
    expect(rows.length).toBeGreaterThan(1);
    expect(search).toEqual(rows);
  });
});

describe("the complexity of an operation counts the fields of its filters", () => {
  const list = (count: number) => Array.from({ length: count }, (_, i) => ({ id: { equalTo: String(i) } }));

  test("in literals", async () => {
    const conditions = list(499).map(({ id }) => `{ id: { equalTo: "${id.equalTo}" } }`);
    // kinds, totalCount, or: 3 fields.
    expect(await errors(`{ kinds(filter: { or: [${conditions}] }) { totalCount } }`)).toEqual([
      "VALIDATION_ERROR: the operation has complexity 1001; the maximum is 1000",
    ]);
    expect(await errors(`{ kinds(filter: { or: [${conditions.slice(1)}] }) { totalCount } }`)).toEqual([]);
  });

  test("in variables, for each use", async () => {
    const query =
      "query ($f: KindFilter) { a: kinds(filter: $f) { totalCount } b: kinds(filter: { not: $f }) { totalCount } }";
    expect(await errors(query, { variables: { f: { or: list(248) } } })).toEqual([]);
    expect(await errors(query, { variables: { f: { or: list(249) } } })).toEqual([
      "VALIDATION_ERROR: the operation has complexity 1003; the maximum is 1000",
    ]);
  });
});
