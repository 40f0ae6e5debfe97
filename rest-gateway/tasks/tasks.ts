import type { TaskList } from "graphile-worker";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type { Caller } from "../../db/caller.ts";
import type { Database } from "../../db/database.ts";
import type { AddressReader } from "../../gate/pipeline/exchange.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { Endpoint } from "../conventions/endpoint.ts";
import type { TaskLimits } from "./limits.ts";
import type { OwnTask } from "./own-task.ts";
import type { KINDS, TaskHandler, TaskQueue } from "./task-handler.ts";

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

/** A task or a job whose last attempt has failed. */
export type FailedTask = {
  /** The kind, such as `function`, or `app:digest` for a job. */
  readonly name: string;
  /** A user's id, or a role; null for jobs. */
  readonly owner: string | null;
  readonly at: Date;
  readonly attempts: number;
  /** Null if there is no further attempt. */
  readonly next: Date | null;
  readonly error: string;
};

export type TaskSettings = TaskLimits & Pick<Config, "taskConcurrency" | "drainTimeout" | "dbAnonRole" | "apiV1Status">;

export type TaskOptions = {
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

export type CreateTasks = (options: TaskOptions) => Tasks;

export const STATUSES = ["pending", "running", "succeeded", "failed", "cancelled"];
export const PAGE_SIZE = 20;
