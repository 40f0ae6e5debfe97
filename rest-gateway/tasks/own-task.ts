import { type Task as JobHandler, type ParsedCronItem, parseCronItems, type TaskList } from "graphile-worker";
import type { Logger } from "pino";
import type { Caller } from "../../db/caller.ts";
import type { Database } from "../../db/database.ts";
import { type Db, dbOf } from "../../db/queries.ts";
import { NO_REQUEST } from "../../db/transaction/identity.ts";

/** Work of an application that no client waits for. SQL adds it with `tasks.run('digest', '{"user": 7}')`. */
/** What the log of a start says of an application with tasks without the module `tasks`. */
export const TASKS_NOT_RUN = "the tasks of the application are not run: they need the module tasks";

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

const MAX_ATTEMPTS = 25;

/** What graphile-worker calls the task. Other names are those of the service. */
const jobName = (name: string) => `app:${name}`;

const NAME = /^[A-Za-z0-9_-]{1,100}$/;

/** Why the task cannot be registered; null if it can. */
export function faultOf(task: OwnTask): string | null {
  if (!NAME.test(task.name)) return `the name ${JSON.stringify(task.name)} may have only letters, digits, - and _`;
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

type HandlerOptions = { readonly database: Pick<Database, "forTask">; readonly log: Logger };

/** The tasks as graphile-worker runs them. */
export const handlersOf = (tasks: readonly OwnTask[], options: HandlerOptions): TaskList =>
  Object.fromEntries(tasks.map((task) => [jobName(task.name), handlerOf(task, options)]));

const SERVICE: Caller = { role: "service_role", claims: { role: "service_role" }, expiresAt: null, refused: null };

function handlerOf({ name, maxAttempts = MAX_ATTEMPTS, run }: OwnTask, { database, log }: HandlerOptions): JobHandler {
  return async (payload, { job: { attempts }, abortSignal }) => {
    const signal = abortSignal ?? new AbortController().signal;
    const db = dbOf((statements) =>
      database
        .forTask(SERVICE.role)
        .run({ caller: SERVICE, request: NO_REQUEST }, statements, { signal, isOfRole: true }),
    );
    try {
      await run(withoutCron(payload), { db, log: log.child({ task: name }), signal });
    } catch (err) {
      // The job of a task that was stopped is put back, and its attempt is not one of them.
      const isLast = attempts >= maxAttempts && !signal.aborted;
      if (!isLast) {
        log.warn({ err, task: name, attempts }, "a task of the application has failed and will be repeated");
        throw err;
      }
      log.error({ err, task: name, attempts }, "a task of the application has failed");
    }
  };
}

/** graphile-worker adds the time to the payload of jobs of its cron. */
const withoutCron = (payload: unknown): unknown =>
  typeof payload === "object" && payload !== null && "_cron" in payload
    ? Object.fromEntries(Object.entries(payload).filter(([key]) => key !== "_cron"))
    : payload;
