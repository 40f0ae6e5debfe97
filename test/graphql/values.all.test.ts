import { beforeAll, describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { data, errors, send, sql } = useService({ GRAPHQL_UNINDEXED_FILTERS: "on", API_KEY_REQUIRED: "off" });

beforeAll(async () => {
  await sql(`

    create extension citext schema extensions;
    create table public.readings (sensor int, note text);
    insert into public.readings values (1, 'ok'), (null, null), (2, null);
    create view public.recent_readings as select note, sensor from public.readings;
    create function public.sample_readings() returns table (sensor int, note text) language sql stable as
      $$ values (7, 'x'), (null::int, null::text) $$;
    create function public.again() returns setof public.readings language sql stable as $$ select * from public.readings $$;
    create function public.extremes(out low int, out high int) language sql stable as $$ select null::int, null::int $$;
    create function public.no_reading() returns public.readings language sql stable as $$ select * from public.readings where false $$;
    create type public.span as (lo int, hi int);
    create table public.gauges (id int primary key, spans public.span[] not null default '{}', span public.span);
    insert into public.gauges values (1, array[row(1, 2), row(null, null)]::public.span[], row(null, null)), (2, '{}', null);
    create table public.secrets (name text, secret text);
    insert into public.secrets values ('a', 'b'), (null, null);

    create table public.depots (id int primary key, city text not null);
    create table public.trucks (id int primary key, depot_id int references public.depots);
    create index on public.trucks (depot_id);
    insert into public.depots values (1, 'Oslo');
    insert into public.trucks values (1, 1), (2, null);
    create view public.left_boards as select t.id, d.id as depot_id, d.city from public.trucks t left join public.depots d on d.id = t.depot_id;
    create view public.right_boards as select t.id, d.id as depot_id, d.city from public.depots d right join public.trucks t on d.id = t.depot_id;
    create view public.full_boards as select t.id, d.id as depot_id, d.city from public.trucks t full join public.depots d on d.id = t.depot_id;
    create view public.nested_boards as select t.id, b.depot_id from public.trucks t left join (public.depots d join public.left_boards b on b.depot_id = d.id) on d.id = t.depot_id;
    create view public.inner_boards as select t.id, d.id as depot_id, d.city from public.trucks t join public.depots d on d.id = t.depot_id;
    create view public.seen_boards as select id, depot_id from public.left_boards;
    create rule add as on insert to public.left_boards do instead
      insert into public.trucks values (new.id, new.depot_id) returning id, depot_id, null::text;

    create table public.leases (
      id int primary key, ends timestamptz, local timestamp, day date, days date[], times timestamptz[], validity tstzrange, at time
    );
    create index on public.leases (ends);
    insert into public.leases values
      (1, '2024-01-01 00:00+00', '2024-01-01', '2024-01-01', '{2024-01-01,infinity}', '{-infinity,2024-01-01T00:00Z}', '[2024-01-01T00:00Z,infinity)', '24:00'),
      (2, 'infinity', '-infinity', '-infinity', null, null, null, '08:30'),
      (3, 'infinity', 'infinity', 'infinity', null, null, null, null),
      (4, '0044-03-15 12:00+00 BC', '0044-03-15 12:00:00.5 BC', '0044-03-15 BC', null, null, null, null),
      (5, '12026-01-01 00:00+00', '12026-01-01 00:00', '12026-01-01', null, null, null, null),
      (6, '2024-01-02 03:04:05.678901+00', '2024-01-02 03:04:05.678901', null, null, null, null, null);

    create table public.codes (id int primary key, code char(6) not null);
    create table public.cards (id int primary key, code_id int references public.codes, codes char(6)[]);
    create index on public.cards (code_id);
    insert into public.codes values (1, 'AB'), (2, 'CD');
    insert into public.cards values (1, 1, '{AB,CD}');
    create table public.members (id int primary key, mail extensions.citext unique, others extensions.citext[]);
    insert into public.members values (1, 'Ann@X.org', '{BOB@x.org}');

    create table public.documents (id int primary key, doc jsonb, raw json);
    insert into public.documents values (1, '{"big": 9007199254740993, "list": [1.10, 1e400]}', '{"big": 12345678901234567890}');

    grant select, insert, update on all tables in schema public to anon;
    revoke all on public.secrets from anon;
    grant select (name) on public.secrets to anon;
    grant usage on schema extensions to anon;
    grant execute on all functions in schema public, extensions to anon;
  `);
});

const nodes = (connection: any) => connection.edges.map(({ node }: any) => node);

describe("a row of nothing but null is a row", () => {
  const THREE = [
    { sensor: 1, note: "ok" },
    { sensor: null, note: null },
    { sensor: 2, note: null },
  ];

  test.each([
    ["of a table without a key", "readings", "sensor note", THREE],
    [
      "of a table without a key, beside its cursor",
      "readings",
      "sensor note __typename",
      THREE.map((row) => ({ ...row, __typename: "Reading" })),
    ],
    ["of a view", "recentReadings", "sensor note", THREE],
    ["of a function that returns the rows of a table", "again", "sensor note", THREE],
    [
      "of a function that returns a table",
      "sampleReadings",
      "sensor note",
      [
        { sensor: 7, note: "x" },
        { sensor: null, note: null },
      ],
    ],
    ["of a table of which a caller may read one column", "secrets", "name", [{ name: "a" }, { name: null }]],
  ])("%s", async (_, list, fields, rows) => {
    expect(nodes((await data(`{ ${list} { edges { cursor node { ${fields} } } } }`))[list])).toEqual(rows);
  });

  test("of an array of composites, and in a column of its own", async () => {
    expect(nodes((await data("{ gauges { edges { node { spans { lo hi } span { lo hi } } } } }")).gauges)).toEqual([
      {
        spans: [
          { lo: 1, hi: 2 },
          { lo: null, hi: null },
        ],
        span: { lo: null, hi: null },
      },
      { spans: [], span: null },
    ]);
  });

  test("of a function with out parameters, and no row is null", async () => {
    expect(await data("{ extremes { low high } noReading { sensor } }")).toEqual({
      extremes: { low: null, high: null },
      noReading: null,
    });
  });
});

describe("a column of a view is nullable if a join can leave it empty", () => {
  test.each([
    ["LeftBoard", { id: true, depotId: false }],
    ["RightBoard", { id: true, depotId: false }],
    ["FullBoard", { id: false, depotId: false }],
    ["NestedBoard", { id: true, depotId: false }],
    ["SeenBoard", { id: true, depotId: false }],
    ["InnerBoard", { id: true, depotId: true }],
  ])("%s: %j", async (name, isNonNull) => {
    const { fields } = (await data(`{ __type(name: "${name}") { fields { name type { kind } } } }`)).__type;
    const found = fields.filter(({ name }: any) => name in isNonNull);
    expect(Object.fromEntries(found.map(({ name, type }: any) => [name, type.kind === "NON_NULL"]))).toEqual(isNonNull);
  });

  test("its rows are found, and a new row does not need it", async () => {
    expect(
      nodes((await data("{ leftBoards(orderBy: ID_ASC) { edges { node { id depotId city } } } }")).leftBoards),
    ).toEqual([
      { id: "1", depotId: "1", city: "Oslo" },
      { id: "2", depotId: null, city: null },
    ]);
    expect(await data('mutation { createLeftBoard(input: { id: "10" }) { id depotId } }')).toEqual({
      createLeftBoard: { id: "10", depotId: null },
    });
  });
});

describe("a time is what Postgres has", () => {
  const FIELDS = "id ends local day days times validity { start { value } end { value } } at";
  const rest = { days: null, times: null, validity: null, at: null };
  const EXPECTED = [
    {
      id: "1",
      ends: "2024-01-01T00:00:00.000Z",
      local: "2024-01-01T00:00:00.000",
      day: "2024-01-01",
      days: ["2024-01-01", "infinity"],
      times: ["-infinity", "2024-01-01T00:00:00.000Z"],
      validity: { start: { value: "2024-01-01T00:00:00.000Z" }, end: { value: "infinity" } },
      at: "24:00:00.000000",
    },
    { ...rest, id: "2", ends: "infinity", local: "-infinity", day: "-infinity", at: "08:30:00.000000" },
    { ...rest, id: "3", ends: "infinity", local: "infinity", day: "infinity" },
    {
      ...rest,
      id: "4",
      ends: "0044-03-15T12:00:00.000Z BC",
      local: "0044-03-15T12:00:00.500 BC",
      day: "0044-03-15 BC",
    },
    { ...rest, id: "5", ends: "12026-01-01T00:00:00.000Z", local: "12026-01-01T00:00:00.000", day: "12026-01-01" },
    { ...rest, id: "6", ends: "2024-01-02T03:04:05.678901Z", local: "2024-01-02T03:04:05.678901", day: null },
  ];

  test("in an answer, in any session time zone", async () => {
    expect(nodes((await data(`{ leases(orderBy: ID_ASC) { edges { node { ${FIELDS} } } } }`)).leases)).toEqual(
      EXPECTED,
    );
    expect(nodes((await data("{ leases(orderBy: ID_ASC) { edges { node { id ends local } } } }")).leases)).toEqual(
      EXPECTED.map(({ id, ends, local }) => ({ id, ends, local })),
    );
  });

  test.each(["ends", "local", "day"] as const)("and finds its row: %s", async (column) => {
    for (const row of EXPECTED.filter((each) => each[column] !== null)) {
      const query = `query ($value: ${column === "day" ? "Date" : "Time"}!) { leases(filter: { ${column}: { equalTo: $value } }) { edges { node { ${column} } } } }`;
      const found = nodes((await data(query, { variables: { value: row[column] } })).leases);
      expect(new Set(found.map((each: any) => each[column]))).toEqual(new Set([row[column]]));
    }
  });

  test.each([
    ["ENDS_ASC", "4 1 6 5 2 3"],
    ["ENDS_DESC", "3 2 5 6 1 4"],
    ["LOCAL_ASC", "2 4 1 6 5 3"],
    ["DAY_ASC", "2 4 1 5 3 6"],
  ])("in cursors: pages by %s have every row once", async (order, expected) => {
    const found: string[] = [];
    for (let after = null; ; ) {
      const query = `query ($after: String) { leases(first: 1, after: $after, orderBy: [${order}]) { edges { node { id } } pageInfo { hasNextPage endCursor } } }`;
      const { leases } = await data(query, { variables: { after } });
      found.push(...nodes(leases).map(({ id }: any) => id));
      if (!leases.pageInfo.hasNextPage || found.length > 6) break;
      after = leases.pageInfo.endCursor;
    }
    expect(found.join(" ")).toBe(expected);
  });

  test("and can be written as it was read", async () => {
    for (const [i, row] of EXPECTED.entries()) {
      const input = { id: `${100 + i}`, ends: row.ends, local: row.local, day: row.day };
      const query = "mutation ($input: CreateLeaseInput!) { createLease(input: $input) { id ends local day } }";
      expect((await data(query, { variables: { input } })).createLease).toEqual(input);
    }
    await sql("delete from public.leases where id >= 100");
  });

  test.each(["infinite", "2024-13-01", "2024-01-01 AD", "yesterday"])("%s is no time", async (text) => {
    expect(await errors(`{ leases(filter: { ends: { equalTo: "${text}" } }) { edges { node { id } } } }`)).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR: /),
    ]);
  });
});

test("a char(n) has one value everywhere, as in the table interface", async () => {
  const query = `{ codes(orderBy: ID_ASC, first: 1) { edges { node { code cards(limit: 1) { codes code { code } } } } } }`;
  expect(nodes((await data(query)).codes)).toEqual([
    { code: "AB    ", cards: [{ codes: ["AB    ", "CD    "], code: { code: "AB    " } }] },
  ]);
  expect((await send("/rest/v1/codes?id=eq.1&select=code")).json).toEqual([{ code: "AB    " }]);
});

describe("a filter compares a column with the operators of its type", () => {
  test.each([
    ["codes", '{ code: { equalTo: "AB    " } }'],
    ["codes", '{ code: { equalTo: "AB" } }'],
    ["codes", '{ code: { in: ["AB    "] } }'],
    ["codes", '{ code: { notIn: ["CD  "] } }'],
    ["codes", '{ code: { notEqualTo: "CD  " } }'],
    ["codes", '{ code: { lessThan: "AC" } }'],
    ["codes", '{ code: { startsWith: "A" } }'],
    ["codes", '{ code: { equalToInsensitive: "ab    " } }'],
    ["codes", '{ code: { inInsensitive: ["ab    "] } }'],
    ["cards", '{ codes: { anyEqualTo: "AB" } }'],
    ["cards", '{ codes: { contains: ["CD   "] } }'],
    ["members", '{ mail: { equalTo: "ANN@x.ORG" } }'],
    ["members", '{ mail: { in: ["ann@x.org"] } }'],
    ["members", '{ mail: { startsWith: "ann" } }'],
    ["members", '{ mail: { endsWith: "ORG" } }'],
    ["members", '{ mail: { includes: "@x" } }'],
    ["members", '{ mail: { like: "ann@%" } }'],
    ["members", '{ mail: { matches: "^ann" } }'],
    ["members", '{ mail: { equalToInsensitive: "ann@x.org" } }'],
    ["members", '{ mail: { inInsensitive: ["ANN@x.org"] } }'],
    ["members", '{ mail: { lessThan: "ANO" } }'],
    ["members", '{ others: { anyEqualTo: "bob@x.org" } }'],
    ["members", '{ others: { contains: ["bob@x.org"] } }'],
    ["members", '{ others: { overlaps: ["bob@x.org"] } }'],
    ["members", '{ others: { equalTo: ["bob@x.org"] } }'],
  ])("%s(filter: %s)", async (list, filter) => {
    expect(nodes((await data(`{ ${list}(filter: ${filter}) { edges { node { id } } } }`))[list])).toEqual([
      { id: "1" },
    ]);
  });
});

test("JSON keeps every digit of a number, in and out", async () => {
  const answer = await send("/graphql", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query: "{ documents { edges { node { doc raw } } } }" }),
  });
  expect(answer.text).toContain('"big":9007199254740993');
  expect(answer.text).toContain('"big":12345678901234567890');
  const query = "mutation ($input: CreateDocumentInput!) { createDocument(input: $input) { id } }";
  await send("/graphql", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: `{"query":${JSON.stringify(query)},"variables":{"input":{"id":"2","doc":{"big":9007199254740993}}}}`,
  });
  expect(
    await errors('mutation { createDocument(input: { id: "3", doc: { big: 9007199254740993 } }) { id } }'),
  ).toEqual([expect.stringMatching(/^VALIDATION_ERROR: .*send the JSON as a variable/)]);
  expect(
    await errors('mutation { createDocument(input: { id: "3", doc: 9007199254740993, raw: { n: 1.5 } }) { id } }'),
  ).toEqual([]);
  expect(
    await sql("select id, coalesce(doc ->> 'big', doc::text) as big from public.documents where id > 1 order by id"),
  ).toEqual([
    { id: 2, big: "9007199254740993" },
    { id: 3, big: "9007199254740993" },
  ]);
});
