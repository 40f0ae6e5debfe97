import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { buildCatalog } from "../../db/catalog/build.ts";
import type { Code } from "../../db/catalog/code.ts";
import { EXECUTORS } from "../../db/catalog/code-rows.ts";
import { parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import { samples } from "../support/samples.ts";
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
  "immutable function": "select act_purely(1)",
  policy: "select * from guarded",
  computed: "select t.computed from plain as t",
  view: "select * from acting",
  domain: "select 'x'::checked",
  default: "insert into filled (text) values ('x')",
  trigger: "insert into plain values (1)",
  "deferred trigger": "insert into late values (1)",
  "deferred trigger that defers": "insert into deferring values (1)",
  check: "insert into checking values (1)",
  "generated column": "insert into generating values (1)",
  "index expression": "insert into indexed values (1)",
  "policy of writes": "insert into restricted values (1)",
  rule: "insert into ruled values (1)",
  cascade: "update referenced set id = 1 - id",
  partition: "insert into parted values (1)",
  "child of a partitioned table with a trigger": "insert into triggered_1 values (1)",
  "writable view": "insert into plain_view values (1)",
  "instead of": "insert into replacing values (1)",
  "writing query": "with written as (insert into plain values (1) returning id) select id from written",
  upsert: "insert into upserted values (1) on conflict (id) do update set id = 1",
} as const;

/** Writes that run no code. */
const PLAIN_WRITES = {
  insert: "insert into numbered (text) values ('x') returning id",
  serial: "insert into counted (text) values ('x') returning id",
  upsert:
    "insert into numbered (id, text) overriding user value values (1, 'x') on conflict (id) do update set text = 'y'",
  update: "update counted set text = 'y' where id > 0",
  delete: "delete from numbered where id = 7",
  view: "insert into numbered_view (text) values ('x')",
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
  create table deferring (id int);
  create constraint trigger defers after insert on deferring deferrable initially deferred
    for each row execute function defer();

  create function act_purely(id int) returns int language plpgsql immutable as $$ begin perform act(); return id; end $$;
  create table checking (id int check (act_purely(id) > 0));
  create table generating (id int, double int generated always as (act_purely(id)) stored);
  create table indexed (id int);
  create index on indexed (act_purely(id));
  create table restricted (id int);
  alter table restricted enable row level security;
  create policy acts on restricted for insert with check (act());
  create table ruled (id int);
  create rule acts as on insert to ruled do also select act();
  create table referenced (id int primary key);
  create table referring (id int references referenced on update cascade);
  create trigger acts after update on referring for each row execute function act_later();
  create table parted (id int) partition by list (id);
  create table parted_1 partition of parted for values in (1);
  create trigger acts after insert on parted_1 for each row execute function act_later();
  create table triggered (id int) partition by list (id);
  create table triggered_1 partition of triggered for values in (1);
  create trigger acts after insert on triggered for each row execute function act_later();
  create view plain_view as select id from plain;
  create view replacing as select 1 as id;
  create function act_instead() returns trigger language plpgsql as $$ begin perform act(); return new; end $$;
  create trigger acts instead of insert on replacing for each row execute function act_instead();
  create table upserted (id int primary key);
  create trigger acts after update on upserted for each row execute function act_later();

  create table numbered (id int generated always as identity (start with 1000) primary key, text text check (text <> ''));
  create table counted (id serial primary key, text text default 'x', shout text generated always as (upper(text)) stored);
  create view numbered_view as select id, text from numbered;
  create table changing (id int);
  create function sets_setting() returns text language plpgsql stable as $$
  begin return set_config('app.left', 'behind', false); end $$;
  create function locks_row(plain) returns boolean language plpgsql immutable as $$
  begin perform pg_advisory_lock(4711); return true; end $$;
  create table seen_by_setting (id int);
  insert into seen_by_setting values (1);
  alter table seen_by_setting enable row level security;
  create policy sets on seen_by_setting for select using (sets_setting() is not null);

  create function last_number() returns text language plpgsql as $$
  begin return lastval(); exception when object_not_in_prerequisite_state then return 'none'; end $$;
  create function number_of_new() returns int language plpgsql as $$
  begin insert into numbered (text) values ('x'); return lastval(); end $$;
  grant all on all tables in schema public to anon, authenticated;
  insert into referenced values (0);
  insert into referring values (0);
  insert into upserted values (1);
  grant usage on all sequences in schema public to anon, authenticated;
  grant execute on all functions in schema public to anon, authenticated;
  do $$ begin execute format('grant temp on database %I to public', current_database()); end $$;`);

let code: Code;
beforeAll(async () => {
  code = await currentCode();
});

async function currentCode(): Promise<Code> {
  const scope = { schemas: ["public"], extraSearchPath: [] };
  const rows = await parseCatalog(await readCatalog(database().owner as never, scope));
  return (await buildCatalog(rows, 1)).code;
}

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

/**
 * Whether PostgreSQL survives it: an immutable function of constants runs while its statement is planned, and if it deallocates that
 * statement, the server reads freed memory and crashes (seen with 18 and 15).
 */
const isSafe = ({ actions, place }: { actions: (keyof typeof ACTIONS)[]; place: keyof typeof PLACES }) =>
  place !== "immutable function" || !actions.some((action) => action === "deallocate" || action === "replaced");

test("nothing that code does survives its transaction, wherever it is called and however the transaction ends", async () => {
  const db = database().open();
  db.transactions.follow(code);
  const sample = fc
    .record({
      actions: fc.uniqueArray(fc.constantFrom(...keys(ACTIONS)), { minLength: 1, maxLength: 4 }),
      place: fc.constantFrom(...keys(PLACES)),
      ending: fc.constantFrom(...keys(ENDINGS)),
    })
    .filter(isSafe);
  await fc.assert(
    fc.asyncProperty(sample, async ({ actions, place, ending }) => {
      await ENDINGS[ending](db, acting(actions), PLACES[place]).catch(() => {});
      expect(await db.row(anon, STATE)).toEqual(CLEAN);
    }),
    { numRuns: samples(60) },
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

test("code that runs after writes without code sees nothing of their sequences", async () => {
  const db = database().open();
  db.transactions.follow(code);
  const sample = fc.record({
    writes: fc.array(fc.constantFrom(...keys(PLAIN_WRITES)), { minLength: 1, maxLength: 3 }),
    ending: fc.constantFrom("success", "snapshot", "rollback", "error"),
    isFramed: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(sample, async ({ writes, ending, isFramed }) => {
      for (const write of writes) await ENDINGS[ending](db, anon, PLAIN_WRITES[write]).catch(() => {});
      const [[last]] = (await db.run(anon, ["select last_number()", "select 1"], { snapshot: isFramed })) as [
        string[][],
      ];
      expect(last).toEqual(["none"]);
    }),
    { numRuns: samples(40) },
  );
});

test("without code known, the next caller would see the sequences of a write", async () => {
  const db = database().open();
  db.transactions.follow(NO_CODE);
  const [[id]] = (await db.run(anon, [PLAIN_WRITES.insert])) as [string[][]];
  expect(await db.row(anon, "select last_number()")).toEqual(id);
});

test("a function that writes and reads the number of its row works", async () => {
  const db = database().open();
  db.transactions.follow(code);
  const [id, last] = await db.row(anon, "select number_of_new(), last_number()");
  expect(id).toBe(last);
});

test("a connection is cleaned of a trigger that the catalog did not know, before its next use after the reload", async () => {
  const db = database().open();
  db.transactions.follow(await currentCode());
  const { owner } = database();
  await owner.query("create trigger acts after insert on changing for each row execute function act_later()");
  await db.run(acting(["lock", "setting", "table", "listen"]), ["insert into changing values (1)"]);
  const reloaded = await currentCode();
  db.transactions.follow(reloaded);
  expect(await db.row(anon, STATE)).toEqual(CLEAN);
  expect(reloaded.isIn("insert into changing values (1)")).toBe(true);
  expect(reloaded.isIn("select id from changing")).toBe(false);
});

test.each(["select sets_setting()", "select locks_row(p) from plain as p", "select * from seen_by_setting"])(
  "a function that is declared stable or immutable, and leaves state, leaves none for the next caller: %s",
  async (text) => {
    const db = database().open();
    db.transactions.follow(code);
    await db.run(anon, [text]);
    expect(await db.row(anon, STATE)).toEqual(CLEAN);
  },
);

test("a write without code is not followed by a cleaning", () => {
  const plain = [
    ...Object.values(PLAIN_WRITES),
    'insert into "public"."articles" ("title", "content") select x.title, x.content from json_to_record($1) as x(title text, content text)',
    "update articles set status = 'PUBLISHED' where id = 1",
    "delete from articles where id = 1",
    "insert into comments (article_id, content) values (1, 'x')",
    "update comments set content = 'x'",
    "insert into article_translations (article_id, language, title) values (1, 'de', 'x')",
    "select id from articles for update",
  ];
  expect(plain.filter((text) => code.isIn(text))).toEqual([]);
});

test("commands that begin with a word of writes are code", () => {
  const commands = [
    "set app.x = '1'",
    "do $$ begin end $$",
    "select set_config('a.b', 'c', false)",
    "merge into plain using",
  ];
  expect(commands.filter((text) => !code.isIn(text))).toEqual([]);
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
