import type pg from "pg";
import type { Database } from "../../db/database.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { RawRow } from "../../db/wire/connection.ts";
import { contextOf } from "../../gate/pipeline/exchange.ts";
import type { TaskLimits } from "../../rest-gateway/tasks/limits.ts";
import type { NewTask, StoredRequest, Task, TaskKind } from "../../rest-gateway/tasks/task-handler.ts";
import type { FailedTask } from "../../rest-gateway/tasks/tasks.ts";

/** The state of a task, without its result. Times are ISO 8601. */
export type TaskState = {
  readonly taskId: string;
  readonly status: "pending" | "running" | "succeeded" | "failed" | "cancelled";
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly estimate: { readonly seconds: number };
  /** If the task has failed: `status` and the members of the error response. */
  readonly error: object | null;
};

/** Why a task is not added. */
export type Unadded = "too many" | "own storage full" | "storage full";

export type TaskPage = { readonly tasks: readonly TaskState[]; readonly total: number };

/** Tasks as callers may see and change them. SQL functions decide this; each runs with the caller's identity. */
export class CallerTaskRepository {
  readonly #database: Pick<Database, "forRole">;
  readonly #limits: TaskLimits;

  constructor(database: Pick<Database, "forRole">, limits: TaskLimits) {
    this.#database = database;
    this.#limits = limits;
  }

  /** `address` is the hashed IP address of an anonymous caller, null for others. */
  async add(
    { kind, caller, request, sender, recipient }: NewTask,
    address: string | null,
  ): Promise<TaskState | Unadded> {
    const { taskMaxPending, taskConcurrencyPerOwner, taskMaxStoredBytesPerOwner, taskMaxStoredBytes } = this.#limits;
    const text = "select tasks.accept($1, $2::json, $3::integer, $4, $5::integer, $6::bigint, $7::bigint)";
    const limits = [taskConcurrencyPerOwner, taskMaxStoredBytesPerOwner, taskMaxStoredBytes].map(String);
    const values = [kind, JSON.stringify(request), String(taskMaxPending), address, ...limits];
    const path = request.url.split("?", 1)[0]!;
    const context = { ...contextOf(sender, path, recipient && { recipient }), method: request.method };
    const added = jsonIn(await this.#row({ caller, request: context }, text, values), 0);
    if (added === null) return "too many";
    if ("full" in added) return added.full === "own" ? "own storage full" : "storage full";
    return added;
  }

  /** The task and the parts of its result. Null if there is no such task or the caller may not see it. */
  async find(id: string, identity: Identity): Promise<{ state: TaskState; parts: readonly Buffer[] } | null> {
    const rows = await this.#rows(identity, "select task, part from tasks.find($1::uuid)", [id]);
    const state = stateIn(rows[0] ?? null, 0);
    return state && { state, parts: rows.flatMap(([, part]) => part ?? []) };
  }

  /** The caller's own tasks, newest first. A null `status` matches all. */
  async list(status: string | null, limit: number, offset: number, identity: Identity): Promise<TaskPage> {
    const text = "select tasks, total::text from tasks.list($1, $2::integer, $3::bigint)";
    const row = await this.#row(identity, text, [status, String(limit), String(offset)]);
    return { tasks: JSON.parse(row![0]!.toString()), total: Number(row![1]!.toString()) };
  }

  /** Null if there is no such task or the caller may not see it. */
  async cancel(id: string, identity: Identity): Promise<{ state: TaskState; wasCancelled: boolean } | null> {
    const text = "select task, was_cancelled::text from tasks.cancel($1::uuid)";
    const row = await this.#row(identity, text, [id]);
    const state = stateIn(row, 0);
    return state && { state, wasCancelled: row![1]!.toString() === "true" };
  }

  async #row(identity: Identity, text: string, values: readonly (string | null)[]): Promise<RawRow | null> {
    return (await this.#rows(identity, text, values))[0] ?? null;
  }

  async #rows(identity: Identity, text: string, values: readonly (string | null)[]): Promise<readonly RawRow[]> {
    const transactions = this.#database.forRole(identity.caller.role);
    // The results of tasks have their own limit, which may be higher than that of responses.
    const [result] = await transactions.run({ ...identity, settings: UTC }, [{ text, values, binary: true }], {
      unlimitedResult: true,
    });
    return result!.rows;
  }
}

const UTC: Identity["settings"] = { fixed: [["timezone", "UTC"]], given: [] };

const stateIn = (row: RawRow | null, column: number): TaskState | null => jsonIn(row, column);

function jsonIn(row: RawRow | null, column: number): any {
  const field = row?.[column];
  return field ? JSON.parse(field.toString()) : null;
}

/** One attempt at a task. Only the latest attempt can end the task. */
export type TaskAttempt = {
  readonly task: Task;
  readonly number: number;
  /** Attempts so far, including this one, but not those that ended because the service was stopped. */
  readonly counted: number;
};

type BegunTask = {
  readonly id: string;
  readonly kind: TaskKind;
  readonly role: string;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly request: StoredRequest;
  readonly run: number;
  readonly attempts: number;
};

/** `perform` is the job of a task, which has an owner. */
const FAILED = `
  select name, owner, at, attempts, next, error from (
    (select kind as name, owner, finished_at as at, attempts, null::timestamptz as next,
      left(concat_ws(' ', error ->> 'status', error ->> 'code', error ->> 'message'), 1000) as error
    from tasks.tasks where status = 'failed' order by finished_at desc limit $1)
    union all
    (select task_identifier, null, updated_at, attempts, case when attempts < max_attempts then run_at end,
      left(split_part(last_error, e'\\n', 1), 1000)
    from graphile_worker.jobs where last_error is not null and task_identifier <> 'perform' order by updated_at desc limit $1)
  ) as failed order by at desc limit $1`;

/** How often Postgres checks during a statement that the client is still connected. */
export const CHECK_CLIENT = "client_connection_check_interval";
const INVALID_VALUE = "22023";

/**
 * Tasks and their jobs as the worker reads and writes them. It does not use the connections of the handlers, so that the
 * state of a task is visible before its transaction commits.
 */
export class TaskRepository {
  readonly #pool: pg.Pool;
  readonly #limits: TaskLimits;

  constructor(pool: pg.Pool, limits: TaskLimits) {
    this.#pool = pool;
    this.#limits = limits;
  }

  /** Null if the task has ended. */
  async begin(id: string): Promise<TaskAttempt | null> {
    const { taskMaxResultBytes, taskMaxStoredBytesPerOwner, taskMaxStoredBytes } = this.#limits;
    const limits = { result: taskMaxResultBytes, client: taskMaxStoredBytesPerOwner, all: taskMaxStoredBytes };
    const begun: BegunTask | null = await this.#value("select tasks.begin_attempt($1, $2)", id, limits);
    if (begun === null) return null;
    const { kind, role, claims, request, run, attempts } = begun;
    const task: Task = { id, kind, caller: { role, claims, expiresAt: null, refused: null }, request };
    return { task, number: run, counted: attempts };
  }

  /** Counts the bytes of a task that has ended, and gives its turn to the next one. */
  async settle(id: string): Promise<void> {
    await this.#value("select tasks.settle($1, $2)", id, this.#limits.taskConcurrencyPerOwner);
  }

  /** False if the task has ended, or a later attempt has begun. */
  isRunning({ task, number }: TaskAttempt): Promise<boolean> {
    const text = "select exists (select from tasks.tasks where id = $1 and run = $2 and status = 'running')";
    return this.#value(text, task.id, number);
  }

  /** The bytes that an error of the attempt may have, beyond its first 1024 bytes. */
  async errorLimit({ task }: TaskAttempt): Promise<number> {
    const text = "select tasks.space_for(t)::text from tasks.tasks as t where id = $1";
    return Math.min(this.#limits.taskMaxResultBytes, Number(await this.#value(text, task.id)));
  }

  /** `error` is the `error` of the task in responses: `{ status, … }`. */
  async fail({ task, number }: TaskAttempt, error: object): Promise<void> {
    await this.#value("select tasks.fail($1, $2, $3)", task.id, number, JSON.stringify(error));
  }

  /** Ends the attempt; the next one begins after `seconds`. */
  async putBack({ task, number }: TaskAttempt, seconds: number, isCounted: boolean): Promise<void> {
    const text = "select tasks.put_back($1, $2, make_interval(secs => $3), $4)";
    await this.#value(text, task.id, number, seconds, isCounted);
    // graphile-worker announces a job when it is added, not when it becomes due.
    if (seconds > 0) setTimeout(() => this.announceJobs().catch(() => {}), seconds * 1000).unref();
  }

  /** Makes all workers look for jobs, with the notification that graphile-worker sends for new jobs. */
  async announceJobs(): Promise<void> {
    await this.#value("select pg_notify('jobs:insert', '{}')");
  }

  /** Whether the server can detect during a statement that its client is gone. Not every operating system can. */
  async detectsLostClients(): Promise<boolean> {
    const text = `select set_config('${CHECK_CLIENT}', '1s', true)`;
    return this.#value(text).then(
      () => true,
      (error) => {
        if (error.code === INVALID_VALUE) return false;
        throw error;
      },
    );
  }

  /** Deletes the tasks that ended more than `seconds` ago, or `anonymousSeconds` if their callers were anonymous. */
  async purge(seconds: number, anonymousSeconds: number): Promise<void> {
    await this.#value(
      "select tasks.purge(make_interval(secs => $1), make_interval(secs => $2))",
      seconds,
      anonymousSeconds,
    );
  }

  /** Whether the job is still locked by the worker that fetched it. */
  holdsJob(job: string, worker: string | null): Promise<boolean> {
    const text = "select exists (select from graphile_worker.jobs where id = $1 and locked_by = $2)";
    return this.#value(text, job, worker);
  }

  /** Unlocks the jobs of dead workers, and completes what workers have left undone. Returns the names of the dead workers. */
  async freeJobs(): Promise<readonly string[]> {
    const workers: string[] = await this.#value("select tasks.free_jobs()");
    await this.#value("select tasks.restore_jobs()");
    await this.#value("select tasks.settle_lost($1)", this.#limits.taskConcurrencyPerOwner);
    return workers;
  }

  /** The tasks of all owners that have not begun, or are repeated later. */
  async countWaiting(): Promise<number> {
    const waiting = "select count(*) from tasks.tasks where finished_at is null and status = 'pending'";
    return Number(await this.#value(waiting));
  }

  /**
   * The newest tasks of all owners that have failed, and the jobs of the application and of the service whose last attempt has failed.
   * The error of a task is the one that its owner receives.
   */
  async failed(limit: number): Promise<readonly FailedTask[]> {
    const { rows } = await this.#pool.query<FailedTask>(FAILED, [limit]);
    return rows;
  }

  async #value(text: string, ...values: unknown[]): Promise<any> {
    const { rows } = await this.#pool.query({ text, values, rowMode: "array" });
    return rows[0]![0];
  }
}
