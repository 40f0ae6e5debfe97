import { expect, test } from "vitest";
import { outcomes, TestCaller, type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const ACCEPT = `select tasks.accept('function', '{"url": "/x"}', 10) as task`;
const accept = async (caller: TestCaller): Promise<string> => (await caller.row(ACCEPT)).task.taskId;
const runner = (db: TestTransaction) => new TestCaller(db.client, "tasks_owner", {});
const LIMITS = { result: 1000, client: 10_000, all: 100_000 };
const begin = async (db: TestTransaction, id: string): Promise<any> =>
  (await runner(db).row("select tasks.begin_attempt($1, $2) as run", id, JSON.stringify(LIMITS))).run;

test("a task is finished and given results only by its caller, and only while it runs", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const callers = await db.everyone(ada!);
    const id = await accept(callers.self!);
    const all = (outcome: unknown) => ({
      anon: outcome,
      stranger: outcome,
      self: outcome,
      admin: outcome,
      service: outcome,
    });
    for (const statement of ["select tasks.finish($1, 1)", "select tasks.keep_result($1, '[]')"]) {
      expect(await outcomes(callers, statement, id)).toEqual(all("55000"));
    }
    await begin(db, id);
    for (const statement of ["select tasks.finish($1, 1)", "select tasks.keep_result($1, '[]')"]) {
      expect(await outcomes(callers, statement, id)).toEqual({ ...all("55000"), self: 1 });
    }
  }));

test("a task that is put back is due after the delay, and the attempt counts only if requested", () =>
  inTransaction(async (db) => {
    const id = await accept(db.anon);
    await begin(db, id);
    await runner(db).row("select tasks.put_back($1, 1, '1 hour', true)", id);
    await begin(db, id);
    await runner(db).row("select tasks.put_back($1, 2, '0 s', false)", id);
    expect(await db.owner.row("select status, run, attempts, started_at from tasks.tasks where id = $1", id)).toEqual({
      status: "pending",
      run: 2,
      attempts: 1,
      started_at: null,
    });
    const due = await db.owner.rows(
      "select (run_at > now() + interval '59 minutes') as later from graphile_worker.jobs order by id",
    );
    expect(due).toEqual([{ later: false }, { later: true }, { later: false }]);
  }));

test("a task of an anonymous caller is purged after its own, shorter retention time", () =>
  inTransaction(async (db) => {
    const accepted = (address: string | null) =>
      db.anon.row("select tasks.accept('function', '{}', 10, $1) as task", address);
    const [anonymous, other] = [(await accepted("here")).task.taskId, (await accepted(null)).task.taskId];
    for (const id of [anonymous, other]) await db.anon.row("select tasks.cancel($1)", id);
    const end =
      "update tasks.tasks set finished_at = now() - interval '2 hours' where finished_at is not null returning id";
    await db.owner.row(end);
    expect(await runner(db).row("select tasks.purge('1 day', '1 hour')")).toEqual({ purge: 1 });
    expect(await db.owner.rows("select id from tasks.tasks")).toEqual([{ id: other }]);
    expect(await db.owner.rows("select client from tasks.storage order by client")).toEqual([
      { client: "(all)" },
      { client: "anon" },
    ]);
  }));

test("a task gets a new job if a worker has locked its job but not begun it", () =>
  inTransaction(async (db) => {
    const restored = async () => (await runner(db).row("select tasks.restore_jobs() as count")).count;
    const lock = (interval: string) =>
      db.owner.row(
        "update graphile_worker._private_jobs set locked_at = now() - $1::interval, locked_by = 'w' returning id",
        interval,
      );
    const id = await accept(db.anon);
    await lock("20 s");
    expect(await restored()).toBe(0);
    await lock("40 s");
    expect([await restored(), await restored()]).toEqual([1, 0]);
    await begin(db, id);
    await lock("40 s");
    expect(await restored()).toBe(0);
  }));
