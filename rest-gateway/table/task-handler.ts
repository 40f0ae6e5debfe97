import type { Setting } from "../../db/catalog/catalog.ts";
import type { Statement } from "../../db/transaction.ts";
import { contextOf } from "../../http/request.ts";
import type { ErrorResponse, StoredRequest, Task, TaskHandler, TaskTransaction } from "../tasks/task-handler.ts";
import { internalProblem, problemOf } from "./answer/error-mapping.ts";
import { parseUrl } from "./parse/request.ts";
import { Preparer, type PreparerOptions } from "./prepare.ts";
import type { Prepared } from "./query.ts";
import type { TableRequest } from "./request.ts";
import { problemBody, type Verbosity } from "./send.ts";

export type TaskHandlerOptions = PreparerOptions & {
  readonly anonymousRole: string;
  readonly errorVerbosity: Verbosity;
};

/** A stored `POST /rest/v1/rpc/<function>`, parsed and prepared. */
type PreparedCall = { readonly request: TableRequest; readonly prepared: Prepared };

/** Repeats `POST /rest/v1/rpc/<function>` as a task. */
export class FunctionTaskHandler implements TaskHandler<PreparedCall> {
  readonly #options: TaskHandlerOptions;
  readonly #preparer: Preparer;

  constructor(options: TaskHandlerOptions) {
    this.#options = options;
    // The result of a task has its own limit.
    this.#preparer = new Preparer({ ...options, prepare: { ...options.prepare, maxBytes: null } });
  }

  prepare({ method, url, headers, body }: StoredRequest): PreparedCall {
    const bytes = body === null ? null : Buffer.from(body);
    const request = this.#preparer.parse({ method, url: parseUrl(url), headers, body: bytes });
    return { request, prepared: this.#preparer.prepare(request) };
  }

  write({ request, prepared }: PreparedCall, { id, caller, request: stored }: Task): TaskTransaction {
    const context = contextOf(stored, parseUrl(stored.url).path);
    const { identity, statements, isolation } = this.#preparer.write(request, prepared, caller, context);
    const { fixed, given } = identity.settings!;
    const all = [...statements.slice(0, -1), storingResult(statements.at(-1)!, id)];
    return {
      identity: { ...identity, settings: { fixed: fixed.map(allowingWrites), given } },
      steps: all.map((statement) => ({ statement, rows: 0 })),
      isolation,
    };
  }

  formatError(error: unknown, call: PreparedCall | null, { id, caller }: Task): ErrorResponse {
    const { catalog, anonymousRole, errorVerbosity } = this.#options;
    const { role } = caller;
    const context = { isAnonymous: role === anonymousRole, role, plan: call?.prepared.plan ?? null };
    const problem = problemOf(error, { ...context, refused: [], catalog: catalog.current }) ?? internalProblem(id);
    return { status: problem.status, body: problemBody(problem, errorVerbosity) };
  }
}

/** The transaction stores the result, even if the function itself only reads. */
const allowingWrites = ([name, value]: Setting): Setting => [name, name === "transaction_read_only" ? "off" : value];

/** Stores the body of a call as the result of a task. It reads `rows`, so that Postgres evaluates the checks of the row count. */
function storingResult({ text, values }: Statement, taskId: string): Statement {
  const result = `with result (body, rows) as materialized (\n${text}\n)`;
  const store = `select tasks.keep_result($${values.length + 1}::uuid, body)\nfrom result\nwhere rows is not null`;
  return { text: `${result}\n${store}`, values: [...values, taskId] };
}
