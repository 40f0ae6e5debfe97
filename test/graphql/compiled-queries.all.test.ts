import fc from "fast-check";
import { beforeAll, expect, test, vi } from "vitest";
import { CompiledQueries } from "../../graphql/compiled/compiled-queries.ts";
import { connect, type GraphQLClient } from "../support/graphql-client.ts";
import { useService } from "../support/http-client.ts";
import { openGraphQL } from "../support/raw-socket.ts";
import { samples } from "../support/samples.ts";
import type { DemoUser } from "../support/service.ts";
import { operations, type Request, type Vocabulary } from "./random-operations.ts";

const { article, service, sql } = useService({ GRAPHQL_UNINDEXED_FILTERS: "on", RATE_LIMIT: "0" });

beforeAll(async () => {
  await sql(`
    create type public.mood as enum ('SAD', 'OK');
    create type public.grade as enum ('first-class', 'second');
    create table public.makers (id bigint primary key, name text not null, is_hidden boolean not null default false);
    create table public.samples (
      id bigint primary key, maker_id bigint not null references public.makers, note text, mood public.mood, grade public.grade,
      small smallint, big bigint, amount numeric, ratio double precision, token uuid, is_open boolean, moment timestamptz, plain timestamp,
      day date, words text[], doc jsonb, code varchar(9) not null
    );
    comment on constraint samples_maker_id_fkey on public.samples is E'@notNull';
    create index on public.samples (maker_id);
    create index on public.samples (token);
    create index on public.samples (moment);
    create index on public.samples (mood);
    insert into public.makers values (1, 'Ada', false), (2, E'"B"\\\\ \\t\\u0001 é 😀 \\u2028 </script>', false), (3, 'hidden', true);
    insert into public.samples values
      (1, 1, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 'a'),
      (2, 1, '', 'SAD', 'second', -32768, 9223372036854775807, 1.50, 0.1, '00000000-0000-0000-0000-000000000001', true,
       '2026-01-01T00:00:00.123999Z', '1999-12-31T23:59:59.999999', '2026-02-28', '{}', '{"b": 1, "a": [1.0]}', 'b'),
      (3, 2, E'line\\nbreak', 'OK', 'first-class', 0, 0, 'NaN', -0.0, 'FFFFFFFF-0000-0000-0000-000000000001', false,
       '1969-12-31T23:59:59.9995Z', '2026-01-01', '0900-01-01', '{a,"b,\\"c",é}', 'null', 'c'),
      (4, 2, 'x', 'OK', 'second', 1, 1, 1e30, 1e300, null, null, 'infinity', '12000-01-01', 'infinity', array['a', null], '[]', 'd'),
      (5, 2, 'x', 'OK', 'second', 1, 1, -1, 123456789.125, null, null, '0044-03-15T12:00Z BC', '-infinity', '2026-01-01', '{{a,b},{c,d}}', '1', 'e'),
      (6, 1, 'x', 'OK', 'second', 1, 1, 3, 'NaN', null, null, '2026-06-01T12:00+02:00', null, null, '[2:3]={x,y}', '"1"', 'f'),
      (7, 1, 'x', 'OK', 'second', 1, 1, 3, 1e-7, null, null, '2026-06-01T12:00:00.1Z', null, null, null, '2', 'g'),
      (8, 3, 'of a hidden maker', 'OK', 'second', 1, 1, 3, '-Infinity', null, null, null, null, null, null, '2', 'h');
    alter table public.makers enable row level security;
    create policy "shown" on public.makers using (not is_hidden);
    grant select on public.makers, public.samples to anon, authenticated;
    grant select (id) on public.comments to anon;
  `);
  for (let i = 0; i < 7; i++) {
    await article({
      author: 1 + (i % 3),
      title: `Title ${i % 4}`,
      status: i % 2 === 0 ? "PUBLISHED" : "DRAFT",
      tags: ["a", `t${i}`],
    });
  }
  await sql(
    "insert into comments (article_id, author_id, content) select id, author_id, 'Comment ' || id from articles",
  );
  const { data } = await service().gql("{ articles { edges { cursor } } samples { edges { cursor } } }");
  for (const { edges } of Object.values<any>(data)) CURSORS.push(...edges.map(({ cursor }: any) => cursor));
});

/** The body of the response, without what differs from request to request. */
const comparable = (body: string) => body.replaceAll(/,"requestId":"[^"]+"/g, "");

/** The answer over HTTP. */
async function compiled({ query, variables }: Request, as?: DemoUser): Promise<string> {
  const response = await fetch(`${service().url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(as && { authorization: `Bearer ${service().token(as)}` }) },
    body: JSON.stringify({ query, variables }),
  });
  return comparable(await response.text());
}

/** The answer over a WebSocket. */
async function overSocket({ query, variables = {} }: Request, socket: GraphQLClient): Promise<string> {
  const { data, errors } = await socket.run(query, variables);
  return comparable(JSON.stringify({ errors, data }));
}

let isGrafastOnly = false;
const { statementOf } = CompiledQueries.prototype;
vi.spyOn(CompiledQueries.prototype, "statementOf").mockImplementation(function (this: CompiledQueries, operation) {
  return isGrafastOnly ? null : statementOf.call(this, operation);
});

/** The same if Grafast executes the operation. */
async function ofGrafast(request: Request, socket: GraphQLClient): Promise<string> {
  isGrafastOnly = true;
  return overSocket(request, socket).finally(() => {
    isGrafastOnly = false;
  });
}

const SHAPES: Vocabulary["shapes"] = {
  Sample: {
    leaves: "id note mood grade small big amount ratio token isOpen moment plain day words code".split(" "),
    rows: { maker: "Maker" },
  },
  Maker: {
    leaves: ["id", "name", "isHidden"],
    lists: { samples: "Sample" },
    connections: { samplesConnection: "Sample" },
  },
  Article: {
    leaves: "id title content status tags createdAt updatedAt".split(" "),
    rows: { author: "User" },
    lists: { comments: "Comment" },
    connections: { commentsConnection: "Comment" },
  },
  User: { leaves: "id name email age createdAt updatedAt".split(" "), lists: { articles: "Article" } },
  Comment: { leaves: "id content createdAt".split(" "), rows: { author: "User", article: "Article" } },
};
const ROOTS = {
  rows: { article: "Article", user: "User", sample: "Sample", maker: "Maker" },
  lists: { users: "User" },
  connections: { articles: "Article", samples: "Sample", makers: "Maker", comments: "Comment" },
};
const FILTERS: Readonly<Record<string, readonly object[]>> = {
  Article: [
    { status: "PUBLISHED" },
    { tag: "a", keyword: "title" },
    { author: { id: { in: ["1", "2"] } } },
    { title: { like: "%3" } },
  ],
  Sample: [
    { ratio: { greaterThan: 0 } },
    { or: [{ note: { isNull: true } }, { mood: { equalTo: "OK" } }] },
    { not: { id: { lessThan: "4" } } },
    {},
  ],
  Maker: [{ samples: { some: { code: { in: ["a", "d"] } } } }, { name: { startsWithInsensitive: "a" } }],
  User: [{ name: { equalTo: null } }, { articles: { none: { status: "DRAFT" } } }],
  Comment: [{ id: { greaterThan: "3" } }],
};
/** Cursors of articles and samples follow before the tests. */
const CURSORS = ["x", ""];

const request = operations({ kind: "query", shapes: SHAPES, roots: ROOTS, filters: FILTERS, cursors: CURSORS });

test("random queries answer byte for byte as Grafast does, with their errors, and over a WebSocket too", async () => {
  const spy = vi.spyOn(CompiledQueries.prototype, "statementOf");
  const sockets = new Map([undefined, "ada" as const].map((as) => [as, connect(service(), as && { as })]));
  let count = 0;
  let statements = 0;
  await fc.assert(
    fc.asyncProperty(request, fc.constantFrom(undefined, "ada" as const), async (each, as) => {
      count++;
      spy.mockClear();
      const answer = await compiled(each, as);
      const statement = spy.mock.results[0]?.value;
      expect(answer).toBe(await ofGrafast(each, sockets.get(as)!));
      expect(answer).toBe(await overSocket(each, sockets.get(as)!));
      if (!statement) return;
      statements++;
      // A statement that Postgres refuses would be hidden by Grafast's answer.
      await sql(`explain (generic_plan) ${statement.text}`);
    }),
    { numRuns: samples(100), seed: 20_261_122 },
  );
  // The others are not valid, or of a kind that only Grafast executes.
  expect(statements).toBeGreaterThan(count / 3);
});

/** How many of the queries over HTTP are compiled to a statement. */
async function countCompiled(...queries: readonly string[]): Promise<number> {
  const spy = vi.spyOn(CompiledQueries.prototype, "statementOf");
  const before = spy.mock.results.length;
  for (const query of queries) await compiled({ query });
  return spy.mock.results.slice(before).filter(({ value }) => value !== null).length;
}

test("queries of the contract for users and articles are compiled, also with fragments, pages and filters", async () => {
  const queries = [
    "{ user(id: 1) { id name age createdAt articles(limit: 3) { title status } } }",
    "{ users(limit: 5, offset: 1) { ...U } } fragment U on User { id name updatedAt }",
    "{ article(id: 1) { title content tags author { name } createdAt updatedAt __typename } }",
    "{ articles(first: 2, status: PUBLISHED) { totalCount edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }",
    '{ articles(filter: { keyword: "title", tag: "a" }, orderBy: [TITLE_ASC]) { edges { node { comments(limit: 3, orderBy: [ID_DESC]) { content } } } } }',
  ];
  expect(await countCompiled(...queries)).toBe(queries.length);
});

test("what only Grafast executes is not compiled", async () => {
  const queries = [
    "{ __schema { queryType { name } } }",
    '{ search(keyword: "title") { id } }',
    "{ articles(last: 2) { edges { node { id } } } }",
    "{ articles(first: 0) { pageInfo { hasNextPage } } }",
    '{ article(id: 1) { title(language: "de") } }',
    "{ samples { edges { node { doc } } } }",
    "{ articles { aggregates { count } } }",
    `{ ${"a".repeat(64)}: article(id: 1) { id } }`,
    'mutation { createComment(articleId: 1, content: "Hm.") { article { comments { id } } } }',
    'mutation { createComment(articleId: 1, content: "Hm.") { id } other: createComment(articleId: 1, content: "Hm.") { id } }',
  ];
  expect(await countCompiled(...queries)).toBe(0);
});

test("the statement of a query is one select that returns the JSON of the response", async () => {
  const spy = vi.spyOn(CompiledQueries.prototype, "statementOf");
  await compiled({ query: "{ article(id: 2) { title author { name } } }" });
  const { text, values } = spy.mock.results.at(-1)!.value;
  expect(values).toEqual(["2"]);
  expect(text.replaceAll(/![0-9a-f-]{36}/g, "<mark>")).toMatchInlineSnapshot(`
    "select row_to_json("{}") from (
    select (select row_to_json("{}") from (
    select coalesce(__articles__."title", '<mark>') as "title",
      coalesce((select row_to_json("{}") from (
    select coalesce(__users__."name", '<mark>') as "name"
      from "public"."users" as __users__
      where (__users__."id" = __articles__."author_id")) as "{}"), '"<mark>"'::json) as "author"
      from "public"."articles" as __articles__
      where (__articles__."id" = $1::"int8")) as "{}") as "article") as "{}""
  `);
});

test("an alias may have any name", async () => {
  const query =
    "{ o: articles(first: 2) { p: pageInfo { n: hasNextPage r: endCursor } q: edges { edge: cursor edges: node { o: id q: author { p: id } } } } }";
  const before = service().service.databaseWaits();
  expect(await compiled({ query })).toBe(await ofGrafast({ query }, connect(service())));
  // One for each of the two.
  expect(service().service.databaseWaits() - before).toBe(2);
});

test.each(["TOKEN", "MOMENT", "MOOD"])("cursors of a list by %s are written by its statement", async (column) => {
  const query = `{ samples(orderBy: [${column}_ASC], first: 3) { edges { cursor node { id } } } }`;
  const before = service().service.databaseWaits();
  const answer = await compiled({ query });
  expect(service().service.databaseWaits() - before).toBe(1);
  expect(JSON.parse(answer).data.samples.edges).toHaveLength(3);
  expect(answer).toBe(await ofGrafast({ query }, connect(service())));
});

test("a page of the same size is the same statement, at any offset and after any cursor", async () => {
  const spy = vi.spyOn(CompiledQueries.prototype, "statementOf");
  const query =
    "query ($offset: Int, $after: String) { articles(first: 2, offset: $offset, after: $after) { edges { cursor node { id } } } }";
  const [, , one, two] = CURSORS;
  const all = [{ offset: 1 }, { offset: 5 }, { after: one }, { after: two }];
  for (const variables of all) await compiled({ query, variables });
  const [first, second, third, fourth] = spy.mock.results.slice(-4).map(({ value }) => value.text);
  expect(first).toBe(second);
  expect(third).toBe(fourth);
});

test("a row that a policy hides is an error where the schema says that there is always one", async () => {
  const query = '{ samples(filter: { code: { equalTo: "h" } }) { edges { node { note maker { name } } } } }';
  expect(await compiled({ query })).toBe(await ofGrafast({ query }, connect(service())));
});

test("a query that is cancelled in the database is not executed a second time", async () => {
  await sql(`create table public.slow_rows (id bigint primary key);
    alter table public.slow_rows enable row level security;
    create policy "slow" on public.slow_rows using ((select pg_sleep(600)) is null);
    insert into public.slow_rows values (1);
    grant select on public.slow_rows to anon`);
  const isServed = async () => (await compiled({ query: '{ __type(name: "SlowRow") { name } }' })).includes("SlowRow");
  await expect.poll(isServed).toBe(true);
  const answer = compiled({ query: "{ slowRows { edges { node { id } } } }" });
  const cancel = () =>
    sql(
      "select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'",
    );
  await expect.poll(cancel).not.toEqual([]);
  expect(JSON.parse(await answer)).toMatchObject({ data: null, errors: [{ path: ["slowRows"] }] });
});

test("a statement that fails has the errors of Grafast, which executes it again if it makes one for each of several fields", async () => {
  await sql('create policy "odd" on public.makers as restrictive using (1 / (id - 2) is not null)');
  const ofOneField = [
    "{ sample(id: 3) { maker { name } } __typename }",
    "{ maker(id: 2) { id samplesConnection { totalCount } } }",
    "{ samples { edges { node { maker { name } } } } }",
    "{ makers(first: 2) { pageInfo { hasNextPage } edges { node { id } } } }",
  ];
  const queries = [
    "{ makers(first: 1) { totalCount edges { node { id } } } }",
    "{ maker(id: 1) { id } samples { edges { node { maker { name } } } } other: maker(id: 2) { id } }",
    "{ maker(id: 1) { id } other: maker(id: 2) { id } }",
  ];
  const socket = connect(service());
  for (const query of [...ofOneField, ...queries]) {
    const before = service().service.databaseWaits();
    const answer = await compiled({ query });
    const waits = service().service.databaseWaits() - before;
    expect(waits === 1).toBe(ofOneField.includes(query));
    expect(answer).toBe(await ofGrafast({ query }, socket));
    expect(answer).toContain("division by zero");
  }
  await sql('drop policy "odd" on public.makers');
});

test("random queries whose statements may fail answer byte for byte as Grafast does", async () => {
  const tables = ["makers", "samples", "articles", "comments"];
  for (const table of tables)
    await sql(`create policy "odd" on public.${table} as restrictive for select using (1 / (id - 2) is not null)`);
  const socket = connect(service());
  let failed = 0;
  await fc.assert(
    fc.asyncProperty(request, async (each) => {
      const answer = await compiled(each);
      // Grafast also executes what a directive leaves out.
      if (!answer.includes("division by zero")) return;
      failed++;
      expect(answer).toBe(await ofGrafast(each, socket));
    }),
    { numRuns: samples(100), seed: 20_261_201 },
  );
  expect(failed).toBeGreaterThan(0);
  for (const table of tables) await sql(`drop policy "odd" on public.${table}`);
});

test("queries over a WebSocket and as events are compiled too, whatever the id of the operation", async () => {
  const spy = vi.spyOn(CompiledQueries.prototype, "statementOf");
  spy.mockClear();
  const query = "{ articles(first: 2) { totalCount edges { node { title author { name } } } } }";
  const expected = JSON.parse(await compiled({ query }));
  const raw = await openGraphQL(service().url);
  const id = '"payload":{"data":0';
  raw.send({ id, type: "subscribe", payload: { query } });
  await expect.poll(() => raw.messages().find((message) => message.id === id)?.payload).toEqual(expected);
  raw.socket.destroy();
  const response = await fetch(`${service().url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify({ query }),
  });
  const [first] = (await response.text()).split("\n\n").filter((event) => event.includes("event: next"));
  const data = first!.split("\n").flatMap((line) => (line.startsWith("data: ") ? [line.slice(6)] : []));
  expect(JSON.parse(data.join("\n"))).toEqual(expected);
  expect(spy.mock.results.filter(({ value }) => value !== null)).toHaveLength(3);
});
