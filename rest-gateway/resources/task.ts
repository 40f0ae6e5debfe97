import type { LiveCatalog } from "../../db/catalog/live.ts";
import { finish, type Sql } from "../../db/sql.ts";
import { type Identity, NO_REQUEST } from "../../db/transaction/identity.ts";
import { recipientOfResponse } from "../../http/pipeline/exchange.ts";
import { CREDENTIALS } from "../conventions/parameters.ts";
import { problemBody, restAnswer } from "../conventions/problem.ts";
import { writeStatement } from "../table/run.ts";
import type {
  CallerTransactions,
  ErrorResponse,
  NewTask,
  Step,
  StoredRequest,
  Task,
  TaskHandler,
  TaskTransaction,
} from "../tasks/task-handler.ts";
import { errorDialect, type ResourceExchange } from "./answer/answer.ts";
import { resourceProblem } from "./answer/error-mapping.ts";
import { type ParseOptions, parseText } from "./parse/request.ts";
import { planInsert, planList } from "./plan/request.ts";
import { planRows } from "./plan/rows.ts";
import { explained } from "./refusal.ts";
import { type OperationOf, type ResourceRequest, recordsBody } from "./request.ts";
import { SETTINGS } from "./runner.ts";
import {
  CLOSE_PAGES,
  FETCH_PAGE,
  FETCH_REST,
  writeCount,
  writeImport,
  writeNoRecords,
  writePages,
} from "./write/task.ts";

export type TaskHandlerOptions = ParseOptions & {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly anonymousRole: string;
};

/** Repeats a request for a resource as a task: an import of records or an export of a collection. */
export class ResourceTaskHandler implements TaskHandler<ResourceRequest> {
  readonly #options: TaskHandlerOptions;

  constructor(options: TaskHandlerOptions) {
    this.#options = options;
  }

  plan(stored: StoredRequest): ResourceRequest {
    const body = stored.body === null ? null : Buffer.from(stored.body);
    return parseText({ ...stored, body, isTask: true }, this.#options).request;
  }

  async write(request: ResourceRequest, task: Task, transactions: CallerTransactions): Promise<TaskTransaction> {
    const { operation } = request;
    const identity = identityOf(task);
    if (operation.kind === "create") return { identity, steps: importSteps(request, operation, task.id) };
    if (operation.kind !== "list") throw new TypeError(`an operation of kind "${operation.kind}" cannot be a task`);
    const [counted] = await transactions.run(identity, [countStatement(request, operation)]);
    const count = Number(counted!.rows[0]![0]!.toString());
    return { identity, steps: exportSteps(request, operation, task.id, count) };
  }

  async formatError(
    error: unknown,
    request: ResourceRequest | null,
    task: Task,
    transactions: CallerTransactions,
  ): Promise<ErrorResponse | null> {
    const { anonymousRole } = this.#options;
    const catalog = this.#options.catalog.current;
    const attempt = request && { request, identity: identityOf(task), transactions, catalog };
    const cause = attempt ? await explained(error, attempt) : error;
    const { role } = task.caller;
    const found = resourceProblem(cause, { request, isAnonymous: role === anonymousRole, role, catalog });
    const dialect = errorDialect(this.#options.preferences.parse(task.request.headers.prefer));
    return found && { status: found.status, body: JSON.parse(problemBody(restAnswer(found), task.id, dialect)) };
  }
}

const identityOf = ({ caller, request: { method, url } }: Task): Identity => ({
  caller,
  request: { ...NO_REQUEST, method, path: url.split("?", 1)[0]! },
  settings: SETTINGS,
});

/** Whether a request may be a task: an array of new records, or a whole collection. */
export function mayBeTask({ operation }: ResourceRequest): boolean {
  if (operation.kind === "list") return operation.paging.form === "export";
  return operation.kind === "create" && operation.isMany;
}

/** Headers that change the response. */
const STORED_HEADERS = ["accept", "content-type", "prefer", "x-api-version", "accept-version"];

export function newTask(
  { request, response, identity, caller, parsed }: ResourceExchange,
  body: Buffer | null,
): NewTask {
  const { method = "GET", url = "/", headers } = request;
  const stored = STORED_HEADERS.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])]]));
  const isImport = parsed!.operation.kind === "create";
  return {
    kind: isImport ? "import" : "export",
    caller: caller!,
    request: {
      method,
      url: withoutCredentials(url),
      headers: Object.fromEntries(stored),
      body: body?.toString() ?? null,
    },
    rows: isImport ? parsed!.body!.records.length : 0,
    sender: request,
    recipient: recipientOfResponse(response, identity, caller!),
  };
}

/** Credentials in the URL must not be stored with the task. */
function withoutCredentials(url: string): string {
  const [path = "", search = ""] = url.split("?", 2);
  const parameters = new URLSearchParams(search);
  for (const name of CREDENTIALS) parameters.delete(name);
  return parameters.size === 0 ? path : `${path}?${parameters}`;
}

/** Records per step. Clients see the progress step by step; reading is faster than writing. */
const IMPORTED = 500;
const EXPORTED = 2000;

/** Creates the records of an array, step by step. `id` is the id of the task. */
function importSteps(request: ResourceRequest, operation: OperationOf<"create">, id: string): Step[] {
  const { resource, selection, style, body } = request;
  const { records } = body!;
  const values = [...request.values, id];
  const rows = planRows(resource, selection, style);
  // A missing parent must be an error, which the foreign key raises.
  const written = finish(writeImport(planInsert(request, operation, false), rows, request.values.length));
  const steps: Step[] = [];
  for (let first = 0; first < records.length; first += IMPORTED) {
    const some = records.slice(first, first + IMPORTED);
    const statement = writeStatement(written, { values, body: recordsBody(some, true) });
    steps.push({ statement, rows: some.length });
  }
  return steps;
}

/** Reads a whole list, page by page. `count` is the number of its records when the task starts. */
function exportSteps(request: ResourceRequest, operation: OperationOf<"list">, id: string, count: number): Step[] {
  const input = { values: [...request.values, id], body: null };
  const task = request.values.length;
  const list = planList(request, operation);
  const fullPages = Math.floor(count / EXPORTED);
  const step = (query: Sql, rows: number): Step => ({
    statement: writeStatement(finish(query), input),
    rows,
  });
  const fetchPage = step(FETCH_PAGE, EXPORTED);
  return [
    step(writeNoRecords(task), 0),
    step(writePages(list, task, EXPORTED), 0),
    ...Array.from({ length: fullPages }, () => fetchPage),
    step(FETCH_REST, count - fullPages * EXPORTED),
    step(CLOSE_PAGES, 0),
  ];
}

/** Counts the records of a list. */
const countStatement = (request: ResourceRequest, operation: OperationOf<"list">) =>
  writeStatement(finish(writeCount(planList(request, operation))), request);
