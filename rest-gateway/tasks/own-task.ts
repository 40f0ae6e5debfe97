import { type ParsedCronItem, parseCronItems } from "graphile-worker";
import type { Logger } from "pino";
import type { Db } from "../../db/queries.ts";

/** The warning about the tasks of an application where the service runs none. */
export const TASKS_NOT_RUN = "the tasks of the application are not run: they need the module and the part tasks";

/** Work of an application that no client waits for. SQL adds it with `tasks.run('digest', '{"user": 7}')`. */
export type OwnTask<Payload = any> = {
  /** Letters, digits, `-` and `_`. */
  readonly name: string;
  /** When it runs by itself, as in crontab and in UTC: `0 7 * * *` is every day at 7. Its payload is `{}` then. */
  readonly cron?: string;
  /** How often it is tried; the default is 25, over three days. After that it is dropped, and the log has the error. */
  readonly maxAttempts?: number;
  /** May be called more than once for one payload: after an error, and if the process ends meanwhile. */
  run(payload: Payload, context: TaskContext): Promise<void>;
};

export type TaskContext = {
  /** With the role service_role, which bypasses row-level security. */
  readonly db: Db;
  readonly log: Logger;
  /** Aborted when the service stops and the task has not ended in time. */
  readonly signal: AbortSignal;
};

/** Attempts at a task that does not set `maxAttempts`. */
export const MAX_ATTEMPTS = 25;

/** graphile-worker keeps the number as a smallint. */
const MOST_ATTEMPTS = 32_767;

/** What graphile-worker calls the task. Other names are those of the service. */
export const jobName = (name: string) => `app:${name}`;

const NAME = /^[A-Za-z0-9_-]{1,100}$/;

/** Why the task cannot be registered; null if it can. */
export function faultOf(task: OwnTask): string | null {
  if (!NAME.test(task.name)) return `the name ${JSON.stringify(task.name)} may have only letters, digits, - and _`;
  const { maxAttempts = MAX_ATTEMPTS } = task;
  if (typeof task.run !== "function") return `the task ${task.name} has no function run`;
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1 || maxAttempts > MOST_ATTEMPTS)
    return `maxAttempts of ${task.name} must be a whole number from 1 to ${MOST_ATTEMPTS} (is ${maxAttempts})`;
  try {
    cronItemsOf([task]);
    return null;
  } catch {
    return `the cron of ${task.name} is invalid: write minute, hour, day of the month, month and day of the week, such as 0 7 * * *`;
  }
}

/** The times of the tasks. Of all processes, one adds the job. */
export const cronItemsOf = (tasks: readonly OwnTask[]): ParsedCronItem[] =>
  parseCronItems(
    tasks.flatMap(({ name, cron, maxAttempts = MAX_ATTEMPTS }) =>
      cron === undefined ? [] : [{ task: jobName(name), match: cron, options: { maxAttempts } }],
    ),
  );
