import type { Setting } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Identity } from "../../db/identity.ts";
import type { Statement } from "../../db/transaction.ts";
import { requestHeaders } from "../../http/request-context.ts";
import type { KeptRequest, Performer, Step, Task, Work } from "../tasks/task-handler.ts";
import { addressOf, BASE } from "./address.ts";
import { internalProblem, problemOf } from "./answer/database-problem.ts";
import type { ParseLimits } from "./parse/incoming.ts";
import { parseRequest } from "./parse/request.ts";
import type { Plan } from "./plan/plan.ts";
import { callOf, type PreRequest } from "./pre-request.ts";
import { type PrepareOptions, Preparer } from "./prepare.ts";
import type { TableRequest } from "./request.ts";
import { isolationFor, settingsFor, statementOf } from "./run.ts";
import { problemBody } from "./send.ts";
import { keepingResult } from "./task.ts";

export type PerformerOptions = {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly anonymousRole: string;
  readonly prepare: PrepareOptions;
  readonly limits: ParseLimits;
  readonly preRequest: PreRequest | null;
};

/** Calls functions later, as tasks, as `POST /rest/v1/rpc/<function>` would have. */
export class FunctionPerformer implements Performer {
  readonly #options: PerformerOptions;
  readonly #preparer: Preparer;
  readonly #before: readonly Statement[];

  constructor(options: PerformerOptions) {
    this.#options = options;
    this.#before = options.preRequest ? [callOf(options.preRequest)] : [];
    // The result of a task has a limit of its own.
    this.#preparer = new Preparer({ ...options.prepare, maxBytes: null });
  }

  work({ id, caller, request: kept }: Task): Work {
    const { catalog } = this.#options;
    const parsed = this.#parse(kept);
    const prepared = this.#preparer.prepare(parsed, catalog.current);
    const { fixed, given } = settingsFor(prepared, caller, catalog.current);
    const context = {
      method: kept.method,
      path: addressOf(kept.url).path,
      headers: requestHeaders(kept.headers),
      cookies: "{}",
    };
    // What a function returns is written down, also where the function itself only reads.
    const settings = {
      fixed: fixed.map(([name, value]): Setting => [name, name === READ_ONLY ? "off" : value]),
      given,
    };
    const identity: Identity = { caller, request: context, settings };
    const call = keepingResult(statementOf(prepared.query.main, parsed), id);
    const steps: Step[] = [...this.#before, call].map((statement) => ({ statement, rows: 0 }));
    return { identity, steps, isolation: isolationFor(prepared, identity) };
  }

  problemOf(error: unknown, { id, caller, request: kept }: Task): ReturnType<Performer["problemOf"]> {
    const { catalog, anonymousRole } = this.#options;
    const { constraintMessages } = catalog.current;
    const context = { isAnonymous: caller.role === anonymousRole, plan: this.#planOf(kept), constraintMessages };
    const problem = problemOf(error, context) ?? internalProblem(id);
    return { status: problem.status, body: problemBody(problem) };
  }

  #parse({ method, url, headers, body }: KeptRequest): TableRequest {
    const { path, search } = addressOf(url);
    return parseRequest({
      method,
      path: path.slice(BASE.length + 1),
      search,
      headers,
      body: body === null ? null : Buffer.from(body),
      limits: this.#options.limits,
    });
  }

  /** Null where it can't be had any more, since the functions have changed. */
  #planOf(kept: KeptRequest): Plan | null {
    try {
      return this.#preparer.prepare(this.#parse(kept), this.#options.catalog.current).plan;
    } catch {
      return null;
    }
  }
}

const READ_ONLY = "transaction_read_only";
