import { describe, expect, test } from "vitest";
import { outcomes, TestCaller, type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const ACCEPT = `select tasks.accept('function', '{"url": "/x"}', 5, 10) as task`;
const accept = async (caller: TestCaller): Promise<string> => (await caller.row(ACCEPT)).task.taskId;
const runner = (db: TestTransaction) => new TestCaller(db.client, "tasks_owner", {});
const begin = async (db: TestTransaction, id: string, limit = 1000): Promise<any> =>
  (await runner(db).row("select tasks.begin_attempt($1, $2) as run", id, limit)).run;

describe("only tasks_owner", () => {
  test.each([
    "select from tasks.tasks",
    "select from tasks.results",
    "delete from tasks.tasks",
    "insert into tasks.results (task_id, part, bytes) values (gen_random_uuid(), '1', 1)",
    "select tasks.begin_attempt(gen_random_uuid(), 1)",
    "select tasks.advance(gen_random_uuid(), 1, 1, 1)",
    "select tasks.fail(gen_random_uuid(), 1, '{}')",
    "select tasks.put_back(gen_random_uuid(), 1, '0 s', true)",
    "select tasks.purge('0 s')",
    "select tasks.free_jobs()",
    "select tasks.restore_jobs()",
    "select from tasks.storage",
    "select tasks.lock()",
    "select tasks.give_turns('1', 1)",
    "select tasks.settle(gen_random_uuid())",
    "select tasks.settle_lost(1)",
    "select tasks.count_bytes('1', null, -1)",
    "select tasks.describe(null)",
    "select from graphile_worker.jobs",
    "select graphile_worker.add_job('perform')",
  ])("may execute %s", (statement) =>
    inTransaction(async (db) => {
      const [ada] = await db.users("Ada");
      const refused = "42501";
      expect(await outcomes(await db.everyone(ada!), statement)).toEqual({
        anon: refused,
        stranger: refused,
        self: refused,
        admin: refused,
        service: refused,
      });
    }),
  );
});

describe("the schema tasks", () => {
  test.each([
    [
      "has row-level security on every table",
      `select relname as name from pg_class where relnamespace = 'tasks'::regnamespace and relkind = 'r' and not relrowsecurity`,
    ],
    [
      "contains only objects that tasks_owner owns",
      `select proname as name from pg_proc where pronamespace = 'tasks'::regnamespace and proowner <> 'tasks_owner'::regrole
       union all
       select relname from pg_class where relnamespace = 'tasks'::regnamespace and relowner <> 'tasks_owner'::regrole`,
    ],
    [
      "pins the search_path of every function",
      `select proname as name from pg_proc where pronamespace = 'tasks'::regnamespace
         and coalesce(array_to_string(proconfig, ','), '') !~ '^search_path=""$'`,
    ],
    [
      "grants nothing to PUBLIC",
      `select proname as name from pg_proc where pronamespace = 'tasks'::regnamespace and exists (
         select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0)`,
    ],
    [
      "lets callers execute only the functions for callers",
      `select proname as name from pg_proc where pronamespace = 'tasks'::regnamespace
         and has_function_privilege('authenticated', oid, 'execute')
         and (not prosecdef or proname not in ('accept', 'find', 'list', 'cancel', 'keep_result', 'finish'))`,
    ],
    [
      "belongs to a role without special rights",
      `select rolname as name from pg_roles where rolname = 'tasks_owner'
         and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication or rolcanlogin
           or exists (select from pg_auth_members where member = pg_roles.oid))`,
    ],
  ])("%s", (_rule, exceptions) =>
    inTransaction(async (db) => {
      expect(await db.owner.rows(exceptions)).toEqual([]);
    }),
  );
});

describe("a task", () => {
  test("stores its caller", () =>
    inTransaction(async (db) => {
      const [ada] = await db.users("Ada");
      await accept(db.as(ada!));
      await accept(db.anon);
      await accept(db.service);
      expect(
        await db.owner.rows("select owner, role, claims - 'auth_time' as claims from tasks.tasks order by owner"),
      ).toEqual([
        { owner: String(ada!.id), role: "authenticated", claims: { sub: String(ada!.id), role: "authenticated" } },
        { owner: "anon", role: "anon", claims: { role: "anon" } },
        { owner: "service_role", role: "service_role", claims: { role: "service_role" } },
      ]);
    }));

  test("is created together with its job", () =>
    inTransaction(async (db) => {
      const id = await accept(db.anon);
      const jobs = await db.owner.rows(
        "select task_identifier, payload from graphile_worker.jobs j, graphile_worker._private_jobs p where p.id = j.id",
      );
      expect(jobs).toEqual([{ task_identifier: "perform", payload: { task: id } }]);
    }));

  test("is finished and given results only by its caller, and only while it runs", () =>
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

  test("is ended only by its latest attempt", () =>
    inTransaction(async (db) => {
      const id = await accept(db.anon);
      expect((await begin(db, id)).run).toBe(1);
      expect((await begin(db, id)).run).toBe(2);
      expect(await db.anon.outcome("select tasks.finish($1, 1)", id)).toBe("55000");
      expect(await runner(db).row("select tasks.advance($1, 1, 1, 5), tasks.fail($1, 1, '{}')", id)).toMatchObject({
        advance: false,
      });
      await db.anon.row("select tasks.finish($1, 2)", id);
      expect(await begin(db, id)).toBeNull();
      expect(await runner(db).row("select tasks.advance($1, 2, 1, 5)", id)).toEqual({ advance: false });
    }));

  test("has a limit for the total bytes of its result, set when it begins", () =>
    inTransaction(async (db) => {
      const id = await accept(db.anon);
      await begin(db, id, 10);
      await db.anon.row("select tasks.keep_result($1, '[1,2,3]')", id);
      expect(await db.anon.outcome("select tasks.keep_result($1, '[4,5]')", id)).toBe("54000");
      expect(await db.anon.outcome("select tasks.keep_result($1, '[4]')", id)).toBe(1);
    }));

  test("that was cancelled cannot be begun, finished or put back", () =>
    inTransaction(async (db) => {
      const id = await accept(db.anon);
      await begin(db, id);
      expect(await db.anon.row("select was_cancelled from tasks.cancel($1)", id)).toEqual({ was_cancelled: true });
      expect(await db.anon.row("select was_cancelled from tasks.cancel($1)", id)).toEqual({ was_cancelled: false });
      expect(await begin(db, id)).toBeNull();
      expect(await db.anon.outcome("select tasks.finish($1, 1)", id)).toBe("55000");
      await runner(db).row("select tasks.put_back($1, 1, '0 s', true)", id);
      expect(await db.owner.row("select status, request from tasks.tasks where id = $1", id)).toEqual({
        status: "cancelled",
        request: null,
      });
    }));

  test("that is put back is due after the delay, and the attempt counts only if requested", () =>
    inTransaction(async (db) => {
      const id = await accept(db.anon);
      await begin(db, id);
      await runner(db).row("select tasks.put_back($1, 1, '1 hour', true)", id);
      await begin(db, id);
      await runner(db).row("select tasks.put_back($1, 2, '0 s', false)", id);
      expect(await db.owner.row("select status, run, attempts, started_at from tasks.tasks where id = $1", id)).toEqual(
        {
          status: "pending",
          run: 2,
          attempts: 1,
          started_at: null,
        },
      );
      const due = await db.owner.rows(
        "select (run_at > now() + interval '59 minutes') as later from graphile_worker.jobs order by id",
      );
      expect(due).toEqual([{ later: false }, { later: true }, { later: false }]);
    }));

  test("waits for its turn without a job, and gets one when an earlier task of its owner is settled", () =>
    inTransaction(async (db) => {
      const accepted = `select tasks.accept('function', '{}', 1, 10, address => 'here', max_running => 1) as task`;
      const [first, second] = [(await db.anon.row(accepted)).task.taskId, (await db.anon.row(accepted)).task.taskId];
      const jobs = async () =>
        (await db.owner.rows("select payload ->> 'task' as task from graphile_worker._private_jobs order by id")).map(
          ({ task }) => task,
        );
      expect(await jobs()).toEqual([first]);
      await begin(db, first);
      await runner(db).row("select tasks.settle($1, 1)", first);
      expect(await jobs()).toEqual([first]);
      await db.anon.row("select tasks.finish($1, 1)", first);
      await runner(db).row("select tasks.settle($1, 1)", first);
      expect(await jobs()).toEqual([first, second]);
    }));

  test("is settled later if its worker has died after its end", () =>
    inTransaction(async (db) => {
      const accepted = "select tasks.accept('function', '{}', 1, 10, max_running => 1) as task";
      const first = (await db.anon.row(accepted)).task.taskId;
      await db.anon.row(accepted);
      await begin(db, first);
      await db.anon.row("select tasks.finish($1, 1)", first);
      const turns = async () =>
        await db.owner.row(
          "select count(*)::integer as held, bool_or(id = $1) as first from tasks.tasks where has_turn",
          first,
        );
      await runner(db).row("select tasks.settle_lost(1)");
      expect(await turns()).toEqual({ held: 1, first: true });
      await db.owner.row("delete from graphile_worker._private_jobs returning id");
      await runner(db).row("select tasks.settle_lost(1)");
      expect(await turns()).toEqual({ held: 1, first: false });
    }));

  test("of an anonymous caller is purged after its own, shorter retention time", () =>
    inTransaction(async (db) => {
      const accepted = (address: string | null) =>
        db.anon.row("select tasks.accept('function', '{}', 1, 10, $1) as task", address);
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

  test("gets a new job if a worker has locked its job but not begun it", () =>
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

  test("is purged with its results after the retention time", () =>
    inTransaction(async (db) => {
      const [old, young, running] = [await accept(db.anon), await accept(db.anon), await accept(db.anon)];
      for (const id of [old, young, running]) {
        await begin(db, id);
        await db.anon.row("select tasks.keep_result($1, '[]')", id);
      }
      for (const id of [old, young]) await db.anon.row("select tasks.finish($1, 1)", id);
      await db.owner.row(
        "update tasks.tasks set finished_at = now() - interval '2 hours' where id = $1 returning id",
        old,
      );
      expect(await runner(db).row("select tasks.purge('1 hour')")).toEqual({ purge: 1 });
      expect(await db.owner.rows("select task_id from tasks.results order by id")).toEqual([
        { task_id: young },
        { task_id: running },
      ]);
    }));
});
