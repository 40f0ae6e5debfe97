import type { Setting } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Identity } from "../../db/identity.ts";
import type { Statement } from "../../db/transaction.ts";
import { requestHeaders } from "../../http/request-context.ts";
import type { ErrorResponse, Step, StoredRequest, Task, TaskHandler, TaskTransaction } from "../tasks/task-handler.ts";
import { addressOf, BASE } from "./address.ts";
import { internalProblem, problemOf } from "./answer/database-problem.ts";
import type { ParseLimits } from "./parse/incoming.ts";
import { parseRequest } from "./parse/request.ts";
import { callOf, type PreRequest } from "./pre-request.ts";
import { type Prepared, type PrepareOptions, Preparer } from "./prepare.ts";
import type { TableRequest } from "./request.ts";
import { isolationFor, settingsFor, statementOf } from "./run.ts";
import { problemBody } from "./send.ts";
import { keepingResult } from "./task.ts";

export type TaskHandlerOptions = {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly anonymousRole: string;
  readonly prepare: PrepareOptions;
  readonly limits: ParseLimits;
  readonly preRequest: PreRequest | null;
};

/** A stored `POST /rest/v1/rpc/<function>`, parsed and prepared. */
type PreparedCall = { readonly request: TableRequest; readonly prepared: Prepared };

/** Repeats `POST /rest/v1/rpc/<function>` as a task. */
export class FunctionTaskHandler implements TaskHandler<PreparedCall> {
  readonly #options: TaskHandlerOptions;
  readonly #preparer: Preparer;
  readonly #before: readonly Statement[];

  constructor(options: TaskHandlerOptions) {
    this.#options = options;
    this.#before = options.preRequest ? [callOf(options.preRequest)] : [];
    // The result of a task has its own limit.
    this.#preparer = new Preparer({ ...options.prepare, maxBytes: null });
  }

  prepare({ method, url, headers, body }: StoredRequest): PreparedCall {
    const { path, search } = addressOf(url);
    const request = parseRequest({
      method,
      path: path.slice(BASE.length + 1),
      search,
      headers,
      body: body === null ? null : Buffer.from(body),
      limits: this.#options.limits,
    });
    return { request, prepared: this.#preparer.prepare(request, this.#options.catalog.current) };
  }

  write({ request, prepared }: PreparedCall, { id, caller, request: stored }: Task): TaskTransaction {
    const { fixed, given } = settingsFor(prepared, caller, this.#options.catalog.current);
    const context = {
      method: stored.method,
      path: addressOf(stored.url).path,
      headers: requestHeaders(stored.headers),
      cookies: "{}",
    };
    // The transaction stores the result, also if the function itself only reads.
    const settings = {
      fixed: fixed.map(([name, value]): Setting => [name, name === READ_ONLY ? "off" : value]),
      given,
    };
    const identity: Identity = { caller, request: context, settings };
    const call = keepingResult(statementOf(prepared.query.main, request), id);
    const steps: Step[] = [...this.#before, call].map((statement) => ({ statement, rows: 0 }));
    return { identity, steps, isolation: isolationFor(prepared, identity) };
  }

  formatError(error: unknown, call: PreparedCall | null, { id, caller }: Task): ErrorResponse {
    const { catalog, anonymousRole } = this.#options;
    const { constraintMessages } = catalog.current;
    const isAnonymous = caller.role === anonymousRole;
    const problem =
      problemOf(error, { isAnonymous, plan: call?.prepared.plan ?? null, constraintMessages }) ?? internalProblem(id);
    return { status: problem.status, body: problemBody(problem) };
  }
}

const READ_ONLY = "transaction_read_only";
