import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { Slot } from "../../db/admission/admission.ts";
import { Code } from "../../db/catalog/code.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { RunOptions } from "../../db/transaction/transaction.ts";
import { Pace } from "../../db/transaction/transaction-plan.ts";
import { DatabaseProxy } from "../support/database-proxy.ts";
import { samples } from "../support/samples.ts";
import {
  ada,
  admissionTo,
  anon,
  bob,
  identityOf,
  NO_CODE,
  type TestTransactions,
  useTransactionsDatabase,
} from "../support/transactions.ts";

const database = useTransactionsDatabase(`
  create table notes (id int primary key, author text, text text);
  insert into notes values (1, '1', 'by Ada'), (2, '2', 'by Bob'), (3, null, 'anonymous');
  alter table notes enable row level security;
  create policy "authors read their own" on notes
    using (author is null or author = current_setting('request.jwt.claims', true)::json ->> 'sub');
  create table held (id int);
  grant all on notes, held to anon, authenticated;`);

/** No read is too slow to share a connection. */
const SHARED = { sharedReads: 10_000 };

function open(options: Parameters<ReturnType<typeof database>["open"]>[0] = {}): TestTransactions {
  const pool = { max: 10, ...options.pool };
  const admission = admissionTo(pool.max, pool.connectionTimeoutMillis);
  const db = database().open({ ...SHARED, admission, ...options, pool });
  db.transactions.follow(NO_CODE);
  return db;
}

const READ = { isRead: true };

type Read = readonly [identity: Identity, text: string, ...values: (string | null)[]];

/** Runs reads that arrive together. */
const together = (db: TestTransactions, reads: readonly Read[]) =>
  Promise.allSettled(reads.map(([identity, ...statement]) => db.run(identity, [statement], READ)));

/** The single values of reads that succeeded; the errors of the others. */
const outcomes = async (db: TestTransactions, reads: readonly Read[]) =>
  (await together(db, reads)).map((each) => (each.status === "fulfilled" ? each.value[0]?.[0]?.[0] : each.reason));

const PID = "select pg_backend_pid()";
const times = (count: number, read: Read): Read[] => Array.from({ length: count }, () => read);

test("up to eight reads that arrive together share a connection, with one round trip", async () => {
  const db = open();
  const pids = await outcomes(db, times(17, [anon, PID]));
  const shared = Map.groupBy(pids, String)
    .values()
    .map(({ length }) => length)
    .toArray();
  expect(shared.toSorted()).toEqual([1, 8, 8]);
  expect(db.transactions.sharedReads).toBe(16);
});

const TRANSACTION = "select virtualtransaction from pg_locks where pid = pg_backend_pid() limit 1";

test("each read has its own transaction, also those of one caller", async () => {
  const db = open();
  const transactions = await outcomes(
    db,
    [ada, ada, bob, anon].map((each) => [each, TRANSACTION]),
  );
  expect(new Set(transactions).size).toBe(4);
  expect(db.transactions.syncs).toBe(4);
});

test("each request of one caller has its own path, headers and time zone", async () => {
  const db = open();
  const NAMES = ["request.method", "request.path", "request.headers", "request.cookies", "timezone"];
  const TEXT = `select json_build_array(${NAMES.map((name) => `current_setting('${name}')`)})`;
  const from = (path: string, zone: string): Identity => ({
    ...ada,
    request: { method: path, path, headers: `{"x":"${path}"}`, cookies: `{"y":"${path}"}` },
    settings: { fixed: [], given: [["timezone", zone]] },
  });
  const seen = await outcomes(db, [
    [from("/a", "UTC"), TEXT],
    [from("/b", "Asia/Tokyo"), TEXT],
    [from("/b", "Asia/Tokyo"), TEXT],
    [from("/c", "UTC"), TEXT],
  ]);
  const row = (path: string, zone: string) => [path, path, `{"x":"${path}"}`, `{"y":"${path}"}`, zone];
  expect(seen.map((text) => JSON.parse(text))).toEqual([
    row("/a", "UTC"),
    row("/b", "Asia/Tokyo"),
    row("/b", "Asia/Tokyo"),
    row("/c", "UTC"),
  ]);
  expect(db.transactions.sharedReads).toBe(4);
});

test("a read that arrives alone shares nothing", async () => {
  const db = open();
  await outcomes(db, [[anon, PID]]);
  await outcomes(db, [[anon, PID]]);
  expect(db.transactions.sharedReads).toBe(0);
});

test("each read has the role, the claims, the headers and the settings of its own caller", async () => {
  const db = open();
  const NAMES = ["request.jwt.claims", "request.path", "request.headers", "search_path", "statement_timeout"];
  const TEXT = `select json_build_array(current_user, ${NAMES.map((name) => `current_setting('${name}', true)`)})`;
  const from = (identity: Identity, path: string): Identity => ({
    ...identity,
    request: { ...identity.request, path, headers: `{"x-path":"${path}"}` },
    settings: { fixed: [["search_path", path.slice(1)]], given: [] },
  });
  const seen = await outcomes(db, [
    [from(ada, "/a"), TEXT],
    [from(anon, "/b"), TEXT],
    [from(bob, "/c"), TEXT],
    [from(ada, "/d"), TEXT],
  ]);
  const row = (role: string, sub: string | undefined, path: string) => [
    role,
    JSON.stringify({ ...(sub && { sub }), role }),
    path,
    `{"x-path":"${path}"}`,
    path.slice(1),
    "10s",
  ];
  expect(seen.map((text) => JSON.parse(text))).toEqual([
    row("authenticated", "1", "/a"),
    row("anon", undefined, "/b"),
    row("authenticated", "2", "/c"),
    row("authenticated", "1", "/d"),
  ]);
  expect(db.transactions.sharedReads).toBe(4);
});

test("a request whose settings are wrong fails alone", async () => {
  const db = open();
  const inZone = (zone: string): Identity => ({ ...ada, settings: { fixed: [], given: [["timezone", zone]] } });
  const zones = await outcomes(
    db,
    ["UTC", "Nowhere", "Asia/Tokyo"].map((zone): Read => [inZone(zone), "select current_setting('timezone')"]),
  );
  expect(zones).toEqual(["UTC", expect.objectContaining({ code: "22023" }), "Asia/Tokyo"]);
});

test("an error fails only its own read", async () => {
  const db = open();
  const reads: Read[] = [
    [anon, "select 1"],
    [anon, "select 1 / 0"],
    [identityOf("unknown_role"), "select 2"],
    [anon, "select 3"],
  ];
  const failed = [expect.objectContaining({ code: "22012" }), expect.objectContaining({ code: "22023" })];
  for (let i = 0; i < 3; i++) expect(await outcomes(db, reads)).toEqual(["1", ...failed, "3"]);
});

test("a statement that a failed read was to prepare is prepared for the others", async () => {
  const db = open({ pool: { max: 1 } });
  // The role is set before the statement is parsed.
  const unknown = { ...anon, settings: { fixed: [["default_table_access_method", "unknown"]], given: [] } } as const;
  const results = await outcomes(db, [[unknown, "select 'new'"], ...times(3, [anon, "select 'new'"])]);
  expect(results).toEqual([expect.objectContaining({ code: "22023" }), "new", "new", "new"]);
  // Those that failed too are run again.
  expect(db.transactions.syncs).toBe(7);
});

test("a statement that failed reads were to close and to prepare again can be executed", async () => {
  const db = open({ pool: { max: 1 }, maxPrepared: 6 });
  const unknown = { ...anon, settings: { fixed: [["timezone", "nowhere"]], given: [] } } as const;
  for (let i = 0; i < 4; i++) await outcomes(db, [[anon, `select ${i}`]]);
  await outcomes(db, [[unknown, "select 3"]]);
  // The list of the connection is full: the first of these closes `select 0`, which the second prepares again.
  const failed = await outcomes(db, [
    [unknown, "select 4"],
    [unknown, "select 0"],
  ]);
  expect(failed).toEqual([expect.objectContaining({ code: "22023" }), expect.objectContaining({ code: "22023" })]);
  expect(await outcomes(db, [[anon, "select 0"]])).toEqual(["0"]);
});

test("reads whose plan is out of date are run again", async () => {
  await database().owner.query("create table changing (a int); grant all on changing to anon");
  const db = open({ pool: { max: 1 } });
  const columns = async () =>
    (await together(db, times(4, [anon, "select * from changing right join (select 1) as one on true"]))).map((each) =>
      each.status === "fulfilled" ? each.value[0]![0]!.length : each.reason,
    );
  expect(await columns()).toEqual([2, 2, 2, 2]);
  await database().owner.query("alter table changing add column b int");
  expect(await columns()).toEqual([3, 3, 3, 3]);
});

test("the limit on a result counts for each read, and refuses only the one that exceeds it", async () => {
  const db = open({ maxResultBytes: 100_000 });
  const lengths = async (sizes: number[]) =>
    (
      await outcomes(
        db,
        sizes.map((size): Read => [anon, "select repeat('x', $1::int)", String(size)]),
      )
    ).map((outcome) => outcome.length ?? outcome);
  expect(await lengths([90_000, 90_000, 90_000, 90_000])).toEqual([90_000, 90_000, 90_000, 90_000]);
  const tooLarge = expect.objectContaining({ status: 400 });
  expect(await lengths([10, 200_000, 90_000, 20])).toEqual([10, tooLarge, 90_000, 20]);
  expect(await lengths([200_000, 10, 200_000, 20])).toEqual([tooLarge, 10, tooLarge, 20]);
});

/** Holds a lock that reads of `held` wait for, until `release`. */
async function hold() {
  const { owner } = database();
  await owner.query("begin");
  await owner.query("lock table held in access exclusive mode");
  let isHeld = true;
  const release = async () => {
    if (isHeld) await owner.query("commit");
    isHeld = false;
  };
  onTestFinished(release);
  return release;
}

/** The server processes that wait for the lock. */
const waiting = (): Promise<number[]> =>
  database().values("select pid from pg_locks where not granted and relation = 'held'::regclass");

const untilOneWaits = () => expect.poll(waiting).toHaveLength(1);

const HELD = "select count(*) from held";

test.each(["terminated", "reset"])("reads whose connection is %s are run again, each on its own", async (how) => {
  const proxy = await new DatabaseProxy(database().logins.data).start();
  const db = open({ pool: { connectionString: proxy.url } });
  const release = await hold();
  const results = outcomes(db, [
    [anon, "select 1"],
    [anon, HELD],
    [anon, "select 2"],
    [ada, "select text from notes where id = 1"],
  ]);
  await untilOneWaits();
  if (how === "reset") proxy.reset();
  else await database().owner.query("select pg_terminate_backend($1)", await waiting());
  await release();
  expect(await results).toEqual(["1", "0", "2", "by Ada"]);
});

test("a read that loses its connection twice fails, and the others do not", async () => {
  const db = open();
  const release = await hold();
  const results = outcomes(db, [
    [anon, HELD],
    [anon, "select 1"],
    [anon, "select 2"],
  ]);
  for (let i = 0; i < 2; i++) {
    await untilOneWaits();
    await database().owner.query("select pg_terminate_backend(pid, 10000) from unnest($1::int[]) as pid", [
      await waiting(),
    ]);
  }
  await release();
  expect(await results).toEqual([expect.objectContaining({ code: "57P01" }), "1", "2"]);
});

test("reads do not wait for one that is slower than expected: they are run again on other connections", async () => {
  const db = open({ sharedReads: 50 });
  const release = await hold();
  const [first, ...others] = [HELD, "select 1", "select 1 / 0", "select 2"].map((text, i) =>
    outcomes(db, [[i === 0 ? ada : anon, text]]),
  );
  expect((await Promise.all(others)).flat()).toEqual(["1", expect.objectContaining({ code: "22012" }), "2"]);
  await untilOneWaits();
  await release();
  expect(await first).toEqual(["0"]);
  expect(db.transactions.sharedReads).toBe(4);
  expect(await outcomes(db, times(4, [anon, "select 1"]))).toEqual(["1", "1", "1", "1"]);
});

test("reads for which there is no other connection in time get their results from the first", async () => {
  const admission = admissionTo(1, 100);
  const db = open({ sharedReads: 50, pool: { max: 1 }, admission, statementTimeoutOf: () => 0 });
  const release = await hold();
  const results = outcomes(db, [
    [anon, "select 1"],
    [anon, HELD],
    [ada, "select 2"],
  ]);
  await expect.poll(() => admission.timeouts).toBe(1);
  await release();
  expect(await results).toEqual(["1", "0", "2"]);
});

test("the first copy of a read that was run again is cancelled when it takes long", async () => {
  const db = open({ sharedReads: 50, pool: { max: 2 } });
  const release = await hold();
  const controller = new AbortController();
  const { signal } = controller;
  const first = expect(db.run(anon, [HELD], { ...READ, signal })).rejects.toThrow("aborted");
  const second = expect(db.run(anon, [HELD], { ...READ, signal })).rejects.toThrow("aborted");
  // The second is run again, on the other connection. When both are aborted, its first copy remains.
  await expect.poll(waiting).toHaveLength(2);
  controller.abort();
  await Promise.all([first, second]);
  expect(await outcomes(db, [[anon, "select 1"]])).toEqual(["1"]);
  await expect.poll(waiting).toEqual([]);
  await release();
});

test("an aborted read is cancelled, and those that waited for it are not", async () => {
  const db = open({ sharedReads: 50, pool: { max: 1 }, statementTimeoutOf: () => 0 });
  const release = await hold();
  const controller = new AbortController();
  const aborted = expect(db.run(anon, [HELD], { ...READ, signal: controller.signal })).rejects.toThrow("aborted");
  const others = outcomes(db, [
    [anon, "select 1"],
    [ada, "select 2"],
  ]);
  await untilOneWaits();
  controller.abort();
  // The lock is still held: only a cancellation ends them.
  await aborted;
  expect(await others).toEqual(["1", "2"]);
  expect(db.transactions.sharedReads).toBe(3);
  await release();
});

test("reads that are all aborted are cancelled, and their connection can be used again", async () => {
  const db = open({ statementTimeoutOf: () => 0, pool: { max: 1 } });
  const release = await hold();
  const controllers = [new AbortController(), new AbortController(), new AbortController()];
  const aborted = controllers.map(({ signal }) =>
    expect(db.run(anon, [HELD], { ...READ, signal })).rejects.toThrow("aborted"),
  );
  await untilOneWaits();
  const pids = await waiting();
  for (const controller of controllers) controller.abort();
  // The lock is still held: only a cancellation ends them.
  await Promise.all(aborted);
  await release();
  expect(await outcomes(db, times(3, [anon, PID]))).toEqual(times(3, [anon, PID]).map(() => String(pids[0])));
  expect(db.transactions.sharedReads).toBe(6);
});

test("reads that are aborted before they are sent are not sent", async () => {
  const db = open();
  const signal = AbortSignal.abort();
  const aborted = [db.run(anon, [PID], { ...READ, signal }), db.run(anon, [PID], { ...READ, signal })];
  const other = outcomes(db, [[anon, "select 1"]]);
  for (const each of aborted) await expect(each).rejects.toThrow("aborted");
  expect(await other).toEqual(["1"]);
  expect(db.transactions.syncs).toBe(1);
});

test("a statement that exceeds its time fails alone", async () => {
  const db = open({ statementTimeoutOf: (role) => (role === "anon" ? 50 : 0) });
  const release = await hold();
  const results = outcomes(db, [
    [anon, HELD],
    [ada, "select 1"],
    [anon, HELD],
    [ada, "select 2"],
  ]);
  const cancelled = expect.objectContaining({ code: "57014" });
  expect(await results).toEqual([cancelled, "1", cancelled, "2"]);
  await release();
});

test.each<[string, readonly string[], RunOptions]>([
  ["what is not known to be a read", ["select 1"], {}],
  ["a read of several statements", ["select 1", "select 2"], READ],
  ["a read with an isolation level", ["select 1"], { ...READ, isolation: "serializable" }],
  ["a read that is rolled back", ["select 1"], { ...READ, rollback: true }],
  ["a read whose result is not limited", ["select 1"], { ...READ, unlimitedResult: true }],
  ["a read whose progress is reported", ["select 1"], { ...READ, onCompleted: () => {} }],
])("%s shares no connection", async (_what, statements, options) => {
  const db = open();
  await Promise.all([1, 2, 3].map(() => db.run(anon, statements, options)));
  expect(db.transactions.sharedReads).toBe(0);
});

test("a call of code shares no connection", async () => {
  const db = open();
  db.transactions.follow(new Code(["set_config"], false));
  await outcomes(db, times(3, [anon, "select set_config('app.left', 'behind', false)"]));
  expect(db.transactions.sharedReads).toBe(0);
  expect(await outcomes(db, times(3, [anon, "select current_setting('app.left', true)"]))).not.toContain("behind");
  expect(db.transactions.sharedReads).toBe(3);
});

test("a connection is cleaned before it is shared, if a new catalog says that it may be needed", async () => {
  const db = open({ pool: { max: 1 } });
  await db.row(anon, "select set_config('app.left', 'behind', false)");
  db.transactions.follow(new Code(["set_config"], false));
  const results = await outcomes(db, times(3, [anon, "select current_setting('app.left', true)"]));
  expect(results).not.toContain("behind");
  expect(db.transactions.sharedReads).toBe(3);
});

test("a connection is cleaned before its next use, if a read that was sent with repeated ones may have left state", async () => {
  const db = open({ pool: { max: 1 } });
  const first = outcomes(db, [[ada, "select set_config('app.left', 'behind', false)"]]);
  db.transactions.follow(new Code(["set_config"], false));
  const repeated = outcomes(db, [
    [anon, "select 1"],
    [anon, "select 1 / 0"],
  ]);
  expect(await first).toEqual(["behind"]);
  expect(await repeated).toEqual(["1", expect.objectContaining({ code: "22012" })]);
  expect(await outcomes(db, [[anon, "select current_setting('app.left', true)"]])).not.toContain("behind");
});

test.each([
  ["with the limit 0", { sharedReads: 0 }],
  ["with a limit that is shorter than they take", { sharedReads: 1e-6 }],
  ["before their first runs", { sharedReads: 10 }],
  ["without prepared statements, as behind some poolers", { maxPrepared: 0 }],
])("%s, reads share no connection", async (_when, options) => {
  const db = open(options);
  await outcomes(db, times(3, [anon, PID]));
  expect(db.transactions.sharedReads).toBe(0);
});

test("the pace of a read follows its last runs: one long run counts for several", () => {
  const pace = new Pace();
  const after = (...runs: number[]) => {
    for (const run of runs) pace.add(run);
    return Math.round(pace.milliseconds * 10) / 10;
  };
  expect(after()).toBe(10.5);
  expect(after(...Array(16).fill(1))).toBe(4.4);
  expect(after(...Array(84).fill(1))).toBe(1);
  expect(after(60_000)).toBe(7.2);
  expect(after(...Array(8).fill(1))).toBe(4.7);
  expect(after(...Array(8).fill(1))).toBe(3.2);
});

test("reads that get no connection in time fail with 504", async () => {
  const db = open({ pool: { max: 1, connectionTimeoutMillis: 1000 }, statementTimeoutOf: () => 0 });
  const release = await hold();
  const first = outcomes(db, [[anon, HELD]]);
  await untilOneWaits();
  const busy = expect.objectContaining({ status: 504 });
  expect(await outcomes(db, times(3, [anon, "select 1"]))).toEqual([busy, busy, busy]);
  await release();
  expect(await first).toEqual(["0"]);
  expect(await outcomes(db, times(3, [anon, "select 1"]))).toEqual(["1", "1", "1"]);
});

test("reads fail with 503 when the database is not available", async () => {
  const db = open({ pool: { connectionString: "postgres://unknown@127.0.0.1:1/none" } });
  const unavailable = expect.objectContaining({ status: 503 });
  expect(await outcomes(db, times(3, [anon, "select 1"]))).toEqual([unavailable, unavailable, unavailable]);
});

test("when all reads have ended, all connections are free", async () => {
  const admission = admissionTo(3);
  const db = open({ pool: { max: 3 }, maxResultBytes: 100_000, admission });
  const aborted = AbortSignal.abort();
  await Promise.all([
    outcomes(db, [
      ...times(5, [anon, "select 1"]),
      ...times(5, [anon, "select 1 / 0"]),
      ...times(5, [anon, "select repeat('x', 200000)"]),
    ]),
    ...[1, 2, 3, 4, 5].map(() => expect(db.run(anon, [PID], { ...READ, signal: aborted })).rejects.toThrow("aborted")),
  ]);
  await expect.poll(async () => db.transactions.use.available === (await db.pids()).length).toBe(true);
  expect(db.transactions.use.waiting).toBe(0);
  const entered = [1, 2, 3, 4].map(() => admission.enter(null));
  expect(entered.map((slot) => slot instanceof Slot)).toEqual([true, true, true, false]);
  for (const slot of entered) admission.leave(await slot);
});

test("when all connections are in use, reads that wait share the next one that is free", async () => {
  const db = open({ pool: { max: 1 } });
  const release = await hold();
  const first = outcomes(db, [[anon, HELD]]);
  await untilOneWaits();
  const others = times(9, [anon, PID]).map((read) => outcomes(db, [read]));
  await release();
  await first;
  expect(new Set((await Promise.all(others)).flat()).size).toBe(1);
  expect(db.transactions.sharedReads).toBe(8);
});

test("reads on one connection leave the other connections free", async () => {
  const db = open({ pool: { max: 2 } });
  const release = await hold();
  const shared = outcomes(db, times(4, [anon, HELD]));
  await untilOneWaits();
  expect(await db.row(ada, "select 'runs'")).toEqual(["runs"]);
  await release();
  expect(await shared).toEqual(["0", "0", "0", "0"]);
});

const STATEMENTS: readonly (readonly [text: string, ...values: string[]])[] = [
  ["select string_agg(text, ',' order by id) from notes"],
  ["select current_user || current_setting('request.jwt.claims', true)"],
  ["select $1::int / $2::int", "7", "2"],
  ["select $1::int / $2::int", "7", "0"],
  ["select length(repeat('x', $1::int))", "70000"],
  ["select repeat('x', $1::int)", "70000"],
  ["select repeat('x', $1::int)", "150000"],
  ["select no_such_column from notes"],
  ["select 'not a number'::int"],
];
const IDENTITIES = [ada, bob, anon, identityOf("unknown_role")];
const GONE = new Error("the client has gone");

const reads = fc.array(
  fc.record({
    identity: fc.constantFrom(...IDENTITIES),
    statement: fc.constantFrom(...STATEMENTS),
    abort: fc.constantFrom("never", "never", "never", "before", "during"),
  }),
  { minLength: 2, maxLength: 12 },
);

/** The outcome of an aborted read depends on when the abort arrives: it succeeds, or fails for one of two reasons. */
test("reads in any mixture answer as on connections of their own, whatever is aborted meanwhile", async () => {
  const limit = { maxResultBytes: 100_000 };
  const [shared, alone] = [open({ ...limit, pool: { max: 3 } }), open({ ...limit, sharedReads: 0, pool: { max: 3 } })];
  await fc.assert(
    fc.asyncProperty(reads, async (mixture) => {
      const answers = (db: TestTransactions) =>
        Promise.allSettled(
          mixture.map(async ({ identity, statement, abort }) => {
            const controller = new AbortController();
            if (abort === "before") controller.abort(GONE);
            if (abort === "during") setImmediate(() => setImmediate(() => controller.abort(GONE)));
            const answer = db.run(identity, [statement], { ...READ, signal: controller.signal });
            return abort === "during" ? answer.then(String, String).then(() => "ended") : answer;
          }),
        );
      expect(await answers(shared)).toEqual(await answers(alone));
    }),
    { numRuns: samples(100) },
  );
  expect(shared.transactions.sharedReads).toBeGreaterThan(samples(100));
});
