import { expect, test } from "vitest";
import type { Description } from "../../../rest-gateway/resources/description.ts";
import { useOwnResources } from "../../support/own-resources.ts";
import { DDL, GEARS, MAKERS } from "./fixtures.ts";

const own = useOwnResources(DDL, []);
const { fields } = GEARS;
const filter = { field: "name", operator: "is", about: "…" } as const;

test("descriptions that fit are taken, in whatever order", () => {
  expect(own.describe(GEARS, MAKERS).names).toEqual(["gears", "users"]);
  expect(own.describe(MAKERS, GEARS).byName.get("gears")?.key.column.name).toBe("gear_id");
});

test.each<[what: string, slip: Partial<Description>, message: string]>([
  ["table", { table: "public.geers" }, "the description of gears has the table public.geers, which there is not"],
  [
    "column",
    { fields: { ...fields, price: { column: "prize" } } },
    "the description of gears has the column prize, which public.gears has not",
  ],
  ["field to sort by", { sorts: ["nam"] }, "the description of gears names the field nam, which it has not"],
  [
    "field of the order",
    { order: [{ field: "nam", direction: "asc" }] },
    "the description of gears names the field nam, which it has not",
  ],
  [
    "field of a filter",
    { filters: { name: { ...filter, field: "nam" } } },
    "the description of gears names the field nam, which it has not",
  ],
  ["time of change", { modified: ["touched"] }, "the description of gears names the field touched, which it has not"],
  [
    "name of a filter",
    { filters: { page: filter } },
    "the description of gears has a filter page, which is a parameter of every list",
  ],
  [
    "way to look into a list",
    { filters: { label: { ...filter, operator: "has" } } },
    'the filter label of gears must be "has" for a list, and for nothing else',
  ],
  [
    "text to look for in any case",
    { filters: { id: { ...filter, field: "id", operator: "alike" } } },
    'the filter id of gears is "alike", which is for texts',
  ],
  [
    "other resource",
    { relations: { owner: { resource: "owners", field: "owner_id" } } },
    "the description of gears refers to owners, which there is not",
  ],
  [
    "field of a relation",
    { relations: { owner: { resource: "users", field: "owner" } } },
    "the description of gears names the field owner, which it has not",
  ],
  [
    "resource of a collection",
    { collections: { teeth: { resource: "teeth", field: "gear_id", isCreatable: true } } },
    "the description of gears refers to teeth, which there is not",
  ],
  [
    "field of a collection",
    { collections: { users: { resource: "users", field: "gear_id", isCreatable: true } } },
    "the description of gears names the field gear_id of users, which that has not",
  ],
  [
    "column of what goes too",
    { cascade: [{ table: "public.comments", column: "gear_id" }] },
    "the description of gears has the column gear_id, which public.comments has not",
  ],
  ["key", { fields: { label: {}, ...fields } }, "the key of gears is neither a whole number nor a UUID"],
])("a slip in a description is named at start: an unknown %s", (_what, slip, message) =>
  expect(own.describe({ ...GEARS, ...slip }, MAKERS).slips).toContain(message),
);

test("all slips are named at once", () =>
  expect(own.describe({ ...GEARS, sorts: ["nam"] }, { ...MAKERS, table: "public.makers" }).slips).toEqual([
    "the description of users has the table public.makers, which there is not",
    "the description of gears names the field nam, which it has not",
  ]));
