import type { LiveCatalog } from "../../db/catalog/live.ts";
import { problemBody } from "../conventions/problem.ts";
import type { KeptRequest, Performer, Step, Task, Work } from "../tasks/performer.ts";
import { restProblem } from "./answer/problem.ts";
import type { CurrentResources } from "./current.ts";
import { errorDialect, styleOf } from "./exchange.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { decodeSegments, parseAddress } from "./parse/address.ts";
import { Parameters } from "./parse/parameters.ts";
import type { PreferenceParser } from "./parse/preferences.ts";
import { type ParseLimits, parseRequest } from "./parse/request.ts";
import { parseRoute } from "./parse/route.ts";
import { chooseVersion } from "./parse/version.ts";
import type { ResourceRequest } from "./request.ts";
import { statementOf } from "./runner.ts";
import { writeWork } from "./write/work.ts";

export type PerformerOptions = {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly resources: CurrentResources;
  readonly preferences: PreferenceParser;
  readonly lifecycle: Lifecycle;
  readonly limits: ParseLimits;
  readonly anonymousRole: string;
};

/** Records that one step makes, so that a client sees how far an import has come. */
const RECORDS_OF_STEP = 500;

/** Does later, as a task, what a request has asked for. */
export class ResourcePerformer implements Performer {
  readonly #options: PerformerOptions;

  constructor(options: PerformerOptions) {
    this.#options = options;
  }

  work({ id, caller, request: kept }: Task): Work {
    const request = this.#parse(kept);
    const context = { method: kept.method, path: kept.url.split("?", 1)[0]!, headers: "{}", cookies: "{}" };
    const settings = { fixed: [["timezone", "UTC"]], given: [] } as const;
    return { identity: { caller, request: context, settings }, steps: stepsOf(request, id) };
  }

  problemOf(error: unknown, { id, caller, request: kept }: Task): ReturnType<Performer["problemOf"]> {
    const { catalog, preferences, anonymousRole } = this.#options;
    const { constraints, constraintMessages } = catalog.current;
    const isAnonymous = caller.role === anonymousRole;
    const problem = restProblem(error, { request: this.#tryParse(kept), isAnonymous, constraints, constraintMessages });
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

/** An import goes in steps of some records, an export in one. */
function stepsOf(request: ResourceRequest, id: string): Step[] {
  const { operation, values } = request;
  const written = writeWork(request, values.length);
  if (operation.kind !== "create") return [{ statement: statementOf(written, [...values, id]), rows: 0 }];
  const records: readonly unknown[] = JSON.parse(values[operation.body]!);
  const steps: Step[] = [];
  for (let first = 0; first < records.length; first += RECORDS_OF_STEP) {
    const some = records.slice(first, first + RECORDS_OF_STEP);
    const given = values.with(operation.body, JSON.stringify(some));
    steps.push({ statement: statementOf(written, [...given, id]), rows: some.length });
  }
  return steps;
}
