import { beforeAll, describe, expect, test } from "vitest";
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
   create table sales.grandchildren (age int) inherits (sales.children);
   create function sales.nick(p sales.parents) returns text language sql stable as $$ select 'nick ' || p.id $$;
   create function sales.greeting(c sales.children, word text default 'hello', twice boolean default false)
     returns text language sql stable as $$ select word || ' ' || c.id $$;
   create function sales.named(p sales.parents) returns text language sql stable as $$ select 'parent' $$;
   create function sales.named(c sales.children) returns text language sql stable as $$ select 'child' $$;
   create function sales.siblings(p sales.parents, lowest int default 0) returns setof sales.parents language sql stable as
     $$ select o from sales.parents as o where o.id <> p.id and o.id > lowest $$;
   create function sales.needs_more(p sales.parents, word text) returns text language sql stable as $$ select word $$;
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

describe("a computed field", () => {
  beforeAll(() => sql("insert into sales.parents values (1); insert into sales.grandchildren values (2, 'g', 9)"));

  test.each([
    ["parents?id=eq.1&select=id,nick,named", { id: 1, nick: "nick 1", named: "parent" }],
    ["children?select=id,nick,named,greeting", { id: 2, nick: "nick 2", named: "child", greeting: "hello 2" }],
    ["grandchildren?nick=eq.nick%202&select=note,nick", { note: "g", nick: "nick 2" }],
    ["grandchildren?greeting=like.hello*&select=id&order=greeting", { id: 2 }],
    ["grandchildren?select=siblings(id)", { siblings: [{ id: 1 }] }],
  ])("may be that of a parent, and have further arguments with defaults: %s", async (path, row) => {
    expect(await rows(path)).toEqual([row]);
  });

  test("of the row that a change returns", async () => {
    const sent = { method: "PATCH", body: { note: "h" }, prefer: "return=representation" };
    expect(await rows("grandchildren?id=eq.2&select=note,nick,greeting", sent)).toEqual([
      { note: "h", nick: "nick 2", greeting: "hello 2" },
    ]);
  });

  test("is refused if Postgres finds two functions that are as near", async () => {
    expect(await failure("grandchildren?select=named")).toEqual([400, "42725"]);
  });

  test("has no further argument that needs a value", async () => {
    expect(await failure("children?select=needs_more")).toEqual([400, "42703"]);
  });
});

describe("the system columns of a table", () => {
  const prefer = "return=representation";
  const version = async () => (await rows("shops?select=xmin&id=eq.1"))[0].xmin as string;

  test("are selected by their names, as texts", async () => {
    const [row] = await rows("shops?select=*,xmin,ctid,oid:tableoid&id=eq.1&order=id");
    expect(row).toEqual({
      id: 1,
      xmin: expect.stringMatching(/^\d+$/),
      ctid: expect.stringMatching(/^\(0,\d+\)$/),
      oid: expect.stringMatching(/^\d+$/),
    });
    expect(await rows(`shops?select=id&ctid=eq.${row.ctid}`)).toEqual([{ id: 1 }]);
    expect(await rows("shops?select=orders(xmin)&id=eq.1")).toEqual([
      { orders: [{ xmin: expect.any(String) }, { xmin: expect.any(String) }] },
    ]);
    expect(Object.keys((await rows("shops?id=eq.1"))[0])).toEqual(["id"]);
  });

  test("tell whether a row has changed", async () => {
    const before = await version();
    const change = (xmin: string, select: string) =>
      rest(`parents?id=eq.1&xmin=eq.${xmin}&select=${select}`, { method: "PATCH", body: { id: 1 }, prefer });
    const [{ xmin }] = await rows("parents?select=xmin&id=eq.1");
    const changed = (await change(xmin, "*,nick,xmin")).json;
    expect(changed).toEqual([{ id: 1, nick: "nick 1", xmin: expect.not.stringMatching(`^${xmin}$`) }]);
    expect((await change(xmin, "id,xmin")).json).toEqual([]);
    expect((await change(changed[0].xmin, "id,xmin")).json).toEqual([{ id: 1, xmin: expect.any(String) }]);
    expect(await version()).toBe(before);
  });

  test("are not those of a view, and cannot be written", async () => {
    expect(await failure("recent?select=xmin")).toEqual([400, "42703"]);
    expect(await failure("shops", { body: { id: 9, xmin: "1" } })).toEqual([400, "PGRST204"]);
    expect((await rest("shops?xmin=gt.1")).status).toBeLessThan(500);
    expect((await rest("rpc/latest?select=xmin")).status).toBeLessThan(500);
  });
});
