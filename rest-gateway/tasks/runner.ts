import type { Logger } from "pino";
import type { Caller } from "../../db/caller.ts";
import type { Setting } from "../../db/catalog/catalog.ts";
import { internalError } from "../../db/errors.ts";
import type { Identity } from "../../db/identity.ts";
import type { Statement, Transactions } from "../../db/transaction.ts";
import { problemBody, restProblemOf } from "../conventions/problem.ts";
import { CALLER_HAS_CHANGED } from "./problem.ts";
import type { CallerTransactions, Performer, TaskKind, Told } from "./task-handler.ts";
import { CHECK_CLIENT, type Ledger, type Run } from "./task-repository.ts";
import { Watch } from "./watch.ts";

export type RunnerOptions = {
  readonly ledger: Ledger;
  readonly performers: ReadonlyMap<TaskKind, Performer>;
  /** The pool whose login may become `role`. */
  transactionsFor(role: string): Transactions;
  /** Milliseconds until Postgres ends a statement of the work; 0 is never. */
  readonly statementTimeout: number;
  /** Whether somebody may still do what he could do when he asked for it. */
  isStillCaller(caller: Caller): Promise<boolean>;
  readonly log: Logger;
};

/** Runs of a task until it fails for what is not its client's fault. */
const MAX_ATTEMPTS = 4;

/** Does the work of one task after the other; as often as it takes, but with effect only once. */
export class TaskRunner {
  readonly #options: RunnerOptions;
  /** Of every transaction of work, whatever the role's own are: it may take longer than a request. */
  #settings: readonly Setting[];

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#settings = [["statement_timeout", String(options.statementTimeout)]];
  }

  /** Before the first run. Rejects when the database can't be reached. */
  async start(): Promise<void> {
    // What a process that was killed had begun would else go on, to be undone in the end.
    if (await this.#options.ledger.noticesLostClients()) this.#settings = [...this.#settings, [CHECK_CLIENT, "1s"]];
  }

  /** `stopping` is aborted when the service can not wait any longer: the task is put back. Rejects when the ledger does. */
  async run(id: string, stopping: AbortSignal): Promise<void> {
    const run = await this.#options.ledger.begin(id);
    // It was cancelled, or its work was committed by a run that did not hear of it any more.
    if (run === null) return;
    if (run.attempts > MAX_ATTEMPTS)
      return this.#giveUp(run, new Error("the service ended each time that it ran this task"));
    try {
      if (!(await this.#options.isStillCaller(run.task.caller))) return await this.#refuse(run);
      await this.#work(run, stopping);
    } catch (error) {
      await this.#settle(run, error, stopping);
    }
  }

  /** The rights of the time when the task was accepted are worth nothing any more. */
  async #refuse(run: Run): Promise<void> {
    const body = JSON.parse(problemBody(CALLER_HAS_CHANGED, run.task.id));
    await this.#options.ledger.fail(run, errorOf({ status: CALLER_HAS_CHANGED.status, body }));
  }

  /** The steps and the end of the task are one transaction: either both are there or none. */
  async #work(run: Run, stopping: AbortSignal): Promise<void> {
    const ending = new AbortController();
    const stop = () => ending.abort(new Error("the task is not to go on"));
    const watch = new Watch(this.#options.ledger, run, stop);
    if (stopping.aborted) stop();
    stopping.addEventListener("abort", stop);
    try {
      const transactions = this.#transactionsOf(run, ending.signal);
      const { identity, steps, isolation = null } = await this.#performerOf(run).work(run.task, transactions);
      await watch.begin(steps);
      const statements = [...steps.map(({ statement }) => statement), finishStatement(run)];
      const onCompleted = (index: number) => watch.completed(index);
      await transactions.run(identity, statements, { isolation, takesAll: true, onCompleted });
    } finally {
      stopping.removeEventListener("abort", stop);
      await watch.end();
    }
  }

  /** What becomes of a task whose work was undone, or perhaps not: that the ledger knows. */
  async #settle(run: Run, error: unknown, stopping: AbortSignal): Promise<void> {
    const { ledger, log } = this.#options;
    const { task, attempts } = run;
    const told = { taskId: task.id, attempts, err: error };
    if (!(await ledger.isRunning(run))) return log.debug(told, "a task has ended otherwise");
    if (stopping.aborted) return ledger.putBack(run, 0, false);

    const problem = await this.#problemOf(run, error);
    if (problem !== null && problem.status < 500) return ledger.fail(run, errorOf(problem));
    if (attempts >= MAX_ATTEMPTS || isTimeout(error)) return this.#giveUp(run, error);
    log.warn(told, "a task has failed and will be tried again");
    await ledger.putBack(run, 2 ** attempts, true);
  }

  async #giveUp(run: Run, error: unknown): Promise<void> {
    const { ledger, log } = this.#options;
    log.error({ taskId: run.task.id, err: error }, "a task has failed");
    await ledger.fail(run, errorOf((await this.#problemOf(run, error)) ?? internalProblem(run)));
  }

  async #problemOf(run: Run, error: unknown): Promise<Told | null> {
    const performer = this.#options.performers.get(run.task.kind);
    return (await performer?.problemOf(error, run.task, this.#transactionsOf(run))) ?? null;
  }

  /** Those of the caller, under the settings of tasks. */
  #transactionsOf({ task }: Run, signal?: AbortSignal): CallerTransactions {
    const transactions = this.#options.transactionsFor(task.caller.role);
    return {
      run: (identity, statements, options) =>
        transactions.run(withSettings(identity, this.#settings), statements, { signal, ...options }),
    };
  }

  #performerOf({ task }: Run): Performer {
    const performer = this.#options.performers.get(task.kind);
    if (!performer) throw new Error(`nobody here performs tasks of the kind "${task.kind}"`);
    return performer;
  }
}

/** What `GET /tasks/{id}` tells of a task that has failed. */
const errorOf = ({ status, body }: Told): object => ({ status, ...body });

/** The log knows more under the id of the task. */
function internalProblem({ task }: Run): Told {
  const problem = restProblemOf(internalError());
  return { status: problem.status, body: JSON.parse(problemBody(problem, task.id)) };
}

const finishStatement = ({ task, number }: Run): Statement => ({
  text: "select tasks.finish($1::uuid, $2::integer)",
  values: [task.id, String(number)],
});

/** These in place of the identity's own of the same name. */
function withSettings(identity: Identity, settings: readonly Setting[]): Identity {
  const { fixed = [], given = [] } = identity.settings ?? {};
  const others = fixed.filter(([name]) => settings.every(([other]) => other !== name));
  return { ...identity, settings: { fixed: [...others, ...settings], given } };
}

/** It would take as long again. */
const isTimeout = (error: unknown) => (error as { code?: unknown }).code === "57014";
