import type { LiveCatalog } from "../../db/catalog/live.ts";
import { type Identity, NO_REQUEST } from "../../db/identity.ts";
import type { Lifecycle } from "../conventions/lifecycle.ts";
import { Parameters } from "../conventions/parameters.ts";
import { problemBody } from "../conventions/problem.ts";
import { chooseVersion } from "../conventions/version.ts";
import type { CallerTransactions, KeptRequest, Performer, Task, Told, Work } from "../tasks/task-handler.ts";
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

export type PerformerOptions = {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly resources: CurrentResources;
  readonly preferences: PreferenceParser;
  readonly lifecycle: Lifecycle;
  readonly limits: ParseLimits;
  readonly anonymousRole: string;
};

/** Does later, as a task, what a request has asked for. */
export class ResourcePerformer implements Performer {
  readonly #options: PerformerOptions;

  constructor(options: PerformerOptions) {
    this.#options = options;
  }

  async work(task: Task, transactions: CallerTransactions): Promise<Work> {
    const request = this.#parse(task.request);
    const { operation } = request;
    const identity = identityOf(task);
    if (operation.kind === "create") return { identity, steps: importSteps(request, operation, task.id) };
    if (operation.kind !== "list") throw new TypeError(`${operation.kind} is no work for a task`);
    const count = await countOf(request, operation, identity, transactions);
    return { identity, steps: exportSteps(request, operation, task.id, count) };
  }

  async problemOf(error: unknown, task: Task, transactions: CallerTransactions): Promise<Told | null> {
    const { id, caller, request: kept } = task;
    const { preferences, anonymousRole } = this.#options;
    const catalog = this.#options.catalog.current;
    const request = this.#tryParse(kept);
    const attempt = request && { request, identity: identityOf(task), transactions };
    const told = attempt ? await explained(error, attempt, catalog.constraints) : error;
    const problem = restProblem(told, { request, isAnonymous: caller.role === anonymousRole, catalog });
    const dialect = errorDialect(preferences.parse(kept.headers.prefer));
    return problem && { status: problem.status, body: JSON.parse(problemBody(problem, id, dialect)) };
  }

  /** It may be what can't be read any more, since the tables have changed. */
  #tryParse(kept: KeptRequest): ResourceRequest | null {
    try {
      return this.#parse(kept);
    } catch {
      return null;
    }
  }

  #parse({ method, url, headers, body }: KeptRequest): ResourceRequest {
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
