import { expect, test } from "vitest";
import type { Description } from "../../../rest-gateway/resources/description.ts";
import { useOwnResources } from "../../support/own-resources.ts";
import { DDL, MAKERS, PRODUCTS } from "./fixtures.ts";

const own = useOwnResources(DDL, []);
const { fields } = PRODUCTS;
const filter = { field: "name", operator: "is", about: "…" } as const;

test("valid descriptions are served in any order", () => {
  for (const descriptions of [
    [PRODUCTS, MAKERS],
    [MAKERS, PRODUCTS],
  ])
    expect(own.describe(...descriptions).byName.get("products")?.key.column.name).toBe("product_id");
});

test.each<[what: string, change: Partial<Description>, message: string]>([
  [
    "an unknown table",
    { table: "public.produkts" },
    "the description of products has the table public.produkts, which does not exist",
  ],
  [
    "an unknown column",
    { fields: { ...fields, price: { column: "prize" } } },
    "the description of products has the column prize, which public.products does not have",
  ],
  [
    "an unknown field to sort by",
    { sorts: ["nam"] },
    "the description of products names the field nam, which it does not define",
  ],
  [
    "an unknown field in the order",
    { order: [{ field: "nam", direction: "asc" }] },
    "the description of products names the field nam, which it does not define",
  ],
  [
    "an unknown field in a filter",
    { filters: { name: { ...filter, field: "nam" } } },
    "the description of products names the field nam, which it does not define",
  ],
  [
    "an unknown field with the time of change",
    { modified: ["touched"] },
    "the description of products names the field touched, which it does not define",
  ],
  [
    "a filter with the name of a list parameter",
    { filters: { page: filter } },
    "the description of products has the filter page, but that is a parameter of every list",
  ],
  [
    "the operator has on a column that is not an array",
    { filters: { label: { ...filter, operator: "has" } } },
    'the operator of the filter label of products must be "has" if, and only if, its column is an array',
  ],
  [
    "the operator alike on a column that is not text",
    { filters: { id: { ...filter, field: "id", operator: "alike" } } },
    'the filter id of products is "alike", but its column is not text',
  ],
  [
    "an unknown resource in a relation",
    { relations: { owner: { resource: "owners", field: "owner_id" } } },
    "the description of products refers to the resource owners, which does not exist",
  ],
  [
    "an unknown field in a relation",
    { relations: { owner: { resource: "users", field: "owner" } } },
    "the description of products names the field owner, which it does not define",
  ],
  [
    "an unknown resource in a collection",
    { collections: { teeth: { resource: "teeth", field: "product_id", isCreatable: true } } },
    "the description of products refers to the resource teeth, which does not exist",
  ],
  [
    "an unknown field in a collection",
    { collections: { users: { resource: "users", field: "product_id", isCreatable: true } } },
    "the description of products names the field product_id of users, which does not exist",
  ],
  [
    "an unknown column in a cascade",
    { cascade: [{ table: "public.comments", column: "product_id" }] },
    "the description of products has the column product_id, which public.comments does not have",
  ],
  [
    "a key that is neither an integer nor a UUID",
    { fields: { label: {}, ...fields } },
    "the key of products must be an integer or a UUID",
  ],
])("an invalid description is reported at start: %s", (_what, change, message) =>
  expect(own.describe({ ...PRODUCTS, ...change }, MAKERS).invalid).toContain(message),
);

test("all invalid descriptions are reported at once", () =>
  expect(own.describe({ ...PRODUCTS, sorts: ["nam"] }, { ...MAKERS, table: "public.makers" }).invalid).toEqual([
    "the description of products names the field nam, which it does not define",
    "the description of users has the table public.makers, which does not exist",
  ]));
