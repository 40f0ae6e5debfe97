import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { buildCatalog } from "../../db/catalog/build.ts";
import { type Code, EXECUTORS } from "../../db/catalog/code.ts";
import { parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import type { Identity } from "../../db/identity.ts";
import { anon, NO_CODE, type TestTransactions, useTransactionsDatabase } from "../support/transactions.ts";

/** Statements that leave state on a connection. */
const ACTIONS = {
  setting: "select set_config('app.left', 'behind', false)",
  timeout: "set session statement_timeout = '7s'",
  isolation: "set session characteristics as transaction isolation level serializable",
  role: "select set_config('role', 'authenticated', false)",
  search: "set session search_path = pg_temp",
  lock: "select pg_advisory_lock(4711)",
  table: "create temp table if not exists left_behind (id int)",
  function: "create or replace function pg_temp.left_behind() returns int language sql return 1",
  listen: "listen left_behind",
  cursor: "declare left_behind cursor with hold for select 1",
  statement: "prepare left_behind as select 1",
  replaced: `do $r$ declare name text; begin
    for name in select s.name from pg_prepared_statements as s loop
      execute format('deallocate %I', name);
      execute format('prepare %I as select ''replaced''', name);
    end loop; end $r$`,
  deallocate: "deallocate all",
  sequence: "select nextval('numbers')",
  seed: "select setseed(0.5)",
} as const;

/** Statements that run `act`, by where the DBA's code is. */
const PLACES = {
  function: "select act()",
  policy: "select * from guarded",
  computed: "select t.computed from plain as t",
  view: "select * from acting",
  domain: "select 'x'::checked",
  default: "insert into filled (text) values ('x')",
  trigger: "insert into plain values (1)",
  "deferred trigger": "insert into late values (1)",
  "deferred trigger that defers": "insert into later values (1)",
} as const;

const database = useTransactionsDatabase(`
  create sequence numbers;
  create function act() returns boolean language plpgsql volatile as $$
  declare action text;
  begin
    foreach action in array string_to_array(current_setting('request.path'), ';;') loop execute action; end loop;
    return true;
  end $$;
  create function act_later() returns trigger language plpgsql as $$ begin perform act(); return null; end $$;
  create function defer() returns trigger language plpgsql as $$
  begin
    set constraints all deferred;
    insert into late values (2);
    return null;
  end $$;

  create table guarded (id int);
  insert into guarded values (1);
  alter table guarded enable row level security;
  create policy acts on guarded for select using (act());
  create table plain (id int);
  insert into plain values (0);
  create function computed(plain) returns boolean language sql stable return act();
  create trigger acts after insert on plain for each row execute function act_later();
  create view acting as select id, act() from plain;
  create domain checked as text check (act());
  create table filled (text text, done boolean default act());
  create table late (id int);
  create constraint trigger acts after insert on late deferrable initially deferred
    for each row execute function act_later();
  create table later (id int);
  create constraint trigger defers after insert on later deferrable initially deferred
    for each row execute function defer();

  create function last_number() returns text language plpgsql as $$
  begin return lastval(); exception when object_not_in_prerequisite_state then return 'none'; end $$;
  grant all on all tables in schema public to anon, authenticated;
  grant usage on sequence numbers to anon, authenticated;
  grant execute on all functions in schema public to anon, authenticated;
  do $$ begin execute format('grant temp on database %I to public', current_database()); end $$;`);

let code: Code;
beforeAll(async () => {
  const scope = { schemas: ["public"], extraSearchPath: [] };
  const rows = await parseCatalog(await readCatalog(database().owner as never, scope));
  code = (await buildCatalog(rows, 1)).code;
});

const STATE = `
  select nullif(current_setting('app.left', true), ''), current_setting('default_transaction_isolation'),
    current_setting('search_path'),
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
    (select count(*) from pg_class where relnamespace = pg_my_temp_schema())
      + (select count(*) from pg_proc where pronamespace = pg_my_temp_schema()),
    (select count(*) from pg_listening_channels()), (select count(*) from pg_cursors where is_holdable),
    (select count(*) from pg_prepared_statements where from_sql), public.last_number()`;
const CLEAN = [null, "read committed", "public, extensions", "0", "0", "0", "0", "0", "none"];

const acting = (actions: readonly (keyof typeof ACTIONS)[]): Identity => ({
  ...anon,
  request: { ...anon.request, path: actions.map((action) => ACTIONS[action]).join(";;") },
});

/** How a transaction ends after the code has run. */
const ENDINGS = {
  success: (db, identity, text) => db.run(identity, [text]),
  snapshot: (db, identity, text) => db.run(identity, [text, "select 1"], { snapshot: true }),
  rollback: (db, identity, text) => db.run(identity, [text], { rollback: true }),
  error: (db, identity, text) => db.run(identity, [text, "select 1 / 0"]),
  "error in a snapshot": (db, identity, text) => db.run(identity, [text, "select 1 / 0"], { snapshot: true }),
  timeout: (db, identity, text) =>
    db.run(identity, [text, "set local statement_timeout = 1", "select pg_sleep(60)"], {}),
  cancel: async (db, identity, text) => {
    const controller = new AbortController();
    const run = db.run(identity, [text, "select pg_sleep(60)"], { signal: controller.signal });
    const ended = run.catch(() => {});
    await Promise.race([db.sleeping(), ended]);
    controller.abort(new Error("the client has left"));
    await run;
  },
} satisfies Record<string, (db: TestTransactions, identity: Identity, text: string) => Promise<unknown>>;

const keys = <T extends object>(object: T) => Object.keys(object) as (keyof T)[];

test("nothing that code does survives its transaction, wherever it is called and however the transaction ends", {
  timeout: 120_000,
}, async () => {
  const db = database().open();
  db.transactions.follow(code);
  const sample = fc.record({
    actions: fc.uniqueArray(fc.constantFrom(...keys(ACTIONS)), { minLength: 1, maxLength: 4 }),
    place: fc.constantFrom(...keys(PLACES)),
    ending: fc.constantFrom(...keys(ENDINGS)),
  });
  await fc.assert(
    fc.asyncProperty(sample, async ({ actions, place, ending }) => {
      await ENDINGS[ending](db, acting(actions), PLACES[place]).catch(() => {});
      expect(await db.row(anon, STATE)).toEqual(CLEAN);
    }),
    { numRuns: 60 },
  );
});

/** What STATE shows. The other actions have tests of their own below, or end with the settings of the next transaction. */
const SHOWN = ["setting", "isolation", "search", "lock", "table", "function", "listen", "cursor", "sequence"] as const;

test.each([...SHOWN, "statement"] as const)("without cleaning, the next caller would see: %s", async (action) => {
  const db = database().open();
  db.transactions.follow(NO_CODE);
  await db.run(acting([action]), [PLACES.function]);
  expect(await db.row(anon, STATE)).not.toEqual(CLEAN);
});

test.each([
  [() => NO_CODE, true],
  [() => code, false],
] as const)("random numbers are predictable after setseed without cleaning only", async (known, isPredictable) => {
  const db = database().open();
  db.transactions.follow(known());
  const random = async () => {
    await db.run(acting(["seed"]), [PLACES.function]);
    return (await db.row(anon, "select random()"))[0];
  };
  const [first, second] = [await random(), await random()];
  expect(first === second).toBe(isPredictable);
});

test("a prepared statement of the service that code has replaced is not used", async () => {
  const db = database().open();
  db.transactions.follow(code);
  const read = "select id from plain where id = 0";
  expect(await db.row(anon, read)).toEqual(["0"]);
  await db.run(acting(["replaced"]), [PLACES.function]);
  expect(await db.row(anon, read)).toEqual(["0"]);
});

test("a statement that uses no code is not followed by a cleaning", () => {
  const without = [
    "select * from plain",
    "select id from users where name = 'x' order by id",
    "select a.title, public.articles_summary(a) from articles as a where a.author_id = (select auth.uid())",
    "select * from search('x')",
  ];
  expect(without.filter((text) => code.isIn(text))).toEqual([]);
  expect(Object.values(PLACES).filter((text) => !code.isIn(text))).toEqual([]);
});

test("the functions of the service do not execute text of others, so a database without functions needs no check", async () => {
  const executors = await database().owner.query(EXECUTORS);
  expect(executors.rows.map(({ name }) => name)).toEqual(["act()"]);
});
