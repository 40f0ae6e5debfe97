import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { TaskKind } from "../../../rest-gateway/tasks/task-handler.ts";
import { POLL } from "../../support/until.ts";
import { requestOf } from "./sql-task-handler.ts";
import { CALLERS, senderOf, useTasks } from "./support.ts";

const client = useTasks({ taskMaxPending: 20 });

const mark = (name: string) => ({ sql: `insert into public.marks (name) values ('${name}')` });
const result = (json: string) => ({ sql: `select tasks.keep_result($1::uuid, '${json}')` });
const sleep = (seconds: number) => ({ sql: `select pg_sleep(${seconds})` });
const marks = async (name: string) => (await client().sql("select from public.marks where name = $1", name)).length;

describe("an accepted task", () => {
  test("has an id, a status, an estimate and links", async () => {
    const { tasks } = client();
    const request = requestOf([mark("accepted")]);
    const answer = await tasks.accept(
      { kind: "import", caller: CALLERS.ada, request, sender: senderOf("ada") },
      "/api/v2",
    );
    const body = JSON.parse(answer.body!.toString());
    const self = `/api/v2/tasks/${body.taskId}`;
    expect(answer.status).toBe(202);
    expect(Object.fromEntries(answer.headers)).toEqual({ Location: self, "Preference-Applied": "respond-async" });
    expect(body).toEqual({
      taskId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      status: "pending",
      estimate: { seconds: expect.any(Number) },
      _links: { self: { href: self }, cancel: { href: `${self}/cancel`, method: "POST" } },
    });
  });

  test("runs with the identity of its caller and returns its result", async () => {
    const { accept, until } = client();
    const who = "select tasks.keep_result($1::uuid, json_build_object('role', current_user, 'id', auth.uid()))";
    const id = await accept("ada", { sql: who });
    expect(await until("ada", id)).toEqual({
      taskId: id,
      status: "succeeded",
      createdAt: expect.any(String),
      startedAt: expect.any(String),
      finishedAt: expect.any(String),
      estimate: { seconds: 1 },
      result: { role: "authenticated", id: 1 },
      _links: { self: { href: `/tasks/${id}` } },
    });
  });

  test("returns the parts of its result as one array, a single part unchanged, and null if there is none", async () => {
    const { accept, until } = client();
    const several = await accept("ada", result("[1, 2]"), result(" [ ] "), result(' [{"a": "]"}, "é€" ]\n'));
    const empty = await accept("ada", result("[]"), result("[ ]"));
    const single = await accept("ada", result('{"a": 1}'));
    const none = await accept("ada", mark("without a result"));
    expect((await until("ada", several)).result).toEqual([1, 2, { a: "]" }, "é€"]);
    expect((await until("ada", empty)).result).toEqual([]);
    expect((await until("ada", single)).result).toEqual({ a: 1 });
    expect((await until("ada", none)).result).toBeNull();
  });

  test("deletes its request when it ends", async () => {
    const { accept, until, sql } = client();
    const id = await accept("ada", mark("forgotten"));
    await until("ada", id);
    expect(await sql("select request from tasks.tasks where id = $1", id)).toEqual([{ request: null }]);
  });

  test("is running, with a time to ask again, until its changes are committed", async () => {
    const { accept, until, ask, sql } = client();
    await sql("select pg_advisory_lock(1)");
    const id = await accept("ada", mark("first"), { sql: "select pg_advisory_xact_lock(1)" }, mark("second"));
    await until("ada", id, "running");
    expect(await marks("first")).toBe(0);
    const { status, headers } = await ask("ada", "GET", `tasks/${id}`);
    expect([status, headers["Retry-After"]]).toEqual([200, "1"]);
    await sql("select pg_advisory_unlock(1)");
    expect((await until("ada", id)).status).toBe("succeeded");
    expect((await ask("ada", "GET", `tasks/${id}`)).headers).toEqual({});
    expect(await marks("first")).toBe(1);
  });

  test("is estimated as the average duration of the latest tasks of its kind", async () => {
    const { accept, until, sql } = client();
    const estimate = async (kind: TaskKind) => (await sql("select tasks.estimate($1) as seconds", kind))[0].seconds;
    await sql("delete from tasks.tasks");
    const lasted = async (seconds: number) => {
      const id = await accept("bob", sleep(0));
      await until("bob", id);
      const text = "update tasks.tasks set started_at = finished_at - make_interval(secs => $2) where id = $1";
      await sql(text, id, seconds);
    };
    await lasted(1.5);
    expect(await estimate("import")).toBe(2);
    await lasted(8.5);
    expect(await estimate("import")).toBe(5);
    expect(await estimate("export")).toBe(1);
  });
});

describe("a task that fails", () => {
  test("because of its client does so at once, is rolled back, and reports the error", async () => {
    const { accept, until, sql } = client();
    await until("ada", await accept("ada", mark("taken")));
    const id = await accept("ada", mark("undone"), mark("taken"));
    expect(await until("ada", id)).toMatchObject({
      status: "failed",
      error: { status: 409, code: "RESOURCE_CONFLICT", message: "this value is already taken" },
    });
    expect(await marks("undone")).toBe(0);
    expect(await sql("select attempts, request from tasks.tasks where id = $1", id)).toEqual([
      { attempts: 1, request: null },
    ]);
  });

  test("because its result is too large reports this", async () => {
    const { accept, until } = client();
    const id = await accept(
      "ada",
      mark("too large"),
      result(JSON.stringify(["x".repeat(600)])),
      result(JSON.stringify(["y".repeat(600)])),
    );
    expect(await until("ada", id)).toMatchObject({
      status: "failed",
      error: { status: 400, message: "the result of the task is larger than 1000 bytes: request less data at a time" },
    });
    expect(await marks("too large")).toBe(0);
  });

  const FLAKY = `
    create sequence if not exists public.tries;
    grant usage on sequence public.tries to authenticated;
    create or replace function public.fail_until(last bigint) returns void language plpgsql as $$
    begin if nextval('public.tries') < last then raise sqlstate 'XX000' using message = 'a secret'; end if; end $$;
    grant execute on function public.fail_until to authenticated;
    alter sequence public.tries restart`;

  test("for another reason is repeated", async () => {
    const { accept, until, sql } = client();
    await sql(FLAKY);
    const id = await accept("ada", mark("at last"), { sql: "select public.fail_until(2)" });
    await until("ada", id, "pending");
    expect(await marks("at last")).toBe(0);
    expect((await until("ada", id)).status).toBe("succeeded");
    expect([await marks("at last"), await sql("select attempts from tasks.tasks where id = $1", id)]).toEqual([
      1,
      [{ attempts: 2 }],
    ]);
  });

  test("in every attempt fails with INTERNAL_ERROR", async () => {
    const { accept, until, sql } = client();
    await sql(FLAKY);
    const id = await accept("ada", { sql: "select public.fail_until(1000000)" });
    await expect
      .poll(
        async () =>
          (await sql("select attempts from tasks.tasks where id = $1 and status = 'pending'", id))[0]?.attempts,
        POLL,
      )
      .toBe(1);
    await sql("update tasks.tasks set attempts = 3 where id = $1", id);
    const { status, error } = await until("ada", id);
    expect([status, error]).toMatchObject([
      "failed",
      { status: 500, error: { code: "INTERNAL_ERROR", message: "internal error", requestId: id } },
    ]);
  });

  test("because a statement takes too long is not repeated", async () => {
    const { accept, until, sql } = client();
    const id = await accept("ada", { sql: "set local statement_timeout = '50ms'" }, sleep(20));
    expect(await until("ada", id)).toMatchObject({ status: "failed", error: { status: 504 } });
    expect(await sql("select attempts from tasks.tasks where id = $1", id)).toEqual([{ attempts: 1 }]);
  });

  test("because of a deferred constraint at the commit leaves no result", async () => {
    const { accept, until, sql } = client();
    await sql(`create table if not exists public.deferred (id int unique deferrable initially deferred);
      grant insert on public.deferred to authenticated`);
    const id = await accept("ada", { sql: "insert into public.deferred values (1), (1)" }, result("[1]"));
    expect(await until("ada", id)).toMatchObject({ status: "failed", error: { status: 409 } });
    expect(await sql("select from tasks.results where task_id = $1", id)).toEqual([]);
  });
});

describe("when it is cancelled, a task", () => {
  test("that is running is ended in Postgres and rolled back", async () => {
    const { accept, until, ask, sql } = client();
    const id = await accept("ada", mark("cancelled"), sleep(60));
    const sleeping = `select from pg_stat_activity
      where datname = current_database() and query like '%pg_sleep(60)%' and pid <> pg_backend_pid() and state = 'active'`;
    await expect.poll(async () => (await sql(sleeping)).length, POLL).toBe(1);
    const { status, json } = await ask("ada", "POST", `tasks/${id}/cancel`);
    expect([status, json.status, json._links]).toEqual([200, "cancelled", { self: { href: `/tasks/${id}` } }]);
    await expect.poll(async () => (await sql(sleeping)).length, POLL).toBe(0);
    expect(await marks("cancelled")).toBe(0);
    expect((await until("ada", id)).status).toBe("cancelled");
  });

  test("that has already ended stays as it is, and the response is 409", async () => {
    const { accept, until, ask } = client();
    const id = await accept("ada");
    await until("ada", id);
    expect(await ask("ada", "POST", `tasks/${id}/cancel`)).toMatchObject({
      status: 409,
      json: { code: "RESOURCE_CONFLICT", message: "the task has already succeeded and cannot be cancelled" },
    });
  });
});

describe("a task", () => {
  test.each([
    ["ada", ["ada", "admin", "service"]],
    ["service", ["admin", "service"]],
    ["anon", ["ada", "bob", "admin", "anon", "service"]],
  ] as const)("of %s can be seen and cancelled by %j", async (owner, expected) => {
    const { accept, ask, until } = client();
    const id = await accept(owner);
    await until(owner, id);
    for (const caller of ["ada", "bob", "admin", "anon", "service"] as const) {
      const isSeen = (expected as readonly string[]).includes(caller);
      expect([caller, (await ask(caller, "GET", `tasks/${id}`)).status]).toEqual([caller, isSeen ? 200 : 404]);
      expect([caller, (await ask(caller, "POST", `tasks/${id}/cancel`)).status]).toEqual([caller, isSeen ? 409 : 404]);
    }
  });

  test.each([
    ["GET", "tasks/abc", 400, "INVALID_ID"],
    ["POST", "tasks/7/cancel", 400, "INVALID_ID"],
    ["GET", `tasks/${randomUUID()}`, 404, "RESOURCE_NOT_FOUND"],
    ["POST", `tasks/${randomUUID()}/cancel`, 404, "RESOURCE_NOT_FOUND"],
    ["GET", `tasks/${randomUUID()}?x=1`, 400, "BAD_REQUEST"],
  ])("that is requested with %s %s returns %d %s", async (method, address, status, code) => {
    expect(await client().ask("ada", method, address)).toMatchObject({ status, json: { code } });
  });

  test.each([
    [["tasks"], ["GET", "HEAD", "OPTIONS"]],
    [
      ["tasks", "7"],
      ["GET", "HEAD", "OPTIONS"],
    ],
    [
      ["tasks", "7", "cancel"],
      ["POST", "OPTIONS"],
    ],
    [["tasks", "7", "other"], null],
    [["tasks", ""], null],
    [["tasks", "7", "cancel", "x"], null],
  ])("has at the path %j the methods %j", (segments, methods) => {
    expect(client().tasks.endpoint.methodsAt(segments)).toEqual(methods);
  });
});

describe("a caller with too many unfinished tasks", () => {
  test("is rejected until one of them has ended", async () => {
    const { accept, ask, tasks } = client();
    const ids: string[] = [];
    for (let i = 0; i < 20; i++) ids.push(await accept("admin", sleep(30)));
    const one = {
      kind: "import",
      caller: CALLERS.admin,
      request: requestOf([]),
      sender: senderOf("admin"),
    } as const;
    await expect(tasks.accept(one, "")).rejects.toMatchObject({
      status: 429,
      code: "RATE_LIMITED",
      message: "you have 20 unfinished tasks: wait until one has ended, or cancel one",
    });
    await accept("bob");
    for (const id of ids) await ask("admin", "POST", `tasks/${id}/cancel`);
    await accept("admin");
  });

  test("is also rejected when sending many requests at once", async () => {
    const { accept, ask } = client();
    const answers = await Promise.allSettled(Array.from({ length: 30 }, () => accept("anon", sleep(30))));
    const accepted = answers.filter((answer) => answer.status === "fulfilled");
    for (const { value: id } of accepted) await ask("anon", "POST", `tasks/${id}/cancel`);
    expect(accepted.length).toBeLessThanOrEqual(20);
    expect(accepted.length).toBeGreaterThan(15);
  });
});

describe("the list of tasks", () => {
  test("contains the caller's own tasks, newest first, in pages", async () => {
    const { accept, until, ask } = client();
    const { total: before } = (await ask("service", "GET", "tasks")).json.pagination;
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.unshift(await accept("service", result("[1]")));
    for (const id of ids) await until("service", id);
    await accept("anon");
    const { json } = await ask("service", "GET", "tasks?page=1&limit=2");
    expect(json.data.map(({ taskId }: any) => taskId)).toEqual(ids.slice(0, 2));
    expect(json.data[0]).not.toHaveProperty("result");
    const total = before + 3;
    const totalPages = Math.ceil(total / 2);
    expect(json.pagination).toEqual({ page: 1, limit: 2, total, totalPages });
    expect(json.links).toEqual({
      first: "/tasks?page=1&limit=2",
      prev: null,
      next: "/tasks?page=2&limit=2",
      last: `/tasks?page=${totalPages}&limit=2`,
    });
    expect((await ask("service", "GET", "tasks?status=failed")).json.data).toEqual([]);
  });

  test("has at most 100 tasks on a page", async () => {
    expect((await client().ask("ada", "GET", "tasks?limit=5000")).json.pagination.limit).toBe(100);
  });

  test.each([
    ["anon", "tasks", 401, "AUTH_REQUIRED"],
    ["ada", "tasks?page=0", 400, "BAD_REQUEST"],
    ["ada", "tasks?limit=-1", 400, "BAD_REQUEST"],
    ["ada", "tasks?limit=ten", 400, "BAD_REQUEST"],
    ["ada", "tasks?status=done", 400, "BAD_REQUEST"],
    ["ada", "tasks?sort=createdAt", 400, "BAD_REQUEST"],
  ] as const)("is requested by %s with GET %s: the response is %d %s", async (who, address, status, code) => {
    expect(await client().ask(who, "GET", address)).toMatchObject({ status, json: { code } });
  });
});
