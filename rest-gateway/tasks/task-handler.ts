import type { Caller } from "../../db/caller.ts";
import type { Identity } from "../../db/identity.ts";
import type { RunOptions, Statement, Transactions } from "../../db/transaction.ts";
import type { RestAnswer } from "../conventions/answer.ts";

/** The kinds of tasks, by the interface that performs them: what takes about as long for each row is of one kind. */
export const KINDS = { resource: ["import", "export"], function: ["function"] } as const;
export type TaskKind = (typeof KINDS)[keyof typeof KINDS][number];

/** A request as it is kept: what `perform` needs to do later what it would have done at once, and no credentials. */
export type KeptRequest = {
  readonly method: string;
  /** Path and query string. */
  readonly url: string;
  /** Those that matter for the answer, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
};

/** What is to be a task. `rows` is how much there is to do; 0 when nobody knows. */
export type NewTask = {
  readonly kind: TaskKind;
  readonly caller: Caller;
  readonly request: KeptRequest;
  readonly rows: number;
};

/** Where an interface leaves what is to be done later. */
export type AcceptsTasks = {
  /** 202 with the task's id, state and estimate. */
  accept(task: NewTask, prefix: string): Promise<RestAnswer>;
};

export type Task = {
  /** A UUID. */
  readonly id: string;
  readonly kind: TaskKind;
  readonly caller: Caller;
  readonly request: KeptRequest;
};

/** One step of the work: `select tasks.keep_result($1, …)` is part of it where it has a result. */
export type Step = { readonly statement: Statement /** What it adds to the progress. */; readonly rows: number };

/** The work of a task: steps of one transaction, run as the caller. */
export type Work = {
  readonly identity: Identity;
  readonly steps: readonly Step[];
  /** Another isolation than read committed. */
  readonly isolation?: RunOptions["isolation"];
};

/** For what has to be known beside the work: transactions of their own, as the caller. */
export type CallerTransactions = Pick<Transactions, "run">;

/** The error of a task as its client would have been told, as JSON. */
export type Told = { readonly status: number; readonly body: object };

/** An interface whose requests may be tasks. */
export type Performer = {
  /** Parses, plans and writes the request again; throws what the interface throws. */
  work(task: Task, transactions: CallerTransactions): Work | Promise<Work>;
  /** Null for an error that is none of the client's business. */
  problemOf(error: unknown, task: Task, transactions: CallerTransactions): Told | null | Promise<Told | null>;
};
