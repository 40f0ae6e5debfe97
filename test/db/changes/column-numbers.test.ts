import { beforeAll, expect, test } from "vitest";
import type { DescribedTable } from "../../../db/changes/column-numbers.ts";
import { parseSnapshot, type Snapshot, sees } from "../../../db/changes/position.ts";
import { ChangedTypes } from "../../../db/changes/types.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

const TEXT = 25;

/**
 * The numbers that the columns of the log get, which has these names in this order. `before` is an earlier description, and the log
 * follows what `settled` sees.
 */
async function numbersOf(oid: number, logged: readonly string[], before?: DescribedTable, settled?: Snapshot) {
  const types = new ChangedTypes(async (text) => (await database.owner.query(text)).rows);
  const columns = logged.map((name) => ({ name, type: TEXT }));
  const isSettled = (xid: number) => settled !== undefined && sees(settled, xid);
  const table = await types.complete({ oid, schema: "public", name: "things", columns }, { before, isSettled });
  return { table, numbers: table.columns.slice(0, logged.length).map(({ number = null }) => number) };
}

/** A table with the text columns a, b and c; `more` is in its definition. */
async function createThings(more = ""): Promise<number> {
  await database.owner.query(
    `drop publication if exists listed; drop table if exists things; create table things (a text, b text, c text${more})`,
  );
  return (await database.owner.query("select 'things'::regclass::oid::int as oid")).rows[0].oid;
}

const readSnapshot = async () =>
  parseSnapshot((await database.owner.query("select pg_current_snapshot()::text as text")).rows[0].text);

const rename = (from: string, to: string) => `alter table things rename ${from} to ${to};`;
const exchange = (one: string, other: string) => rename(one, "between") + rename(other, one) + rename("between", other);
const ALL = ["a", "b", "c"];
const LISTED = "create publication listed for table things (a, c);";
const GENERATED = ", g text generated always as (a) stored";

test.each([
  ["a renamed column", rename("b", "d"), ALL, [1, 2, 3]],
  ["the last one", rename("c", "d"), ALL, [1, 2, 3]],
  ["columns that have exchanged their names", exchange("a", "b"), ALL, [1, 2, 3]],
  ["a dropped one", "alter table things drop b", ALL, [1, 2, 3]],
  ["one before which another was left out", LISTED + rename("c", "d"), ["a", "c"], [1, null]],
  ["one before another that was added", `${rename("c", "x")} alter table things add c text`, ALL, [1, 2, 3]],
  ["a dropped one, when another was added", "alter table things drop c, add d text", ALL, [1, 2, null]],
  ["one that another has replaced", "alter table things drop c, add c text", ALL, [1, 2, null]],
  [
    "those around a dropped one, when they have exchanged their names",
    `alter table things drop b; ${exchange("a", "c")}`,
    ["a", "c"],
    [null, null],
  ],
  [
    "the first of three, when the last has its name",
    `${LISTED} ${rename("a", "x")} ${rename("c", "a")}`,
    ["a", "c"],
    [null, null],
  ],
] as const)(
  "without an earlier description, %s never has the number of another column",
  async (_, ddl, logged, numbers) => {
    const oid = await createThings();
    await database.owner.query(ddl);
    expect((await numbersOf(oid, logged)).numbers).toEqual(numbers);
  },
);

test("a generated column, which the log does not contain, is not counted", async () => {
  const oid = await createThings(`${GENERATED}, e text`);
  await database.owner.query(rename("e", "f"));
  expect((await numbersOf(oid, [...ALL, "e"])).numbers).toEqual([1, 2, 3, 5]);
});

test.each([
  ["a column that was renamed since", rename("b", "x")],
  ["one that was renamed after another was dropped", `alter table things drop c; ${rename("b", "x")}`],
  ["columns that have exchanged their names", exchange("a", "c")],
])("an earlier description gives %s its number", async (_, ddl) => {
  const oid = await createThings(GENERATED);
  const { table } = await numbersOf(oid, ALL);
  await database.owner.query(ddl);
  expect((await numbersOf(oid, ALL, table)).numbers).toEqual([1, 2, 3]);
});

test("a column has the earlier number of its name only if no other column has it now", async () => {
  const oid = await createThings();
  const { table } = await numbersOf(oid, ALL);
  await database.owner.query(`${rename("a", "x")} alter table things add a text; ${rename("a", "y")}`);
  expect((await numbersOf(oid, ["x", "b", "c", "a"], table)).numbers).toEqual([1, 2, 3, 4]);
  await database.owner.query("alter table things add z text");
  expect((await numbersOf(oid, ["x", "b", "c", "a"], table)).numbers).toEqual([1, 2, 3, 4]);
  await database.owner.query("create publication listed for table things (x, b, c, y)");
  expect((await numbersOf(oid, ["x", "b", "c", "a"], table)).numbers).toEqual([1, 2, 3, null]);
});

const REPLACED = "alter table things drop c, add c text";

test.each([
  ["a column was renamed", GENERATED, rename("b", "x"), [1, 2, 3], ["a", "x", "c"], [1, 2, 3]],
  ["the last one was replaced", "", REPLACED, [1, 2, null], ALL, [1, 2, 4]],
  ["columns have exchanged their names", GENERATED, exchange("a", "c"), [1, 2, 3], ["c", "b", "a"], [1, 2, 3]],
  ["one was added", "", "alter table things add d text", [1, 2, 3], [...ALL, "d"], [1, 2, 3, 4]],
] as const)(
  "what was settled when %s decides: a log before it, and one after it",
  async (_, more, ddl, before, names, after) => {
    const oid = await createThings(more);
    const settled = await readSnapshot();
    await database.owner.query(ddl);
    expect((await numbersOf(oid, ALL, undefined, settled)).numbers).toEqual(before);
    const { table } = await numbersOf(oid, names, undefined, await readSnapshot());
    expect(table.columns.slice(0, names.length).map(({ number }) => number)).toEqual(after);
  },
);

test("an earlier description does not count for what was settled later", async () => {
  const oid = await createThings();
  const { table } = await numbersOf(oid, ALL);
  const settled = await readSnapshot();
  await database.owner.query(REPLACED);
  expect((await numbersOf(oid, ALL, table, settled)).numbers).toEqual([1, 2, 3]);
  expect((await numbersOf(oid, ALL, table, await readSnapshot())).numbers).toEqual([1, 2, 4]);
});
