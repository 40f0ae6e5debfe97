import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { ChannelClient } from "../../support/channel-socket.ts";
import { useRest } from "../../support/rest-client.ts";

const { service, rest, rows, failure, sql } = useRest(
  { DB_SCHEMAS: "moving" },
  `create schema moving;
   create table moving.shelves (id int primary key, name text);
   insert into moving.shelves values (1, 'upper');
   create function moving.count_shelves() returns int language sql stable as 'select count(*)::int from moving.shelves';
   grant usage on schema moving to anon;
   grant all on moving.shelves to anon;
   grant execute on function moving.count_shelves() to anon;`,
);

const SOON = { timeout: 120_000, interval: 20 };
const grants =
  "grant all on all tables in schema moving to anon; grant execute on all functions in schema moving to anon";
let ahead = 0;
/** Runs DDL that the service is not notified of, some time after the service read its catalog. */
async function changeSilently(ddl: string): Promise<void> {
  await sql(`${ddl}; ${grants}`);
  vi.useRealTimers();
  ahead += 3000;
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + ahead });
}
afterAll(() => void vi.useRealTimers());

describe("without event triggers, the next request sees", () => {
  beforeAll(() =>
    sql("alter event trigger announce_schema_change disable; alter event trigger announce_schema_drop disable"),
  );
  afterAll(() =>
    sql("alter event trigger announce_schema_change enable; alter event trigger announce_schema_drop enable"),
  );

  test("a new table", async () => {
    await changeSilently("create table moving.books (id int primary key, shelf_id int references moving.shelves)");
    expect(await rows("books?select=id,shelves(name)")).toEqual([]);
    expect((await rest("books", { body: { id: 1, shelf_id: 1 } })).status).toBe(201);
  });

  test.each([
    ["table", "create table moving.watched (id int primary key)", {}],
    ["column", "alter table moving.watched add column note text", { filter: "note=eq.a" }],
  ])("a new %s, to which a channel subscribes", async (_what, ddl, more) => {
    const channel = await new ChannelClient(service(), "127.0.0.1").open();
    await changeSilently(ddl);
    const on = { event: "*", schema: "moving", table: "watched", ...more };
    expect(await channel.ask("t", "phx_join", { config: { postgres_changes: [on] } })).toMatchObject({ status: "ok" });
  });

  test("a new relation", async () => {
    await changeSilently("create table moving.cards (id int primary key, shelf_id int references moving.shelves)");
    expect(await rows("shelves?select=id,cards(id)&id=eq.1")).toEqual([{ id: 1, cards: [] }]);
  });

  test.each([
    ["selected", "shelves?select=width&id=eq.1", [{ width: null }]],
    ["filtered by", "shelves?select=id&height=is.null&id=eq.1", [{ id: 1 }]],
    ["ordered by", "shelves?select=id&order=depth&id=eq.1", [{ id: 1 }]],
  ])("a new column that is %s", async (_how, path, expected) => {
    const [, column] = /(width|height|depth)/.exec(path)!;
    await changeSilently(`alter table moving.shelves add column ${column} int`);
    expect(await rows(path)).toEqual(expected);
  });

  test("a new column that is written to", async () => {
    await changeSilently("alter table moving.shelves add column colour text");
    const sent = { method: "PATCH", body: { colour: "red" }, prefer: "return=representation" };
    expect(await rows("shelves?id=eq.1&select=colour", sent)).toEqual([{ colour: "red" }]);
  });

  test("a renamed column", async () => {
    await rows("shelves?select=name");
    await changeSilently("alter table moving.shelves rename column name to title");
    expect(await rows("shelves?select=title&id=eq.1")).toEqual([{ title: "upper" }]);
    expect(await failure("shelves?select=name")).toEqual([400, "42703"]);
    await changeSilently("alter table moving.shelves rename column title to name");
    expect(await rows("shelves?select=name&id=eq.1")).toEqual([{ name: "upper" }]);
  });

  test("a column with a changed type", async () => {
    await sql("alter table moving.shelves add column weight int");
    await changeSilently("notify pgrst, 'reload schema'");
    await expect.poll(() => failure("shelves?weight=eq.x"), SOON).toEqual([400, "22P02"]);
    await changeSilently("alter table moving.shelves alter column weight type text");
    expect(await rows("shelves?select=id&weight=eq.x")).toEqual([]);
    await changeSilently("alter table moving.shelves alter column weight type date using now()");
    const sent = { method: "PATCH", body: { weight: "2026-01-01" }, prefer: "return=representation" };
    expect(await rows("shelves?select=weight&id=eq.1", sent)).toEqual([{ weight: "2026-01-01" }]);
  });

  test("that a column was dropped", async () => {
    await changeSilently("alter table moving.shelves add column brief int");
    expect(await rows("shelves?select=brief&id=eq.1")).toEqual([{ brief: null }]);
    await changeSilently("alter table moving.shelves drop column brief");
    const { status, json } = await rest("shelves?select=brief");
    expect([status, json.message]).toEqual([400, "column shelves.brief does not exist"]);
    expect(await rows("shelves?select=id&id=eq.1")).toEqual([{ id: 1 }]);
  });

  test("that a function was created, had its arguments changed, or was dropped", async () => {
    await changeSilently("create function moving.half(n int) returns int language sql stable return n / 2");
    expect(await rows("rpc/half?n=8")).toBe(4);
    await changeSilently(
      "drop function moving.half(int); create function moving.half(m int) returns int language sql stable return m / 2",
    );
    expect(await rows("rpc/half", { body: { m: 8 } })).toBe(4);
    expect(await failure("rpc/half?n=8")).toEqual([404, "PGRST202"]);
    await changeSilently("drop function moving.half(int)");
    expect(await failure("rpc/half?m=8")).toEqual([404, "PGRST202"]);
  });

  test("that a table was dropped or renamed", async () => {
    await changeSilently("create table moving.boxes (id int primary key)");
    expect(await rows("boxes")).toEqual([]);
    await changeSilently("alter table moving.boxes rename to crates");
    expect(await failure("boxes")).toEqual([404, "PGRST205"]);
    expect(await rows("crates")).toEqual([]);
    await changeSilently("drop table moving.crates");
    expect(await failure("crates")).toEqual([404, "PGRST205"]);
  });

  test("a table that takes the name of another table", async () => {
    await changeSilently(
      "create table moving.one (id int primary key, old text); insert into moving.one values (1, 'a')",
    );
    expect(await rows("one")).toEqual([{ id: 1, old: "a" }]);
    await changeSilently("drop table moving.one; create view moving.one as select 2 as id, 'b' as new");
    expect(await rows("one")).toEqual([{ id: 2, new: "b" }]);
    expect(await rows("one?select=new")).toEqual([{ new: "b" }]);
  });

  test("after notify pgrst, 'reload schema', changes that no request would reveal, such as a new default", async () => {
    await sql("create table moving.defaults (id int primary key, n int default 1)");
    await changeSilently("notify pgrst, 'reload schema'");
    await expect.poll(() => failure("defaults"), SOON).toEqual([200, undefined]);
    await sql("alter table moving.defaults alter column n set default 7; notify pgrst, 'reload schema'");
    const sent = { body: { id: 1 }, prefer: "missing=default, return=representation" };
    const insert = async () => {
      await sql("truncate moving.defaults");
      return rows("defaults?columns=id,n", sent);
    };
    await expect.poll(insert, SOON).toEqual([{ id: 1, n: 7 }]);
  });
});

test("with event triggers, every change is served at once", async () => {
  await sql(`create table moving.notified (id int primary key); ${grants}`);
  await expect.poll(() => failure("notified"), SOON).toEqual([200, undefined]);
  await sql("drop table moving.notified");
  await expect.poll(() => failure("notified"), SOON).toEqual([404, "PGRST205"]);
});

test("requests that run while the schema changes get a response", async () => {
  const answers = Array.from({ length: 30 }, () => rest("shelves?select=id&id=eq.1"));
  await sql("alter table moving.shelves add column changing int; alter table moving.shelves drop column changing");
  for (const { status, json } of await Promise.all(answers)) expect([status, json]).toEqual([200, [{ id: 1 }]]);
});
