import { describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const { rest, rows, failure, sql } = useRest(
  { DB_SCHEMAS: "sales" },
  `create schema sales;
   create table sales.shops (id int primary key);
   create table sales.orders (id int, shop_id int references sales.shops, year int, primary key (id, year)) partition by list (year);
   create table sales.orders_2024 partition of sales.orders for values in (2024) partition by range (id);
   create table sales.orders_2024_low partition of sales.orders_2024 for values from (0) to (10);
   create table sales.orders_2025 partition of sales.orders for values in (2025);
   create view sales.recent as select * from sales.orders_2025;
   create function sales.latest() returns setof sales.orders_2025 language sql stable
     begin atomic select * from sales.orders_2025; end;
   create table sales.parents (id int primary key);
   create table sales.children (note text) inherits (sales.parents);
   insert into sales.shops values (1);
   insert into sales.orders values (1, 1, 2024), (2, 1, 2025);
   grant usage on schema sales to anon;
   grant all on all tables in schema sales to anon;
   grant execute on all functions in schema sales to anon;`,
);

const PARTITIONS = ["orders_2024", "orders_2024_low", "orders_2025"];

describe("a partition", () => {
  test.each(PARTITIONS)("is not a collection: %s", async (name) => {
    expect(await failure(name)).toEqual([404, "PGRST205"]);
    expect(await failure(name, { body: { id: 3, year: 2025 } })).toEqual([404, "PGRST205"]);
    expect(await failure(name, { method: "OPTIONS" })).toEqual([404, "PGRST205"]);
  });

  test("can be neither embedded nor a hint", async () => {
    expect(await failure("shops?select=orders_2025(id)")).toEqual([400, "PGRST200"]);
    expect(await failure("shops?select=id!orders_2025(id)")).toEqual([400, "PGRST200"]);
    expect(await rows("shops?select=orders(id)")).toEqual([{ orders: [{ id: 1 }, { id: 2 }] }]);
  });

  test("is neither in the OpenAPI description nor in the TypeScript types", async () => {
    const paths = Object.keys((await rest("")).json.paths);
    expect(paths).toContain("/orders");
    expect(paths.filter((path) => path.startsWith("/orders_"))).toEqual([]);
    expect((await rest("types.ts")).text).not.toMatch(/^\s+orders_\w+: \{/m);
  });

  test("can be read through a view and returned by a function", async () => {
    expect(await rows("recent?select=id")).toEqual([{ id: 2 }]);
    expect(await rows("rpc/latest?select=id")).toEqual([{ id: 2 }]);
  });

  test("is a collection once it is detached", async () => {
    await sql("create table sales.orders_2026 partition of sales.orders for values in (2026)");
    await sql("grant select on sales.orders_2026 to anon; alter table sales.orders detach partition sales.orders_2026");
    await expect.poll(async () => (await rest("orders_2026")).status).toBe(200);
  });
});

test("a table that inherits is a collection", async () => {
  expect(await rows("children")).toEqual([]);
});
