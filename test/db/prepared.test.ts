import { expect, onTestFinished, test } from "vitest";
import {
  ada,
  anon,
  bob,
  identityOf,
  NO_CODE,
  type TestTransactions,
  useTransactionsDatabase,
} from "../support/transactions.ts";

const database = useTransactionsDatabase(`
  create table secrets (owner_id bigint not null, text text not null);
  insert into secrets values (1, 'of Ada'), (2, 'of Bob'), (2, 'of Bob, too');
  alter table secrets enable row level security;
  create policy "owners see their own" on secrets for select to authenticated using (owner_id = (select auth.uid()));
  grant select on secrets to anon, authenticated;

  create table changing (id int, value int);
  insert into changing values (1, 42);
  grant all on changing to anon;

  -- Runs when it is planned, since it claims to be immutable: so it counts the plannings.
  create sequence plannings;
  create function planned() returns bool language plpgsql immutable security definer set search_path = '' as
    $$ begin perform nextval('public.plannings'); return true; end $$;
  grant execute on function planned() to anon, authenticated;`);

/** The matching statements that the connection has prepared. */
async function prepared(db: TestTransactions, pattern = ""): Promise<(string | null)[][]> {
  const text = "select name, generic_plans, custom_plans from pg_prepared_statements where statement ~ $1";
  return (await db.run(anon, [[text, pattern]]))[0]!;
}

test("a prepared statement returns the rows of each caller and role", async () => {
  const db = database().open();
  const text = "select text from secrets order by text";
  const rows: Record<string, string[][]> = {
    ada: [["of Ada"]],
    bob: [["of Bob"], ["of Bob, too"]],
    anon: [],
    stranger: [],
  };
  const callers = { ada, bob, anon, stranger: identityOf("authenticated") };
  for (const name of "ada bob anon ada stranger bob anon bob ada bob ada anon ada".split(" "))
    expect(await db.run(callers[name as keyof typeof callers], [text])).toEqual([rows[name]]);
  expect(await prepared(db, "from secrets")).toHaveLength(2);
});

test("a statement is prepared once per role", async () => {
  const db = database().open();
  for (const caller of [ada, anon, bob, anon]) await db.run(caller, ["select 'some statement'"]);
  const names = (await prepared(db, "^select 'some statement'$")).map(([name]) => name);
  expect(new Set(names).size).toBe(2);
});

test("plans are generic from the sixth execution on, even when roles alternate", async () => {
  const db = database().open();
  const text = "select text from secrets where planned() and owner_id = $1";
  const plannings = async () => Number((await database().values("select last_value from plannings"))[0]);
  const run = (caller: typeof ada) => db.run(caller, [[text, "1"]]);
  for (let i = 0; i < 7; i++) for (const caller of [anon, ada]) await run(caller);
  for (const [, generic, custom] of await prepared(db, "where planned")) {
    expect(Number(custom)).toBeLessThanOrEqual(5);
    expect(Number(generic)).toBeGreaterThanOrEqual(2);
  }

  const planningsOfRuns = async () => {
    const before = await plannings();
    for (let i = 0; i < 5; i++) for (const caller of [anon, ada, bob]) await run(caller);
    return (await plannings()) - before;
  };
  // A large change of the schema of another database ends all plans once.
  await expect.poll(planningsOfRuns).toBe(0);
});

test("a name that two roles share would be replanned at each change of role", async () => {
  const { owner, values } = database();
  await owner.query("begin");
  await owner.query("set local plan_cache_mode = force_generic_plan");
  await owner.query("prepare shared as select text from secrets where planned()");
  const [before] = await values.call(database(), "select last_value from plannings");
  for (const role of ["anon", "authenticated", "anon", "authenticated"])
    await owner.query(`set local role ${role}; execute shared`);
  await owner.query("reset role");
  const [after] = await values.call(database(), "select last_value from plannings");
  await owner.query("rollback");
  await owner.query("deallocate shared");
  expect(after - before).toBeGreaterThanOrEqual(4);
});

test("a statement is repeated when a type in its result has changed", async () => {
  const db = database().open();
  const text = "select value from changing";
  for (const snapshot of [false, true]) {
    expect(await db.run(anon, [text, "select 1"], { snapshot })).toEqual([[["42"]], [["1"]]]);
    await database().owner.query("alter table changing alter column value type text using 'text ' || value");
    const before = db.transactions.syncs;
    expect(await db.run(anon, [text, "select 1"], { snapshot })).toEqual([[["text 42"]], [["1"]]]);
    expect(db.transactions.syncs - before).toBe(2);
    await database().owner.query("alter table changing alter column value type int using substr(value, 6)::int");
    expect(await db.run(anon, [text, "select 1"], { snapshot })).toEqual([[["42"]], [["1"]]]);
  }
});

test("a cast that Postgres does not have is repeated only in a statement that was prepared before", async () => {
  const db = database().open();
  const run = async (...statement: [text: string, ...values: string[]]) => {
    const before = db.transactions.syncs;
    const found = await db.run(anon, [statement]).catch(({ code }) => code);
    // An error precedes the end of its round trip.
    await db.run(anon, ["select 'after'"]);
    return [found, db.transactions.syncs - before - 1];
  };
  for (let i = 0; i < 2; i++) expect(await run("select 1::point")).toEqual(["42846", 1]);

  // The parameter has the type of the row.
  const read = () => run("select ($1::changing).id from (select count(*) from changing) as read", "(7,42)");
  expect(await read()).toEqual([[[["7"]]], 1]);
  onTestFinished(async () => {
    await database().owner.query("drop table changing; alter table former rename to changing");
  });
  await database().owner.query(
    "alter table changing rename to former; create table changing (like former); grant all on changing to anon",
  );
  expect(await read()).toEqual([[[["7"]]], 2]);
});

test("statements are repeated together when a migration has recreated the type of their parameters", async () => {
  const db = database().open();
  const { owner } = database();
  await owner.query(
    "create type stage as enum ('new', 'done'); create table staged (id int, stage stage); grant all on staged to anon",
  );
  const statements = [
    ["select id from staged where stage = $1", "new"],
    ["update staged set stage = $1 where id = 1", "done"],
    ["select stage from staged where stage in ($1, $2)", "new", "done"],
  ] as [string, ...string[]][];
  for (const snapshot of [false, true]) {
    await owner.query("truncate staged; insert into staged values (1, 'new')");
    expect(await db.run(anon, statements, { snapshot })).toEqual([[["1"]], [], [["done"]]]);
    await owner.query(`begin; alter type stage rename to old_stage; create type stage as enum ('new', 'busy', 'done');
      alter table staged alter stage type stage using stage::text::stage; drop type old_stage; commit`);
    await owner.query("update staged set stage = 'new'");
    expect(await db.run(anon, statements, { snapshot })).toEqual([[["1"]], [], [["done"]]]);
  }
});

test("a statement is repeated when `select *` gets a new column", async () => {
  const db = database().open();
  expect(await db.row(anon, "select * from changing")).toEqual(["1", "42"]);
  await database().owner.query("alter table changing add column more text default 'more'");
  expect(await db.row(anon, "select * from changing")).toEqual(["1", "42", "more"]);
  await database().owner.query("alter table changing drop column more");
});

test("a write before the repeated statement takes effect once", async () => {
  const db = database().open();
  const statements = ["insert into changing values (2, 1)", "select max(id) from changing"];
  await db.run(anon, ["select max(id) from changing"]);
  await database().owner.query("alter table changing alter column id type bigint");
  expect((await db.run(anon, statements))[1]).toEqual([["2"]]);
  expect(await database().values("delete from changing where id = 2 returning value")).toEqual([1]);
});

test.each([false, true])("deallocated statements are prepared again (snapshot: %j)", async (snapshot) => {
  const db = database().open();
  // A connection on which code has done this is replaced.
  db.transactions.follow(NO_CODE);
  const statements = ["select 1", "select 2"];
  await db.run(anon, statements, { snapshot });
  await db.run(anon, ["deallocate all"]);
  const before = db.transactions.syncs;
  expect(await db.run(anon, statements, { snapshot })).toEqual([[["1"]], [["2"]]]);
  expect(db.transactions.syncs - before).toBe(2);
  expect(await db.row(ada, "select 1")).toEqual(["1"]);
  expect(db.transactions.syncs - before).toBe(3);
  expect(await prepared(db, "^select 2$")).toHaveLength(1);
});

test("a connection keeps at most `maxPrepared` statements, the most recently used", async () => {
  const db = database().open({ maxPrepared: 10 });
  for (let i = 0; i < 40; i++) expect(await db.row(anon, `select ${i} as n`)).toEqual([String(i)]);
  expect(await prepared(db)).toHaveLength(10);
  expect(await prepared(db, "select 39 as n")).toHaveLength(1);
  expect(await prepared(db, "select 1 as n")).toHaveLength(0);
  for (let i = 0; i < 40; i += 3) expect(await db.row(anon, `select ${i} as n`)).toEqual([String(i)]);
});

test("maxPrepared may be lower than the number of statements in a transaction", async () => {
  const db = database().open({ maxPrepared: 1 });
  for (let i = 0; i < 3; i++)
    expect(await db.run(anon, ["select 1", "select 2", "select 1", "select 3"], { snapshot: i === 1 })).toEqual([
      [["1"]],
      [["2"]],
      [["1"]],
      [["3"]],
    ]);
});

test("after errors a connection still keeps at most `maxPrepared` statements", async () => {
  const db = database().open({ maxPrepared: 5 });
  // After an error Postgres skips the following messages, so that statements to be closed remain.
  const failing = [
    () => db.run(identityOf("nobody_x"), ["select 1 as unknown_role"]),
    () => db.run(anon, ["select 1 / 0"]),
    () => db.run(anon, ["select nonsense"]),
    () => db.run(anon, ["select 1 / 0", "select 1 as skipped", "select 2 as skipped"]),
  ];
  for (let round = 0; round < 3; round++) {
    for (const fail of failing) {
      await expect(fail()).rejects.toThrow();
      for (let i = 0; i < 7; i++) expect(await db.row(anon, `select ${i} as n`)).toEqual([String(i)]);
    }
  }
  expect((await prepared(db)).length).toBeLessThanOrEqual(5);
});

test("a statement that has failed can be executed again", async () => {
  const db = database().open();
  const text = "select 1 / $1::int";
  for (let i = 0; i < 3; i++) {
    await expect(db.row(anon, text, "0")).rejects.toMatchObject({ code: "22012" });
    expect(await db.row(anon, text, "1")).toEqual(["1"]);
  }
  await expect(db.row(anon, "select more from changing")).rejects.toMatchObject({ code: "42703" });
  await database().owner.query("alter table changing add column more text default 'more'");
  expect(await db.row(anon, "select more from changing")).toEqual(["more"]);
  await database().owner.query("alter table changing drop column more");
});

test("maxPrepared 0 prepares nothing, for poolers without prepared statements", async () => {
  const db = database().open({ maxPrepared: 0 });
  for (const snapshot of [false, true])
    expect(await db.run(ada, ["select 1", ["select $1::text", "x"]], { snapshot })).toEqual([[["1"]], [["x"]]]);
  await expect(db.run(ada, ["select 1 / 0"])).rejects.toMatchObject({ code: "22012" });
  expect(await prepared(db)).toEqual([]);
});

test("a statement of over 10,000 characters is executed without being kept", async () => {
  const db = database().open();
  const long = `select ${Array.from({ length: 2000 }, (_, n) => n).join(" + ")}`;
  for (let i = 0; i < 3; i++) expect(await db.row(anon, `${long} + ${i}`)).toEqual([String(1_999_000 + i)]);
  expect(await prepared(db, "1998 . 1999")).toEqual([]);
  expect(await prepared(db, "set_config")).toHaveLength(1);
});
