import type { Logger } from "pino";
import type { Caller } from "../../db/caller.ts";
import type { Setting } from "../../db/catalog/catalog.ts";
import { isTimeout } from "../../db/errors.ts";
import { every } from "../../db/repeat.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Statement, Transactions } from "../../db/transaction/transaction.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import { problemBody, restAnswer } from "../../rest-gateway/conventions/problem.ts";
import type {
  CallerTransactions,
  ErrorResponse,
  TaskHandler,
  TaskKind,
} from "../../rest-gateway/tasks/task-handler.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { CHECK_CLIENT, type TaskAttempt, type TaskRepository } from "./repository.ts";

export type RunnerOptions = {
  readonly repository: TaskRepository;
  readonly handlers: ReadonlyMap<TaskKind, TaskHandler<unknown>>;
  /** The transactions of the login that may become `role`. */
  transactionsFor(role: string): Transactions;
  /** Whether the caller's account is still enabled and has the role that it had when the request was sent. */
  isStillCaller(caller: Caller): Promise<boolean>;
  readonly log: Logger;
};

/** Maximum attempts at a task after errors that its client has not caused. */
const MAX_ATTEMPTS = 4;
/** Milliseconds between two checks that the attempt is still the running one. */
const CHECK_INTERVAL = 1000;

/** `planned` is the result of the handler's `plan`; null before the call, or if it threw. */
type PlannedAttempt = TaskAttempt & { planned: unknown };

/** Handles tasks. A task may need several attempts, of which only one takes effect. */
export class TaskRunner {
  readonly #options: RunnerOptions;
  /** The session settings of every task. */
  #settings: readonly Setting[] = [];

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  /** Call this before the first `run`. Rejects if the database can't be reached. */
  async start(): Promise<void> {
    // Otherwise Postgres continues the work of a killed process, only to roll it back at the end.
    if (await this.#options.repository.detectsLostClients()) this.#settings = [[CHECK_CLIENT, "1s"]];
  }

  /** Makes one attempt. Aborting `stopping` puts the task back. Rejects only if the repository does. */
  async run(id: string, stopping: AbortSignal): Promise<void> {
    const begun = await this.#options.repository.begin(id);
    // Null: the task was cancelled, or an earlier attempt has committed without receiving the confirmation.
    if (begun === null) return;
    const attempt: PlannedAttempt = { ...begun, planned: null };
    if (attempt.counted > MAX_ATTEMPTS) {
      return this.#giveUp(attempt, new Error("the service ended during each attempt at this task"));
    }
    this.running++;
    try {
      if (!(await this.#options.isStillCaller(attempt.task.caller))) return await this.#refuse(attempt);
      await this.#work(attempt, stopping);
      this.ended.succeeded++;
    } catch (error) {
      await this.#settle(attempt, error, stopping);
    } finally {
      this.running--;
    }
  }

  /** Fails the task, because the caller no longer has the rights with which it was accepted. */
  async #refuse(attempt: TaskAttempt): Promise<void> {
    await this.#fail(attempt, responseOf(problem("task caller changed"), attempt));
  }

  async #work(attempt: PlannedAttempt, stopping: AbortSignal): Promise<void> {
    const ending = new AbortController();
    const stop = () => ending.abort(new Error("the attempt was stopped"));
    const watching = every(CHECK_INTERVAL, async () => {
      // An error: the connection is lost. If the transaction is affected too, it fails by itself.
      const isRunning = await this.#options.repository.isRunning(attempt).catch(() => true);
      // It was cancelled, or a later attempt has begun.
      if (!isRunning) stop();
    });
    if (stopping.aborted) stop();
    stopping.addEventListener("abort", stop);
    try {
      await this.#commit(attempt, this.#transactionsOf(attempt, ending.signal));
    } finally {
      stopping.removeEventListener("abort", stop);
      await watching.stop();
    }
  }

  /** How many attempts have ended so far, by their outcome. */
  readonly ended = { succeeded: 0, failed: 0, repeated: 0 };
  /** Attempts that run now. */
  running = 0;

  registerMetrics(metrics: Metrics): void {
    metrics.gauge({ name: "tasks_running", about: "Tasks that run now.", read: () => this.running });
    metrics.counter({
      name: "task_attempts_total",
      about: "Attempts at tasks by outcome: succeeded, failed, or repeated if the task is tried again.",
      labels: ["outcome"],
      read: () => Object.entries(this.ended).map(([outcome, value]) => ({ labels: { outcome }, value })),
    });
  }

  /** One transaction contains the work and the end of the task, so that both take effect or neither. */
  async #commit(attempt: PlannedAttempt, transactions: CallerTransactions): Promise<void> {
    const { task } = attempt;
    const handler = this.#handlerOf(attempt);
    attempt.planned = handler.plan(task.request);
    const { identity, statements, isolation = null } = handler.write(attempt.planned, task);
    const all = [...statements, finishStatement(attempt)];
    await transactions.run(identity, all, { isolation, unlimitedResult: true });
  }

  /** Decides what follows an error. First checks the state of the task, because the transaction may have committed nevertheless. */
  async #settle(attempt: PlannedAttempt, error: unknown, stopping: AbortSignal): Promise<void> {
    const { repository, log } = this.#options;
    const { task, counted } = attempt;
    const details = { taskId: task.id, attempts: counted, err: error };
    if (!(await repository.isRunning(attempt))) return log.debug(details, "the task has already ended");
    if (stopping.aborted) return repository.putBack(attempt, 0, false);

    const response = await this.#errorResponse(attempt, error);
    if (response !== null && response.status < 500) return this.#fail(attempt, response);
    if (counted >= MAX_ATTEMPTS || isTimeout(error)) return this.#giveUp(attempt, error);
    this.ended.repeated++;
    log.warn(details, "an attempt at a task has failed and will be repeated");
    await repository.putBack(attempt, 2 ** counted, true);
  }

  async #giveUp(attempt: PlannedAttempt, error: unknown): Promise<void> {
    this.#options.log.error({ taskId: attempt.task.id, err: error }, "a task has failed");
    // The log has the details under the id of the task.
    const response = await this.#errorResponse(attempt, error);
    await this.#fail(attempt, response ?? responseOf(problem("internal error"), attempt));
  }

  /** Stores the error of the task: `status` and the members of the body. */
  async #fail(attempt: TaskAttempt, { status, body }: ErrorResponse): Promise<void> {
    const error = { status, ...body };
    const { repository } = this.#options;
    const beyond = Buffer.byteLength(JSON.stringify(error)) - FREE_ERROR_BYTES;
    const isStorable = beyond <= 0 || beyond <= (await repository.errorLimit(attempt));
    if (!isStorable) return this.#fail(attempt, responseOf(problem("task errors too large"), attempt));
    await repository.fail(attempt, error);
    this.ended.failed++;
  }

  async #errorResponse(attempt: PlannedAttempt, error: unknown): Promise<ErrorResponse | null> {
    const { task, planned } = attempt;
    const handler = this.#options.handlers.get(task.kind);
    return (await handler?.formatError(error, planned, task, this.#transactionsOf(attempt))) ?? null;
  }

  /** The transactions of the caller, with the session settings of tasks. */
  #transactionsOf({ task }: TaskAttempt, signal?: AbortSignal): CallerTransactions {
    const transactions = this.#options.transactionsFor(task.caller.role);
    return {
      run: (identity, statements, options) =>
        transactions.run(withSettings(identity, this.#settings), statements, { signal, ...options }),
    };
  }

  #handlerOf({ task }: TaskAttempt): TaskHandler<unknown> {
    const handler = this.#options.handlers.get(task.kind);
    if (!handler) throw new Error(`no handler is registered for tasks of kind "${task.kind}"`);
    return handler;
  }
}

/** Bytes of an error that every task can store, as `tasks.size_of` counts them. */
const FREE_ERROR_BYTES = 1024;

const responseOf = (problem: Problem, { task }: TaskAttempt): ErrorResponse => ({
  status: problem.status,
  body: JSON.parse(problemBody(restAnswer(problem), task.id)),
});

const finishStatement = ({ task, number }: TaskAttempt): Statement => ({
  text: "select tasks.finish($1::uuid, $2::integer)",
  values: [task.id, String(number)],
});

/** Adds the session settings to those of the identity, replacing settings of the same name. */
function withSettings(identity: Identity, settings: readonly Setting[]): Identity {
  const { fixed = [], given = [] } = identity.settings ?? {};
  const others = fixed.filter(([name]) => settings.every(([other]) => other !== name));
  return { ...identity, settings: { fixed: [...others, ...settings], given } };
}
