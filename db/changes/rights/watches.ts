import type { Caller } from "../../caller.ts";
import { type Catalog, quoteName, type TableName, tableOf } from "../../catalog/catalog.ts";
import type { Change } from "../change.ts";
import type { CheckError } from "./checker.ts";
import type { Filter } from "./filter.ts";
import type { Rights } from "./rights.ts";
import { TableWatches } from "./table-watches.ts";

/** A watch that has ended, because its table or the rights of its role have changed. */
export type Ended<W extends Watch> = { readonly watch: W; readonly reason: string };

/** Who sees each change of a batch, in order, and the watches that had ended before it. */
export type BatchVisibility<W extends Watch> = {
  readonly results: readonly ChangeVisibility<W>[];
  readonly ended: readonly Ended<W>[];
};

/** The watches of one reader of changes. */
export class Watches<W extends Watch> {
  readonly #rights: Rights;
  /** By table and then by role. */
  #tables = new Map<string, Map<string, TableWatches<W>>>();
  /** Null for a watch that has not been placed yet. */
  readonly #watches = new Map<W, TableWatches<W> | null>();
  readonly #unplaced = new Set<W>();
  #catalog: Catalog | null = null;

  constructor(rights: Rights) {
    this.#rights = rights;
  }

  get size(): number {
    return this.#watches.size;
  }

  /** The watch sees the changes from the next batch on. */
  add(watch: W): void {
    this.#watches.set(watch, null);
    this.#unplaced.add(watch);
  }

  delete(watch: W): void {
    this.#watches.get(watch)?.delete(watch);
    this.#watches.delete(watch);
    this.#unplaced.delete(watch);
  }

  /** Who sees which of the changes, in order. Batches must not overlap. */
  async findVisible(changes: readonly Change[]): Promise<BatchVisibility<W>> {
    const ended = await this.#place();
    const results = changes.map((change): ChangeVisibility<W> => ({ change, visible: [], failures: [] }));
    const byTable = Map.groupBy(changes.keys(), (i) => quoteName(changes[i]!.table));
    const finding = [...byTable].flatMap(([table, indexes]) =>
      [...(this.#tables.get(table)?.values() ?? [])].map(async (ofRole) => {
        const found = await ofRole.findVisible(indexes.map((i) => changes[i]!));
        for (const [n, index] of indexes.entries()) results[index] = joined(results[index]!, found[n]!);
      }),
    );
    await Promise.all(finding);
    return { results, ended };
  }

  /** Assigns new watches, and after DDL all watches, to the TableWatches of the current catalog. Returns those that must end, and why. */
  async #place(): Promise<Ended<W>[]> {
    if (this.#catalog !== this.#rights.catalog) {
      this.#tables = new Map();
      for (const watch of this.#watches.keys()) this.#unplaced.add(watch);
    }
    const ended: Ended<W>[] = [];
    while (this.#unplaced.size > 0) {
      const catalog = this.#rights.catalog;
      this.#catalog = catalog;
      for (const watch of [...this.#unplaced]) {
        const placed = await this.#tableWatchesOf(watch);
        // Another catalog arrived while its policies could not be read.
        if (this.#rights.catalog !== catalog) return [...ended, ...(await this.#place())];
        if (!this.#unplaced.delete(watch)) continue;
        if (placed instanceof TableWatches) {
          placed.add(watch);
          this.#watches.set(watch, placed);
        } else {
          this.#watches.delete(watch);
          ended.push({ watch, reason: placed });
        }
      }
    }
    this.#catalog = this.#rights.catalog;
    return ended;
  }

  /** The TableWatches for the watch, or the reason why the watch must end. */
  async #tableWatchesOf({ table: name, caller: { role }, filter }: W): Promise<TableWatches<W> | string> {
    const key = quoteName(name);
    const known = this.#tables.get(key)?.get(role);
    const view = known ?? (await this.#rights.view(name, role));
    if ("refusal" in view) return view.refusal;
    const table = tableOf(this.#rights.catalog, name)!;
    for (const [column, type] of filter?.columns ?? [])
      if (table.columns.get(column)?.type !== type)
        return `the column ${column} of ${name.schema}.${name.name} has changed`;
    if (view instanceof TableWatches) return view;
    const ofRole = new TableWatches<W>({ table, role, policy: view.policy, checker: this.#rights.checker });
    const ofTable = this.#tables.get(key) ?? new Map<string, TableWatches<W>>();
    this.#tables.set(key, ofTable.set(role, ofRole));
    return ofRole;
  }
}

/** A change that is checked in two roles. */
const joined = <W extends Watch>(one: ChangeVisibility<W>, other: ChangeVisibility<W>): ChangeVisibility<W> => ({
  change: one.change,
  visible: one.visible.length === 0 ? other.visible : [...one.visible, ...other.visible],
  failures: one.failures.length === 0 ? other.failures : [...one.failures, ...other.failures],
});

/** What a subscriber wants to see: the changes of a table that the caller may see, whose row fulfils the filter. */
export type Watch = {
  readonly table: TableName;
  readonly caller: Caller;
  readonly filter: Filter | null;
};

/** A change as one subscriber sees it. */
export type VisibleChange<W extends Watch> = {
  readonly watch: W;
  /** An UPDATE that takes the row out of the subscriber's view is a DELETE. All watches of the table see a TRUNCATE. */
  readonly event: Change["operation"];
  /** Why the row has left the view: the caller may no longer see it, or it no longer fulfils the filter. Null if it has not. */
  readonly left: "rights" | "filter" | null;
  /** Whether the subscriber may see the old row, and not only its key. */
  readonly seesOld: boolean;
};

/** A change that could not be checked for a subscriber, because the policy raised an error. */
export type Failure<W extends Watch> = { readonly watch: W; readonly error: CheckError };

/** Who sees a change. */
export type ChangeVisibility<W extends Watch> = {
  readonly change: Change;
  readonly visible: readonly VisibleChange<W>[];
  readonly failures: readonly Failure<W>[];
};
