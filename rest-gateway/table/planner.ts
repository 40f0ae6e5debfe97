import { shapeCache } from "../../cache/cache.ts";
import type { Config } from "../../config/config.ts";
import type { Catalog, Setting } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Plan } from "../../db/query/plan.ts";
import { writeQuery } from "../../db/query/query.ts";
import { ISOLATION, isolationOf, searchPathOf } from "../../db/transaction/transaction-plan.ts";
import { Problem } from "../../problems/problem.ts";
import { appliedPreferences, profileHeader, warningOf } from "./answer/answer.ts";
import { type PlanOptions, planRequest } from "./plan/request.ts";
import type { PlannedRequest, TableRequest } from "./request.ts";

export type PlanningOptions = PlanOptions & Pick<Config, "dbSchemas" | "dbExtraSearchPath" | "dbTxEnd">;

export type PlannerOptions = {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly planning: PlanningOptions;
};

/** Plans requests, and the tasks that repeat them. */
export class Planner {
  readonly #options: PlannerOptions;
  #catalog: Catalog | null = null;
  readonly #shapes = shapeCache<PlannedRequest | Problem>(lengthOf);

  constructor(options: PlannerOptions) {
    this.#options = options;
  }

  /** Plans and writes each shape once per catalog, also one that is refused. Throws Problem. */
  plan(request: TableRequest): PlannedRequest {
    const catalog = this.#options.catalog.current;
    if (catalog !== this.#catalog) {
      this.#catalog = catalog;
      this.#shapes.clear();
    }
    const planned = this.#shapes.getOrCompute(request.shape, () => {
      try {
        return planShape(request, catalog, this.#options.planning);
      } catch (error) {
        if (error instanceof Problem) return error;
        throw error;
      }
    });
    if (planned instanceof Problem) throw planned;
    return planned;
  }
}

const NO_SETTINGS: readonly Setting[] = [];

function lengthOf(planned: PlannedRequest | Problem): number {
  if (planned instanceof Problem) return planned.message.length;
  const { main, estimate, stream } = planned.query;
  return [main, estimate, stream?.rows, stream?.head].reduce((sum, written) => sum + (written?.text.length ?? 0), 0);
}

export function planShape(request: TableRequest, catalog: Catalog, options: PlanningOptions): PlannedRequest {
  const plan = planRequest(request, catalog, options);
  const query = writeQuery(plan, catalog.postgis);
  const { preferences } = request;
  const { tx, timezone } = preferences;
  const { schema } = plan.kind === "call" ? plan.function : plan.table;
  const isEndChosen = tx !== null && options.dbTxEnd.endsWith("-allow-override");
  return {
    plan,
    query,
    preferences,
    settings: {
      fixed: settingsOf(plan, schema, query.isReadOnly, options),
      given: timezone === null ? NO_SETTINGS : [["timezone", timezone]],
    },
    isolation: isolationOf(plan.kind === "call" ? plan.function.settings : NO_SETTINGS),
    isRolledBack: isEndChosen ? tx === "rollback" : options.dbTxEnd.startsWith("rollback"),
    profile: profileHeader(catalog, schema),
    appliedPreferences: appliedPreferences(plan, preferences, isEndChosen),
    warning: warningOf(plan),
  };
}

function settingsOf(
  plan: Plan,
  schema: string,
  isReadOnly: boolean,
  { dbSchemas, dbExtraSearchPath }: PlanningOptions,
): Setting[] {
  return [
    ...(schema === dbSchemas[0] ? [] : [["search_path", searchPathOf([schema, ...dbExtraSearchPath])] as const]),
    ["transaction_read_only", isReadOnly ? "on" : "off"],
    // A function of an earlier transaction may have set these for the whole session.
    ["response.headers", ""],
    ["response.status", ""],
    ...(plan.kind === "call" ? plan.function.settings.filter(([name]) => name !== ISOLATION) : []),
  ];
}
