import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Identity } from "../../db/transaction/identity.ts";
import { Problem } from "../../problems/problem.ts";
import { ada, anon, bob, identityOf, useTransactionsDatabase } from "../support/transactions.ts";

const database = useTransactionsDatabase(`
  -- Counts what was tried: a sequence does not roll back.
  create sequence tries;
  grant usage on sequence tries to anon, authenticated;

  create table slots (id int primary key, slot int unique deferrable initially deferred);
  grant all on slots to anon;

  create table notes (text text);
  grant all on notes to anon;`);

const TRY = "select nextval('tries')";

/** How often `body` executed TRY. */
async function triesDuring(body: () => Promise<unknown>): Promise<number> {
  const count = async () => Number((await database().values("select last_value - (not is_called)::int from tries"))[0]);
  const before = await count();
  await body();
  return (await count()) - before;
}

const NAMES = [
  "request.jwt.claims",
  "request.method",
  "request.path",
  "request.headers",
  "request.cookies",
  "statement_timeout",
];
const SETTINGS = `select current_user, ${NAMES.map((name) => `current_setting('${name}', true)`)}`;

test("session settings apply to the statements and end with the transaction", async () => {
  const db = database().open({ statementTimeoutOf: () => 1234 });
  const identity: Identity = {
    caller: { role: "authenticated", claims: { sub: "1", name: "Ada ✓" }, expiresAt: null, refused: null },
    request: { method: "POST", path: "/rest/v1/users", headers: '{"accept":"text/plain"}', cookies: '{"a":"1"}' },
  };
  // `commit` ends the transaction before the last statement, which sees the state of the connection afterwards.
  const [during, , after] = await db.run(identity, [SETTINGS, "commit", SETTINGS]);
  const claims = '{"sub":"1","name":"Ada ✓","role":"authenticated"}';
  const headers = '{"accept":"text/plain"}';
  expect(during).toEqual([["authenticated", claims, "POST", "/rest/v1/users", headers, '{"a":"1"}', "1234ms"]]);
  const login = new URL(database().logins.data).username;
  expect(after).toEqual([[login, "", "", "", "", "", "0"]]);
});

test("the role is the caller's, regardless of the role in the claims", async () => {
  const db = database().open();
  const forged: Identity = { ...anon, caller: { ...anon.caller, claims: { role: "admin" } } };
  expect(await db.row(forged, "select current_user, auth.claims() ->> 'role'")).toEqual(["anon", "anon"]);
});

test("statements and values may contain text of any length and script", async () => {
  const db = database().open();
  for (const length of [0, 1, 1000, 1024, 1025, 16_384, 70_000]) {
    const text = "aé✓😀"
      .repeat(Math.ceil(length / 5))
      .slice(0, length)
      .toWellFormed();
    const size = String(Buffer.byteLength(text));
    const statements = [["select octet_length($1)", text] as const, `select octet_length('${text}')`];
    expect(await db.run(anon, statements)).toEqual([[[size]], [[size]]]);
  }
});

test("a batch that cannot be written has no effect on the next one", async () => {
  const db = database().open();
  let reads = 0;
  const values = {
    length: 1,
    // Read once for the check and once for writing.
    [Symbol.iterator]: () => {
      if (++reads > 1) throw new Error("out of memory");
      return ["x"][Symbol.iterator]();
    },
  };
  const statements = [TRY, { text: "select $1", values: values as unknown as string[] }];
  const written = statements.map((each) => (typeof each === "string" ? { text: each, values: [] } : each));
  const tries = await triesDuring(async () => {
    await expect(db.transactions.run(anon, written)).rejects.toThrow();
    expect(await db.row(bob, "select current_user, auth.uid()")).toEqual(["authenticated", "2"]);
  });
  expect([reads, tries]).toEqual([2, 0]);
});

test("policies of Supabase find who the caller is", async () => {
  const db = database().open();
  const { caller } = ada;
  const withEmail: Identity = { ...ada, caller: { ...caller, claims: { ...caller.claims, email: "ada@example.com" } } };
  const read = "select auth.jwt() = auth.claims(), auth.role(), auth.email()";
  expect(await db.row(withEmail, read)).toEqual(["t", "authenticated", "ada@example.com"]);
  expect(await db.row(anon, read)).toEqual(["t", "anon", null]);
  // Without a request.
  expect(await database().values("select auth.role()")).toEqual([null]);
});

test("callers that alternate on one connection see only their own identity", async () => {
  const db = database().open();
  const seen = [];
  for (const identity of [ada, anon, bob, anon, ada])
    seen.push(await db.row(identity, "select current_user, auth.uid(), auth.is_admin(), (select count(*) from users)"));
  expect(seen).toEqual([
    ["authenticated", "1", "f", "4"],
    ["anon", null, "f", "4"],
    ["authenticated", "2", "f", "4"],
    ["anon", null, "f", "4"],
    ["authenticated", "1", "f", "4"],
  ]);
  expect(await db.pids()).toHaveLength(1);
});

test("concurrent callers on several connections see only their own identity", async () => {
  const db = database().open({ pool: { max: 4 } });
  const runs = Array.from({ length: 60 }, async (_, id) => {
    const identity = identityOf(id % 3 === 0 ? "anon" : "authenticated", id);
    expect(await db.row(identity, "select current_user, auth.uid()")).toEqual([identity.caller.role, String(id)]);
  });
  await Promise.all(runs);
});

test("a setting of an earlier transaction reads as '' on a reused connection, and nullif makes it null", async () => {
  const db = database().open();
  const read = "select current_setting('request.extra', true), nullif(current_setting('request.extra', true), '')";
  expect(await db.row(anon, read)).toEqual([null, null]);
  await db.run(anon, ["select set_config('request.extra', 'left behind', true)"]);
  expect(await db.row(anon, read)).toEqual(["", null]);
});

test("an error in the second statement rolls the first one back", async () => {
  const db = database().open();
  const statements = ["insert into notes values ('first') returning text", "select 1 / 0"];
  await expect(db.run(anon, statements)).rejects.toMatchObject({ code: "22012" });
  expect(await database().values("select text from notes")).toEqual([]);
  expect(await db.row(anon, "select 1")).toEqual(["1"]);
});

test.each([
  ["an unknown role", "nobody_x", "22023"],
  ["a role that the login may not become", "service_role", "42501"],
  ["the role of admins, which have a login for themselves", "admin", "42501"],
])("with %s nothing is executed", async (_what, role, code) => {
  const db = database().open();
  const tries = await triesDuring(async () => {
    await expect(db.run(identityOf(role), [TRY, "insert into notes values ('x')"])).rejects.toMatchObject({ code });
  });
  expect(tries).toBe(0);
  expect(await database().values("select text from notes")).toEqual([]);
  expect(await db.row(anon, "select current_user")).toEqual(["anon"]);
});

test("a caller without permission is refused, and the next one is served", async () => {
  const db = database().open();
  await expect(db.run(anon, ["delete from users"])).rejects.toMatchObject({ code: "42501", table: undefined });
  expect(await db.row(ada, "select name from me()")).toEqual(["Ada Lovelace"]);
});

test.each([false, true])(
  "a deferred constraint fails at the end and nothing is committed (snapshot: %j)",
  async (snapshot) => {
    const db = database().open();
    const statements = ["insert into slots values (1, 1), (2, 1) returning id", "select 1"];
    await expect(db.run(anon, statements, { snapshot })).rejects.toMatchObject({
      code: "23505",
      constraint: "slots_slot_key",
    });
    expect(await database().values("select id from slots")).toEqual([]);
    await expect.poll(() => db.states()).toEqual(["idle"]);
    expect(await db.row(anon, "select 1")).toEqual(["1"]);
  },
);

test("a transaction is committed before its results are returned", async () => {
  const db = database().open();
  const [rows] = await db.run(anon, ["insert into notes values ('committed') returning text"]);
  expect(rows).toEqual([["committed"]]);
  expect(await database().values("delete from notes returning text")).toEqual(["committed"]);
});

test("results are in the order of the statements, with the row count of each", async () => {
  const { transactions } = database().open();
  const texts = [
    "insert into notes values ('a'), ('b')",
    "select text from notes order by text",
    "update notes set text = 'c' where text = 'b' returning text",
    "",
    "delete from notes",
  ];
  const statements = texts.map((text) => ({ text, values: [] }));
  for (const snapshot of [false, true]) {
    const results = await transactions.run(anon, statements, { snapshot });
    expect(results.map(({ rows, rowCount }) => [rows.map(String), rowCount])).toEqual([
      [[], 2],
      [["a", "b"], 2],
      [["c"], 1],
      [[], 0],
      [[], 2],
    ]);
  }
  expect(await transactions.run(anon, [])).toEqual([]);
});

test("a statement that takes too long fails with 57014, and the connection remains usable", async () => {
  const db = database().open({ statementTimeoutOf: (role) => (role === "anon" ? 50 : 0) });
  const [pid] = await db.row(ada, "select pg_backend_pid()");
  await expect(db.run(anon, ["select pg_sleep(5)"])).rejects.toMatchObject({
    code: "57014",
    message: "canceling statement due to statement timeout",
  });
  expect(await db.row(ada, "select pg_backend_pid()")).toEqual([pid]);
});

test("an abort cancels the running statement, and the connection remains usable", async () => {
  const db = database().open({ statementTimeoutOf: () => 0 });
  const [pid] = await db.row(anon, "select pg_backend_pid()");
  const controller = new AbortController();
  // Only a cancellation ends this before the test times out.
  const run = db.run(anon, ["insert into notes values ('aborted')", "select pg_sleep(600)"], {
    signal: controller.signal,
  });
  const outcome = expect(run).rejects.toThrow("the client has left");
  await db.sleeping();
  controller.abort(new Error("the client has left"));
  await outcome;
  expect(await db.row(anon, "select pg_backend_pid()")).toEqual([pid]);
  expect(await database().values("select text from notes")).toEqual([]);
});

test("an abort in a snapshot leaves the connection idle", async () => {
  const db = database().open();
  const controller = new AbortController();
  const run = db.run(anon, ["select 1", "select pg_sleep(10)"], { snapshot: true, signal: controller.signal });
  const outcome = expect(run).rejects.toThrow("the client has left");
  await db.sleeping();
  controller.abort(new Error("the client has left"));
  await outcome;
  expect(await db.row(anon, "select 1")).toEqual(["1"]);
  await expect.poll(() => db.states()).toEqual(["idle"]);
});

test("a transaction that is aborted while it waits, or before, is not sent", async () => {
  const db = database().open();
  const reason = new Error("the client has left");
  const tries = await triesDuring(async () => {
    const controller = new AbortController();
    const first = db.run(anon, ["select pg_sleep(0.1)"]);
    const waiting = expect(db.run(anon, [TRY], { signal: controller.signal })).rejects.toBe(reason);
    controller.abort(reason);
    await Promise.all([first, waiting]);
    await expect(db.run(anon, [TRY], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
  expect(tries).toBe(0);
  expect(db.transactions.syncs).toBe(1);
});

test("an abort after the result has no effect, and the signal has no listeners left", async () => {
  const db = database().open();
  const controller = new AbortController();
  for (let i = 0; i < 20; i++) await db.run(anon, ["select 1"], { signal: controller.signal });
  controller.abort();
  expect(await db.row(anon, "select pg_sleep(0.02), 1")).toEqual(["", "1"]);
});

test("a cancellation never affects the next statement on the connection", async () => {
  const db = database().open();
  let aborted = 0;
  for (let i = 0; i < 40; i++) {
    const controller = new AbortController();
    const sleeping = db.run(anon, ["select pg_sleep(0.003)"], { signal: controller.signal }).catch(() => aborted++);
    const next = db.row(anon, "select pg_sleep(0.003), 1");
    await setTimeout(i % 8);
    controller.abort();
    await sleeping;
    expect(await next).toEqual(["", "1"]);
  }
  expect(aborted).toBeGreaterThan(0);
});

test.each([false, true])(
  "statements see a snapshot each, or share one with the option snapshot: %j",
  async (snapshot) => {
    const db = database().open();
    const count = "select count(*) from notes";
    const { owner } = database();
    await owner.query("select pg_advisory_lock(42)");
    const run = db.run(anon, [`select (${count}), pg_advisory_xact_lock(42)`, count], { snapshot });
    const blocked = `select from pg_locks where locktype = 'advisory' and not granted
      and database = (select oid from pg_database where datname = current_database())`;
    await expect.poll(() => database().values(blocked)).toHaveLength(1);
    await owner.query("insert into notes values ('meanwhile')");
    await owner.query("select pg_advisory_unlock(42)");
    const [first, second] = await run;
    await owner.query("delete from notes");
    expect([first![0]![0], second![0]![0]]).toEqual(["0", snapshot ? "0" : "1"]);
  },
);

test("an error in a snapshot rolls back and leaves the connection usable", async () => {
  const db = database().open();
  const [pid] = await db.row(anon, "select pg_backend_pid()");
  for (let i = 0; i < 3; i++) {
    const statements = ["insert into notes values ('x')", "select 1 / 0", "select 1"];
    await expect(db.run(anon, statements, { snapshot: true })).rejects.toMatchObject({ code: "22012" });
    expect(await db.row(anon, "select pg_backend_pid()")).toEqual([pid]);
    await expect.poll(() => db.states()).toEqual(["idle"]);
  }
  await expect(db.run(identityOf("nobody_x"), ["select 1", "select 2"], { snapshot: true })).rejects.toMatchObject({
    code: "22023",
  });
  await expect.poll(() => db.states()).toEqual(["idle"]);
  expect(await database().values("select text from notes")).toEqual([]);
});

test("a snapshot is committed in one round trip", async () => {
  const db = database().open();
  await db.run(anon, ["insert into notes values ('kept')", "select 1"], { snapshot: true });
  expect(await database().values("delete from notes returning text")).toEqual(["kept"]);
  expect(db.transactions.syncs).toBe(1);
});

const UNSTORABLE = { status: 400, code: "VALIDATION_ERROR" };

test.each(["a\0b", "\ud83d", "\ude00\ud83d", `${"x".repeat(100)}\udfff`])(
  "text that Postgres can't store, %j, is refused before anything is sent",
  async (value) => {
    const db = database().open();
    const { caller, request } = anon;
    await expect(db.run(anon, ["select 1", ["select $1::text", value]])).rejects.toMatchObject(UNSTORABLE);
    for (const identity of [
      { caller, request: { ...request, path: value } },
      { caller, request: { ...request, method: value } },
      { caller, request: { ...request, headers: value } },
      { caller: { ...caller, role: value }, request },
    ])
      await expect(db.run(identity, ["select 1"])).rejects.toBeInstanceOf(Problem);
    expect(db.transactions.syncs).toBe(0);
    expect(await db.pids()).toEqual([]);
  },
);

test("claims may contain any text: JSON escapes it", async () => {
  const db = database().open();
  const identity = { ...anon, caller: { ...anon.caller, claims: { name: "half \ud83d of 😀" } } };
  expect(await db.row(identity, "select current_setting('request.jwt.claims')")).toEqual([
    '{"name":"half \\ud83d of 😀","role":"anon"}',
  ]);
});

test("large multibyte values, null and empty text are returned as sent", async () => {
  const db = database().open();
  const large = "ü€😀".repeat(300_000);
  expect(Buffer.byteLength(large)).toBe(2_700_000);
  const text = "select 1, $1::text, $2::text, $3::text, repeat('ü€😀', 300000)";
  const [, sent, empty, nothing, made] = await db.row(anon, text, large, "", null);
  expect(sent === large).toBe(true);
  expect(made === large).toBe(true);
  expect([empty, nothing]).toEqual(["", null]);
});

test("many rows are returned in order", async () => {
  const db = database().open();
  const [rows] = await db.run(anon, ["select i, repeat('x', i % 50) from generate_series(1, 50000) as i"]);
  expect(rows).toHaveLength(50_000);
  expect(rows!.every(([i, text], at) => Number(i) === at + 1 && text!.length === (at + 1) % 50)).toBe(true);
});

test("json has the same bytes in the binary format", async () => {
  const { transactions } = database().open();
  const text = `select '{"b" :  1.10, "a":"ü 😀",\n "a": null}'::json, '[]'::json, null::json, 'text ü'::text`;
  const [binary] = await transactions.run(anon, [{ text, values: [], binary: true }]);
  const [plain] = await transactions.run(anon, [{ text, values: [] }]);
  expect(binary!.rows).toEqual(plain!.rows);
  expect(String(binary!.rows[0]![0])).toBe(`{"b" :  1.10, "a":"ü 😀",\n "a": null}`);
});

test.each([
  ["alone", ["copy notes from stdin"], {}],
  ["before others", ["copy notes from stdin", "select 1"], {}],
  ["after others", ["select 1", "copy notes from stdin"], {}],
  ["in a snapshot", ["select 1", "copy notes from stdin"], { snapshot: true }],
])("COPY FROM STDIN is refused at once, %s", async (_where, statements, options) => {
  const db = database().open();
  await expect(db.run(anon, statements, options)).rejects.toThrow();
  expect(await Promise.all([1, 2, 3].map((n) => db.row(anon, `select ${n}`)))).toEqual([["1"], ["2"], ["3"]]);
  expect(await database().values("select text from notes")).toEqual([]);
});

test("COPY TO STDOUT returns no rows", async () => {
  const db = database().open();
  expect(await db.run(anon, ["copy (select 1) to stdout", "select 2"])).toEqual([[], [["2"]]]);
});
