import { expect, test } from "vitest";
import { useOwnResources } from "../../support/own-resources.ts";
import { CHEAP_PRODUCTS, DDL, PRODUCT_PRICES } from "./fixtures.ts";

const { api, sql } = useOwnResources(DDL, [CHEAP_PRODUCTS, PRODUCT_PRICES]);

test("rows of a view are created, read, changed and deleted like those of a table", async () => {
  const made = await api("POST /cheap-products", { as: 1, body: { name: "cog", price: 3 } });
  expect([made.status, made.json]).toEqual([201, { id: expect.any(String), name: "cog", price: 3 }]);
  const path = made.headers.get("location")!;
  expect((await api(path)).json).toEqual(made.json);
  expect((await api(`PATCH ${path}`, { as: 1, body: { price: 4 } })).json).toEqual({ ...made.json, price: 4 });
  expect((await api(`PUT ${path}`, { as: 1, body: { name: "pin" } })).json).toEqual({
    ...made.json,
    name: "pin",
    price: 1.5,
  });
  expect((await api("/cheap-products")).json.data).toHaveLength(1);
  expect((await api(`PATCH ${path}`, { as: 2, body: { price: 4 } })).status).toBe(403);
  expect((await api(`DELETE ${path}`, { as: 1 })).status).toBe(204);
  expect((await api(path)).status).toBe(404);
});

test("the tag of a row of a view is a hash of its content, and never matches the If-Match of a write", async () => {
  const made = await api("POST /cheap-products", { as: 1, body: { name: "cog", price: 3 } });
  const path = made.headers.get("location")!;
  const tag = (await api(path)).headers.get("etag")!;
  expect((await api(path, { headers: { "if-none-match": tag } })).status).toBe(304);
  const write = (headers: Record<string, string>) => api(`PATCH ${path}`, { as: 1, body: { price: 4 }, headers });
  expect((await write({ "if-match": tag })).status).toBe(412);
  expect((await write({ "if-match": "*" })).status).toBe(200);
  expect((await api(path)).headers.get("etag")).not.toBe(tag);
});

test("a read-only resource has no links for changes", async () => {
  await sql("insert into products (label, owner_id) values ('x', 1), ('y', 1)");
  const { json, headers } = await api("OPTIONS /product-prices");
  expect([json, headers.get("allow")]).toEqual([undefined, "GET, HEAD, OPTIONS"]);
  const list = await api("/api/v2/product-prices");
  const [{ id, _links }] = list.json.data;
  expect(_links).toEqual({ self: { href: `/api/v2/product-prices/${id}` } });
  for (const method of ["POST", "PUT", "PATCH", "DELETE"])
    expect((await api(`${method} /product-prices${method === "POST" ? "" : `/${id}`}`, { as: 1 })).status).toBe(405);
});

test("a list without an order is sorted by its key", async () => {
  const ids = async (search: string) =>
    (await api(`/product-prices${search}`)).json.data.map(({ id }: { id: string }) => id);
  const ascending = await ids("");
  expect(ascending).toEqual([...ascending].sort());
  expect(await ids("?order=desc")).toEqual(ascending.toReversed());
});
