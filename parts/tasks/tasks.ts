import { createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Caller } from "../../db/caller.ts";
import { queuePool } from "../../db/cluster/queue.ts";
import { networkOf } from "../../db/network.ts";
import { answerOf } from "../../rest-gateway/conventions/endpoint.ts";
import { prefixOf } from "../../rest-gateway/conventions/version.ts";
import { cronItemsOf } from "../../rest-gateway/tasks/own-task.ts";
import { KINDS, type TaskHandler, type TaskKind, type TaskQueue } from "../../rest-gateway/tasks/task-handler.ts";
import type { CreateTasks, TaskOptions, Tasks } from "../../rest-gateway/tasks/tasks.ts";
import { acceptedBody, TaskEndpoint, taskUrl } from "./endpoint.ts";
import { handlersOf } from "./own-handlers.ts";
import { ownStorageFull, storageFull, tooManyTasks } from "./problem.ts";
import { CallerTaskRepository, TaskRepository } from "./repository.ts";
import { type RunnerOptions, TaskRunner } from "./runner.ts";
import { TaskWorker, WorkerHeartbeat } from "./worker.ts";

/** Connections in addition to one per running task: for LISTEN, for the heartbeat and for the repository. */
const MORE_CONNECTIONS = 3;

export const createTasks: CreateTasks = (options) => {
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
};

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

type QueueOptions = Pick<TaskOptions, "settings" | "addressOf" | "addressKey"> & {
  readonly repository: Pick<CallerTaskRepository, "add">;
};

function taskQueue({ repository, settings, addressOf, addressKey }: QueueOptions): TaskQueue {
  const { dbAnonRole, taskAnonymousRetention, taskMaxPending, apiV1Status } = settings;
  const isAnonymous = ({ role }: Caller) => role === dbAnonRole;
  const hashedAddress = (request: IncomingMessage) =>
    createHmac("sha256", addressKey)
      .update(networkOf(addressOf(request)))
      .digest("base64url");
  return {
    isOpenTo: (caller) => taskAnonymousRetention > 0 || !isAnonymous(caller),
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
