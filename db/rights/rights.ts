import { forObjects } from "../../cache/cache.ts";
import { Problem } from "../../problems/problem.ts";
import { type Catalog, quoteName, type TableName, tableOf } from "../catalog/catalog.ts";
import { mayUseColumn, mayUseSchema } from "../catalog/grants.ts";
import type { LiveCatalog } from "../catalog/live.ts";
import { conditionFor, policiesFor } from "../catalog/policies.ts";
import type { Change, ChangedTable } from "../changes/change.ts";
import { isKnown } from "../changes/present-table.ts";
import type { PatternLimits } from "../filters/patterns.ts";
import { Checker, type CheckerOptions } from "./checker.ts";
import { type FilterRequest, type PreparedFilter, prepareFilter } from "./filter.ts";
import { Policy } from "./policy.ts";
import type { Failure, View, Watch } from "./watch.ts";

/** Milliseconds between two lines of the log about errors of policies. */
const SILENCE = 10_000;

type RightsOptions = CheckerOptions & {
  readonly catalog: Pick<LiveCatalog, "current" | "onChange" | "refreshed" | "refreshIfStale">;
  /** The limits of filters. */
  readonly filterLimits: PatternLimits;
  /** Changes could not be delivered, because of a fault of this service. */
  onInternalError(error: unknown): void;
};

/** The columns of which a change must have values so that it can be checked for a subscriber. */
export const columnsRead = ({ policy }: View, ofFilter: Iterable<string> = []): ReadonlySet<string> =>
  new Set([...(policy?.columns ?? []), ...ofFilter]);

/** Who sees which changes, by the table's own grants and policies: an event is visible if a SELECT would return its row. */
export class Rights {
  readonly checker: Checker;
  readonly onInternalError: RightsOptions["onInternalError"];
  /** They may change while the service runs. */
  filterLimits: PatternLimits;
  readonly #catalog: RightsOptions["catalog"];
  /** The views of the current catalog, by table and role. Undefined while policies cannot be read. */
  readonly #views = forObjects((_catalog: Catalog) => new Map<string, View | Refusal | undefined>());
  /** The tables of changes; null for those that the catalog knows. */
  readonly #met = new WeakMap<ChangedTable, Promise<void> | null>();
  #nextCatalog = Promise.withResolvers<void>();
  #notedAt = Number.NEGATIVE_INFINITY;

  constructor(options: RightsOptions) {
    this.onInternalError = options.onInternalError;
    this.filterLimits = options.filterLimits;
    this.#catalog = options.catalog;
    this.checker = new Checker(options);
    options.catalog.onChange(() => {
      this.#nextCatalog.resolve();
      this.#nextCatalog = Promise.withResolvers();
    });
  }

  get catalog(): Catalog {
    return this.#catalog.current;
  }

  onChange(listener: () => void): void {
    this.#catalog.onChange(listener);
  }

  /** Tries to describe a watch, and once more if the catalog was outdated: a table may have been created or granted a moment ago. */
  async attempt<T>(describe: () => Promise<T>): Promise<T> {
    try {
      return await describe();
    } catch (error) {
      if (!(error instanceof Problem) || !(await this.#catalog.refreshIfStale())) throw error;
      return describe();
    }
  }

  /** Null if the catalog knows the tables and columns of the changes. Otherwise it is read again: not all DDL is announced. */
  meet(changes: readonly Change[]): Promise<unknown> | null {
    const unknown = new Set(changes.map(({ table }) => this.#meet(table)));
    unknown.delete(null);
    return unknown.size === 0 ? null : Promise.all(unknown);
  }

  #meet(table: ChangedTable): Promise<void> | null {
    let meeting = this.#met.get(table);
    if (meeting !== undefined) return meeting;
    meeting = isKnown(this.catalog, table)
      ? null
      : this.#catalog.refreshed().then(() => void this.#met.set(table, null));
    this.#met.set(table, meeting);
    return meeting;
  }

  /** What the role sees of the table, or why it sees nothing. Waits while another transaction has locked what policies read. */
  async view(name: TableName, role: string): Promise<View | Refusal> {
    for (;;) {
      const view = this.viewOf(name, role);
      if (view !== undefined) return view;
      await this.#nextCatalog.promise;
    }
  }

  /** The same; undefined while it must be waited for. */
  viewOf(name: TableName, role: string): View | Refusal | undefined {
    const { catalog } = this;
    const views = this.#views(catalog);
    const key = `${quoteName(name)} ${role}`;
    if (!views.has(key)) views.set(key, this.#viewOf(catalog, name, role));
    return views.get(key);
  }

  /** Checks a filter for its table. Throws, or rejects with, FilterError. */
  prepareFilter(request: FilterRequest, name: TableName, role: string): PreparedFilter | Promise<PreparedFilter> {
    const { checker, filterLimits: limits } = this;
    return prepareFilter(request, tableOf(this.catalog, name)!, role, { checker, limits });
  }

  /** Logs an error of a policy, or of a filter, that is masked from the subscriber. */
  readonly note = ({ watch: { table, caller }, error: { cause } }: Failure<Watch>): void => {
    if (cause === undefined || performance.now() - this.#notedAt < SILENCE) return;
    this.#notedAt = performance.now();
    const place = `${table.schema}.${table.name}, for the role ${caller.role}`;
    this.onInternalError(new Error(`a policy or filter has failed on a change of ${place}`, { cause }));
  };

  close(): void {
    this.checker.close();
  }

  /** What the role may read, as Postgres decides it for a SELECT. Undefined while the policies cannot be read. */
  #viewOf(catalog: Catalog, { schema, name }: TableName, role: string): View | Refusal | undefined {
    const [table, named] = [tableOf(catalog, { schema, name }), `${schema}.${name}`];
    if (!table) return { refusal: `there is no table ${named}` };
    if (!mayUseSchema(catalog, role, catalog.schemas.get(schema)!))
      return { refusal: `the role ${role} has no USAGE on the schema ${schema}` };
    const readable = [...table.columns.values()].filter((each) => mayUseColumn(catalog, role, table, each, "select"));
    if (readable.length === 0) return { refusal: `the role ${role} may not SELECT from ${named}` };
    const policies = policiesFor(catalog, role, table);
    const sql = policies === null ? "true" : conditionFor("select", policies);
    if (sql === undefined) return undefined;
    if (sql === null)
      return { refusal: `row-level security is on for ${named}, and no policy lets the role ${role} read a row` };
    const { checker } = this;
    const isOpen = sql === "true" && !checker.decidesAlone;
    return {
      table,
      columns: new Set(readable.map((column) => column.name)),
      policy: isOpen ? null : new Policy({ sql, table, role, catalog, checker }),
    };
  }
}

/** A reason why a role sees no change of a table, for the developer of a client. */
type Refusal = { readonly refusal: string };
