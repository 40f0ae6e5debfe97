import { beforeAll, describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";

const { data, errors, service, sql } = useService();

beforeAll(async () => {
  await sql(`
    create type public.kind as enum ('CASH', 'CARD');
    create table public.shops (id bigint primary key, city text not null);
    create table public.sales (
      id bigint primary key, shop_id bigint not null references public.shops, owner_id bigint not null,
      kind public.kind not null, amount numeric not null, pieces integer, made timestamptz not null, doc json
    );
    create index on public.sales (shop_id); create index on public.sales (kind); create index on public.sales (amount);
    alter table public.sales enable row level security;
    create policy "own" on public.sales using (owner_id = 0 or owner_id = (select auth.uid()));
    insert into public.shops values (1, 'Ulm'), (2, 'Bonn'), (3, 'Kiel');
    insert into public.sales
      select n, 1 + n % 2, case when n % 5 = 0 then 1 else 0 end, (array['CASH', 'CARD'])[1 + n % 3 / 2]::public.kind, n * 1.5,
        nullif(n % 4, 0), '2026-01-01T22:30Z'::timestamptz + n * interval '1 hour', '{}'
      from generate_series(1, 20) as n;
    grant select on public.shops, public.sales to anon, authenticated;
  `);
});

const OWN = "owner_id = 0";

describe("aggregates of a connection", () => {
  test("are those of all its rows that the caller may see, on any page", async () => {
    const query = `{ sales(first: 2, filter: { kind: { equalTo: CASH } }) { totalCount edges { node { id } } aggregates {
      count sum { amount pieces } average { amount pieces } min { amount made kind id } max { amount made shopId } distinct { shopId pieces }
    } } }`;
    const { sales } = await data(query);
    const [row] =
      await sql(`select count(*)::int, sum(amount)::text as amount, sum(pieces)::text as pieces, avg(amount)::text as avg_amount,
      avg(pieces)::text as avg_pieces, min(amount)::text as min_amount, min(made) as min_made, max(made) as max_made, min(id)::text as min_id,
      max(amount)::text as max_amount, count(distinct pieces)::int as distinct_pieces
      from sales where kind = 'CASH' and ${OWN}`);
    expect(sales.edges).toHaveLength(2);
    expect(sales.totalCount).toBe(row!.count);
    expect(sales.aggregates).toEqual({
      count: row!.count,
      sum: { amount: row!.amount, pieces: row!.pieces },
      average: { amount: row!.avg_amount, pieces: row!.avg_pieces },
      min: { amount: row!.min_amount, made: row!.min_made.toISOString(), kind: "CASH", id: row!.min_id },
      max: { amount: row!.max_amount, made: row!.max_made.toISOString(), shopId: "2" },
      distinct: { shopId: 2, pieces: row!.distinct_pieces },
    });
    const own = await data(query, { as: "ada" });
    expect(own.sales.aggregates.count).toBeGreaterThan(row!.count);
  });

  test("of no rows are null and 0", async () => {
    const { sales } = await data(
      '{ sales(filter: { amount: { lessThan: "0" } }) { aggregates { count sum { amount } max { made } distinct { pieces } } } }',
    );
    expect(sales.aggregates).toEqual({ count: 0, sum: { amount: null }, max: { made: null }, distinct: { pieces: 0 } });
  });
});

describe("grouped aggregates", () => {
  const groups = async (given: string, fields: string) =>
    (await data(`{ sales { groupedAggregates(${given}) { ${fields} } } }`)).sales.groupedAggregates;

  test("have the keys of their groups", async () => {
    const rows = await sql(
      `select kind, shop_id::text as "shopId", count(*)::int from sales where ${OWN} group by 1, 2`,
    );
    const found = await groups("groupBy: [KIND, SHOP_ID]", "count keys { kind shopId pieces }");
    expect(found).toHaveLength(rows.length);
    expect(found).toEqual(
      expect.arrayContaining(rows.map(({ count, ...keys }) => ({ count, keys: { ...keys, pieces: null } }))),
    );
  });

  test("group times by units in UTC, and null as a value", async () => {
    const days = await groups("groupBy: MADE_DAY", "count keys { madeDay made }");
    const rows = await sql(
      `select date_trunc('day', made, 'UTC') as day, count(*)::int from sales where ${OWN} group by 1 order by 1`,
    );
    const found = days.toSorted((a: any, b: any) => a.keys.madeDay.localeCompare(b.keys.madeDay));
    expect(found).toEqual(rows.map(({ day, count }) => ({ count, keys: { madeDay: day.toISOString(), made: null } })));
    const pieces = await groups("groupBy: PIECES", "keys { pieces }");
    expect(pieces.map(({ keys }: any) => keys.pieces)).toEqual(expect.arrayContaining([null, 1, 2, 3]));
  });

  test.each([
    ["{ count: { greaterThan: 6 } }", "count(*) > 6"],
    [
      '{ sum: { amount: { greaterThan: "50" } }, min: { made: { greaterThan: "2026-01-01T00:00:00Z" } } }',
      "sum(amount) > 50",
    ],
    [
      '{ or: [{ average: { pieces: { lessThan: "1.9" } } }, { distinct: { shopId: { equalTo: 1 } } }] }',
      "avg(pieces) < 1.9 or count(distinct shop_id) = 1",
    ],
    ["{ not: { count: { greaterThan: 6 } } }", "not count(*) > 6"],
    ["{ max: { kind: { equalTo: CARD } } }", "max(kind) = 'CARD'"],
    ["{}", "true"],
  ])("having %s", async (having, condition) => {
    const rows = await sql(`select kind from sales where ${OWN} group by kind having ${condition} order by kind`);
    const found = await groups(`groupBy: KIND, having: ${having}`, "keys { kind }");
    expect(found.map(({ keys }: any) => keys.kind).toSorted()).toEqual(rows.map(({ kind }) => kind).toSorted());
  });

  test("need something to group by", async () => {
    expect(await errors("{ sales { groupedAggregates(groupBy: []) { count } } }")).toEqual([
      "VALIDATION_ERROR: groupBy must have at least one value",
    ]);
    expect(await errors("{ sales { groupedAggregates(groupBy: DOC) { count } } }")).toHaveLength(1);
  });

  test("by a variable, of nested connections and beside a page and its count, are one round trip", async () => {
    const query = `query ($by: [SaleGroupBy!]!, $filter: SaleFilter) {
      shops(orderBy: ID_ASC) { totalCount edges { node { city salesConnection(filter: $filter, first: 1) {
        totalCount edges { node { id } } aggregates { count sum { amount } } groupedAggregates(groupBy: $by) { count keys { kind shopId } } } } } }
      sales(filter: $filter) { aggregates { count } groupedAggregates(groupBy: $by) { count } }
    }`;
    const before = service().service.databaseWaits();
    const { shops, sales } = await data(query, {
      variables: { by: ["KIND"], filter: { amount: { greaterThan: "6" } } },
    });
    expect(service().service.databaseWaits() - before).toBe(1);
    const counts = shops.edges.map(({ node }: any) => node.salesConnection.aggregates.count);
    expect(counts).toEqual(
      (
        await sql(
          `select (select count(*)::int from sales where shop_id = s.id and amount > 6 and ${OWN}) from shops s order by id`,
        )
      ).map(({ count }) => count),
    );
    expect(sales.aggregates.count).toBe(counts.reduce((sum: number, count: number) => sum + count));
    for (const { node } of shops.edges) {
      const { groupedAggregates, totalCount } = node.salesConnection;
      expect(groupedAggregates.reduce((sum: number, { count }: any) => sum + count, 0)).toBe(totalCount);
    }
  });
});
