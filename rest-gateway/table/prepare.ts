import type { Catalog, Setting } from "../../db/catalog/catalog.ts";
import { Shapes } from "../shape-cache.ts";
import { writeProfile } from "./parse/profile.ts";
import { isReadOnly, type Plan } from "./plan/plan.ts";
import { type PlanOptions, planRequest } from "./plan/request.ts";
import type { TableRequest } from "./request.ts";
import { type Query, writeQuery } from "./write/query.ts";

/** All that is known of a request before its values: the same for every request of its shape. */
export type Prepared = {
  readonly plan: Plan;
  readonly query: Query;
  /** Settings of its transaction for a role that has these of its own: the same list each time. */
  readonly settingsFor: (ofRole: readonly Setting[]) => readonly Setting[];
  /** The zone of its timestamps, as the client wrote it; null for the usual one. */
  readonly timezone: string | null;
  readonly isolation: "repeatable read" | "serializable" | null;
  /** Undone in the end. */
  readonly isRolledBack: boolean;
  /** Whether it is the client who says so. */
  readonly isEndChosen: boolean;
  /** The header Content-Profile, where there are several schemas to choose from. */
  readonly profile: string | null;
};

export type PrepareOptions = PlanOptions & {
  /** Schemas behind the request's own in the search path. */
  readonly extraSearchPath: readonly string[];
  readonly txEnd: "commit" | "commit-allow-override" | "rollback" | "rollback-allow-override";
  /** `app.settings.*`, for functions. */
  readonly appSettings: readonly Setting[];
};

/** Plans and writes a shape once, and forgets all of them with their catalog. */
export class Preparer {
  readonly #options: PrepareOptions;
  #catalog: Catalog | null = null;
  #shapes = new Shapes(lengthOf);

  constructor(options: PrepareOptions) {
    this.#options = options;
  }

  /** Throws TableError. */
  prepare(request: TableRequest, catalog: Catalog): Prepared {
    if (catalog !== this.#catalog) {
      this.#catalog = catalog;
      this.#shapes = new Shapes(lengthOf);
    }
    return this.#shapes.of(request.shape, () => prepare(request, catalog, this.#options));
  }
}

const lengthOf = ({ query: { main, estimate } }: Prepared): number => main.text.length + (estimate?.text.length ?? 0);

export function prepare(request: TableRequest, catalog: Catalog, options: PrepareOptions): Prepared {
  const plan = planRequest(request, catalog, options);
  return {
    plan,
    query: writeQuery(plan, catalog.postgis),
    settingsFor: settingsFor(settingsOf(plan, options)),
    timezone: plan.preferences.timezone,
    isolation: isolationOf(plan.kind === "call" ? plan.function.settings : []),
    ...endOf(plan, options),
    profile: catalog.schemas.size > 1 ? writeProfile(plan.schema) : null,
  };
}

/** Named in `set` of a function or role: belongs to the transaction's beginning, and not to its settings. */
const ISOLATION = "default_transaction_isolation";

function settingsFor(own: readonly Setting[]): Prepared["settingsFor"] {
  const lists = new WeakMap<readonly Setting[], readonly Setting[]>();
  return (ofRole) => {
    if (ofRole.length === 0) return own;
    const list = lists.get(ofRole) ?? [...ofRole, ...own];
    lists.set(ofRole, list);
    return list;
  };
}

function settingsOf(plan: Plan, { extraSearchPath, appSettings }: PrepareOptions): Setting[] {
  const path = [plan.schema, ...extraSearchPath].map((name) => `"${name.replaceAll('"', '""')}"`).join(", ");
  return [
    ["search_path", path],
    ["transaction_read_only", isReadOnly(plan) ? "on" : "off"],
    // A function may have set them for more than its own transaction.
    ["response.headers", ""],
    ["response.status", ""],
    ...(plan.kind === "call" ? plan.function.settings.filter(([name]) => name !== ISOLATION) : []),
    ...appSettings,
  ];
}

/** What the settings of a function or role say of it; null where that is what is usual. */
export function isolationOf(settings: readonly Setting[]): Prepared["isolation"] {
  const [, value] = settings.find(([name]) => name === ISOLATION) ?? [];
  return value === "repeatable read" || value === "serializable" ? value : null;
}

function endOf(
  { preferences: { tx } }: Plan,
  { txEnd }: PrepareOptions,
): Pick<Prepared, "isRolledBack" | "isEndChosen"> {
  const isEndChosen = tx !== null && txEnd.endsWith("-allow-override");
  return { isRolledBack: isEndChosen ? tx === "rollback" : txEnd.startsWith("rollback"), isEndChosen };
}
