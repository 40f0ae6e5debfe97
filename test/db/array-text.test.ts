import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { elementsOf, writeArray } from "../../db/wire/array-text.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

/** Any text that Postgres can store. */
const text = fc.oneof(
  fc.string({ unit: "binary" }).map((any) => any.replaceAll("\0", "")),
  fc.constantFrom("", "null", "NULL", '"', "\\", '\\"', ",", "{", "}", "{}", " ", "\n", "a b"),
);
const arrays = fc.sample(fc.array(fc.option(text), { maxLength: 8 }), 2000);

test("Postgres reads a written array literal as the original texts", async () => {
  const { rows } = await database.owner.query(
    "select t.literal::text[] as read from unnest($1::text[]) with ordinality as t(literal, n) order by n",
    [arrays.map(writeArray)],
  );
  expect(rows.map(({ read }) => read)).toEqual(arrays);
});

test("the elements of an array that Postgres has written are the original values", async () => {
  const { rows } = await database.owner.query(
    "select t.literal::text[]::text as written from unnest($1::text[]) with ordinality as t(literal, n) order by n",
    [arrays.map(writeArray)],
  );
  expect(rows.map(({ written }) => elementsOf(written))).toEqual(arrays);
  expect(elementsOf("{{1,2},{3,NULL}}")).toEqual(["1", "2", "3", null]);
  expect(elementsOf("[0:1]={1,2}")).toEqual(["1", "2"]);
});
