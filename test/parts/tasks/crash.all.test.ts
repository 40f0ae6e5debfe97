import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { POLL } from "../../support/until.ts";
import { type Gate, LOCKS, newGate } from "./gate.ts";
import { useTasks } from "./support.ts";

// The process of the test runs no tasks.
const client = useTasks({ taskConcurrency: 0 });

const mark = (name: string) => ({ sql: `insert into public.marks (name) values ('${name}')` });
const marks = async (name: string) => (await client().sql("select from public.marks where name = $1", name)).length;
const rowOf = async (id: string) =>
  (await client().sql("select status, run, attempts from tasks.tasks where id = $1", id))[0];
const untilAttempt = (id: string, number: number) => vi.waitUntil(async () => (await rowOf(id)).run >= number, POLL);

const closeGate = () => newGate(client().sql);

test("with TASK_CONCURRENCY=0 a process accepts tasks, and has no connection to run them", async () => {
  const { accept, sql } = client();
  const id = await accept("ada", mark("left to others"));
  expect(await rowOf(id)).toMatchObject({ status: "pending" });
  expect(
    await sql("select from pg_stat_activity where datname = current_database() and application_name like '%tasks'"),
  ).toEqual([]);
  await sql("delete from tasks.tasks where id = $1", id);
});

/** The process that runs tasks after the first one was killed. */
let survivor: ChildProcess;

describe("when the process that runs a task is killed", () => {
  const ids = { survivor: "", orphan: "", last: "", lost: "" };
  let gate: Gate;
  let gateOfLast: Gate;
  beforeAll(async () => {
    const { process, accept, sql } = client();
    const killed = await process({ taskConcurrency: 3 });
    [gate, gateOfLast] = [await closeGate(), await closeGate()];
    ids.survivor = await accept("ada", mark("survivor"), gate.step);
    // Postgres has received the whole transaction already and would commit it as soon as the gate opens.
    ids.orphan = await accept("ada", gate.step, {
      sql: "insert into public.marks (name) values (gen_random_uuid()::text || ' orphan')",
    });
    ids.last = await accept("ada", gateOfLast.step);
    await gate.reached(2);
    await gateOfLast.reached();
    await sql("update tasks.tasks set attempts = 4 where id = $1", ids.last);
    ids.lost = await accept("ada", mark("found again"));
    await sql("delete from graphile_worker._private_jobs where payload ->> 'task' = $1", ids.lost);
    killed.kill("SIGKILL");
    survivor = await process({ drainTimeout: 4000 });
    await untilAttempt(ids.survivor, 2);
    await untilAttempt(ids.orphan, 2);
    await gate.open();
  });

  test("another process takes over, and the work takes effect once", async () => {
    expect((await client().until("ada", ids.survivor)).status).toBe("succeeded");
    expect(await marks("survivor")).toBe(1);
  });

  test("and Postgres still has its transaction, the work takes effect once", async () => {
    expect((await client().until("ada", ids.orphan)).status).toBe("succeeded");
    expect(await client().sql("select from public.marks where name like '% orphan'")).toHaveLength(1);
  });

  test("Postgres ends the statements that it was running for that process", async () => {
    await expect.poll(gateOfLast.waiting, POLL).toEqual([]);
  });

  test("in each attempt, the task fails", async () => {
    expect(await client().until("ada", ids.last)).toMatchObject({ status: "failed", error: { status: 500 } });
  });

  test("a task that has lost its job gets a new one", async () => {
    const { until, sql } = client();
    expect((await until("ada", ids.lost)).status).toBe("succeeded");
    const jobs = "select from graphile_worker._private_jobs where payload ->> 'task' = $1";
    await expect.poll(() => sql(jobs, ids.lost), POLL).toEqual([]);
  });
});

test("one process can cancel a task that another process runs", async () => {
  const { accept, until, ask } = client();
  const gate = await closeGate();
  const id = await accept("ada", gate.step);
  await gate.reached();
  expect((await ask("ada", "POST", `tasks/${id}/cancel`)).status).toBe(200);
  await expect.poll(gate.waiting, POLL).toEqual([]);
  expect((await until("ada", id)).status).toBe("cancelled");
});

test("an attempt is rolled back if a later attempt has begun", async () => {
  const { accept, sql } = client();
  const gate = await closeGate();
  const id = await accept("ada", mark("overtaken"), gate.step);
  const [pid] = await gate.reached();
  await sql("select tasks.begin_attempt($1, '{}')", id);
  // The later attempt has its own job.
  await sql(
    "select graphile_worker.add_job('perform', json_build_object('task', $1::text), run_at => now() + interval '1 h')",
    id,
  );
  await gate.open();
  await expect
    .poll(() => sql("select from pg_stat_activity where pid = $1 and state = 'active'", pid), POLL)
    .toEqual([]);
  expect(await marks("overtaken")).toBe(0);
  expect(await rowOf(id)).toEqual({ status: "running", run: 2, attempts: 2 });
});

test("a worker that loses its heartbeat connection reconnects and continues", async () => {
  const { accept, until, sql } = client();
  const gate = await closeGate();
  const id = await accept("ada", mark("held again"), gate.step);
  await gate.reached();
  const holders = async () =>
    (await sql(`select pid from ${LOCKS} and objsubid = 1 and granted`)).map(({ pid }) => pid);
  const [before] = await holders();
  await sql("select pg_terminate_backend($1)", before);
  await expect.poll(holders, POLL).toEqual([expect.not.toBeOneOf([before])]);
  await gate.open();
  expect((await until("ada", id)).status).toBe("succeeded");
  expect([await marks("held again"), (await rowOf(id)).run]).toEqual([1, 1]);
});

describe("when all connections are lost", () => {
  const cut = () =>
    client().sql(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database()
      and (application_name = 'content-service tasks' or application_name = 'content-service' and state <> 'idle')`);

  test("the process runs new tasks as before", async () => {
    const { accept, until } = client();
    await cut();
    const id = await accept("ada", mark("after the cut"));
    expect((await until("ada", id)).status).toBe("succeeded");
    expect(survivor.exitCode).toBeNull();
  });

  test("a task that was running takes effect once", async () => {
    const { accept, sql } = client();
    const gate = await closeGate();
    const id = await accept("ada", mark("cut off"), gate.step);
    await gate.reached();
    await cut();
    await gate.open();
    // The worker has either put the task back with a delay, which is skipped here, or has restarted and begun it again.
    const skipDelay = `update graphile_worker._private_jobs set run_at = now()
      where payload ->> 'task' = $1 and locked_at is null returning pg_notify('jobs:insert', '{}')`;
    const status = async () => {
      await sql(skipDelay, id);
      return (await rowOf(id)).status;
    };
    await expect.poll(status, POLL).toBe("succeeded");
    expect([await marks("cut off"), survivor.exitCode]).toEqual([1, null]);
  });
});

test("tasks are deleted when they ended longer ago than the retention", async () => {
  const { accept, until, ask, sql } = client();
  const keep = { sql: "select tasks.keep_result($1::uuid, '[1]')" };
  const [id, recent] = [await accept("ada", keep), await accept("ada", keep)];
  await Promise.all([until("ada", id), until("ada", recent)]);
  await sql("update tasks.tasks set finished_at = now() - interval '61 min' where id = $1", id);
  await sql("select graphile_worker.add_job('purge')");
  await expect.poll(async () => (await ask("ada", "GET", `tasks/${id}`)).status, POLL).toBe(404);
  expect((await ask("ada", "GET", `tasks/${recent}`)).status).toBe(200);
  expect(await sql("select task_id from tasks.results")).toEqual([{ task_id: recent }]);
});

describe("when a process stops", () => {
  const ids = { inTime: "", later: "" };
  let gateOfLater: Gate;
  let exit: unknown[];
  beforeAll(async () => {
    const { accept } = client();
    const gate = await closeGate();
    gateOfLater = await closeGate();
    ids.inTime = await accept("ada", mark("in time"), gate.step);
    ids.later = await accept("ada", mark("later"), gateOfLater.step);
    await Promise.all([gate.reached(), gateOfLater.reached()]);
    const stopping = once(survivor.stdout!, "data");
    const exited = once(survivor, "exit");
    survivor.kill("SIGTERM");
    await stopping;
    await gate.open();
    exit = await exited;
  });

  test("it waits for its tasks until the drain timeout", async () => {
    expect(exit).toEqual([0, null]);
    expect(await rowOf(ids.inTime)).toEqual({ status: "succeeded", run: 1, attempts: 1 });
  });

  test("it puts back the tasks that take longer, which does not count as an attempt", async () => {
    expect(await rowOf(ids.later)).toEqual({ status: "pending", run: 1, attempts: 0 });
    expect(await marks("later")).toBe(0);
    await gateOfLater.open();
    await client().process({ taskConcurrency: 1 });
    expect((await client().until("ada", ids.later)).status).toBe("succeeded");
    expect([await marks("later"), await rowOf(ids.later)]).toEqual([1, { status: "succeeded", run: 2, attempts: 1 }]);
  });
});

test("a live worker that is considered dead is overtaken, and the work takes effect once", async () => {
  const { process, accept, until, sql } = client();
  await process({ taskConcurrency: 1 });
  const gate = await closeGate();
  const id = await accept("ada", mark("taken over"), gate.step);
  await gate.reached();
  await sql(`select graphile_worker.force_unlock_workers(array(select locked_by from graphile_worker.jobs)),
    pg_notify('jobs:insert', '{"count": 4}')`);
  await untilAttempt(id, 2);
  await gate.open();
  expect((await until("ada", id)).status).toBe("succeeded");
  expect(await marks("taken over")).toBe(1);
});
