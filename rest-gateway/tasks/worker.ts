import { EventEmitter } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { parseCronItems, type Runner, run, type TaskList, type WorkerEvents } from "graphile-worker";
import type pg from "pg";
import type { Logger } from "pino";
import { QUEUE_SCHEMA, queueLogger } from "../../db/cluster/queue.ts";
import type { Presence } from "./heartbeat.ts";
import type { TaskRunner } from "./runner.ts";
import type { Ledger } from "./task-repository.ts";

export type WorkerOptions = {
  readonly pool: pg.Pool;
  readonly ledger: Ledger;
  readonly presence: Presence;
  readonly runner: TaskRunner;
  /** Tasks that run at the same time. */
  readonly concurrency: number;
  /** Seconds that tasks are kept after their end. */
  readonly retention: number;
  /** Milliseconds that running tasks get to end when the service stops. */
  readonly drainTimeout: number;
  readonly log: Logger;
};

/** Milliseconds between two looks for jobs of which nobody has told; all are announced. */
const POLL = 5000;
/** Milliseconds between two looks for jobs of workers that have died. */
const FREE = 5000;
/** Milliseconds until a worker that has ended by itself is begun anew. */
const RESTART = 1000;
/** At the 17th minute of each hour. */
const PURGE = parseCronItems([{ task: "purge", match: "17 * * * *", options: { maxAttempts: 1 } }]);

/** graphile-worker in this process: fetches jobs and runs them, and is begun anew when it has ended by itself. */
export class TaskWorker {
  readonly #options: WorkerOptions;
  #current: Runner | null = null;
  #supervision: Promise<void> | null = null;
  #timer: NodeJS.Timeout | undefined;
  #freeing: Promise<void> | null = null;
  #closed = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  /** Rejects when the database can't be reached. */
  async start(): Promise<void> {
    await this.#begin();
    this.#supervision = this.#supervise();
    this.#timer = setInterval(() => this.#freeJobs(), FREE);
  }

  /** Running tasks get some time to end, then they are put back. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    // One that has ended by itself can't be stopped.
    await this.#current?.stop().catch(() => {});
    await this.#supervision;
    await this.#freeing;
  }

  async #begin(): Promise<void> {
    const { pool, concurrency, drainTimeout } = this.#options;
    this.#current = await run({
      pgPool: pool,
      schema: QUEUE_SCHEMA,
      concurrency,
      pollInterval: POLL,
      noHandleSignals: true,
      gracefulShutdownAbortTimeout: drainTimeout,
      logger: queueLogger((level, message) => this.#log(level, message)),
      taskList: this.#tasks(),
      events: this.#events(),
      parsedCronItems: PURGE,
      preset: {
        // Without a delay graphile-worker leaves it to nobody to hear that a job could not be marked as done.
        worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 },
        plugins: [
          {
            name: "PresencePlugin",
            version: "1.0.0",
            worker: { hooks: { startWorker: (_context, { worker }) => this.#appear(worker.workerPool.id) } },
          },
        ],
      },
    });
    // It is looked at by who supervises, a moment later.
    this.#current.promise.catch(() => {});
  }

  #events(): WorkerEvents {
    const events: WorkerEvents = new EventEmitter();
    // Jobs that were announced while nobody listened: the connection is idle again once it does.
    events.on("pool:listen:success", ({ client }) => {
      client.once("drain", () => this.#options.ledger.announce().catch(() => {}));
    });
    return events;
  }

  async #appear(worker: string): Promise<void> {
    await this.#options.presence.hold(worker);
    this.#freeJobs();
  }

  #tasks(): TaskList {
    const { runner, ledger, retention } = this.#options;
    return {
      perform: async (payload, { job, abortSignal }) => {
        await runner.run((payload as { readonly task: string }).task, abortSignal);
        // It would be done with for those too who have taken it over.
        if (!(await ledger.holdsJob(job.id, job.locked_by))) throw new Error("another worker has taken over this job");
      },
      purge: async () => {
        await ledger.purge(retention);
      },
    };
  }

  async #supervise(): Promise<void> {
    const { log, presence } = this.#options;
    while (!this.#closed) {
      await this.#current?.promise.catch((error) => log.warn({ err: error }, "the worker of tasks has ended"));
      this.#current = null;
      await presence.release();
      if (this.#closed) return;
      await sleep(RESTART);
      await this.#begin().catch((error) => log.warn({ err: error }, "the worker of tasks can not begin"));
    }
    // Closed while it was beginning.
    await this.#current?.stop();
  }

  #freeJobs(): void {
    const { ledger, presence, log } = this.#options;
    // This process would take itself for dead.
    if (!presence.isHeld) return;
    this.#freeing ??= ledger
      .freeJobs()
      .then(
        (workers) => {
          if (workers.length > 0) log.warn({ workers }, "workers of tasks have died: others take over");
        },
        (error) => log.debug({ err: error }, "the jobs of dead workers can not be looked for"),
      )
      .finally(() => {
        this.#freeing = null;
      });
  }

  /** What graphile-worker takes for news is none to an operator, and what it takes for errors has a line of its own. */
  #log(level: string, message: string): void {
    this.#options.log[level === "error" || level === "warning" ? "warn" : "debug"](message);
  }
}
