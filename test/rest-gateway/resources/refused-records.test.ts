import { describe, expect, test } from "vitest";
import { useOwnResources } from "../../support/own-resources.ts";
import { useResources } from "../../support/resource-client.ts";
import { DDL, MAKERS, PRODUCTS } from "./fixtures.ts";
import { allUsers, newEmail } from "./users.ts";

const client = useResources({ apiMaxRecords: 1000 });
const { api } = client;

const several = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `User ${i}`, email: newEmail() }));

describe("POST of an array with a taken e-mail names the record", () => {
  test.each([
    [1, 0],
    [2, 1],
    [101, 100],
    [1000, 0],
    [1000, 637],
    [1000, 999],
  ])("of %i records at index %i, on each version and in each dialect", async (count, place) => {
    const before = await allUsers(client);
    const body = several(count).with(place, { name: "Ada", email: "ADA@example.com" });
    const field = `[${place}].email`;
    const message = `[${place}]: email already registered`;
    const { status, json } = await api("POST /users", { body });
    const error = { code: "RESOURCE_CONFLICT", message };
    expect([status, json.error]).toEqual([
      409,
      expect.objectContaining({ ...error, details: [{ field, ...error }], fields: { [field]: message } }),
    ]);
    expect((await api("POST /api/v2/users", { body })).json.error.details).toEqual([{ field, ...error }]);
    const received = async (prefer: string) => (await api("POST /users", { body, prefer })).json;
    expect(await received("dialect=flat")).toEqual({ error: error.code, message, field });
    expect(await received("dialect=detail")).toEqual({ detail: error });
    expect(await allUsers(client)).toBe(before);
  });

  test.each([
    [[0, 1], 1],
    [[250, 251, 640], 251],
    [[0, 999], 999],
  ])("by another record of the same array: of the indexes %j it is %i", async (places, expected) => {
    const twin = { name: "Twin", email: newEmail() };
    const records = several(1000).map((record, i) => (places.includes(i) ? twin : record));
    const { status, json } = await api("POST /users", { body: records });
    expect([status, json.error.message]).toEqual([409, `[${expected}]: email already registered`]);
  });
});

test("POST of an array with a reference to an unknown record names the record", async () => {
  const on = (article_id: number) => ({ article_id, content: "Well said." });
  const { status, json } = await api("POST /comments", { as: "ada", body: [on(1), on(2), on(999)] });
  expect([status, Object.keys(json.error.fields)]).toEqual([409, ["[2].article_id"]]);
});

const OWN = `${DDL}
  -- Only its owner sees a product, and all names are different.
  create unique index products_label_key on products (label);
  comment on index products_label_key is 'name is taken';
  drop policy "everyone reads products" on products;
  alter table products add constraint products_weight_range check (1 / weight > 0);
  alter table products add constraint products_weight_key unique (weight) deferrable initially deferred;
  create function internal.refuse_rust() returns trigger language plpgsql as
    $$ begin if new.note = 'rusty' then raise exception 'we take no rust'; end if; return new; end $$;
  create trigger refuse_rust before insert on products for each row execute function internal.refuse_rust();`;

const own = useOwnResources(OWN, [PRODUCTS, MAKERS]);

/** The error that user 2 gets, and the number of products after it. */
async function refusal(...products: readonly object[]): Promise<readonly [number, string, object, number]> {
  const { status, json } = await own.api("POST /products", { as: 2, body: products });
  const count = (await own.sql("select from products")).length;
  return [status, json.error.message, json.error.fields, count];
}

describe("a record that is rejected among several is reported with its index", () => {
  const GOOD = { name: "good" };

  test("whose duplicate the caller may not see, as for a single record", async () => {
    await own.api("POST /products", { as: 1, body: { name: "hidden" } });
    expect((await own.api("GET /products", { as: 2 })).json.data).toEqual([]);
    const alone = await own.api("POST /products", { as: 2, body: { name: "hidden" } });
    expect([alone.status, alone.json.error.fields]).toEqual([409, { name: "name is taken" }]);
    expect(await refusal(GOOD, { name: "hidden" })).toEqual([
      409,
      "[1]: name is taken",
      { "[1].name": "[1]: name is taken" },
      1,
    ]);
  });

  test.each([
    [{ name: "bad", made_on: "2026-02-30" }, "[1]", '[1]: date/time field value out of range: "2026-02-30"'],
    [{ name: "more than eight" }, "[1]", "[1]: value too long for type character varying(8)"],
    [{ name: "bad", note: "rusty" }, "[1]", "[1]: we take no rust"],
    [{ name: "bad", price: -1 }, "[1].price", "[1]: price must not be negative"],
  ])("%j", async (bad, field, message) => {
    const before = (await own.sql("select from products")).length;
    expect(await refusal(GOOD, bad, { name: "better" })).toEqual([400, message, { [field]: message }, before]);
  });

  test("even if another rule cannot be evaluated", async () => {
    const before = (await own.sql("select from products")).length;
    const message = "price must not be negative";
    const alone = await own.api("POST /products", { as: 2, body: { name: "bad", price: -1, weight: 0 } });
    expect([alone.status, alone.json.error.fields]).toEqual([400, { price: message }]);
    expect(await refusal(GOOD, { name: "bad", price: -1, weight: 0 })).toEqual([
      400,
      `[1]: ${message}`,
      { "[1].price": `[1]: ${message}` },
      before,
    ]);
  });

  test("unless it is rejected only in combination", async () => {
    const before = (await own.sql("select from products")).length;
    expect(await refusal({ name: "one", weight: 7 }, { name: "two", weight: 7 })).toEqual([
      409,
      "weight is already taken",
      { weight: "weight is already taken" },
      before,
    ]);
  });
});
