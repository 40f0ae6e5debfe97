import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { restAnswer } from "../../../rest-gateway/conventions/problem.ts";
import { POLL } from "../../support/until.ts";
import { type Gate, newGate } from "./gate.ts";
import { CALLERS, type CallerName, senderOf, useTasks } from "./support.ts";

const RESULT_BYTES = 100_000;
const CLIENT_BYTES = 400_000;
const ALL_BYTES = 1_000_000;

const client = useTasks({
  taskConcurrency: 3,
  taskConcurrencyPerOwner: 1,
  taskMaxPending: 20,
  taskMaxResultBytes: RESULT_BYTES,
  taskMaxStoredBytesPerOwner: CLIENT_BYTES,
  taskMaxStoredBytes: ALL_BYTES,
});

/** A step with a result of this size, and two quotation marks. */
const large = (bytes: number) => ({ sql: `select tasks.keep_result($1::uuid, to_json(repeat('x', ${bytes})))` });
const mark = (name: string) => ({ sql: `insert into public.marks (name) values ('${name}')` });
const marks = async () => (await client().sql("select name from public.marks order by id")).map(({ name }) => name);

/** Ends and deletes all tasks. */
async function clear(): Promise<void> {
  const { sql } = client();
  await sql("update tasks.tasks set status = 'cancelled', finished_at = now() where finished_at is null");
  await expect.poll(() => sql("select from tasks.tasks where has_turn"), POLL).toEqual([]);
  await sql("select tasks.purge('-1 s')");
  await sql("delete from public.marks");
}

const settled = (...ids: readonly string[]) =>
  expect.poll(() => client().sql("select from tasks.tasks where id = any($1) and has_turn", ids), POLL).toEqual([]);

/** The problem with which a task is refused, or null. */
async function refusal(name: CallerName, body = "[]"): Promise<object | null> {
  const request = { method: "POST", url: "/sql", headers: {}, body };
  return client()
    .tasks.accept({ kind: "import", caller: CALLERS[name], request, sender: senderOf(name) }, "")
    .then(
      () => null,
      (problem) => {
        const { status, code, message, headers } = restAnswer(problem);
        return { status, code, message, headers };
      },
    );
}

/** Counts more bytes than there are, until `meanwhile` has ended. */
async function withStored(bytes: number, who: string, meanwhile: () => Promise<void>): Promise<void> {
  const add = "insert into tasks.storage as s values ($1, $2) on conflict (client) do update set bytes = s.bytes + $2";
  await client().sql(add, who, bytes);
  await meanwhile().finally(() => client().sql(add, who, -bytes));
}

/** What is counted, and what it should be. */
async function counted(): Promise<{ counted: object; stored: object }> {
  const { sql } = client();
  const object = (rows: any[]) => Object.fromEntries(rows.map(({ client, bytes }) => [client, Number(bytes)]));
  return {
    counted: object(await sql("select client, bytes from tasks.storage where bytes <> 0")),
    stored: object(
      await sql(`select client, sum(tasks.size_of(t)) as bytes
        from tasks.tasks as t, unnest(array['(all)', coalesce(address, owner), case when address is not null then '(anonymous)' end]) as client
        where client is not null group by client`),
    ),
  };
}

describe("the tasks of an owner", () => {
  test("take turns with those of others: four long anonymous tasks do not delay the task of a user", async () => {
    const { accept, until, sql } = client();
    const gate = await newGate(sql);
    const long: string[] = [];
    for (const name of ["anon", "anon", "anonElsewhere", "anonElsewhere"] as const) {
      long.push(await accept(name, gate.step));
    }
    await gate.reached();
    expect((await until("ada", await accept("ada", mark("instant")))).status).toBe("succeeded");
    expect(await gate.waiting()).toHaveLength(1);
    await gate.open();
    for (const id of long) expect((await until("anon", id)).status).toBe("succeeded");
  });

  test("take turns when all workers are busy: the second task of one comes after the first of the others", async () => {
    await clear();
    const { accept, until, sql } = client();
    const gates: Gate[] = [await newGate(sql), await newGate(sql), await newGate(sql)];
    const [first, second, third] = gates as [Gate, Gate, Gate];
    await accept("admin", first.step);
    await accept("service", second.step);
    const ids = [await accept("ada", third.step)];
    for (const gate of gates) await gate.reached();
    for (const name of ["ada 2", "ada 3", "ada 4"]) ids.push(await accept("ada", mark(name)));
    const other = await accept("bob", mark("bob 1"));
    await third.open();
    for (const id of ids) await until("ada", id);
    await until("bob", other);
    expect(await marks()).toEqual(["bob 1", "ada 2", "ada 3", "ada 4"]);
    await first.open();
    await second.open();
  });

  test("take turns between the IP addresses of anonymous callers", async () => {
    await clear();
    const { accept, until, sql } = client();
    const gate = await newGate(sql);
    const ids = [await accept("anon", gate.step)];
    await gate.reached();
    for (const name of ["here 2", "here 3", "here 4"]) ids.push(await accept("anon", mark(name)));
    for (const name of ["there 1", "there 2"]) ids.push(await accept("anonElsewhere", mark(name)));
    await gate.open();
    for (const id of ids) await until("anon", id);
    expect(await marks()).toEqual(["here 2", "there 1", "here 3", "there 2", "here 4"]);
  });

  test("run one after the other at taskConcurrencyPerOwner 1, in every process", async () => {
    await clear();
    const { accept, until, process, sql } = client();
    const other = await process({ taskConcurrency: 3, taskConcurrencyPerOwner: 1 });
    const gate = await newGate(sql);
    const ids = [await accept("ada", gate.step), await accept("ada", gate.step)];
    await gate.reached();
    expect(await sql("select status from tasks.tasks where id = any($1) order by status", ids)).toEqual([
      { status: "pending" },
      { status: "running" },
    ]);
    expect(await sql("select from graphile_worker.jobs where task_identifier = 'perform'")).toHaveLength(1);
    await gate.open();
    for (const id of ids) expect((await until("ada", id)).status).toBe("succeeded");
    other.kill("SIGTERM");
    await once(other, "exit");
  });

  test("continue after one that was cancelled while it waited, failed, or lost its worker after its end", async () => {
    await clear();
    const { accept, ask, until, sql } = client();
    const gate = await newGate(sql);
    const first = await accept("ada", gate.step, { sql: "select 1 / 0" });
    const cancelled = await accept("ada", mark("never"));
    const last = await accept("ada", mark("last"));
    await gate.reached();
    expect((await ask("ada", "POST", `tasks/${cancelled}/cancel`)).status).toBe(200);
    await gate.open();
    expect((await until("ada", first)).status).toBe("failed");
    expect((await until("ada", last)).status).toBe("succeeded");
    expect(await marks()).toEqual(["last"]);

    await settled(first, last);
    await sql("update tasks.tasks set has_turn = true where id = $1", first);
    expect((await until("ada", await accept("ada", mark("after a lost worker")))).status).toBe("succeeded");
  });
});

describe("taskMaxPending", () => {
  test("limits anonymous callers by IP address, and stores no address", async () => {
    await clear();
    const { accept, sql } = client();
    const gate = await newGate(sql);
    for (let i = 0; i < 20; i++) await accept("anon", gate.step);
    expect(await refusal("anon")).toMatchObject({ status: 429, code: "RATE_LIMITED" });
    expect(await refusal("anonElsewhere")).toBeNull();
    const addresses = (await sql("select distinct address from tasks.tasks")).map(({ address }) => address);
    expect(addresses).toEqual([expect.stringMatching(/^[\w-]{43}$/), expect.stringMatching(/^[\w-]{43}$/)]);
    await gate.open();
    await clear();
    expect(await sql("select client from tasks.storage where client <> all('{(all),(anonymous)}')")).toEqual([]);
  });
});

describe("stored bytes", () => {
  test("are limited for one IP address, whatever 30 calls return", async () => {
    await clear();
    const { accept, until, sql } = client();
    let refused = 0;
    const ended: any[] = [];
    for (let i = 0; i < 30; i++) {
      const id = await accept("anon", mark(`call ${i}`), large(90_000)).catch(() => null);
      if (id === null) refused++;
      else ended.push(await until("anon", id));
    }
    const succeeded = ended.filter(({ status }) => status === "succeeded");
    const failed = ended.filter(({ status }) => status === "failed");
    expect(succeeded).toHaveLength(4);
    expect(succeeded.length + failed.length + refused).toBe(30);
    expect(failed[0].error).toMatchObject({
      status: 429,
      code: "RATE_LIMITED",
      message: expect.stringMatching(
        /^the result of the task is larger than the \d+ bytes that are left for stored results: try again when/,
      ),
    });
    expect(await marks()).toHaveLength(4);
    const [{ bytes }] = await sql("select sum(octet_length(part::text))::integer as bytes from tasks.results");
    expect(bytes).toBeLessThanOrEqual(CLIENT_BYTES);
    expect(await refusal("anonElsewhere")).toBeNull();
  });

  test("beyond the limit of the caller, a task is refused with 429 before it is queued", async () => {
    await clear();
    expect(await refusal("ada", "x".repeat(CLIENT_BYTES))).toEqual({
      status: 429,
      code: "RATE_LIMITED",
      message: `your tasks and their results may not take up more than ${CLIENT_BYTES} bytes: try again when earlier ones have been deleted`,
      headers: { "Retry-After": "300" },
    });
    expect(await client().sql("select from tasks.tasks")).toEqual([]);
  });

  test("of anonymous callers together take up at most half of all, so there is room for users", async () => {
    await clear();
    const { accept, until } = client();
    for (let i = 0; i < 4; i++) await until("anon", await accept("anon", large(80_000)));
    const id = await accept("anonElsewhere", large(90_000));
    expect((await until("anon", id)).status).toBe("succeeded");
    await settled(id);
    expect((await until("anon", await accept("anonElsewhere", large(90_000)))).status).toBe("failed");
    await withStored(ALL_BYTES / 2, "(anonymous)", async () =>
      expect(await refusal("anonElsewhere")).toEqual({
        status: 503,
        code: "INTERNAL_ERROR",
        message: "the storage for tasks is full: send the request without respond-async, or try again later",
        headers: { "Retry-After": "300" },
      }),
    );
    expect((await until("ada", await accept("ada", large(90_000)))).status).toBe("succeeded");
  });

  test("are checked when a result is stored, so a task that began when there was space may fail", async () => {
    await clear();
    const { accept, until, sql } = client();
    const gate = await newGate(sql);
    const id = await accept("ada", mark("undone"), gate.step, large(90_000));
    await gate.reached();
    await withStored(ALL_BYTES - 50_000, "(all)", async () => {
      await gate.open();
      expect((await until("ada", id)).error).toMatchObject({ status: 429, code: "RATE_LIMITED" });
    });
    expect(await marks()).toEqual([]);
  });

  test("of what runs at the same time exceed a limit by at most one result per task", async () => {
    await clear();
    const { accept, until, sql } = client();
    const gate = await newGate(sql);
    // Room for one and a half results.
    await withStored(ALL_BYTES - 150_000, "(all)", async () => {
      const ids = [await accept("ada", large(90_000), gate.step), await accept("bob", large(90_000), gate.step)];
      await gate.reached(2);
      await gate.open();
      for (const id of ids) expect((await until("service", id)).status).toBe("succeeded");
      await settled(...ids);
      expect(await refusal("service")).toMatchObject({ status: 503 });
      expect(await refusal("anon")).toMatchObject({ status: 503 });
    });
  });

  test("include an error, which is shortened if there is no room for it", async () => {
    await clear();
    const { accept, until, sql } = client();
    const raise = (bytes: number) => ({ sql: `do $$ begin raise exception '%', repeat('x', ${bytes}); end $$` });
    const long = await until("ada", await accept("ada", raise(90_000)));
    expect(long.error.message).toHaveLength(90_000);
    const longer = await until("ada", await accept("ada", raise(110_000)));
    expect([longer.error.status, longer.error.error.message]).toEqual([
      400,
      "the request is not valid, and the list of its errors is too large to store: send less data at a time",
    ]);
    await settled(long.taskId, longer.taskId);
    const { counted: bytes, stored } = await counted();
    expect(bytes).toEqual(stored);
    expect(await sql("select from tasks.tasks where octet_length(error::text) > $1", RESULT_BYTES)).toEqual([]);
  });

  test("are counted exactly, however tasks end", async () => {
    await clear();
    const { accept, ask, until, sql } = client();
    const gate = await newGate(sql);
    const names = ["ada", "bob", "anon", "anonElsewhere", "service"] as const;
    const ids = await Promise.all(
      names.flatMap((name) => [
        accept(name, large(1000)),
        accept(name, mark("twice"), mark("twice")),
        accept(name, large(200_000)),
        accept(name, gate.step),
      ]),
    );
    await gate.reached(3);
    for (const id of ids) await ask("service", "POST", `tasks/${id}/cancel`);
    await gate.open();
    for (const id of ids) await until("service", id);
    await settled(...ids);
    const { counted: bytes, stored } = await counted();
    expect(bytes).toEqual(stored);
    await sql("select tasks.purge('-1 s')");
    expect((await counted()).counted).toEqual({});
  });
});
