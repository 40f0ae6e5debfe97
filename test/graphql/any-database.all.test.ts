import fc from "fast-check";
import jwt from "jsonwebtoken";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Service, startService } from "../../server.ts";
import { readConfig } from "../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { samples } from "../support/samples.ts";
import { healthOf } from "../support/service.ts";

const SECRET = "the secret of another issuer for HS256";
let database: TestDatabase;
let service: Service;
let reader: string;
let anonymous: string;
let login: string;

const FURTHER_TABLES = 292;
const DDL = (): string => `
  drop event trigger announce_schema_change; drop event trigger announce_schema_drop;
  create role ${anonymous}; create role ${reader}; create role ${login} login noinherit password 'secret';
  grant ${anonymous}, ${reader} to ${login};
  create schema api;
  grant usage on schema api to ${anonymous}, ${reader};
  create type api.mood as enum ('SAD', 'OK', 'HAPPY');
  create domain api.percent as integer check (value between 0 and 100);
  create type api.place as (street text, number integer);
  create table api.items (
    id bigint primary key, token uuid not null unique, name text, amount numeric, share api.percent, mood api.mood, day date,
    moment timestamptz, plain timestamp, is_open boolean, ratio double precision, small smallint, tags text[], doc jsonb, span int4range,
    network inet, place api.place, owner text not null, parent_id bigint references api.items, lasts interval, raw bytea, code varchar(9)
  );
  create index on api.items (parent_id);
  insert into api.items
    select n, ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, (array['Ada', 'bob', 'Åse', 'a_b', '10%', null])[1 + n % 6],
      (array[1.5, 2, null, -3, 1e10])[1 + n % 5], (array[0, 50, null, 100])[1 + n % 4],
      (array['SAD', 'OK', 'HAPPY', null])[1 + n % 4]::api.mood, date '2026-01-01' + n % 7, '2026-01-01T00:00Z'::timestamptz + n % 9 * interval '1 hour',
      '2026-01-01'::timestamp + n % 3 * interval '1 day', (array[true, false, null])[1 + n % 3], (array[0.1, 'NaN', '-Infinity', null, 1e300])[1 + n % 5]::float8,
      n % 4, array['t' || n % 3, 't' || n % 2], jsonb_build_object('n', n % 3), int4range(n % 5, 5 + n % 5), ('10.0.0.' || n % 8)::inet,
      row('Street', n)::api.place, (array['all', 'ada', 'bob'])[1 + n % 3], case when n > 10 then n % 10 + 1 end, n % 3 * interval '1 day', '\\x01', 'c' || n % 4
    from generate_series(1, 60) as n;
  create table api.pairs (one integer, two text, label text not null, item_id bigint references api.items, primary key (one, two));
  create index on api.pairs (item_id);
  insert into api.pairs select n % 6, 't' || n, 'label ' || n % 4, 1 + n % 60 from generate_series(1, 40) as n;
  create table api.item_friends (item_id bigint references api.items, friend_id bigint references api.items, primary key (item_id, friend_id));
  create index on api.item_friends (friend_id);
  insert into api.item_friends select n, 61 - n from generate_series(1, 60) as n;
  create table api.logs (at date not null, id bigint not null, text text, primary key (at, id)) partition by range (at);
  create table api.logs_2026 partition of api.logs for values from ('2026-01-01') to ('2027-01-01');
  create table api.logs_2027 partition of api.logs for values from ('2027-01-01') to ('2028-01-01');
  insert into api.logs select date '2026-12-20' + n, n, 'log ' || n % 3 from generate_series(1, 20) as n;
  create table api."order" ("select" integer primary key, "from" text, "group" integer references api."order", type text, query text);
  create index on api."order" ("group");
  insert into api."order" select n, 'x' || n % 3, nullif(n - 1, 0), 't', 'q' from generate_series(1, 9) as n;
  create table api.notes (text text, number integer);
  insert into api.notes values ('a', 1), ('b', 2), ('c', null);
  -- With these there are 300 tables and views.
  do $$ begin
    for n in 1..${FURTHER_TABLES} loop
      execute format('create table api.part_%s (id integer primary key, before integer references api.part_%s, note text)', n, greatest(n - 1, 1));
      execute format('create index on api.part_%s (before)', n);
      execute format('insert into api.part_%s values (1, 1, %L)', n, 'part ' || n);
    end loop;
  end $$;
  create view api.open_items with (security_invoker = true) as select id, name, mood, parent_id from api.items where is_open;
  create materialized view api.moods as select mood, count(*) as items from api.items group by mood;
  comment on view api.open_items is E'@name freeItems\\nItems that are open.';
  create function api.items() returns integer language sql stable return 1;
  create function api.items_label(item api.items) returns text language sql stable return 'item ' || (item).id;
  create function api.items_near(item api.items) returns setof api.items language sql stable
    begin atomic select * from api.items where abs(id - (item).id) = 1; end;
  alter table api.items enable row level security;
  create policy "own" on api.items using (owner = 'all' or owner = current_setting('request.jwt.claims', true)::json ->> 'sub');
  alter table api.pairs enable row level security;
  create policy "items" on api.pairs using (exists (select from api.items as i where i.id = item_id));
  grant select on all tables in schema api to ${anonymous}, ${reader};
  revoke execute on all functions in schema api from public;
  grant execute on all functions in schema api to ${anonymous}, ${reader};
`;

beforeAll(async () => {
  database = await createTestDatabase();
  [anonymous, reader, login] = ["anon", "reader", "login"].map((name) => `${database.name}_${name}`) as [
    string,
    string,
    string,
  ];
  await database.owner.query(DDL());
  const url = new URL(database.url);
  Object.assign(url, { username: login, password: "secret" });
  const config = readConfig({
    DATABASE_URL: url.href,
    MIGRATE: "off",
    ADVISOR: "off",
    DB_SCHEMAS: "api",
    DB_ANON_ROLE: anonymous,
    JWT_SECRET: SECRET,
    API_KEY_REQUIRED: "off",
    GRAPHQL_UNINDEXED_FILTERS: "on",
    GRAPHQL_EXTRAS: "aggregates, changes",
    PARTS: "+explorer",
    RATE_LIMIT: "0",
    PORT: "0",
  });
  service = await startService(config, pino({ level: "silent" }), { defersGraphQL: true });
});
afterAll(async () => {
  await service.stop();
  for (const role of [login, reader, anonymous]) await database.owner.query(`drop owned by ${role}; drop role ${role}`);
  await database.drop();
});

const headersOf = (sub: string | null): Record<string, string> => ({
  "content-type": "application/json",
  ...(sub && { authorization: `Bearer ${jwt.sign({ role: reader, sub }, SECRET, { noTimestamp: true })}` }),
});

async function graphql(query: string, variables: object = {}, sub: string | null = null): Promise<any> {
  const body = JSON.stringify({ query, variables });
  const response = await fetch(`${service.url}/graphql`, { method: "POST", headers: headersOf(sub), body });
  const { data, errors } = (await response.json()) as any;
  if (errors) throw new Error(`${JSON.stringify(errors)} for ${query} ${JSON.stringify(variables)}`);
  return data;
}

const health = async () => (await healthOf(service)).details.graphql;

describe("with a database of another application", () => {
  test("the schema is built, with everything in it", async () => {
    const { __schema } = await graphql("{ __schema { mutationType { name } queryType { fields { name } } } }");
    const names = __schema.queryType.fields.map(({ name }: any) => name);
    for (const name of "items item itemByToken itemsFunction pairs pair logs orders notes freeItems moods".split(" ")) {
      expect(names).toContain(name);
    }
    const { rows } = await database.owner.query(
      `select count(*)::int as tables from pg_class
       where relnamespace = 'api'::regnamespace and relkind in ('r', 'p', 'v', 'm') and not relispartition`,
    );
    expect(rows[0].tables).toBe(300);
    expect(await health()).toEqual({ schema: "current" });
  }, 300_000);

  test("the examples of /graphiql are valid, and the first one runs", async () => {
    const page = await (await fetch(`${service.url}/graphiql`)).text();
    expect(page).toContain('data-accounts="false"');
    const shown = /data-examples="([^"]*)"/.exec(page)![1]!.replaceAll("&#34;", '"');
    const [first, ...others]: { name: string; query: string; variables: string }[] = JSON.parse(shown);
    const { items } = await graphql(first!.query);
    expect(items.edges).toHaveLength(10);
    expect(others.map(({ name }) => name)).toEqual(["One row", "Rows as they are created", "Changes of rows"]);
    expect(await graphql(others[0]!.query, JSON.parse(others[0]!.variables))).toHaveProperty("item");
  });

  test("a mutation is refused if nothing may be written", async () => {
    await expect(graphql("mutation { createItem }")).rejects.toThrow("the schema has no mutations");
  });

  test("every type and all its fields can be queried", async () => {
    const { __schema } = await graphql(`{ __schema { queryType { fields { name args { type { kind } } type { ...T } } }
      types { name kind fields { name args { type { kind } } type { ...T } } } } }
      fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`);
    const types = new Map<string, any>(__schema.types.map((type: any) => [type.name, type]));
    const named = (type: any): any => (type.ofType ? named(type.ofType) : type);
    const hasNoRequired = ({ args }: any) => args.every(({ type }: any) => type.kind !== "NON_NULL");
    const selectionOf = (type: any, depth: number): string =>
      type.fields
        .filter(hasNoRequired)
        .flatMap((field: any) => {
          const target = types.get(named(field.type).name);
          if (target.kind !== "OBJECT") return [field.name];
          return depth > 0 ? [`${field.name} { ${selectionOf(target, depth - 1) || "__typename"} }`] : [];
        })
        .join(" ");
    const fields = __schema.queryType.fields.filter(hasNoRequired);
    expect(fields.length).toBeGreaterThan(FURTHER_TABLES + 8);
    const isPart = ({ name }: any) => /^part\d+s$/i.test(name);
    const parts = fields.filter(isPart).map(({ name }: any) => name);
    for (let i = 0; i < parts.length; i += 50) {
      const read = parts.slice(i, i + 50).map((name: string) => `${name} { edges { node { id note } } }`);
      const data = await graphql(`{ ${read.join(" ")} }`);
      for (const part of Object.values(data) as any[])
        expect(part.edges).toEqual([{ node: { id: "1", note: expect.any(String) } }]);
    }
    for (const field of fields.filter((each: any) => !isPart(each))) {
      const target = types.get(named(field.type).name);
      const selection = target.kind === "OBJECT" ? `{ ${selectionOf(target, 2)} }` : "";
      const data = await graphql(`{ ${field.name} ${selection} }`, {}, "ada");
      expect(data[field.name]).not.toBeNull();
    }
    expect(parts).toHaveLength(FURTHER_TABLES);
  });

  test("every connection and list of rows has a filter, an order and pages", async () => {
    const { __schema } = await graphql(`{ __schema { types { kind name fields { name args { name } type { ...T } } } } }
      fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`);
    const kinds = new Map(__schema.types.map(({ name, kind }: any) => [name, kind]));
    const named = (type: any): any => (type.ofType ? named(type.ofType) : type);
    const isList = (type: any): boolean => type !== null && (type.kind === "LIST" || isList(type.ofType ?? null));
    const CONNECTION = ["first", "last", "after", "before", "offset", "filter", "orderBy"];
    const LIST = ["limit", "offset", "filter", "orderBy"];
    let count = 0;
    const lacking: string[] = [];
    for (const { name: owner, fields } of __schema.types.filter(({ kind }: any) => kind === "OBJECT")) {
      for (const { name, args, type } of fields) {
        const target = named(type).name;
        const isConnection = target.endsWith("Connection");
        if (!isConnection && !(isList(type) && kinds.get(target) === "OBJECT" && kinds.has(`${target}Filter`)))
          continue;
        count++;
        const given = args.map((argument: any) => argument.name);
        const missing = (isConnection ? CONNECTION : LIST).filter((argument) => !given.includes(argument));
        if (missing.length > 0) lacking.push(`${owner}.${name}: ${missing}`);
      }
    }
    // The rows of a function have no order of their own, so there is no last page.
    expect(lacking).toEqual(["Item.near: last,before"]);
    expect(count).toBeGreaterThan(3 * FURTHER_TABLES);
  });

  test("relationships lead through views, composite keys, self references and junctions", async () => {
    const data = await graphql(
      `{ item(id: 12) { label ratio parent { id } place { street number } pairs { one two } itemsByFriendId { id } near { edges { node { id } } } }
         pair(one: 1, two: "t7") { label item { id } }
         order(select: 2) { from orderByGroup { from } orders { select } }
         freeItems(first: 1, orderBy: ID_ASC) { edges { node { id parent { id } } } } }`,
      {},
      "ada",
    );
    // The others belong to bob.
    const seen = (id: number) => id % 3 !== 2;
    expect(data.item).toEqual({
      label: "item 12",
      ratio: "-Infinity",
      parent: { id: "3" },
      place: { street: "Street", number: 12 },
      pairs: [{ one: "5", two: "t11" }],
      itemsByFriendId: [{ id: "49" }].filter(() => seen(49)),
      near: { edges: [11, 13].filter(seen).map((id) => ({ node: { id: String(id) } })) },
    });
    expect(data.order).toEqual({ from: "x2", orderByGroup: { from: "x1" }, orders: [{ select: "3" }] });
    expect(data.pair).toBeNull();
    expect(data.freeItems.edges[0].node).toHaveProperty("parent");
  });
});

test("an operation that is executed again, by any caller and with any variables, returns what a new operation would", async () => {
  const query = `query ($id: ID!, $two: String!, $first: Int, $last: Int, $offset: Int, $after: String, $filter: ItemFilter, $orderBy: [ItemOrderBy!], $limit: Int) {
    item(id: $id) { name parent { id } pairs(limit: $limit) { two } near(first: $first) { edges { node { id } } } }
    pair(one: 1, two: $two) { label item { id } }
    logs(first: $limit, offset: $offset) { totalCount edges { cursor node { text } } }
    items(first: $first, last: $last, offset: $offset, after: $after, filter: $filter, orderBy: $orderBy) {
      totalCount edges { cursor node { id parent { name } itemsByFriendId(limit: $limit, orderBy: $orderBy) { id } } }
      pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`;
  const { items } = await graphql("{ items(first: 9) { edges { cursor } } }");
  const cursors: string[] = items.edges.map(({ cursor }: any) => cursor);
  const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { freq: 3 });
  const page = fc.oneof(
    fc.record({ first: optional(fc.integer({ min: 0, max: 3 })), offset: optional(fc.nat(2)) }),
    fc.record({ first: fc.constantFrom(2, 5), after: fc.constantFrom(...cursors) }),
    fc.record({ last: fc.constantFrom(2, 5) }),
  );
  const variables = fc.record({
    id: fc.constantFrom("1", "12", "13", "999"),
    two: fc.constantFrom("t1", "t7", "'; --"),
    limit: optional(fc.integer({ min: 0, max: 2 })),
    filter: optional(fc.constantFrom({ name: { equalTo: "bob" } }, { id: { lessThan: "9" } })),
    orderBy: optional(fc.constantFrom(["NAME_ASC"], ["MOMENT_DESC", "ID_ASC"])),
  });
  let operations = 0;
  await fc.assert(
    fc.asyncProperty(variables, page, fc.constantFrom(null, "ada", "bob"), async (chosen, place, sub) => {
      const given = { ...chosen, ...place, ...("after" in place && { orderBy: null }) };
      const again = await graphql(query, given, sub);
      expect(again).toEqual(await graphql(`${query} # ${operations++}`, given, sub));
    }),
    { numRuns: samples(60), seed: 20_261_121 },
  );
});
