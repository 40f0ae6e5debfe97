import type { Logger } from "pino";
import type { Caller } from "../../db/caller.ts";
import type { Logins } from "../../db/cluster/provision.ts";
import { queuePool } from "../../db/cluster/queue.ts";
import type { Database } from "../../db/database.ts";
import { Transactions } from "../../db/transaction.ts";
import { answerOf, type RestAnswer } from "../conventions/answer.ts";
import type { Endpoint } from "../conventions/endpoint.ts";
import { type LifecycleOptions, prefixOf } from "../conventions/lifecycle.ts";
import { TaskEndpoint } from "./endpoint.ts";
import { Presence } from "./heartbeat.ts";
import { tooManyTasks } from "./problem.ts";
import { acceptedBody, addressOf } from "./representation.ts";
import { TaskRunner } from "./runner.ts";
import { TaskStore } from "./store.ts";
import { KINDS, type NewTask, type Performer, type TaskKind } from "./task-handler.ts";
import { Ledger } from "./task-repository.ts";
import { TaskWorker } from "./worker.ts";

/** The names are those of the service's settings. */
export type TaskSettings = {
  readonly anonymousRole: string;
  readonly taskConcurrency: number;
  /** Milliseconds. */
  readonly taskTimeout: number;
  /** Seconds. */
  readonly taskRetention: number;
  readonly taskMaxPending: number;
  readonly taskMaxResultBytes: number;
  readonly poolTimeout: number;
  readonly maxPrepared: number;
  readonly drainTimeout: number;
  readonly v1Status: LifecycleOptions["status"];
};

export type TaskOptions = {
  readonly settings: TaskSettings;
  readonly database: Pick<Database, "forRole">;
  readonly logins: Pick<Logins, "data" | "service">;
  /** A direct connection string of the login that may become tasks_owner. */
  readonly url: string;
  /** Whether somebody may still do what he could do when he asked for it. */
  isStillCaller(caller: Caller): Promise<boolean>;
  readonly log: Logger;
  readonly onConnectionError: (error: Error) => void;
};

/** Work that a client does not wait for. */
export type Tasks = {
  /** 202 with the task's id, state and estimate; `prefix` is "" for who names no version. Throws RestError when too many tasks of the caller have not ended. */
  accept(task: NewTask, prefix: string): Promise<RestAnswer>;
  /** `/tasks` */
  readonly endpoint: Endpoint;
  /** Before `start`. */
  register(performs: keyof typeof KINDS, performer: Performer): void;
  /** Begins to run tasks. Rejects when the database can't be reached. */
  start(): Promise<void>;
  /** Running tasks get some time to end, then they are put back. Calling it again waits for the same end. */
  close(): Promise<void>;
};

/** Connections besides those of running tasks: LISTEN, and what is noted of tasks. */
const MORE_CONNECTIONS = 2;

export function createTasks(options: TaskOptions): Tasks {
  const { settings, database, logins, url, isStillCaller, log, onConnectionError } = options;
  const { taskConcurrency: concurrency, taskMaxPending: maxPending } = settings;
  const performers = new Map<TaskKind, Performer>();
  const store = new TaskStore(database);
  const pool = queuePool(url, concurrency + MORE_CONNECTIONS, onConnectionError);
  const ledger = new Ledger(pool, settings.taskMaxResultBytes);
  const presence = new Presence({ connectionString: url, onError: onConnectionError });
  const work = { data: transactions(logins.data), service: transactions(logins.service) };
  const runner = new TaskRunner({
    ledger,
    performers,
    transactionsFor: (role) => (role === "service_role" ? work.service : work.data),
    statementTimeout: settings.taskTimeout,
    isStillCaller,
    log,
  });
  const { taskRetention: retention, drainTimeout } = settings;
  const worker = new TaskWorker({ pool, ledger, presence, runner, concurrency, retention, drainTimeout, log });

  /** Connections of their own: tasks take long, and requests must not wait for them. */
  function transactions(login: string): Transactions {
    return new Transactions({
      pool: {
        connectionString: login,
        max: concurrency,
        connectionTimeoutMillis: settings.poolTimeout,
        idleTimeoutMillis: 60_000,
        application_name: "content-service tasks",
      },
      statementTimeout: settings.taskTimeout,
      maxPrepared: settings.maxPrepared,
      onConnectionError,
    });
  }

  async function accept(task: NewTask, prefix: string): Promise<RestAnswer> {
    const facts = await store.add(task, maxPending);
    if (facts === null) throw tooManyTasks(maxPending);
    const served = prefix || prefixOf(settings.v1Status);
    return answerOf(202, acceptedBody(facts, served), [
      ["Location", addressOf(facts, served)],
      ["Preference-Applied", "respond-async"],
    ]);
  }

  async function end(): Promise<void> {
    await worker.close();
    await presence.release();
    await Promise.all([pool.end(), work.data.close(), work.service.close()]);
  }

  let ended: Promise<void> | undefined;
  return {
    accept,
    endpoint: new TaskEndpoint(store, settings.anonymousRole),
    register: (performs, performer) => {
      for (const kind of KINDS[performs]) performers.set(kind, performer);
    },
    start: async () => {
      await runner.start();
      await worker.start();
    },
    close: () => {
      ended ??= end();
      return ended;
    },
  };
}
