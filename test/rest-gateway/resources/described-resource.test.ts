import { describe, expect, test } from "vitest";
import type { Description } from "../../../rest-gateway/resources/description.ts";
import { useOwnResources } from "../../support/own-resources.ts";
import { CHEAP_PRODUCTS, DDL, MAKERS, PRODUCT_PRICES, PRODUCTS } from "./fixtures.ts";

/** A table whose every column has a default. */
const MEMOS_DDL = `
  create table memos (memo_id bigint generated always as identity primary key, note text default 'none yet', more json);
  alter table memos enable row level security;
  grant select, insert (note, more) on memos to authenticated;
  create policy "everything is allowed" on memos using (true);`;
const MEMOS: Description = {
  ...PRODUCT_PRICES,
  name: "memos",
  singular: "memo",
  table: "public.memos",
  fields: { id: { column: "memo_id" }, note: { write: "always" }, more: { write: "always" } },
};

const { api, sql } = useOwnResources(DDL + MEMOS_DDL, [PRODUCTS, CHEAP_PRODUCTS, PRODUCT_PRICES, MAKERS, MEMOS]);
const UUID = /^[0-9a-f-]{36}$/;
const names = async (path: string) => (await api(path)).json.data.map(({ name }: { name: string }) => name);

/** A product by ada. */
async function newProduct(body: object): Promise<any> {
  const { status, json, text } = await api("POST /products", { as: 1, body });
  if (status !== 201) throw new Error(text);
  return json;
}

describe("a resource of another team", () => {
  test("has the fields of its description", async () => {
    const made = await api("POST /products", { as: 1, body: { name: "cog" } });
    expect([made.status, made.headers.get("location")]).toEqual([201, `/products/${made.json.id}`]);
    expect(made.json).toEqual({
      id: expect.stringMatching(UUID),
      name: "cog",
      maker_id: null,
      owner_id: 1,
      state: "NEW",
      price: 1.5,
      weight: null,
      facts: {},
      note: "none yet",
      is_sold: false,
      sizes: [],
      made_on: null,
      touched_at: expect.any(String),
    });
    const read = await api(`/products/${made.json.id.toUpperCase()}`);
    expect(read.json).toEqual(made.json);
    expect(read.headers.get("etag")).toBe(made.headers.get("etag"));
    expect(read.headers.get("last-modified")).toBe(new Date(made.json.touched_at).toUTCString());
  });

  test("stores and returns values of all types", async () => {
    const sent = {
      name: "all",
      maker_id: 2,
      state: "USED",
      price: 123456.78,
      weight: 0.1,
      facts: { teeth: 12, of: ["brass", null, { deep: true }], ä: 1.25 },
      note: null,
      sizes: [1, -2],
      made_on: "2026-02-28",
    };
    const made = await newProduct(sent);
    expect(made).toMatchObject(sent);
    const changed = await api(`PATCH /products/${made.id}`, {
      as: 1,
      body: { facts: ["a", 1], made_on: "1999-01-01" },
    });
    expect(changed.json).toEqual({ ...made, facts: ["a", 1], touched_at: changed.json.touched_at });
  });

  test.each([
    [{ name: 1 }, "name must be a text"],
    [{ name: "x", state: "OLD" }, "state must be one of NEW, USED"],
    [{ name: "x", price: "1.50" }, "price must be a number"],
    [{ name: "x", price: -1 }, "price must not be negative"],
    [{ name: "x", weight: "heavy" }, "weight must be a number"],
    [{ name: "x", facts: null }, "facts must not be null"],
    [{ name: "x", sizes: ["1"] }, "sizes at index 0 must be a whole number"],
    [{ name: "x", sizes: [1, 2 ** 31] }, "sizes at index 1 is out of range"],
    [{ name: "x", made_on: 20260101 }, "made_on must be a text"],
    [{ name: "x", maker_id: 999 }, null],
    [{ name: "x", made_on: "2026-02-30" }, null],
    [{ name: "x", price: 1e9 }, null],
    [{ name: "more than eight" }, null],
  ])("rejects %j with the reason", async (body, message) => {
    const { status, json } = await api("POST /products", { as: 1, body });
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    if (message !== null) expect([status, json.error.message]).toEqual([400, message]);
  });

  test.each(['{"name":"x","weight":1e999}', '{"name":"x","price":-1e999}'])(
    "rejects a number that is out of range: %s",
    async (body) => {
      const { status, json } = await api("POST /products", { as: 1, body });
      expect([status, json.error.message]).toEqual([400, expect.stringMatching(/^(weight|price) is out of range$/)]);
    },
  );

  test("is set to its defaults by PUT, null included", async () => {
    const made = await newProduct({
      name: "put",
      maker_id: 2,
      price: 7,
      note: "mine",
      facts: { a: 1 },
      made_on: "2026-01-01",
    });
    const { status, json } = await api(`PUT /products/${made.id}`, { as: 1, body: { name: "put", note: null } });
    expect(status).toBe(200);
    expect(json).toEqual({ ...made, maker_id: null, price: 1.5, note: null, facts: {}, touched_at: json.touched_at });
    expect((await api(`PUT /products/${made.id}`, { as: 1, body: { name: "put" } })).json.note).toBe("none yet");
  });

  test("has defaults for the absent fields of each record in an array", async () => {
    const body = [{ name: "one", note: "mine", price: 2 }, { name: "two" }, { name: "three", note: null }];
    const { status, json } = await api("POST /products", { as: 1, body });
    expect([status, json.map(({ note, price }: any) => [note, price])]).toEqual([
      201,
      [
        ["mine", 2],
        ["none yet", 1.5],
        [null, 1.5],
      ],
    ]);
  });

  test("creates as many records as are sent, also without any field", async () => {
    const { status, json } = await api("POST /memos", { as: 1, body: [{}, {}, {}] });
    expect([status, json]).toEqual([201, [1, 2, 3].map((id) => ({ id, note: "none yet", more: null }))]);
    expect((await api("POST /memos", { as: 1, body: {} })).json).toEqual({ id: 4, note: "none yet", more: null });
  });

  test("keeps the order of keys in values of type json when records of an array lack fields", async () => {
    const { status, text } = await api("POST /memos?fields=more", {
      as: 1,
      body: [{ more: { z: 1, a: 2 } }, { note: "x" }],
    });
    expect([status, text]).toEqual([201, '[{"more":{"z":1,"a":2}}, \n {"more":null}]']);
  });

  test("is in camelCase in version 2, including relations", async () => {
    const made = await newProduct({ name: "camel", maker_id: 2 });
    const { json } = await api(`/api/v2/products/${made.id}`);
    expect(Object.keys(json)).toEqual([
      ...["id", "name", "makerId", "ownerId", "state", "price", "weight", "facts", "note", "isSold", "sizes", "madeOn"],
      ...["touchedAt", "_links"],
    ]);
    expect(json._links).toEqual({
      self: { href: `/api/v2/products/${made.id}` },
      firstMaker: { href: "/api/v2/users/2" },
      owner: { href: "/api/v2/users/1" },
      sell: { href: `/api/v2/products/${made.id}/sell`, method: "POST" },
      update: { href: `/api/v2/products/${made.id}`, method: "PUT" },
      delete: { href: `/api/v2/products/${made.id}`, method: "DELETE" },
    });
    const fields = (text: string) => api(`/api/v2/products/${made.id}?fields=${text}`);
    expect((await fields("firstMaker.name")).json).toEqual({ firstMaker: { name: "Bob Kahn" } });
    expect((await fields("first_maker.name")).json).toEqual({ firstMaker: { name: "Bob Kahn" } });
    const sent = { as: 1, body: json, prefer: "handling=strict" };
    expect((await api(`PUT /api/v2/products/${made.id}`, sent)).status).toBe(200);
  });

  test("has a null link for a missing relation", async () => {
    const made = await newProduct({ name: "alone" });
    const { json } = await api(`/api/v2/products/${made.id}?fields=_links,firstMaker.name`);
    expect([json._links.firstMaker, json.firstMaker]).toEqual([null, null]);
    expect(json._links.owner).toEqual({ href: "/api/v2/users/1" });
  });

  test("accepts ids of its own type", async () => {
    for (const id of ["1", "abc", "00000000-0000-0000-0000-00000000000g", "{00000000-0000-0000-0000-000000000000}"]) {
      const { status, json } = await api(`/products/${encodeURIComponent(id)}`);
      expect([status, json.error.code]).toEqual([400, "INVALID_ID"]);
      expect(json.error.message).toBe(`"${id}" is not a valid id of products: it must be a UUID`);
    }
    const { status, json } = await api("/products/00000000-0000-0000-0000-000000000000");
    expect([status, json.error.message]).toEqual([404, "there is no product with this id"]);
  });

  test("has its own actions", async () => {
    const { id } = await newProduct({ name: "sold" });
    expect((await api(`POST /products/${id}/sell`, { as: 1 })).json).toMatchObject({ id, is_sold: true });
    expect((await api(`/products/${id}`)).json.is_sold).toBe(true);
  });

  test("has the rights of its table", async () => {
    const { id } = await newProduct({ name: "rights" });
    expect((await api(`PATCH /products/${id}`, { body: { name: "no" } })).status).toBe(401);
    expect((await api(`PATCH /products/${id}`, { as: 2, body: { name: "no" } })).status).toBe(403);
    expect((await api(`DELETE /products/${id}`, { as: 2 })).status).toBe(403);
    expect((await api(`DELETE /products/${id}`, { as: 1 })).status).toBe(204);
  });

  test("can be a collection of another resource", async () => {
    const made = await api("POST /users/2/products", { as: 1, body: { name: "of bob", maker_id: 3 } });
    expect([made.status, made.json.maker_id]).toEqual([201, 2]);
    expect((await api(`/users/2/products/${made.json.id}`)).json).toEqual(made.json);
    expect((await api(`/users/3/products/${made.json.id}`)).status).toBe(404);
  });
});

describe("its list", () => {
  test("is sorted as described, and then by the key", async () => {
    await sql("delete from products");
    for (const name of ["b", "a", "c", "a", "a", "b", "a"]) await newProduct({ name });
    const first = await api("/products");
    expect(first.json.pagination).toEqual({ page: 1, limit: 5, total: 7, totalPages: 2 });
    const rest = await api(first.json.links.next);
    const all = [...first.json.data, ...rest.json.data];
    const sorted = [...all].sort((a, b) => (`${a.name} ${a.id}` < `${b.name} ${b.id}` ? -1 : 1));
    expect(all).toEqual(sorted);
    expect(new Set(all.map(({ id }) => id)).size).toBe(7);
  });

  test("can be filtered by all types", async () => {
    await sql("delete from products");
    await newProduct({ name: "light", weight: 1.5, price: 2, made_on: "2020-01-01", sizes: [1, 2] });
    await newProduct({
      name: "heavy",
      weight: 10,
      price: 2.25,
      state: "USED",
      made_on: "2021-01-01",
      sizes: [2],
      maker_id: 2,
    });
    expect(await names("/products?state=USED")).toEqual(["heavy"]);
    expect(await names("/products?price=2.250")).toEqual(["heavy"]);
    expect(await names("/products?is_sold=false")).toEqual(["heavy", "light"]);
    expect(await names("/products?isSold=true")).toEqual([]);
    expect(await names("/products?heavier=1.5")).toEqual(["heavy", "light"]);
    expect(await names("/products?heavier=1.6")).toEqual(["heavy"]);
    expect(await names("/products?made_before=2020-06-01")).toEqual(["light"]);
    expect(await names("/products?fits=1")).toEqual(["light"]);
    expect(await names("/products?maker=2")).toEqual(["heavy"]);
    expect(await names("/products?keyword=HEA")).toEqual(["heavy"]);
    expect(await names("/products?sort=weight:desc")).toEqual(["heavy", "light"]);
  });

  test("is never filtered by a truncated value", async () => {
    await sql("delete from products");
    await newProduct({ name: "eightchr", price: 2 });
    expect(await names("/products?name=eightchr")).toEqual(["eightchr"]);
    // A cast to varchar(8) or numeric(8, 2) would cut these.
    expect(await names("/products?name=eightchrs")).toEqual([]);
    expect(await names("/products?price=2.001")).toEqual([]);
  });

  test.each([
    ["state=OLD", "state must be one of NEW, USED"],
    ["price=cheap", "price must be a number"],
    ["price=1e3", "price must be a number"],
    ["is_sold=maybe", "is_sold must be true or false"],
    ["heavier=NaN", "heavier must be a number"],
    ["made_before=tomorrow", "made_before must be a date such as 2026-12-24"],
    ["fits=x", "fits must be a whole number"],
    ["maker=x", "maker must be a whole number"],
  ])("rejects ?%s", async (search, message) => {
    const { status, json } = await api(`/products?${search}`);
    expect([status, json.error.code, json.error.message]).toEqual([400, "BAD_REQUEST", message]);
  });
});
