import { isUtf8 } from "node:buffer";
import type { Caller } from "../../db/caller.ts";
import type { Setting } from "../../db/catalog/catalog.ts";
import type { Format } from "../../db/query/plan.ts";
import { statementsOf } from "../../db/query/run.ts";
import type { Statement } from "../../db/transaction/transaction.ts";
import { contextOf, type Exchange, recipientOfResponse, requestHeaders } from "../../gate/pipeline/exchange.ts";
import type {
  ErrorResponse,
  NewTask,
  StoredRequest,
  Task,
  TaskHandler,
  TaskQueue,
  TaskTransaction,
} from "../tasks/task-handler.ts";
import type { Answer } from "./answer/answer.ts";
import { internalProblem, problemOf } from "./answer/error-mapping.ts";
import { parseRequest, parseUrl } from "./parse/request.ts";
import { Planner, type PlannerOptions } from "./planner.ts";
import type { ParseLimits, PlannedRequest, RequestUrl, TableRequest } from "./request.ts";
import { tableProblemBody } from "./send.ts";

/** The formats whose bodies are JSON. */
const JSON_FORMATS: ReadonlySet<Format["kind"]> = new Set(["array", "object", "geojson", "scalar"]);

/**
 * Whether the request becomes a task: it calls a function, the client prefers `respond-async`, the result is JSON, which can
 * be stored, and the transaction is not rolled back.
 */
export function isTask(
  { method, preferences }: TableRequest,
  { plan, isRolledBack }: PlannedRequest,
  body: Buffer,
): boolean {
  if (!preferences.respondsAsync || method !== "POST" || plan.kind !== "call") return false;
  return JSON_FORMATS.has(plan.format.kind) && plan.format.explain === null && !isRolledBack && isUtf8(body);
}

export function taskOf(
  { request: sender, response, identity }: Exchange,
  { path, search }: RequestUrl,
  caller: Caller,
  body: Buffer,
): NewTask {
  const { method = "", headers } = sender;
  const url = search === "" ? path : `${path}?${search}`;
  const request = { method, url, headers: JSON.parse(requestHeaders(headers)), body: body.toString() };
  const recipient = recipientOfResponse(response, identity, caller);
  return { kind: "function", caller, request, sender, recipient };
}

/** Queues the task. The answer is 202. Throws Problem if the caller has too many tasks. */
export async function acceptTask(tasks: TaskQueue, task: NewTask, planned: PlannedRequest): Promise<Answer> {
  const { status, headers, body } = await tasks.accept(task, "");
  const applied = [planned.appliedPreferences, "respond-async"].filter((text) => text !== "").join(", ");
  const others = headers.filter(([name]) => name !== APPLIED);
  return { status, headers: [JSON_TYPE, ...others, [APPLIED, applied]], body };
}

const APPLIED = "Preference-Applied";
const JSON_TYPE = ["Content-Type", "application/json; charset=utf-8"] as const;

type TaskHandlerOptions = PlannerOptions & {
  readonly limits: ParseLimits;
  readonly anonymousRole: string;
};

/** A stored `POST /rest/v1/rpc/<function>`, parsed and planned. */
type PlannedCall = { readonly request: TableRequest; readonly planned: PlannedRequest };

/** Repeats `POST /rest/v1/rpc/<function>` as a task. */
export class FunctionTaskHandler implements TaskHandler<PlannedCall> {
  readonly #options: TaskHandlerOptions;
  readonly #planner: Planner;

  constructor(options: TaskHandlerOptions) {
    this.#options = options;
    // The result of a task has its own limit.
    this.#planner = new Planner({ ...options, planning: { ...options.planning, maxBytes: null } });
  }

  plan({ method, url, headers, body }: StoredRequest): PlannedCall {
    const bytes = body === null ? null : Buffer.from(body);
    const request = parseRequest({ method, url: parseUrl(url), headers, body: bytes }, this.#options.limits);
    return { request, planned: this.#planner.plan(request) };
  }

  write({ request, planned }: PlannedCall, { id, caller, request: stored }: Task): TaskTransaction {
    const { fixed, given } = planned.settings;
    const settings = { fixed: fixed.map(allowingWrites), given };
    const statements = statementsOf(planned.query, request);
    return {
      identity: { caller, request: contextOf(stored, parseUrl(stored.url).path), settings },
      statements: [...statements.slice(0, -1), storingResult(statements.at(-1)!, id)],
      isolation: planned.isolation,
    };
  }

  formatError(error: unknown, call: PlannedCall | null, { id, caller }: Task): ErrorResponse {
    const { catalog, anonymousRole } = this.#options;
    const { role } = caller;
    const context = { isAnonymous: role === anonymousRole, role, plan: call?.planned.plan ?? null };
    const problem = problemOf(error, { ...context, refused: [], catalog: catalog.current }) ?? internalProblem(id);
    return { status: problem.status, body: tableProblemBody(problem) };
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
