import { createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { TaskList } from "graphile-worker";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type { Caller } from "../../db/caller.ts";
import { queuePool } from "../../db/cluster/queue.ts";
import type { Database } from "../../db/database.ts";
import { networkOf } from "../../db/network.ts";
import type { AddressReader } from "../../gate/pipeline/exchange.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { answerOf, type Endpoint } from "../conventions/endpoint.ts";
import { prefixOf } from "../conventions/version.ts";
import { acceptedBody, TaskEndpoint, taskUrl } from "./endpoint.ts";
import type { AllTaskLimits } from "./limits.ts";
import { cronItemsOf, handlersOf, type OwnTask } from "./own-task.ts";
import { ownStorageFull, storageFull, tooManyTasks } from "./problem.ts";
import { type RunnerOptions, TaskRunner } from "./runner.ts";
import { KINDS, type TaskHandler, type TaskKind, type TaskQueue } from "./task-handler.ts";
import { CallerTaskRepository, type FailedTask, type TaskLimits, TaskRepository } from "./task-repository.ts";
import { TaskWorker, WorkerHeartbeat } from "./worker.ts";

export type TaskSettings = TaskLimits &
  QueueOptions["settings"] &
  Pick<Config, "taskConcurrency" | "drainTimeout"> &
  Pick<AllTaskLimits, "taskRetention" | "taskAnonymousRetention">;

type TaskOptions = {
  readonly settings: TaskSettings;
  /** The tasks of the application. */
  readonly own: readonly OwnTask[];
  /** The tasks of other parts of the service, such as e-mails. */
  readonly ofService: TaskList;
  readonly database: Pick<Database, "forRole" | "forTask">;
  /** A direct connection string of a login that may become tasks_owner. */
  readonly url: string;
  readonly addressOf: AddressReader;
  /** Hashes the IP addresses of anonymous callers. The same for all processes. */
  readonly addressKey: Buffer;
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
  registerMetrics(metrics: Metrics): void;
  /** The number of tasks that wait, in all processes. */
  countWaiting(): Promise<number>;
  /** The newest tasks and jobs of all processes whose last attempt has failed. */
  failed(limit: number): Promise<readonly FailedTask[]>;
  /** Begins to run tasks, unless `taskConcurrency` is 0. Rejects if the database can't be reached. */
  start(): Promise<void>;
  /** Waits up to `drainTimeout` for running tasks, then puts them back. Further calls return the same promise. */
  close(): Promise<void>;
};

/** Connections in addition to one per running task: for LISTEN, for the heartbeat and for the repository. */
const MORE_CONNECTIONS = 3;

export function createTasks(options: TaskOptions): Tasks {
  const { settings, database, addressOf, addressKey } = options;
  const handlers = new Map<TaskKind, TaskHandler<unknown>>();
  const repository = new CallerTaskRepository(database, settings);
  const worker = createWorker(options, handlers);
  let closed: Promise<void> | undefined;
  return {
    ...taskQueue({ repository, settings, addressOf, addressKey }),
    endpoint: new TaskEndpoint(repository, settings.dbAnonRole),
    register: (kinds, handler) => {
      for (const kind of KINDS[kinds]) handlers.set(kind, handler);
    },
    registerMetrics: worker.registerMetrics,
    countWaiting: worker.countWaiting,
    failed: worker.failed,
    start: worker.start,
    close: () => {
      closed ??= worker.close();
      return closed;
    },
  };
}

/** The worker of this process, with its connections. */
function createWorker(
  options: TaskOptions,
  handlers: RunnerOptions["handlers"],
): Pick<Tasks, "registerMetrics" | "countWaiting" | "failed" | "start" | "close"> {
  const { settings, database, url, isStillCaller, log, onConnectionError } = options;
  const { taskConcurrency: concurrency, taskRetention: retention, drainTimeout } = settings;
  const anonymousRetention = settings.taskAnonymousRetention;
  const pool = queuePool(url, concurrency + MORE_CONNECTIONS, onConnectionError);
  const repository = new TaskRepository(pool, settings);
  const heartbeat = new WorkerHeartbeat({ pool, onError: onConnectionError });
  const transactionsFor = (role: string) => database.forTask(role);
  const runner = new TaskRunner({ repository, handlers, transactionsFor, isStillCaller, log });
  const times = { retention, anonymousRetention, drainTimeout };
  const ofApplication = {
    handlers: { ...options.ofService, ...handlersOf(options.own, { database, log }) },
    cronItems: cronItemsOf(options.own),
  };
  const worker = new TaskWorker({ pool, repository, heartbeat, runner, concurrency, ...times, ...ofApplication, log });
  return {
    registerMetrics: (metrics) => runner.registerMetrics(metrics),
    countWaiting: () => repository.countWaiting(),
    failed: (limit) => repository.failed(limit),
    start: async () => {
      if (concurrency === 0) return;
      await runner.start();
      await worker.start();
    },
    close: async () => {
      await worker.close();
      await heartbeat.release();
      await pool.end();
    },
  };
}

type QueueOptions = {
  readonly repository: Pick<CallerTaskRepository, "add">;
  readonly settings: TaskLimits & Pick<Config, "dbAnonRole" | "taskAnonymous" | "apiV1Status">;
  readonly addressOf: AddressReader;
  /** Hashes IP addresses. */
  readonly addressKey: Buffer;
};

function taskQueue({ repository, settings, addressOf, addressKey }: QueueOptions): TaskQueue {
  const { dbAnonRole, taskAnonymous, taskMaxPending, apiV1Status } = settings;
  const isAnonymous = ({ role }: Caller) => role === dbAnonRole;
  const hashedAddress = (request: IncomingMessage) =>
    createHmac("sha256", addressKey)
      .update(networkOf(addressOf(request)))
      .digest("base64url");
  return {
    isOpenTo: (caller) => taskAnonymous || !isAnonymous(caller),
    accept: async (task, prefix) => {
      const address = isAnonymous(task.caller) ? hashedAddress(task.sender) : null;
      const added = await repository.add(task, address);
      if (added === "too many") throw tooManyTasks(taskMaxPending);
      if (added === "own storage full") throw ownStorageFull(settings.taskMaxStoredBytesPerOwner);
      if (added === "storage full") throw storageFull();
      // Without a version in the path, the links must still lead to a supported version.
      const linkPrefix = prefix || prefixOf(apiV1Status.status);
      return answerOf(202, acceptedBody(added, linkPrefix), [
        ["Location", taskUrl(added, linkPrefix)],
        ["Preference-Applied", "respond-async"],
      ]);
    },
  };
}
