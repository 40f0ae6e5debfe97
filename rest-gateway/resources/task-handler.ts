import type { LiveCatalog } from "../../db/catalog/live.ts";
import { type Identity, NO_REQUEST } from "../../db/identity.ts";
import { problemBody } from "../conventions/problem.ts";
import type {
  CallerTransactions,
  ErrorResponse,
  StoredRequest,
  Task,
  TaskHandler,
  TaskTransaction,
} from "../tasks/task-handler.ts";
import { errorDialect } from "./answer/headers.ts";
import { restProblem } from "./answer/problem.ts";
import { decodeSegments } from "./parse/address.ts";
import { type PrepareOptions, RequestReader } from "./prepare.ts";
import { explained } from "./refusal.ts";
import type { ResourceRequest } from "./request.ts";
import { SETTINGS } from "./runner.ts";
import { countStatement, exportSteps, importSteps } from "./task.ts";

export type TaskHandlerOptions = PrepareOptions & {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly anonymousRole: string;
};

/** Repeats a request for a resource as a task: an import of records or an export of a collection. */
export class ResourceTaskHandler implements TaskHandler<ResourceRequest> {
  readonly #options: TaskHandlerOptions;
  readonly #reader: RequestReader;

  constructor(options: TaskHandlerOptions) {
    this.#options = options;
    this.#reader = new RequestReader(options);
  }

  prepare(stored: StoredRequest): ResourceRequest {
    const target = this.#reader.target(stored);
    const body = stored.body === null ? null : Buffer.from(stored.body);
    return this.#reader.request(stored, target, this.#reader.route(decodeSegments(target.address)), body, true).request;
  }

  async write(request: ResourceRequest, task: Task, transactions: CallerTransactions): Promise<TaskTransaction> {
    const { operation } = request;
    const identity = identityOf(task);
    if (operation.kind === "create") return { identity, steps: importSteps(request, operation, task.id) };
    if (operation.kind !== "list") throw new TypeError(`an operation of kind "${operation.kind}" can not be a task`);
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
    const attempt = request && { request, identity: identityOf(task), transactions };
    const cause = attempt ? await explained(error, attempt, catalog.constraints) : error;
    const problem = restProblem(cause, { request, isAnonymous: task.caller.role === anonymousRole, catalog });
    const dialect = errorDialect(this.#reader.preferences(task.request.headers));
    return problem && { status: problem.status, body: JSON.parse(problemBody(problem, task.id, dialect)) };
  }
}

const identityOf = ({ caller, request: { method, url } }: Task): Identity => ({
  caller,
  request: { ...NO_REQUEST, method, path: url.split("?", 1)[0]! },
  settings: SETTINGS,
});
