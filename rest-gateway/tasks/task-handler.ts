import type { IncomingMessage } from "node:http";
import type { Recipient } from "../../db/admission/byte-budget.ts";
import type { Caller } from "../../db/caller.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { RunOptions, Statement, Transactions } from "../../db/transaction/transaction.ts";
import type { RestAnswer } from "../conventions/endpoint.ts";

/** The kinds of tasks by the interface that handles them. */
export const KINDS = { resource: ["import", "export"], function: ["function"] } as const;
export type TaskKind = (typeof KINDS)[keyof typeof KINDS][number];

/**
 * The text of a request, without credentials: everything that a task handler needs to plan it again.
 *
 *   { method: "POST", url: "/rest/v1/rpc/search", headers: { "content-type": "application/json" }, body: "{…}" }
 */
export type StoredRequest = {
  readonly method: string;
  /** Path and query string. */
  readonly url: string;
  /** The headers that affect the response, with names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
};

/** A request to be handled as a task. */
export type NewTask = {
  readonly kind: TaskKind;
  readonly caller: Caller;
  readonly request: StoredRequest;
  /** The request that the client has sent. Its IP address limits the tasks of an anonymous caller. */
  readonly sender: IncomingMessage;
  /** The client, whose share of the connections stores the task. */
  readonly recipient?: Recipient;
};

/** The queue to which an interface adds its tasks. */
export type TaskQueue = {
  /** Whether the caller may have tasks. If not, `respond-async` is ignored. */
  isOpenTo(caller: Caller): boolean;
  /**
   * 202 with the task's id, status and estimate. `prefix` is the version prefix of the path, "" for none.
   * Throws Problem 429 if the caller has too many unfinished tasks or stored bytes, and 503 if all callers together have.
   */
  accept(task: NewTask, prefix: string): Promise<RestAnswer>;
};

export type Task = {
  /** A UUID. */
  readonly id: string;
  readonly kind: TaskKind;
  readonly caller: Caller;
  readonly request: StoredRequest;
};

/**
 * The work of a task: one transaction with the caller's identity. A statement with a result stores it:
 * `select tasks.keep_result($1, …)`.
 */
export type TaskTransaction = {
  readonly identity: Identity;
  readonly statements: readonly Statement[];
  /** Null or absent: read committed. */
  readonly isolation?: RunOptions["isolation"];
};

/** Separate transactions with the caller's identity, for queries that explain an error. */
export type CallerTransactions = Pick<Transactions, "run">;

/** The error of a failed task: the status and the body with which the interface would have responded. */
export type ErrorResponse = { readonly status: number; readonly body: object };

/**
 * How an interface repeats one of its requests as a task: stored request → planned request → statements.
 * `Planned` is the result of the function with which the interface also plans the requests of its clients.
 */
export type TaskHandler<Planned> = {
  /** Parses and plans the request. Throws the errors of the interface, which fail the task. */
  plan(request: StoredRequest): Planned;
  /** Writes the statements. They take effect once or not at all, even if this process is killed. */
  write(planned: Planned, task: Task): TaskTransaction;
  /**
   * The error as the interface formats it; null for an internal error, whose details the client must not see.
   * `planned` is null if `plan` threw.
   */
  formatError(
    error: unknown,
    planned: Planned | null,
    task: Task,
    transactions: CallerTransactions,
  ): ErrorResponse | null | Promise<ErrorResponse | null>;
};
