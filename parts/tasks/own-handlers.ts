import type { Task as JobHandler, TaskList } from "graphile-worker";
import type { Logger } from "pino";
import type { Caller } from "../../db/caller.ts";
import type { Database } from "../../db/database.ts";
import { dbOf } from "../../db/queries.ts";
import { NO_REQUEST } from "../../db/transaction/identity.ts";
import { jobName, MAX_ATTEMPTS, type OwnTask } from "../../rest-gateway/tasks/own-task.ts";

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
