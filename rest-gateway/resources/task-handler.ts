import type { LiveCatalog } from "../../db/catalog/live.ts";
import { type Identity, NO_REQUEST } from "../../db/identity.ts";
import { Parameters } from "../conventions/parameters.ts";
import { problemBody } from "../conventions/problem.ts";
import { chooseVersion, type Lifecycle } from "../conventions/version.ts";
import type {
  CallerTransactions,
  ErrorResponse,
  StoredRequest,
  Task,
  TaskHandler,
  TaskTransaction,
} from "../tasks/task-handler.ts";
import { restProblem } from "./answer/problem.ts";
import type { CurrentResources } from "./current.ts";
import { errorDialect, styleOf } from "./exchange.ts";
import { decodeSegments, parseAddress } from "./parse/address.ts";
import type { PreferenceParser } from "./parse/preferences.ts";
import { type ParseLimits, parseRequest } from "./parse/request.ts";
import { parseRoute } from "./parse/route.ts";
import { explained } from "./refusal.ts";
import type { ResourceRequest } from "./request.ts";
import { SETTINGS } from "./runner.ts";
import { exportSteps, importSteps } from "./steps.ts";
import { type Of, statementOf } from "./write/statement.ts";
import { writeCount } from "./write/work.ts";

export type TaskHandlerOptions = {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly resources: CurrentResources;
  readonly preferences: PreferenceParser;
  readonly lifecycle: Lifecycle;
  readonly limits: ParseLimits;
  readonly anonymousRole: string;
};

/** Repeats a request for a resource as a task: an import of records or an export of a collection. */
export class ResourceTaskHandler implements TaskHandler<ResourceRequest> {
  readonly #options: TaskHandlerOptions;

  constructor(options: TaskHandlerOptions) {
    this.#options = options;
  }

  prepare({ method, url, headers, body }: StoredRequest): ResourceRequest {
    const { preferences: parser, resources, lifecycle, limits } = this.#options;
    const address = parseAddress(url);
    const parameters = new Parameters(address.search);
    const preferences = parser.parse(headers.prefer);
    const chosen = chooseVersion(address.version, headers, parameters.get("version"), lifecycle.supported);
    const incoming = {
      method,
      route: parseRoute(decodeSegments(address), resources),
      parameters,
      headers,
      body: body === null ? null : Buffer.from(body),
      style: styleOf(chosen, address, preferences),
      preferences,
      isExport: method === "GET",
    };
    return parseRequest(incoming, limits).request;
  }

  async write(request: ResourceRequest, task: Task, transactions: CallerTransactions): Promise<TaskTransaction> {
    const { operation } = request;
    const identity = identityOf(task);
    if (operation.kind === "create") return { identity, steps: importSteps(request, operation, task.id) };
    if (operation.kind !== "list") throw new TypeError(`an operation of kind "${operation.kind}" can not be a task`);
    const count = await countOf(request, operation, identity, transactions);
    return { identity, steps: exportSteps(request, operation, task.id, count) };
  }

  async formatError(
    error: unknown,
    request: ResourceRequest | null,
    task: Task,
    transactions: CallerTransactions,
  ): Promise<ErrorResponse | null> {
    const { preferences, anonymousRole } = this.#options;
    const catalog = this.#options.catalog.current;
    const attempt = request && { request, identity: identityOf(task), transactions };
    const cause = attempt ? await explained(error, attempt, catalog.constraints) : error;
    const problem = restProblem(cause, { request, isAnonymous: task.caller.role === anonymousRole, catalog });
    const dialect = errorDialect(preferences.parse(task.request.headers.prefer));
    return problem && { status: problem.status, body: JSON.parse(problemBody(problem, task.id, dialect)) };
  }
}

const identityOf = ({ caller, request: { method, url } }: Task): Identity => ({
  caller,
  request: { ...NO_REQUEST, method, path: url.split("?", 1)[0]! },
  settings: SETTINGS,
});

/** How many records a list has now. */
async function countOf(
  request: ResourceRequest,
  list: Of<"list">,
  identity: Identity,
  transactions: CallerTransactions,
): Promise<number> {
  const [result] = await transactions.run(identity, [statementOf(writeCount(request, list), request.values)]);
  return Number(result!.rows[0]![0]!.toString());
}
