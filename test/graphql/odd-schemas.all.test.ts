import { beforeAll, describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { data, errors, sql } = useService({ GRAPHQL_UNINDEXED_FILTERS: "on", GRAPHQL_EXTRAS: "bulk, changes, node" });

/** Tables by the type of their primary key, with two keys each. */
const KEYS: readonly (readonly [table: string, type: string, one: string, two: string])[] = [
  ["int", "int", "1", "2"],
  ["text", "text", "'a'", `'b"c'`],
  ["bytea", "bytea", "'\\x01ff'", "'\\x02'"],
  ["jsonb", "jsonb", `'{"a": 1}'`, "'[1]'"],
  ["float", "float8", "1.5", "'NaN'"],
  ["money", "money", "1.5", "-2"],
  ["boolean", "boolean", "true", "false"],
  ["char", "char(4)", "'a'", "'b'"],
  ["bit", "bit(3)", "'101'", "'111'"],
  ["date", "date", "'2026-01-01'", "'infinity'"],
  ["time", "time", "'10:00'", "'24:00'"],
  ["timestamp", "timestamp", "'2026-01-01 10:00:00.123456'", "'-infinity'"],
  ["timestamptz", "timestamptz", "'2026-01-01 10:00:00.123456Z'", "'0044-03-15 12:00:00Z BC'"],
  ["interval", "interval", "'1 day'", "'1 mon -3.5 s'"],
  ["int_range", "int4range", "'[1,5)'", "'empty'"],
  ["time_range", "tstzrange", "'[2026-01-01,2026-02-01)'", "'[2026-02-01,)'"],
  ["multirange", "int4multirange", "'{[1,2)}'", "'{[3,4)}'"],
  ["inet", "inet", "'10.0.0.1/32'", "'10.0.0.0/8'"],
  ["list", "text[]", "'{a}'", `'{"b c",NULL}'`],
  ["mood", "public.mood", "'sad'", "'a-b'"],
  ["spot", "public.spot", "row(1, 'a')", `row(2, 'b,"c')`],
  ["spot_domain", "public.spot_domain", "row(1, 'a')", "row(2, null)"],
];

const FILTERED = `
  create domain public.temper as public.mood check (value is not null);
  create table public.pets (id int primary key, temper public.temper, tempers public.temper[]);
  insert into public.pets values (1, 'sad', '{sad}'), (2, 'a-b', '{a-b}');
  create table public.logics (id int primary key, "and" text, "or" int, "not" boolean);
  insert into public.logics values (1, 'a', 1, true), (2, 'b', 2, false);
  create table public.rules (id int primary key, not_id int references public.logics);
  insert into public.rules values (1, 1), (2, 2);
  grant select, update on public.pets, public.logics, public.rules to anon`;

const FUNCTIONS = `
  create table public.stones (id int primary key, next_id int references public.stones);
  insert into public.stones values (1, null), (2, 1), (3, 2);
  create table public.scraps (a int, b int);
  create function public.with_null() returns setof public.stones language sql stable
    begin atomic select null::public.stones union all (select s from public.stones as s order by id); end;
  create function public.stones_others(stone public.stones) returns setof public.stones language sql stable
    begin atomic select null::public.stones union all select s from public.stones as s where id <> (stone).id; end;
  create function public.scraps_with_null() returns setof public.scraps language sql stable
    return null::public.scraps;
  create function public.numbers() returns setof int language sql stable begin atomic values (1), (null); end;
  create function public.between("first" int, "last" int default 3, "filter" text default 'f') returns setof public.stones
    language sql stable begin atomic select * from public.stones where id between "first" and "last" order by id; end;
  create function public.stones_after(stone public.stones, after int, "offset" int default 0) returns setof public.stones
    language sql stable begin atomic select * from public.stones where id > after order by id offset "offset"; end;
  grant select on public.stones, public.scraps to anon;
  grant execute on all functions in schema public to anon`;

const WRITTEN = `
  create table public.tickets (id int generated always as identity primary key, twice int generated always as (id * 2) stored);
  create table public.posts (id int primary key, slug text not null, status text default 'new', views int default 0);
  insert into public.posts values (1, 'a', 'read', 7);
  grant select, insert, delete on public.tickets to anon;
  grant select, insert, update (status, views) on public.posts to anon`;

beforeAll(async () => {
  await sql(`
    create type public.mood as enum ('sad', 'a-b');
    create type public.spot as (x int, label text);
    create domain public.spot_domain as public.spot;`);
  for (const [name, type, one, two] of KEYS)
    await sql(`
      create table public.${name}_keys (part int, key ${type}, note text, primary key (part, key));
      insert into public.${name}_keys values (1, ${one}, 'one'), (1, ${two}, 'two');
      grant select, insert, update, delete on public.${name}_keys to anon`);
  for (const ddl of [FILTERED, FUNCTIONS, WRITTEN]) await sql(ddl);
});

const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());

describe("a primary key of any type", () => {
  test.each(KEYS.map(([name]) => camel(name)))(
    "a node id finds its row, and pages have each row once: %s",
    async (name) => {
      const rows = `${name}Keys`;
      const { all } = await data(`{ all: ${rows} { edges { node { nodeId note } } } }`);
      const nodes = all.edges.map(({ node }: any) => node);
      expect(nodes.map(({ note }: any) => note).sort()).toEqual(["one", "two"]);
      const type = name[0]!.toUpperCase() + name.slice(1);
      const NODE = `query ($id: ID!) { node(id: $id) { ... on ${type}Key { nodeId note } } }`;
      for (const node of nodes) expect((await data(NODE, { variables: { id: node.nodeId } })).node).toEqual(node);

      for (const order of ["", "orderBy: [PRIMARY_KEY_DESC]", "orderBy: [NOTE_DESC]"]) {
        const PAGE = `query ($after: String) { page: ${rows}(first: 1, after: $after ${order}) {
        pageInfo { endCursor } edges { node { note } } } }`;
        const first = (await data(PAGE)).page;
        const second = (await data(PAGE, { variables: { after: first.pageInfo.endCursor } })).page;
        expect([first, second].map(({ edges }) => edges[0]?.node.note).sort()).toEqual(["one", "two"]);
      }
    },
  );

  test("a row whose key is composite is updated and deleted", async () => {
    const key = 'part: 1, key: { x: 1, label: "a" }';
    expect(await data(`mutation { updateSpotKey(${key}, input: { note: "new" }) { nodeId note key { x } } }`)).toEqual({
      updateSpotKey: { nodeId: expect.any(String), note: "new", key: { x: 1 } },
    });
    expect(await data(`mutation { deleteSpotKey(${key}) }`)).toEqual({ deleteSpotKey: true });
  });
});

describe("a filter", () => {
  const found = async (list: string, filter: string) =>
    (await data(`{ all: ${list}(filter: ${filter}) { edges { node { id } } } }`)).all.edges.map(
      ({ node }: any) => node.id,
    );

  test.each([
    "{ temper: { equalTo: sad } }",
    "{ temper: { in: [sad] } }",
    "{ temper: { distinctFrom: a_b } }",
    "{ temper: { lessThan: a_b } }",
    "{ tempers: { anyEqualTo: sad } }",
    "{ tempers: { contains: [sad] } }",
  ])("compares a domain over an enum as the enum: %s", async (filter) => {
    expect(await found("pets", filter)).toEqual(["1"]);
  });

  test("pages are ordered by a domain over an enum", async () => {
    const page = async (after: string | null) =>
      (
        await data(
          "query ($after: String) { pets(first: 1, after: $after, orderBy: [TEMPER_DESC]) { pageInfo { endCursor } edges { node { id } } } }",
          { variables: { after } },
        )
      ).pets;
    const first = await page(null);
    const second = await page(first.pageInfo.endCursor);
    expect([first, second].map(({ edges }) => edges[0].node.id)).toEqual(["2", "1"]);
  });

  test.each([
    ["logics", '{ and_: { equalTo: "a" } }'],
    ["logics", "{ or_: { lessThan: 2 } }"],
    ["logics", "{ not: { not_: { equalTo: false } } }"],
    ["logics", '{ or: [{ and_: { equalTo: "a" } }, { and: [{ or_: { equalTo: 1 } }] }] }'],
    ["rules", '{ not_: { and_: { equalTo: "a" } } }'],
  ])("has columns and rows that are named and, or, not with an underscore: %s %s", async (list, filter) => {
    expect(await found(list, filter)).toEqual(["1"]);
  });

  test("on changes has them too", async () => {
    const { __type } = await data('{ __type(name: "ChangedLogicFilter") { inputFields { name } } }');
    expect(__type.inputFields.map(({ name }: any) => name)).toEqual(["id", "and_", "or_", "not_", "and", "or", "not"]);
  });
});

describe("a function that returns a set", () => {
  const idsOf = ({ edges }: any) => edges.map(({ node }: any) => node.id);

  test("has no row for a NULL among its rows, if the table has a column that cannot be null", async () => {
    const { withNull, stone, ordered } = await data(`{
      withNull { totalCount pageInfo { hasNextPage } edges { cursor node { id } } }
      ordered: withNull(orderBy: [ID_DESC], first: 1) { edges { node { id } } }
      stone(id: 2) { others { totalCount edges { node { id } } } }
    }`);
    expect(withNull).toMatchObject({ totalCount: 3, pageInfo: { hasNextPage: false } });
    expect([withNull, ordered, stone.others].map(idsOf)).toEqual([["1", "2", "3"], ["3"], ["1", "3"]]);
    const { scrapsWithNull, numbers } = await data(
      "{ scrapsWithNull { edges { node { a b } } } numbers { edges { node } } }",
    );
    expect(scrapsWithNull.edges).toEqual([{ node: { a: null, b: null } }]);
    expect(numbers.edges).toEqual([{ node: 1 }, { node: null }]);
  });

  test("has an underscore after a parameter that is named like an argument of a page", async () => {
    const { between, stone } = await data(`{
      between(first_: 1, last_: 3, first: 1, offset: 1) { totalCount edges { node { id } } }
      stone(id: 1) { after(after_: 1, offset_: 1) { edges { node { id } } } }
    }`);
    expect([between.totalCount, idsOf(between), idsOf(stone.after)]).toEqual([3, ["2"], ["3"]]);
  });
});

describe("a write", () => {
  test("creates a row whose columns are all assigned by the database, without an input", async () => {
    expect(await data("mutation { one: createTicket { id twice } two: createTicket { id kind: __typename } }")).toEqual(
      {
        one: { id: "1", twice: 2 },
        two: { id: "2", kind: "Ticket" },
      },
    );
  });

  test.each(["%%%", "\\x01ff", "AQ=I"])("refuses bytea that is not Base64: %s", async (raw) => {
    const CREATE = "mutation ($raw: Base64EncodedBinary!) { createByteaKey(input: { part: 2, key: $raw }) { note } }";
    const refused = /^VALIDATION_ERROR: .*a Base64EncodedBinary must be Base64$/;
    expect(await errors(CREATE, { variables: { raw } })).toEqual([expect.stringMatching(refused)]);
    const literal = CREATE.replace(/ \(.*?\)/, "").replace("$raw", JSON.stringify(raw));
    expect(await errors(literal)).toEqual([expect.stringMatching(refused)]);
  });

  test("upsertX keeps what is left out, and gives a new row its defaults", async () => {
    const upserted = async (input: string) =>
      (await data(`mutation { row: upsertPost(input: ${input}) { posts { id slug status views } } }`)).row.posts;
    const row = { id: "1", slug: "a", status: "read", views: 8 };
    expect(await upserted('{ id: 1, slug: "a", views: 8 }')).toEqual([row]);
    expect(await upserted('{ id: 1, slug: "a" }')).toEqual([row]);
    const made = { id: "2", slug: "b", status: "new", views: 0 };
    expect(await upserted('{ id: 2, slug: "b" }')).toEqual([made]);
    expect(await sql("select id::text, slug, status, views from public.posts order by id")).toEqual([row, made]);
  });
});
