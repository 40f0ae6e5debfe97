import type { Catalog, TableName } from "../../catalog/catalog.ts";
import { quoteName, tableOf } from "../../catalog/catalog.ts";
import type { LiveCatalog } from "../../catalog/live.ts";
import { accessOf, type Refusal } from "./access.ts";
import { Audience } from "./audience.ts";
import { Checker, type CheckerOptions } from "./checker.ts";
import { type Filter, type FilterRequest, prepareFilter } from "./filter.ts";
import { Policy } from "./policy.ts";
import type { Watch } from "./watch.ts";

export type RightsOptions = Omit<CheckerOptions, "catalog"> & {
  readonly catalog: Pick<LiveCatalog, "current" | "onChange">;
};

/** What a role may see of the changes of a table. */
export type View = {
  /** The columns that it may read. */
  readonly columns: ReadonlySet<string>;
  /** Null if it sees every row. */
  readonly policy: Policy | null;
};

/** Who sees which changes, by the table's own grants and policies: an event is visible if a SELECT would return its row. */
export class Rights {
  readonly checker: Checker;
  readonly #catalog: RightsOptions["catalog"];
  /** The views of the current catalog, by table and role. Undefined while policies cannot be read. */
  readonly #views = new WeakMap<Catalog, Map<string, View | Refusal | undefined>>();

  #nextCatalog = Promise.withResolvers<void>();

  constructor(options: RightsOptions) {
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
    const views = this.#views.get(catalog) ?? new Map<string, View | Refusal | undefined>();
    this.#views.set(catalog, views);
    const key = `${quoteName(name)} ${role}`;
    if (!views.has(key)) views.set(key, this.#viewOf(catalog, name, role));
    return views.get(key);
  }

  /** Checks a filter for its table. Throws, or rejects with, FilterError. */
  prepareFilter(request: FilterRequest, name: TableName, role: string): Filter | Promise<Filter> {
    return prepareFilter(request, tableOf(this.catalog, name)!, role, this.checker);
  }

  audience<W extends Watch>(): Audience<W> {
    return new Audience<W>(this);
  }

  close(): void {
    this.checker.close();
  }

  #viewOf(catalog: Catalog, name: TableName, role: string): View | Refusal | undefined {
    const table = tableOf(catalog, name);
    if (!table) return { refusal: `there is no table ${name.schema}.${name.name}` };
    const access = accessOf(catalog, role, table);
    if (access === undefined || "refusal" in access) return access;
    const { columns, condition } = access;
    const { checker } = this;
    return {
      columns,
      policy: condition === null ? null : new Policy({ sql: condition, table, role, catalog, checker }),
    };
  }
}
