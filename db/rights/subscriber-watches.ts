import { type Catalog, tableOf } from "../catalog/catalog.ts";
import type { Change } from "../changes/change.ts";
import type { Inquiry } from "./checker.ts";
import type { Rights } from "./rights.ts";
import { TableWatches } from "./table-watches.ts";
import { type Answer, type ChangeVisibility, type Decision, onlyOf, type Watch } from "./watch.ts";

/** A watch that has ended, because its table or the rights of its role have changed. */
export type Ended<W extends Watch> = { readonly watch: W; readonly reason: string };

/** The watches that had ended before a batch. */
type Endings<W extends Watch> = { readonly ended: readonly Ended<W>[] };

/** The watches of one reader of changes. */
export class Watches<W extends Watch> {
  readonly #rights: Rights;
  /** By the OID of the table and then by role. */
  #tables = new Map<number, Map<string, TableWatches<W>>>();
  /** Null for a watch that has not been placed yet. */
  readonly #watches = new Map<W, TableWatches<W> | null>();
  readonly #unplaced = new Set<W>();
  /** The watches of each subscriber. */
  readonly #subscribers = new Map<object, Set<W>>();
  #isOpen: (watch: W) => boolean = () => false;
  #catalog: Catalog | null = null;
  /** Those that must end, until they are returned. */
  readonly #ended: Ended<W>[] = [];

  constructor(rights: Rights) {
    this.#rights = rights;
  }

  get size(): number {
    return this.#watches.size;
  }

  has(watch: W): boolean {
    return this.#watches.has(watch);
  }

  [Symbol.iterator](): Iterator<W> {
    return this.#watches.keys();
  }

  /** The watch sees the changes from the next batch on. */
  add(watch: W): void {
    this.#watches.set(watch, null);
    this.#unplaced.add(watch);
    const { subscriber } = watch;
    this.#subscribers.set(subscriber, (this.#subscribers.get(subscriber) ?? new Set()).add(watch));
  }

  delete(watch: W): void {
    this.#watches.get(watch)?.delete(watch);
    this.#watches.delete(watch);
    this.#unplaced.delete(watch);
    const { subscriber } = watch;
    const watches = this.#subscribers.get(subscriber);
    if (watches?.delete(watch) && watches.size === 0) this.#subscribers.delete(subscriber);
  }

  /** The watches of the same subscriber, with this one. */
  siblingsOf(watch: W): Iterable<W> {
    return this.#subscribers.get(watch.subscriber) ?? [watch];
  }

  /**
   * Who sees which of the changes, in order. Batches must not overlap: a batch ends with its answer. Those of a table whose name another
   * one has now are not seen: its subscribers get a gap.
   */
  decide(changes: readonly Change[]): Decision<W> & Endings<W> {
    this.#place();
    const byTable = Map.groupBy(changes.keys(), (i) => changes[i]!.table.oid);
    const parts = [...byTable].flatMap(([table, indexes]) =>
      [...(this.#tables.get(table)?.values() ?? [])].map((ofRole) => {
        const { decided, ask } = ofRole.decide(indexes.map((i) => changes[i]!));
        return { ofRole, indexes, results: decided, ask };
      }),
    );
    const locked = [...this.#unplaced].filter(({ table }) => byTable.has(tableOf(this.#catalog!, table)?.oid ?? 0));
    const asking = parts.filter(({ ask }) => ask !== null);
    const all = together(changes, parts);
    const ended = this.#ended.splice(0);
    this.#isOpen = () => false;
    if (locked.length === 0 && asking.length === 0) return { decided: all, ended, ask: null };
    const isOpen = this.#opennessOf(new Set(locked), new Set(asking.map(({ ofRole }) => ofRole)));
    this.#isOpen = isOpen;
    const ask = async (inquiry: Inquiry): Promise<Answer<W>> => {
      const answers = asking.map(async (part) => ({ ...part, ...(await part.ask!(inquiry)) }));
      const answered = await Promise.all(answers);
      const undecided = [...locked, ...answered.flatMap((answer) => [...answer.undecided])];
      const results = together(changes, answered).map((result, i) => joined(onlyOf(isOpen, all[i]!), result));
      return { results, undecided: new Set(undecided) };
    };
    return { decided: all.map((result) => onlyOf((watch) => !isOpen(watch), result)), ended, ask };
  }

  /** Whether the changes of the current batch are not decided for all watches of the subscriber before Postgres has answered. */
  isOpen(watch: W): boolean {
    return this.#isOpen(watch);
  }

  /** The same while Postgres decides for the watches that are locked, and for some of the others of these tables. */
  #opennessOf(locked: ReadonlySet<W>, asked: ReadonlySet<TableWatches<W>>): (watch: W) => boolean {
    const isAsked = (watch: W) => {
      const ofRole = this.#watches.get(watch);
      return ofRole ? asked.has(ofRole) && ofRole.isOpen(watch) : locked.has(watch);
    };
    const known = new Map<object, boolean>();
    return (watch) => {
      const { subscriber } = watch;
      const isOpen = known.get(subscriber) ?? [...this.siblingsOf(watch)].some(isAsked);
      known.set(subscriber, isOpen);
      return isOpen;
    };
  }

  /** The same when each watch is asked about alone, and policies that another transaction has locked are waited for. */
  async findVisible(
    changes: readonly Change[],
    inquiry = this.#rights.checker.inquiry("alone"),
  ): Promise<Pick<Answer<W>, "results"> & Endings<W>> {
    const ended: Ended<W>[] = [];
    for (;;) {
      await this.#waitForPolicies();
      const { decided, ask, ended: now } = this.decide(changes);
      ended.push(...now);
      const { results, undecided } = (await ask?.(inquiry)) ?? { results: [], undecided: NONE };
      // After DDL, policies may be locked again.
      if (undecided.size > 0) continue;
      return { results: ask ? decided.map((result, i) => joined(result, results[i]!)) : decided, ended };
    }
  }

  async #waitForPolicies(): Promise<void> {
    for (this.#place(); this.#unplaced.size > 0; this.#place()) {
      const { table, caller } = this.#unplaced.values().next().value!;
      await this.#rights.view(table, caller.role);
    }
  }

  /**
   * Assigns new watches, and after DDL all watches, to the TableWatches of the current catalog, unless another transaction has locked
   * what their policies read.
   */
  #place(): void {
    const { catalog } = this.#rights;
    if (this.#catalog !== catalog) {
      this.#catalog = catalog;
      this.#tables = new Map();
      for (const watch of this.#watches.keys()) this.add(watch);
    }
    for (const watch of [...this.#unplaced]) {
      const placed = this.#tableWatchesOf(watch);
      if (placed === undefined) continue;
      this.#unplaced.delete(watch);
      if (placed instanceof TableWatches) {
        placed.add(watch);
        this.#watches.set(watch, placed);
      } else {
        this.#watches.delete(watch);
        this.#ended.push({ watch, reason: placed });
      }
    }
  }

  /** The TableWatches for the watch, or the reason why the watch must end; undefined while its policies cannot be read. */
  #tableWatchesOf({ table: name, caller: { role }, filter, selected }: W): TableWatches<W> | string | undefined {
    const view = this.#rights.viewOf(name, role);
    if (view === undefined) return undefined;
    if ("refusal" in view) return view.refusal;
    const { table } = view;
    for (const [column, type] of filter?.columns ?? [])
      if (table.columns.get(column)?.type !== type)
        return `the column ${column} of ${name.schema}.${name.name} has changed`;
    for (const column of selected ?? [])
      if (!table.columns.has(column)) return `${name.schema}.${name.name} no longer has the column ${column}`;
    const ofTable = this.#tables.get(table.oid) ?? new Map<string, TableWatches<W>>();
    const ofRole = ofTable.get(role) ?? new TableWatches<W>(view, role, this.#rights.checker);
    this.#tables.set(table.oid, ofTable.set(role, ofRole));
    return ofRole;
  }
}

/** The results of tables and roles, each for the changes with these indexes, as those of all changes. */
function together<W extends Watch>(
  changes: readonly Change[],
  parts: readonly { readonly indexes: readonly number[]; readonly results: readonly ChangeVisibility<W>[] }[],
): ChangeVisibility<W>[] {
  const all = changes.map((change): ChangeVisibility<W> => ({ change, visible: [], failures: [] }));
  for (const { indexes, results } of parts)
    for (const [n, index] of indexes.entries()) all[index] = joined(all[index]!, results[n]!);
  return all;
}

const NONE: ReadonlySet<never> = new Set();

/** A change that is checked in several steps. */
const joined = <W extends Watch>(one: ChangeVisibility<W>, other: ChangeVisibility<W>): ChangeVisibility<W> => ({
  change: one.change,
  visible: one.visible.length === 0 ? other.visible : [...one.visible, ...other.visible],
  failures: one.failures.length === 0 ? other.failures : [...one.failures, ...other.failures],
});
