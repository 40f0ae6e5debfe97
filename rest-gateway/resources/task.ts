import type { LiveCatalog } from "../../db/catalog/live.ts";
import { writeStatement } from "../../db/query/run.ts";
import { finish } from "../../db/sql.ts";
import { type Identity, NO_REQUEST } from "../../db/transaction/identity.ts";
import type { Statement } from "../../db/transaction/transaction.ts";
import { recipientOfResponse } from "../../gate/pipeline/exchange.ts";
import { CREDENTIALS } from "../conventions/parameters.ts";
import { problemBody, restAnswer } from "../conventions/problem.ts";
import type {
  CallerTransactions,
  ErrorResponse,
  NewTask,
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
import { writeImport, writeNoRecords, writePages } from "./write/task.ts";

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
    return parseText({ ...stored, body, isTask: true }, this.#options);
  }

  write(request: ResourceRequest, task: Task): TaskTransaction {
    const { operation } = request;
    const identity = identityOf(task);
    if (operation.kind === "create") return { identity, statements: [importStatement(request, operation, task.id)] };
    if (operation.kind !== "list") throw new TypeError(`an operation of kind "${operation.kind}" cannot be a task`);
    return { identity, statements: exportStatements(request, operation, task.id) };
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
  return {
    kind: parsed!.operation.kind === "create" ? "import" : "export",
    caller: caller!,
    request: {
      method,
      url: withoutCredentials(url),
      headers: Object.fromEntries(stored),
      body: body?.toString() ?? null,
    },
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

/** Creates the records of an array. `id` is the id of the task. */
function importStatement(request: ResourceRequest, operation: OperationOf<"create">, id: string): Statement {
  const { resource, selection, style, body } = request;
  const rows = planRows(resource, selection, style);
  // A missing parent must be an error, which the foreign key raises.
  const written = finish(writeImport(planInsert(request, operation, false), rows, request.values.length));
  return writeStatement(written, { values: [...request.values, id], body: recordsBody(body!.records, true) });
}

/** Reads a whole list. */
function exportStatements(request: ResourceRequest, operation: OperationOf<"list">, id: string): Statement[] {
  const input = { values: [...request.values, id], body: null };
  const task = request.values.length;
  const parts = [writeNoRecords(task), writePages(planList(request, operation), task)];
  return parts.map((part) => writeStatement(finish(part), input));
}
