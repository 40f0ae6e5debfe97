import { EventEmitter } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type ParsedCronItem,
  parseCronItems,
  type Runner,
  run,
  type TaskList,
  type WorkerEvents,
} from "graphile-worker";
import type pg from "pg";
import type { Logger } from "pino";
import { QUEUE_SCHEMA, queueLogger } from "../../db/cluster/queue.ts";
import { every, type Repetition } from "../../db/repeat.ts";
import type { TaskRepository } from "./repository.ts";
import type { TaskRunner } from "./runner.ts";

type WorkerOptions = {
  readonly pool: pg.Pool;
  readonly repository: TaskRepository;
  readonly heartbeat: WorkerHeartbeat;
  readonly runner: TaskRunner;
  /** The number of tasks that run at the same time. */
  readonly concurrency: number;
  /** Seconds for which tasks are kept after their end. */
  readonly retention: number;
  /** The same for tasks of anonymous callers. */
  readonly anonymousRetention: number;
  /** Milliseconds that running tasks have to end when the service stops. */
  readonly drainTimeout: number;
  /** The tasks of the application, and when they run by themselves. */
  readonly handlers: TaskList;
  readonly cronItems: ParsedCronItem[];
  readonly log: Logger;
};

/** Milliseconds between two polls for jobs. Usually a notification arrives earlier. */
const POLL_INTERVAL = 5000;
/** Milliseconds between two checks for jobs of dead workers. */
const FREE_INTERVAL = 5000;
/** Milliseconds until a worker that has ended unexpectedly is restarted. */
const RESTART_DELAY = 1000;
/** Every five minutes. */
const CRON_ITEMS = parseCronItems([{ task: "purge", match: "*/5 * * * *", options: { maxAttempts: 1 } }]);

/** graphile-worker in this process: fetches jobs and runs them. It is restarted if it ends unexpectedly. */
export class TaskWorker {
  readonly #options: WorkerOptions;
  #current: Runner | null = null;
  #supervision: Promise<void> | null = null;
  #frees: Repetition | null = null;
  #closed = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  /** Rejects if the database can't be reached. */
  async start(): Promise<void> {
    const onError = (err: Error) => this.#options.log.debug({ err }, "the search for jobs of dead workers has failed");
    this.#frees = every(FREE_INTERVAL, () => this.#freeJobs(), onError);
    await this.#start();
    this.#supervision = this.#supervise();
  }

  /** Waits up to `drainTimeout` for running tasks, then puts them back. */
  async close(): Promise<void> {
    this.#closed = true;
    const freed = this.#frees?.stop();
    // Stopping a worker that has already ended rejects.
    await this.#current?.stop().catch(() => {});
    await this.#supervision;
    await freed;
  }

  async #start(): Promise<void> {
    const { pool, concurrency, drainTimeout } = this.#options;
    this.#current = await run({
      pgPool: pool,
      schema: QUEUE_SCHEMA,
      concurrency,
      pollInterval: POLL_INTERVAL,
      noHandleSignals: true,
      gracefulShutdownAbortTimeout: drainTimeout,
      logger: queueLogger((level, message) => this.#log(level, message)),
      taskList: this.#taskList(),
      events: this.#events(),
      parsedCronItems: [...CRON_ITEMS, ...this.#options.cronItems],
      preset: this.#preset(),
    });
    // #supervise handles the rejection; it attaches its handler later.
    this.#current.promise.catch(() => {});
  }

  #preset(): GraphileConfig.Preset {
    return {
      // Without these options, a failure to mark a job as done would be an unhandled rejection.
      worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 },
      plugins: [
        {
          name: "HeartbeatPlugin",
          version: "1.0.0",
          worker: { hooks: { startWorker: (_context, { worker }) => this.#holdHeartbeat(worker.workerPool.id) } },
        },
      ],
    };
  }

  #events(): WorkerEvents {
    const events: WorkerEvents = new EventEmitter();
    // Jobs may have been announced before LISTEN took effect, which is when the connection becomes idle.
    events.on("pool:listen:success", ({ client }) => {
      client.once("drain", () => this.#options.repository.announceJobs().catch(() => {}));
    });
    return events;
  }

  async #holdHeartbeat(worker: string): Promise<void> {
    await this.#options.heartbeat.hold(worker);
    this.#frees?.now();
  }

  #taskList(): TaskList {
    const { runner, repository, retention, anonymousRetention } = this.#options;
    return {
      ...this.#options.handlers,
      perform: async (payload, { job, abortSignal }) => {
        const { task } = payload as { readonly task: string };
        await runner.run(task, abortSignal);
        await repository.settle(task);
        // Otherwise graphile-worker would delete a job that another worker has taken over and still needs.
        if (!(await repository.holdsJob(job.id, job.locked_by)))
          throw new Error("another worker has taken over this job");
      },
      purge: () => repository.purge(retention, anonymousRetention),
    };
  }

  async #supervise(): Promise<void> {
    const { log, heartbeat } = this.#options;
    while (!this.#closed) {
      await this.#current?.promise.catch((error) => log.warn({ err: error }, "the task worker has ended"));
      this.#current = null;
      await heartbeat.release();
      if (this.#closed) return;
      await sleep(RESTART_DELAY);
      await this.#start().catch((error) => log.warn({ err: error }, "the task worker cannot start"));
    }
    // `close` was called during the start.
    await this.#current?.stop();
  }

  async #freeJobs(): Promise<void> {
    const { repository, heartbeat, log } = this.#options;
    // Without its lock, this process would consider itself dead.
    if (!heartbeat.isHeld) return;
    const workers = await repository.freeJobs();
    if (workers.length > 0) log.warn({ workers }, "task workers have died: other workers take over their jobs");
  }

  /** Operators only need the warnings and errors of graphile-worker. The runner logs the errors of tasks. */
  #log(level: string, message: string): void {
    this.#options.log[level === "error" || level === "warning" ? "warn" : "debug"](message);
  }
}

/** Milliseconds between two attempts to reconnect. The first attempt immediately follows the loss of the connection. */
const RECONNECT = 500;

type HeartbeatOptions = {
  /** Direct connections: session locks do not work through a pooler in transaction mode. One is kept while the worker lives. */
  readonly pool: pg.Pool;
  readonly onError: (error: Error) => void;
};

/**
 * Shows that a worker is alive, by holding an advisory lock for its name. However this process ends, Postgres
 * releases the lock, and other processes take over the jobs of the worker (`tasks.free_jobs`).
 */
export class WorkerHeartbeat {
  readonly #options: HeartbeatOptions;
  #worker: string | null = null;
  #client: pg.PoolClient | null = null;
  #connecting: Promise<void> | null = null;
  #reconnect: NodeJS.Timeout | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  get isHeld(): boolean {
    return this.#client !== null;
  }

  /** Takes the lock. If that fails, it is retried later; until it succeeds, other processes may consider the worker dead. */
  hold(worker: string): Promise<void> {
    this.#worker = worker;
    this.#connecting ??= this.#connect(worker);
    return this.#connecting;
  }

  /** The worker has ended: any process may take over its jobs. */
  async release(): Promise<void> {
    this.#worker = null;
    clearTimeout(this.#reconnect);
    await this.#connecting;
    this.#connecting = null;
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    const unlocked = await client.query("select pg_advisory_unlock_all()").catch((error: Error) => error);
    client.release(unlocked instanceof Error);
  }

  async #connect(worker: string): Promise<void> {
    const { pool, onError } = this.#options;
    let client: pg.PoolClient | null = null;
    try {
      const connected = await pool.connect();
      client = connected;
      // If a lost session of this worker still holds the lock, this waits until Postgres has ended it.
      await connected.query("select pg_advisory_lock(tasks.lock_of($1))", [worker]);
      this.#client = connected;
      connected.once("end", () => {
        if (this.#client !== connected) return;
        connected.release(true);
        this.#connectAgain(0);
      });
    } catch (error) {
      onError(error as Error);
      client?.release(true);
      this.#connectAgain(RECONNECT);
    }
  }

  #connectAgain(milliseconds: number): void {
    this.#client = null;
    if (this.#worker === null) return;
    this.#reconnect = setTimeout(() => {
      if (this.#worker !== null) this.#connecting = this.#connect(this.#worker);
    }, milliseconds);
  }
}
