import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { writeArray } from "../../../../rest-gateway/table/write/statement.ts";
import { createTestDatabase, type TestDatabase } from "../../../support/database.ts";

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

test("Postgres reads a written array literal as the original texts", async () => {
  const arrays = fc.sample(fc.array(text, { maxLength: 8 }), 2000);
  const { rows } = await database.owner.query(
    "select t.literal::text[] as read from unnest($1::text[]) with ordinality as t(literal, n) order by n",
    [arrays.map(writeArray)],
  );
  expect(rows.map(({ read }) => read)).toEqual(arrays);
});
