import type pg from "pg";
import type { KeptRequest, Task, TaskKind } from "./task-handler.ts";

/** One time that a task was begun. Only the latest run of a task can end it. */
export type Run = {
  readonly task: Task;
  readonly number: number;
  /** Runs so far, this one included; without those that a stop of the service has ended. */
  readonly attempts: number;
};

type Begun = {
  readonly id: string;
  readonly kind: TaskKind;
  readonly role: string;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly request: KeptRequest;
  readonly run: number;
  readonly attempts: number;
};

/** How often Postgres looks whether the client of a statement is still there. */
export const CHECK_CLIENT = "client_connection_check_interval";
const INVALID_VALUE = "22023";

/** What those who run tasks read and write: on connections of their own, so that it is seen while the work goes on. */
export class Ledger {
  readonly #pool: pg.Pool;
  readonly #maxResultBytes: number;

  constructor(pool: pg.Pool, maxResultBytes: number) {
    this.#pool = pool;
    this.#maxResultBytes = maxResultBytes;
  }

  /** Null when the task has ended. */
  async begin(id: string): Promise<Run | null> {
    const begun: Begun | null = await this.#value("select tasks.begin($1, $2)", id, this.#maxResultBytes);
    if (begun === null) return null;
    const { kind, role, claims, request, run, attempts } = begun;
    const task: Task = { id, kind, caller: { role, claims, expiresAt: null, refused: null }, request };
    return { task, number: run, attempts };
  }

  /** False when the run is to end: the task was cancelled, or somebody else has begun it anew. */
  advance({ task, number }: Run, done: number, total: number | null): Promise<boolean> {
    return this.#value("select tasks.advance($1, $2, $3, $4)", task.id, number, done, total);
  }

  isRunning({ task, number }: Run): Promise<boolean> {
    const text = "select exists (select from tasks.tasks where id = $1 and run = $2 and status = 'running')";
    return this.#value(text, task.id, number);
  }

  /** `error` is what the client is told: `{ status, … }`. */
  async fail({ task, number }: Run, error: object): Promise<void> {
    await this.#value("select tasks.fail($1, $2, $3)", task.id, number, JSON.stringify(error));
  }

  /** The task is begun anew after `seconds`. */
  async putBack({ task, number }: Run, seconds: number, isAttempt: boolean): Promise<void> {
    const text = "select tasks.put_back($1, $2, make_interval(secs => $3), $4)";
    await this.#value(text, task.id, number, seconds, isAttempt);
    // A job is announced when it is made: nobody would look for it when it is due.
    if (seconds > 0) setTimeout(() => this.announce().catch(() => {}), seconds * 1000).unref();
  }

  /** Has workers look for jobs, as graphile-worker does when there are new ones. */
  async announce(): Promise<void> {
    await this.#value("select pg_notify('jobs:insert', '{}')");
  }

  /** Whether the server can look for clients that have gone while it works: not every system can. */
  async noticesLostClients(): Promise<boolean> {
    const text = `select set_config('${CHECK_CLIENT}', '1s', true)`;
    return this.#value(text).then(
      () => true,
      (error) => {
        if (error.code === INVALID_VALUE) return false;
        throw error;
      },
    );
  }

  /** Forgets tasks that have ended longer ago; how many they were. */
  purge(seconds: number): Promise<number> {
    return this.#value("select tasks.purge(make_interval(secs => $1))", seconds);
  }

  /** Whether a job is still with the worker that fetched it. */
  holdsJob(job: string, worker: string | null): Promise<boolean> {
    const text = "select exists (select from graphile_worker.jobs where id = $1 and locked_by = $2)";
    return this.#value(text, job, worker);
  }

  /** Gives back the jobs of workers that have died, and gives tasks without a job a new one; the names of those workers. */
  async freeJobs(): Promise<readonly string[]> {
    const workers: string[] = await this.#value("select tasks.free_jobs()");
    await this.#value("select tasks.restore_jobs()");
    return workers;
  }

  async #value(text: string, ...values: unknown[]): Promise<any> {
    const { rows } = await this.#pool.query({ text, values, rowMode: "array" });
    return rows[0]![0];
  }
}
