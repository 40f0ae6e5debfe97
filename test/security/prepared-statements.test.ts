import { expect, test } from "vitest";
import { ada, anon, type TestTransactions, useTransactionsDatabase } from "../support/transactions.ts";

const database = useTransactionsDatabase("select 1");

const open = (maxPrepared: number) => database().open({ maxPrepared, isAnonymous: (role) => role === "anon" });

/** A statement of this number, with this many characters. */
const statement = (number: number, length = 0) => `select '${number} of callers'`.padEnd(length);

/** The numbers of such statements that the connection has prepared. */
async function prepared(db: TestTransactions): Promise<number[]> {
  const text =
    "select substring(statement from '''(\\d+) of callers')::int as n from pg_prepared_statements where statement like 'select ''%of callers''%' order by n";
  return (await db.run(ada, [text]))[0]!.map(([number]) => Number(number));
}

test("callers without credentials have a fifth of the prepared statements, and displace no others", async () => {
  const db = open(50);
  for (let i = 1; i <= 20; i++) await db.run(ada, [statement(i)]);
  for (let i = 101; i <= 130; i++) for (const _ of [1, 2]) await db.run(anon, [statement(i)]);
  // Two more set the role and the claims, and discard the state of sequences.
  expect(await prepared(db)).toEqual(
    [...Array(20).keys()].map((i) => i + 1).concat([123, 124, 125, 126, 127, 128, 129, 130]),
  );
});

test("a statement of callers without credentials is prepared when it runs again", async () => {
  const db = open(50);
  await db.run(anon, [statement(1)]);
  await db.run(anon, [statement(2)]);
  expect(await prepared(db)).toEqual([]);
  await db.run(anon, [statement(1)]);
  expect(await prepared(db)).toEqual([1]);
  expect(await db.run(anon, [statement(2), statement(1)])).toEqual([[["2 of callers"]], [["1 of callers"]]]);
  expect(await prepared(db)).toEqual([1, 2]);
});

test("long statements are fewer, because their plans take more memory", async () => {
  const db = open(50);
  for (let i = 1; i <= 9; i++) await db.run(ada, [statement(i, 9000)]);
  // 50,000 characters, of which the other statements have some.
  expect(await prepared(db)).toEqual([5, 6, 7, 8, 9]);
  for (let i = 101; i <= 103; i++) for (const _ of [1, 2]) await db.run(anon, [statement(i, 9000)]);
  expect(await prepared(db)).toEqual([5, 6, 7, 8, 9, 103]);
  // One that was displaced runs as before.
  expect(await db.run(anon, [statement(101, 9000)])).toEqual([[["101 of callers"]]]);
});

test("a failed statement leaves the list as the connection has it", async () => {
  const db = open(50);
  for (let i = 1; i <= 5; i++) await db.run(ada, [statement(i, 9000)]);
  for (let i = 0; i < 3; i++) {
    await expect(db.run(ada, ["select 1 / (random() * 0)::int", statement(6, 9000)])).rejects.toThrow(
      "division by zero",
    );
    expect(await db.run(ada, [statement(1, 9000)])).toEqual([[["1 of callers"]]]);
    expect(await db.run(ada, [statement(6, 9000)])).toEqual([[["6 of callers"]]]);
  }
});
