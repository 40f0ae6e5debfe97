import { beforeEach, describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const { rest, sql } = useRest(
  {},
  `create table public.items (id integer primary key, name text not null, quantity integer default 7);
   create table public.places (land text, number integer, note text, primary key (land, number));
   create table public.remarks (id integer, text text);
   create table public.parts (item_id integer references public.items, label text);
   create view public.totals with (security_invoker = true) as select count(*) from public.items;
   grant all on public.items, public.places, public.remarks, public.parts, public.totals to anon`,
);

beforeEach(() =>
  sql(`truncate items, places, remarks, parts;
       insert into items values (1, 'cup', 1), (2, 'jug', 2);
       insert into places values ('it', 1, 'old')`),
);

const put = (path: string, body: unknown, prefer = "return=representation") =>
  rest(path, { method: "PUT", body, prefer });
const items = () => sql("select id, name, quantity from items order by id");

test("PUT replaces the row that the URL names with 200", async () => {
  const { status, json } = await put("items?id=eq.1", { id: 1, name: "mug", quantity: 5 });
  expect([status, json]).toEqual([200, [{ id: 1, name: "mug", quantity: 5 }]]);
  expect(await items()).toMatchObject([{ name: "mug" }, { name: "jug" }]);
});

test("PUT inserts a missing row with 201", async () => {
  const { status, json } = await put("items?id=eq.3", { id: 3, name: "pot" });
  expect([status, json]).toEqual([201, [{ id: 3, name: "pot", quantity: 7 }]]);
});

test.each(["", "return=minimal", "return=headers-only"])(
  "PUT with Prefer: %j returns 204 without a body",
  async (prefer) => {
    for (const id of [1, 3]) {
      const { status, text, headers } = await put(`items?id=eq.${id}`, { id, name: "mug" }, prefer);
      expect([status, text, headers.get("location")]).toEqual([204, "", null]);
    }
    expect(await items()).toMatchObject([{ id: 1, name: "mug" }, { id: 2 }, { id: 3, name: "mug" }]);
  },
);

test("PUT accepts an object or an array with one object, in any body format", async () => {
  const name = async (body: unknown, type: string) => {
    const sent = { method: "PUT", body, prefer: "return=representation", headers: { "content-type": type } };
    return (await rest("items?id=eq.1", sent)).json?.[0].name;
  };
  expect(await name([{ id: 1, name: "in an array" }], "application/json")).toBe("in an array");
  expect(await name("id,name\n1,in CSV", "text/csv")).toBe("in CSV");
  expect(await name("id=1&name=in+a+form", "application/x-www-form-urlencoded")).toBe("in a form");
});

test("PUT returns one object if Accept requires it", async () => {
  const headers = { accept: "application/vnd.pgrst.object+json" };
  const sent = { method: "PUT", body: { id: 3, name: "pot" }, prefer: "return=representation", headers };
  expect((await rest("items?id=eq.3&select=id,name", sent)).json).toEqual({ id: 3, name: "pot" });
});

test("PUT requires all columns of a composite key", async () => {
  const { status, json } = await put("places?number=eq.1&land=eq.it", { land: "it", number: 1, note: "new" });
  expect([status, json]).toEqual([200, [{ land: "it", number: 1, note: "new" }]]);
  expect((await put("places?number=eq.2&land=eq.it", { land: "it", number: 2 })).status).toBe(201);
});

describe("PUT is refused and writes nothing", () => {
  const content = () =>
    sql("select (select json_agg(i order by id) from items i) as i, (select json_agg(p) from places p) as p");

  test.each([
    ["another row in the body than in the URL", "items?id=eq.1", { id: 3, name: "pot" }, 400, "PGRST115"],
    [
      "another row in one column of the key",
      "places?land=eq.it&number=eq.1",
      { land: "fr", number: 1 },
      400,
      "PGRST115",
    ],
    ["a body without the key", "items?id=eq.1", { name: "pot" }, 400, "PGRST102"],
    ["an empty array", "items?id=eq.1", [], 400, "PGRST102"],
    ["no filter", "items", { id: 1, name: "pot" }, 405, "PGRST105"],
    ["a filter by another column", "items?name=eq.cup", { id: 1, name: "cup" }, 405, "PGRST105"],
    ["an additional filter", "items?id=eq.1&name=eq.cup", { id: 1, name: "cup" }, 405, "PGRST105"],
    ["only a part of the key", "places?land=eq.it", { land: "it", number: 1 }, 405, "PGRST105"],
    ["another operator", "items?id=gte.1", { id: 1, name: "pot" }, 405, "PGRST105"],
    ["a negated filter", "items?id=not.eq.1", { id: 1, name: "pot" }, 405, "PGRST105"],
    ["a filter within or", "items?or=(id.eq.1)", { id: 1, name: "pot" }, 405, "PGRST105"],
    ["a table without a primary key", "remarks?id=eq.1", { id: 1 }, 405, "PGRST105"],
    ["a table without a primary key, without a filter", "remarks", { id: 1 }, 405, "PGRST105"],
    ["a view that is not writable", "totals?count=eq.1", { count: 1 }, 405, "PGRST117"],
    ["the parameter limit", "items?id=eq.1&limit=1", { id: 1, name: "pot" }, 400, "PGRST114"],
    ["the parameter offset", "items?id=eq.1&offset=1", { id: 1, name: "pot" }, 400, "PGRST114"],
    ["a value that is invalid for its column", "items?id=eq.one", { id: 1, name: "pot" }, 400, "22P02"],
    ["a row that violates a constraint", "items?id=eq.1", { id: 1, name: null }, 400, "23502"],
  ])("for %s", async (_, path, body, status, code) => {
    const rows = await content();
    expect(await put(path, body)).toMatchObject({ status, json: { code } });
    expect(await content()).toEqual(rows);
  });

  test("and returns the header Allow if the status is 405", async () => {
    expect((await put("remarks?id=eq.1", { id: 1 })).headers.get("allow")).toBe(
      "OPTIONS,GET,HEAD,QUERY,POST,PATCH,DELETE",
    );
    expect((await put("items?id=gt.1", { id: 1 })).headers.get("allow")).toContain("PUT");
  });
});

test("PUT succeeds even if an inner relation excludes the row from the response", async () => {
  const { status, json } = await put("items?id=eq.1&select=id,parts!inner(label)", { id: 1, name: "mug" });
  expect([status, json]).toEqual([200, []]);
  expect(await items()).toMatchObject([{ name: "mug" }, { name: "jug" }]);
});
