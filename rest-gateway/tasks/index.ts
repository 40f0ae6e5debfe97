import type { Logger } from "pino";
import type { Caller } from "../../db/caller.ts";
import type { Logins } from "../../db/cluster/provision.ts";
import { queuePool } from "../../db/cluster/queue.ts";
import type { Database } from "../../db/database.ts";
import { Transactions } from "../../db/transaction.ts";
import { answerOf, type Endpoint } from "../conventions/endpoint.ts";
import { type LifecycleOptions, prefixOf } from "../conventions/version.ts";
import { TaskEndpoint } from "./endpoint.ts";
import { WorkerHeartbeat } from "./heartbeat.ts";
import { tooManyTasks } from "./problem.ts";
import { acceptedBody, taskUrl } from "./representation.ts";
import { type RunnerOptions, TaskRunner } from "./runner.ts";
import { KINDS, type TaskHandler, type TaskKind, type TaskQueue } from "./task-handler.ts";
import { CallerTaskRepository, TaskRepository } from "./task-repository.ts";
import { TaskWorker } from "./worker.ts";

/** Settings of the service, under the same names. */
export type TaskSettings = {
  readonly dbAnonRole: string;
  readonly taskConcurrency: number;
  /** Milliseconds. */
  readonly taskTimeout: number;
  /** Seconds. */
  readonly taskRetention: number;
  readonly taskMaxPending: number;
  readonly taskMaxResultBytes: number;
  readonly dbPoolTimeout: number;
  readonly dbPreparedStatements: number;
  readonly drainTimeout: number;
  readonly apiV1Status: LifecycleOptions["status"];
};

export type TaskOptions = {
  readonly settings: TaskSettings;
  readonly database: Pick<Database, "forRole">;
  readonly logins: Pick<Logins, "data" | "service">;
  /** A direct connection string of a login that may become tasks_owner. */
  readonly url: string;
  /** Whether the caller's account is still enabled and has the role that it had when the request was sent. */
  isStillCaller(caller: Caller): Promise<boolean>;
  readonly log: Logger;
  readonly onConnectionError: (error: Error) => void;
};

/** Asynchronous work: requests whose clients do not wait for the result. */
export type Tasks = TaskQueue & {
  /** `/tasks` */
  readonly endpoint: Endpoint;
  /** Call this before `start`. */
  register(kinds: keyof typeof KINDS, handler: TaskHandler<unknown>): void;
  /** Begins to run tasks. Rejects if the database can't be reached. */
  start(): Promise<void>;
  /** Waits up to `drainTimeout` for running tasks, then puts them back. Further calls return the same promise. */
  close(): Promise<void>;
};

/** Connections in addition to one per running task: for LISTEN and for the repository. */
const MORE_CONNECTIONS = 2;

export function createTasks(options: TaskOptions): Tasks {
  const { settings, database } = options;
  const handlers = new Map<TaskKind, TaskHandler<unknown>>();
  const repository = new CallerTaskRepository(database);
  const worker = createWorker(options, handlers);
  let closed: Promise<void> | undefined;
  return {
    ...taskQueue(repository, settings),
    endpoint: new TaskEndpoint(repository, settings.dbAnonRole),
    register: (kinds, handler) => {
      for (const kind of KINDS[kinds]) handlers.set(kind, handler);
    },
    start: worker.start,
    close: () => {
      closed ??= worker.close();
      return closed;
    },
  };
}

/** The worker of this process, with its connections. */
function createWorker(options: TaskOptions, handlers: RunnerOptions["handlers"]): Pick<Tasks, "start" | "close"> {
  const { settings, logins, url, isStillCaller, log, onConnectionError } = options;
  const { taskConcurrency: concurrency, taskRetention: retention, drainTimeout } = settings;
  const pool = queuePool(url, concurrency + MORE_CONNECTIONS, onConnectionError);
  const repository = new TaskRepository(pool, settings.taskMaxResultBytes);
  const heartbeat = new WorkerHeartbeat({ connectionString: url, onError: onConnectionError });
  const data = workTransactions(logins.data, settings, onConnectionError);
  const service = workTransactions(logins.service, settings, onConnectionError);
  const transactionsFor = (role: string) => (role === "service_role" ? service : data);
  const statementTimeout = settings.taskTimeout;
  const runner = new TaskRunner({ repository, handlers, transactionsFor, statementTimeout, isStillCaller, log });
  const worker = new TaskWorker({ pool, repository, heartbeat, runner, concurrency, retention, drainTimeout, log });
  return {
    start: async () => {
      await runner.start();
      await worker.start();
    },
    close: async () => {
      await worker.close();
      await heartbeat.release();
      await Promise.all([pool.end(), data.close(), service.close()]);
    },
  };
}

/** A separate pool for the handlers: tasks may take long, and requests must not wait for their connections. */
function workTransactions(
  login: string,
  settings: TaskSettings,
  onConnectionError: TaskOptions["onConnectionError"],
): Transactions {
  return new Transactions({
    pool: {
      connectionString: login,
      max: settings.taskConcurrency,
      connectionTimeoutMillis: settings.dbPoolTimeout,
      idleTimeoutMillis: 60_000,
      application_name: "content-service tasks",
    },
    statementTimeoutOf: () => settings.taskTimeout,
    maxPrepared: settings.dbPreparedStatements,
    onConnectionError,
  });
}

const taskQueue = (repository: CallerTaskRepository, { taskMaxPending, apiV1Status }: TaskSettings): TaskQueue => ({
  accept: async (task, prefix) => {
    const state = await repository.add(task, taskMaxPending);
    if (state === null) throw tooManyTasks(taskMaxPending);
    // Without a version in the path, the links must still lead to a supported version.
    const linkPrefix = prefix || prefixOf(apiV1Status);
    return answerOf(202, acceptedBody(state, linkPrefix), [
      ["Location", taskUrl(state, linkPrefix)],
      ["Preference-Applied", "respond-async"],
    ]);
  },
});
