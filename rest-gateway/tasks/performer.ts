import type { Caller, Identity } from "../../db/caller.ts";
import type { RunOptions, Statement } from "../../db/transaction.ts";

/** Which interface runs a task. */
export type TaskKind = "resource" | "function";

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

/** An interface whose requests may be tasks. */
export type Performer = {
  /** Parses, plans and writes the request again; throws what the interface throws. */
  work(task: Task): Work;
  /** The error as its client would have been told, as JSON; null for one that is none of the client's business. */
  problemOf(error: unknown, task: Task): { readonly status: number; readonly body: object } | null;
};
