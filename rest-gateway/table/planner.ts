import { shapeCache } from "../../cache/cache.ts";
import type { Config } from "../../config/config.ts";
import type { Caller } from "../../db/caller.ts";
import type { Catalog, Setting } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import { quoteIdentifier } from "../../db/sql.ts";
import type { RequestContext } from "../../db/transaction/identity.ts";
import { ROWS_PORTAL } from "../../db/transaction/row-stream.ts";
import type { Statement } from "../../db/transaction/transaction.ts";
import { ISOLATION, isolationOf } from "../../db/transaction/transaction-plan.ts";
import { appliedPreferences, profileHeader, warningOf } from "./answer/answer.ts";
import { BASE, parseRequest } from "./parse/request.ts";
import { type PlanOptions, planRequest } from "./plan/request.ts";
import { isReadOnly, type Plan } from "./plan.ts";
import type { PlannedRequest, StreamQuery } from "./query.ts";
import type { ParseLimits, RequestText, TableRequest } from "./request.ts";
import { type TableTransaction, writeStatement } from "./run.ts";
import { writeQuery } from "./write/query.ts";

export type PlanningOptions = PlanOptions & Pick<Config, "dbExtraSearchPath" | "dbTxEnd" | "appSettings">;

export type PlannerOptions = {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly limits: ParseLimits;
  readonly planning: PlanningOptions;
};

/** Turns the text of a request into its statements, for requests and for the tasks that repeat them. */
export class Planner {
  readonly #options: PlannerOptions;
  #catalog: Catalog | null = null;
  readonly #shapes = shapeCache(lengthOf);

  constructor(options: PlannerOptions) {
    this.#options = options;
  }

  /** Throws Problem. */
  parse({ method, url, headers, body, content }: RequestText): TableRequest {
    const path = url.path.slice(BASE.length + 1);
    return parseRequest({ method, path, search: url.search, headers, body, content, limits: this.#options.limits });
  }

  /** Plans and writes each shape once per catalog. Throws Problem. */
  plan(request: TableRequest): PlannedRequest {
    const catalog = this.#options.catalog.current;
    if (catalog !== this.#catalog) {
      this.#catalog = catalog;
      this.#shapes.clear();
    }
    return this.#shapes.getOrCompute(request.shape, () => planShape(request, catalog, this.#options.planning));
  }

  /**
   * Adds what differs between requests of one shape: the caller, the context and the values. A stream replaces the main
   * statement by two: the first returns the rows, the second (`head`) everything else.
   */
  write(
    request: TableRequest,
    planned: PlannedRequest,
    caller: Caller,
    context: RequestContext,
    stream: StreamQuery | null = null,
  ): TableTransaction {
    const { query, timezone, settings: fixed } = planned;
    const given: readonly Setting[] = timezone === null ? NO_SETTINGS : [["timezone", timezone]];
    const statements: Statement[] = stream
      ? [{ ...writeStatement(stream.rows, request), portal: ROWS_PORTAL }, writeStatement(stream.head, request)]
      : [writeStatement(query.main, request)];
    if (query.estimate) statements.push(writeStatement(query.estimate, request));
    return {
      identity: { caller, request: context, settings: { fixed, given } },
      statements,
      isolation: planned.isolation,
    };
  }
}

const NO_SETTINGS: readonly Setting[] = [];

const lengthOf = ({ query: { main, estimate, stream } }: PlannedRequest): number =>
  [main, estimate, stream?.rows, stream?.head].reduce((sum, written) => sum + (written?.text.length ?? 0), 0);

export function planShape(request: TableRequest, catalog: Catalog, options: PlanningOptions): PlannedRequest {
  const plan = planRequest(request, catalog, options);
  const { tx, timezone } = plan.preferences;
  const isEndChosen = tx !== null && options.dbTxEnd.endsWith("-allow-override");
  return {
    plan,
    query: writeQuery(plan, catalog.postgis),
    settings: settingsOf(plan, options),
    timezone,
    isolation: isolationOf(plan.kind === "call" ? plan.function.settings : NO_SETTINGS),
    isRolledBack: isEndChosen ? tx === "rollback" : options.dbTxEnd.startsWith("rollback"),
    profile: profileHeader(catalog, plan.schema),
    appliedPreferences: appliedPreferences(plan, isEndChosen),
    warning: warningOf(plan),
  };
}

function settingsOf(plan: Plan, { dbExtraSearchPath, appSettings }: PlanningOptions): Setting[] {
  const path = [plan.schema, ...dbExtraSearchPath].map(quoteIdentifier).join(", ");
  return [
    ["search_path", path],
    ["transaction_read_only", isReadOnly(plan) ? "on" : "off"],
    // A function of an earlier transaction may have set these for the whole session.
    ["response.headers", ""],
    ["response.status", ""],
    ...(plan.kind === "call" ? plan.function.settings.filter(([name]) => name !== ISOLATION) : []),
    ...appSettings,
  ];
}
