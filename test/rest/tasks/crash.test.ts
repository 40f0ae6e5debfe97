import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { POLL, useTasks } from "./support.ts";

const client = useTasks({}, false);

const mark = (name: string) => ({ sql: `insert into public.marks (name) values ('${name}')`, rows: 1 });
const sleep = (seconds: number) => ({ sql: `select pg_sleep(${seconds})` });
const marks = async (name: string) => (await client().sql("select from public.marks where name = $1", name)).length;
const factsOf = async (id: string) =>
  (await client().sql("select status, run, attempts from tasks.tasks where id = $1", id))[0];

const OURS = "pg_stat_activity where datname = current_database() and application_name = 'content-service tasks'";
/** Connections that are at work. */
const WORKING = `select from ${OURS} and state = 'active'`;

describe("when a process that runs a task is killed", () => {
  test("another takes over within seconds, and the work is done once", async () => {
    const { process, accept, until } = client();
    const first = await process();
    const id = await accept("ada", mark("survivor"), sleep(1.5));
    await until("ada", id, "running");
    first.kill("SIGKILL");
    await process();
    expect((await until("ada", id)).status).toBe("succeeded");
    expect(await marks("survivor")).toBe(1);
  });

  test("whose work Postgres goes on with, the work is done once", async () => {
    const { process, accept, until, sql } = client();
    const first = await process();
    // Postgres has the whole transaction already, and would commit it after the sleep.
    const id = await accept("ada", sleep(3), {
      sql: "insert into public.marks (name) values (gen_random_uuid()::text || ' orphan')",
    });
    await until("ada", id, "running");
    first.kill("SIGKILL");
    await process();
    expect((await until("ada", id)).status).toBe("succeeded");
    await expect.poll(async () => (await sql(WORKING)).length, POLL).toBe(0);
    expect(await sql("select from public.marks where name like '% orphan'")).toHaveLength(1);
  });

  test("what Postgres was doing for it ends too", async () => {
    const { process, accept, ask, sql } = client();
    const child = await process();
    const id = await accept("ada", sleep(33));
    const sleeping = `${WORKING} and query like '%pg_sleep(33)%'`;
    await expect.poll(async () => (await sql(sleeping)).length, POLL).toBe(1);
    child.kill("SIGKILL");
    await expect.poll(async () => (await sql(sleeping)).length, { timeout: 3000, interval: 50 }).toBe(0);
    expect((await ask("ada", "POST", `tasks/${id}/cancel`)).status).toBe(200);
  });

  test("by each task that it runs, the task is given up", async () => {
    const { process, accept, until, sql } = client();
    const killer = await process();
    const id = await accept("ada", sleep(30));
    await until("ada", id, "running");
    await sql("update tasks.tasks set attempts = 4 where id = $1", id);
    killer.kill("SIGKILL");
    await process();
    expect(await until("ada", id)).toMatchObject({ status: "failed", error: { status: 500 } });
  });
});

describe("when a process stops", () => {
  test("it waits for its tasks as long as it may", async () => {
    const { process, accept, until } = client();
    const child = await process();
    const id = await accept("ada", mark("in time"), sleep(1));
    await until("ada", id, "running");
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
    expect(await factsOf(id)).toEqual({ status: "succeeded", run: 1, attempts: 1 });
  });

  test("it puts back what takes longer, and that does not count as an attempt", async () => {
    const { process, accept, until } = client();
    const child = await process({ drainTimeout: 300 });
    const id = await accept("ada", mark("later"), sleep(5));
    await until("ada", id, "running");
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
    expect(await factsOf(id)).toEqual({ status: "pending", run: 1, attempts: 0 });
    expect(await marks("later")).toBe(0);
    await process();
    expect((await until("ada", id)).status).toBe("succeeded");
    expect([await marks("later"), await factsOf(id)]).toEqual([1, { status: "succeeded", run: 2, attempts: 1 }]);
  });
});

describe("among several processes", () => {
  test("a task that one runs is cancelled through another", async () => {
    const { process, accept, until, ask, sql } = client();
    await process();
    const id = await accept("ada", sleep(61));
    const sleeping = `${WORKING} and query like '%pg_sleep(61)%'`;
    await expect.poll(async () => (await sql(sleeping)).length, POLL).toBe(1);
    // This process runs no tasks.
    expect((await ask("ada", "POST", `tasks/${id}/cancel`)).status).toBe(200);
    await expect.poll(async () => (await sql(sleeping)).length, { timeout: 2500, interval: 50 }).toBe(0);
    expect((await until("ada", id)).status).toBe("cancelled");
  });

  test("one that is taken for dead is overtaken, and the work is done once", async () => {
    const { process, accept, until, sql } = client();
    await process();
    const id = await accept("ada", mark("taken over"), sleep(3));
    await until("ada", id, "running");
    await process();
    await sql(`select graphile_worker.force_unlock_workers(array(select locked_by from graphile_worker.jobs)),
      pg_notify('jobs:insert', '{"count": 4}')`);
    expect((await until("ada", id)).status).toBe("succeeded");
    expect(await marks("taken over")).toBe(1);
    expect((await factsOf(id)).run).toBeGreaterThan(1);
  });

  test("a task that has lost its job gets another", async () => {
    const { process, accept, until, sql } = client();
    const id = await accept("ada", mark("found again"));
    await sql("delete from graphile_worker._private_jobs where payload ->> 'task' = $1", id);
    await process();
    expect((await until("ada", id)).status).toBe("succeeded");
    expect(
      await sql(
        "select from graphile_worker._private_jobs where task_id in (select id from graphile_worker._private_tasks where identifier = 'perform')",
      ),
    ).toEqual([]);
  });

  test("one that loses its lock for a moment goes on", async () => {
    const { process, accept, until, sql } = client();
    await process();
    const id = await accept("ada", mark("held again"), sleep(2));
    await until("ada", id, "running");
    const locks = `pg_locks where locktype = 'advisory' and objsubid = 1
      and database = (select oid from pg_database where datname = current_database())`;
    await sql(`select pg_terminate_backend(pid) from ${locks}`);
    expect((await until("ada", id)).status).toBe("succeeded");
    expect([await marks("held again"), (await factsOf(id)).run]).toEqual([1, 1]);
    expect(await sql(`select from ${locks}`)).toHaveLength(1);
  });

  test("a run that was overtaken is undone", async () => {
    const { process, accept, until, sql } = client();
    await process();
    const id = await accept("ada", mark("overtaken"), sleep(2));
    await until("ada", id, "running");
    await sql("select tasks.begin($1, 1000)", id);
    await expect.poll(async () => (await sql(WORKING)).length, POLL).toBe(0);
    expect(await marks("overtaken")).toBe(0);
    expect(await factsOf(id)).toEqual({ status: "running", run: 2, attempts: 2 });
  });
});

describe("when all connections are lost", () => {
  const cut = () => client().sql(`select pg_terminate_backend(pid) from ${OURS}`);

  test("tasks are run as before a moment later", async () => {
    const { process, accept, until } = client();
    const child = await process();
    await cut();
    const id = await accept("ada", mark("after the cut"));
    expect((await until("ada", id)).status).toBe("succeeded");
    expect(child.exitCode).toBeNull();
  });

  test("a task that was running is done once", async () => {
    const { process, accept, until } = client();
    const child = await process();
    const id = await accept("ada", mark("cut off"), sleep(1.5));
    await until("ada", id, "running");
    await cut();
    expect((await until("ada", id)).status).toBe("succeeded");
    expect([await marks("cut off"), child.exitCode]).toEqual([1, null]);
  });
});

test("tasks are forgotten when they have ended long enough ago", async () => {
  const { process, accept, until, ask, sql } = client();
  await process({ taskRetention: 0 });
  const id = await accept("ada", { sql: "select tasks.keep_result($1::uuid, '[1]')" });
  await until("ada", id);
  await sql("select graphile_worker.add_job('purge')");
  await expect.poll(async () => (await ask("ada", "GET", `tasks/${id}`)).status, POLL).toBe(404);
  expect(await sql("select from tasks.results")).toEqual([]);
});
