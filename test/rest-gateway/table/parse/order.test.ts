import { expect, test } from "vitest";
import { parse, problemOf } from "./parse.ts";

const orderOf = (text: string) => parse(`t?order=${encodeURIComponent(text)}`).query.parts.get("")!.order;
const by = (name: string, more: object = {}) => ({
  relation: null,
  field: { name, path: [] },
  direction: null,
  nulls: null,
  ...more,
});

test.each([
  ["a", [by("a")]],
  ["a,b.desc,c.asc", [by("a"), by("b", { direction: "desc" }), by("c", { direction: "asc" })]],
  [" a , b.desc ", [by("a"), by("b", { direction: "desc" })]],
  ["a.nullslast", [by("a", { nulls: "last" })]],
  ["a.desc.nullsfirst", [by("a", { direction: "desc", nulls: "first" })]],
  ['"a.desc".asc', [by("a.desc", { direction: "asc" })]],
  ["data->>x.desc", [by("", { field: { name: "data", path: [{ arrow: "->>", key: "x" }] }, direction: "desc" })]],
  ["data->0.asc", [by("", { field: { name: "data", path: [{ arrow: "->", key: 0 }] }, direction: "asc" })]],
  ["author(name).desc.nullslast", [by("name", { relation: "author", direction: "desc", nulls: "last" })]],
  [
    "id,author( data->x ),b",
    [by("id"), by("", { relation: "author", field: { name: "data", path: [{ arrow: "->", key: "x" }] } }), by("b")],
  ],
] as [string, object[]][])("order=%s is parsed into terms", (text, terms) => {
  expect(orderOf(text)).toEqual(terms);
});

const ENDINGS = '".asc", ".desc", ".nullsfirst", ".nullslast", "," or the end';

test.each([
  ["", 1, "a name"],
  ["a,", 3, "a name"],
  ["a.up", 2, ENDINGS],
  ["a.ac", 2, ENDINGS],
  ["a.descc", 7, ENDINGS],
  ["a.asc.", 6, ENDINGS],
  ["a.nullslast.desc", 12, ENDINGS],
  ["author(name,id)", 12, '")"'],
  ["author(name", 12, '")"'],
  ["author()", 8, "a name"],
  ["data->x(name)", 8, ENDINGS],
])("order=%s is refused at character %i, where %s should be", (text, character, expected) => {
  expect(problemOf(() => orderOf(text))).toMatchObject({
    status: 400,
    code: "PGRST100",
    message: `failed to parse order (${text})`,
    details: expect.stringContaining(`at character ${character}: expected ${expected}, found `),
  });
});

test("the first of two order parameters applies", () => {
  expect(parse("t?order=a.desc&order=b").query.parts.get("")!.order).toEqual([by("a", { direction: "desc" })]);
});
