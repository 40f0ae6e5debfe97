import type { IncomingMessage, ServerResponse } from "node:http";
import type { Caller } from "../../db/caller.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Database } from "../../db/database.ts";
import type { Identity } from "../../db/identity.ts";
import type { Statement } from "../../db/transaction.ts";
import { readBytes } from "../../http/body.ts";
import { ClientGone } from "../../http/client-gone.ts";
import type { Head } from "../../http/head.ts";
import { contextOf } from "../../http/request-context.ts";
import type { TaskQueue } from "../tasks/task-handler.ts";
import { type Address, addressOf, BASE } from "./address.ts";
import { type Answer, answer } from "./answer/answer.ts";
import { internalProblem, problemOf } from "./answer/database-problem.ts";
import { allowedMethods } from "./answer/options.ts";
import type { ParseLimits } from "./parse/incoming.ts";
import { parseRequest } from "./parse/request.ts";
import type { Plan } from "./plan/plan.ts";
import { callOf, type PreRequest } from "./pre-request.ts";
import { type PrepareOptions, Preparer } from "./prepare.ts";
import type { TableRequest } from "./request.ts";
import { run, settingsFor } from "./run.ts";
import { sendAnswer, sendTableProblem } from "./send.ts";
import { Stopwatch } from "./stopwatch.ts";
import { acceptTask, isWork, taskOf } from "./task.ts";

export type TableOptions = {
  readonly database: Pick<Database, "forRole">;
  readonly catalog: Pick<LiveCatalog, "current" | "caughtUp">;
  readonly anonymousRole: string;
  readonly prepare: PrepareOptions;
  readonly limits: ParseLimits & { /** Bytes of a body. */ readonly bodySize: number };
  readonly preRequest: PreRequest | null;
  /** Null where there are none. */
  readonly tasks: TaskQueue | null;
  /** Whether the header Server-Timing says where the time went. */
  readonly showsTiming: boolean;
  /** `apiKey` is the parameter `api_key` where it is no filter. */
  callerOf(request: IncomingMessage, apiKey: string | null): Caller | Promise<Caller>;
  /** What is at `/rest/v1/` and at other addresses that are no tables; null when there is nothing. */
  document(path: string, request: IncomingMessage, caller: Caller, catalog: Catalog): Answer | null;
  onInternalError(error: unknown, requestId: string): void;
};

/** One request on its way; what is learned of it is kept for the answer to its failure. */
type Exchange = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly head: Head;
  readonly address: Address;
  readonly watch: Stopwatch | null;
  caller: Caller | null;
  plan: Plan | null;
};

/** `/rest/v1`: credential → parse → plan → write → run → answer. */
export class TableInterface {
  readonly #options: TableOptions;
  readonly #preparer: Preparer;
  readonly #before: Statement | null;

  constructor(options: TableOptions) {
    this.#options = options;
    this.#before = options.preRequest && callOf(options.preRequest);
    this.#preparer = new Preparer(options.prepare);
  }

  /** Answers every request whose path begins with `BASE`, those that fail too. */
  async handle(request: IncomingMessage, response: ServerResponse, head: Head): Promise<void> {
    const watch = this.#options.showsTiming ? new Stopwatch() : null;
    const address = addressOf(request.url!);
    const exchange: Exchange = { request, response, head, address, watch, caller: null, plan: null };
    try {
      const answered = await this.#answer(exchange);
      watch?.mark("answer");
      sendAnswer(exchange, answered);
    } catch (error) {
      this.#fail(error, exchange);
    }
  }

  async #answer(exchange: Exchange): Promise<Answer> {
    const { limits, catalog } = this.#options;
    const { request, response, address, watch } = exchange;
    const { headers } = request;
    const method = request.method!;
    const caller = await this.#options.callerOf(request, address.apiKey);
    exchange.caller = caller;
    const path = address.path.slice(BASE.length + 1);
    const document = this.#options.document(path, request, caller, catalog.current);
    if (document) return document;

    const body = HAS_BODY.has(method) ? await readBytes(request, limits.bodySize) : null;
    const parsed = parseRequest({ method, path, search: address.search, headers, body, limits });
    if (method === "OPTIONS") return allowedMethods(parsed, catalog.current);
    watch?.mark("parse");
    try {
      return await this.#serve(parsed, body, caller, exchange);
    } catch (error) {
      // The table may have been made, or changed, a moment ago.
      if (!mayBeStale(error) || response.destroyed || !(await catalog.caughtUp())) throw error;
      return this.#serve(parsed, body, caller, exchange);
    }
  }

  async #serve(parsed: TableRequest, body: Buffer | null, caller: Caller, exchange: Exchange): Promise<Answer> {
    const { database, catalog, tasks } = this.#options;
    const { request, response, address, watch } = exchange;
    const prepared = this.#preparer.prepare(parsed, catalog.current);
    exchange.plan = prepared.plan;
    watch?.mark("plan");
    if (tasks && body && isWork(parsed, prepared, body)) {
      return acceptTask(tasks, taskOf(request, address, caller, body), prepared);
    }
    const identity: Identity = {
      caller,
      request: contextOf(request, address.path),
      settings: settingsFor(prepared, caller, catalog.current),
    };
    const ran = await run(database.forRole(caller.role), identity, prepared, parsed, {
      before: this.#before,
      signal: new ClientGone(response),
      onConnected: () => watch?.mark("wait"),
    });
    watch?.mark("query");
    return answer(prepared, ran, address);
  }

  #fail(error: unknown, { request, response, head, caller, plan }: Exchange): void {
    if (response.destroyed) return;
    const isAnonymous = caller === null || caller.role === this.#options.anonymousRole;
    const { constraintMessages } = this.#options.catalog.current;
    const problem = problemOf(error, { isAnonymous, plan, constraintMessages });
    if (!problem) this.#options.onInternalError(error, head.requestId);
    sendTableProblem({ request, response, head }, problem ?? internalProblem(head.requestId));
  }
}

const HAS_BODY = new Set(["POST", "PATCH", "PUT"]);

/** Codes of what the catalog, or the database, does not have. */
const STALE = new Set(["PGRST200", "PGRST202", "PGRST204", "PGRST205", "42P01", "42703", "42704", "42883", "3F000"]);

function mayBeStale(error: unknown): boolean {
  const { problem, code } = error as { problem?: { code: string }; code?: string };
  return STALE.has(problem?.code ?? code ?? "");
}
