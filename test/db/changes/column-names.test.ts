import { beforeAll, expect, test } from "vitest";
import { ChangedTypes, type DescribedTable } from "../../../db/changes/types.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

const TEXT = 25;

/** The names that the columns of the log get, which have them in this order. `before` is an earlier description. */
async function namesOf(oid: number, logged: readonly string[], before?: DescribedTable) {
  const types = new ChangedTypes(async (text) => (await database.owner.query(text)).rows);
  const columns = logged.map((name) => ({ name, type: TEXT }));
  const table = await types.complete({ oid, schema: "public", name: "things", columns }, before);
  return { table, names: table.columns.slice(0, logged.length).map(({ name }) => name) };
}

/** A table with the text columns a, b and c; `more` is in its definition. */
async function createThings(more = ""): Promise<number> {
  await database.owner.query(`drop table if exists things; create table things (a text, b text, c text${more})`);
  return (await database.owner.query("select 'things'::regclass::oid::int as oid")).rows[0].oid;
}

const rename = (from: string, to: string) => `alter table things rename ${from} to ${to};`;
const NO_COLUMN_LIST = ["a", "b", "c"];

test.each([
  ["a renamed column", rename("b", "d"), NO_COLUMN_LIST, ["a", "d", "c"]],
  ["the last one", rename("c", "d"), NO_COLUMN_LIST, ["a", "b", "d"]],
  [
    "columns that have exchanged their names",
    `${rename("a", "d")} ${rename("b", "a")} ${rename("d", "b")}`,
    NO_COLUMN_LIST,
    ["b", "a", "c"],
  ],
  ["a dropped one", "alter table things drop b", NO_COLUMN_LIST, NO_COLUMN_LIST],
  ["one before which another was left out", rename("c", "d"), ["a", "c"], ["a", "c"]],
  ["a dropped one, when another was added", "alter table things drop c, add d text", NO_COLUMN_LIST, NO_COLUMN_LIST],
] as const)(
  "without an earlier description, %s never has the name of another column",
  async (_, ddl, logged, names) => {
    const oid = await createThings();
    await database.owner.query(ddl);
    expect((await namesOf(oid, logged)).names).toEqual(names);
  },
);

test("a generated column, which the log does not contain, never gives its name to a renamed one", async () => {
  const oid = await createThings(", d text generated always as (a) stored, e text");
  await database.owner.query(rename("e", "f"));
  expect((await namesOf(oid, ["a", "b", "c", "e"])).names).toEqual(["a", "b", "c", "e"]);
});

test.each([
  ["a column that was renamed since", rename("b", "x"), ["a", "x", "c"]],
  ["one that was renamed after another was dropped", `alter table things drop c; ${rename("b", "x")}`, ["a", "x", "c"]],
] as const)("an earlier description gives %s its name", async (_, ddl, names) => {
  const oid = await createThings(", g text generated always as (a) stored");
  const { table } = await namesOf(oid, NO_COLUMN_LIST);
  await database.owner.query(ddl);
  expect((await namesOf(oid, NO_COLUMN_LIST, table)).names).toEqual(names);
});

test("a column has the earlier number of its name only if no other column has it now", async () => {
  const oid = await createThings();
  const { table } = await namesOf(oid, NO_COLUMN_LIST);
  await database.owner.query(`${rename("a", "x")} alter table things add a text; ${rename("a", "y")}`);
  expect((await namesOf(oid, ["x", "b", "c", "a"], table)).names).toEqual(["x", "b", "c", "y"]);
  await database.owner.query("alter table things add z text");
  expect((await namesOf(oid, ["x", "b", "c", "a"], table)).names).toEqual(["x", "b", "c", "a"]);
});
