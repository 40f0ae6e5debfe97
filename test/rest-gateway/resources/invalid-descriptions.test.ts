import { expect, test } from "vitest";
import type { Description } from "../../../rest-gateway/resources/description.ts";
import { useOwnResources } from "../../support/own-resources.ts";
import { DDL, GEARS, MAKERS } from "./fixtures.ts";

const own = useOwnResources(DDL, []);
const { fields } = GEARS;
const filter = { field: "name", operator: "is", about: "…" } as const;

test("valid descriptions are served in any order", () => {
  expect(own.describe(GEARS, MAKERS).names).toEqual(["gears", "users"]);
  expect(own.describe(MAKERS, GEARS).byName.get("gears")?.key.column.name).toBe("gear_id");
});

test.each<[what: string, change: Partial<Description>, message: string]>([
  [
    "an unknown table",
    { table: "public.geers" },
    "the description of gears has the table public.geers, which does not exist",
  ],
  [
    "an unknown column",
    { fields: { ...fields, price: { column: "prize" } } },
    "the description of gears has the column prize, which public.gears does not have",
  ],
  [
    "an unknown field to sort by",
    { sorts: ["nam"] },
    "the description of gears names the field nam, which it does not define",
  ],
  [
    "an unknown field in the order",
    { order: [{ field: "nam", direction: "asc" }] },
    "the description of gears names the field nam, which it does not define",
  ],
  [
    "an unknown field in a filter",
    { filters: { name: { ...filter, field: "nam" } } },
    "the description of gears names the field nam, which it does not define",
  ],
  [
    "an unknown field with the time of change",
    { modified: ["touched"] },
    "the description of gears names the field touched, which it does not define",
  ],
  [
    "a filter with the name of a list parameter",
    { filters: { page: filter } },
    "the description of gears has the filter page, but that is a parameter of every list",
  ],
  [
    "the operator has on a column that is not an array",
    { filters: { label: { ...filter, operator: "has" } } },
    'the operator of the filter label of gears must be "has" if, and only if, its column is an array',
  ],
  [
    "the operator alike on a column that is not text",
    { filters: { id: { ...filter, field: "id", operator: "alike" } } },
    'the filter id of gears is "alike", but its column is not text',
  ],
  [
    "an unknown resource in a relation",
    { relations: { owner: { resource: "owners", field: "owner_id" } } },
    "the description of gears refers to the resource owners, which does not exist",
  ],
  [
    "an unknown field in a relation",
    { relations: { owner: { resource: "users", field: "owner" } } },
    "the description of gears names the field owner, which it does not define",
  ],
  [
    "an unknown resource in a collection",
    { collections: { teeth: { resource: "teeth", field: "gear_id", isCreatable: true } } },
    "the description of gears refers to the resource teeth, which does not exist",
  ],
  [
    "an unknown field in a collection",
    { collections: { users: { resource: "users", field: "gear_id", isCreatable: true } } },
    "the description of gears names the field gear_id of users, which does not exist",
  ],
  [
    "an unknown column in a cascade",
    { cascade: [{ table: "public.comments", column: "gear_id" }] },
    "the description of gears has the column gear_id, which public.comments does not have",
  ],
  [
    "a key that is neither an integer nor a UUID",
    { fields: { label: {}, ...fields } },
    "the key of gears must be an integer or a UUID",
  ],
])("an invalid description is reported at start: %s", (_what, change, message) =>
  expect(own.describe({ ...GEARS, ...change }, MAKERS).invalid).toContain(message),
);

test("all invalid descriptions are reported at once", () =>
  expect(own.describe({ ...GEARS, sorts: ["nam"] }, { ...MAKERS, table: "public.makers" }).invalid).toEqual([
    "the description of users has the table public.makers, which does not exist",
    "the description of gears names the field nam, which it does not define",
  ]));
