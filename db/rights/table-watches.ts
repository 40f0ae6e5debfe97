import { forObjects } from "../../cache/cache.ts";
import type { Caller } from "../caller.ts";
import type { Change, ChangedTable } from "../changes/change.ts";
import { columnIndexesOf } from "../changes/json.ts";
import { presentTable } from "../changes/present-table.ts";
import { feedGap } from "../changes/reader.ts";
import { CallerGroups } from "./caller-groups.ts";
import { CheckError, type Checker, type Inquiry } from "./checker.ts";
import { type Match, Matcher, type PolicyPart } from "./matcher.ts";
import type { Policy, RowVisibility } from "./policy.ts";
import { columnsRead } from "./rights.ts";
import { hasColumns, type Row } from "./row-source.ts";
import {
  type Answer,
  type ChangeVisibility,
  type Decision,
  type Failure,
  onlyOf,
  type View,
  type VisibleChange,
  type Watch,
} from "./watch.ts";

/** The rows of a batch. The n-th change has the rows at `current[n]` and `previous[n]`; -1 if the stream has none. */
type Rows = { readonly all: readonly Row[]; readonly current: readonly number[]; readonly previous: readonly number[] };

/** Whether a watch may see a row, by its index; an error if the policy raises one. */
type May<W> = (watch: W, row: number) => boolean | CheckError;

/** Decided by queries, or true for every row. */
const NO_PART: PolicyPart = { condition: null, terms: [] };

/** Watches whose policy and filter read the same columns. */
type Readers<W> = {
  readonly columns: ReadonlySet<string>;
  /** Whether they have been promised deletions. */
  readonly wantOld: boolean;
  readonly watches: Set<W>;
};

/** The watches of one table in one role. */
export class TableWatches<W extends Watch> {
  readonly #view: View;
  readonly #policy: Policy | null;
  readonly #matcher: Matcher<W>;
  readonly #watches = new Set<W>();
  /** Those that do not accept every loss. */
  readonly #readers = new Map<string, Readers<W>>();
  /** Those whose callers are not prepared yet. */
  readonly #waiting = new Set<W>();
  /** Those whose policy is decided by queries. */
  readonly #asking = new CallerGroups<W>();
  /** Those that wait for an answer about the current batch, besides those of `#asking`. */
  #open: ReadonlySet<W> = new Set();

  constructor(view: View, role: string, checker: Checker) {
    this.#view = view;
    this.#policy = view.policy;
    this.#matcher = new Matcher(view.table, role, checker);
  }

  get watches(): ReadonlySet<W> {
    return this.#watches;
  }

  /** The watch sees the changes from the next batch on. */
  add(watch: W): void {
    this.#watches.add(watch);
    this.#waiting.add(watch);
    const [key, readers] = this.#readersOf(watch);
    readers.watches.add(watch);
    if (watch.lapse) this.#readers.set(key, readers);
  }

  delete(watch: W): void {
    this.#watches.delete(watch);
    const [key, { watches }] = this.#readersOf(watch);
    if (watches.delete(watch) && watches.size === 0) this.#readers.delete(key);
    if (this.#waiting.delete(watch)) return;
    this.#matcher.delete(watch);
    this.#asking.delete(watch);
  }

  /** Who sees which of the changes, in order, as far as this process decides. The others wait for `ask`. */
  decide(changes: readonly Change[]): Decision<W> {
    this.#admit();
    const rows = rowsOf(changes, this.#view);
    const match = this.#matcher.match(rows.all);
    this.#open = new Set([...this.#waiting, ...[...match.doubtful.values()].flatMap((watches) => [...watches.keys()])]);
    const isComplete = this.#open.size === 0 && this.#asking.isEmpty;
    const certain = match.certain.map((watches) =>
      isComplete ? watches : new Set([...watches].filter((watch) => !this.isOpen(watch))),
    );
    const may: May<W> = (watch, row) => row >= 0 && this.#matcher.mayInProcess(watch, rows.all[row]!);
    const decided = this.#resultsOf(changes, rows, certain, may, (watch) => !this.isOpen(watch));
    return { decided, ask: isComplete ? null : (inquiry) => this.#ask(changes, rows, match, inquiry) };
  }

  /** Whether the changes of the batch are not decided yet for a watch of it, as far as queries decide. */
  isOpen(watch: W): boolean {
    return this.#open.has(watch) || this.#asking.callerOf(watch) !== undefined;
  }

  async #ask(changes: readonly Change[], rows: Rows, known: Match<W>, inquiry: Inquiry): Promise<Answer<W>> {
    const open = this.#open;
    const isOpen = (watch: W) => open.has(watch) || this.#asking.callerOf(watch) !== undefined;
    const match = (await this.#prepare(inquiry)) ? this.#matcher.match(rows.all) : known;
    const undecided = new Set(this.#waiting);
    const found = match.certain.map((watches) => new Set([...watches].filter(isOpen)));
    const errors = await this.#matcher.ask(match, found, inquiry);
    const seen = await this.#check(rows, found, inquiry);
    const may: May<W> = (watch, row) => {
      if (row < 0) return false;
      const error = errors.get(watch)?.get(row);
      if (error) return error;
      const asked = this.#asking.callerOf(watch);
      if (asked === undefined) return this.#matcher.mayInProcess(watch, rows.all[row]!);
      const ofRow = seen.get(row);
      return ofRow?.errors.get(asked) ?? ofRow?.by.has(asked) ?? false;
    };
    const results = this.#resultsOf(changes, rows, found, may, isOpen);
    if (!inquiry.isShared) return { results, undecided };
    for (const { failures } of results)
      for (const { watch, error } of failures) if (error instanceof CheckError) undecided.add(watch);
    return { results: results.map((result) => onlyOf((watch) => !undecided.has(watch), result)), undecided };
  }

  /** `found` are the watches that may see each row, as far as their filters decide; `isNow` those that are decided now. */
  #resultsOf(
    changes: readonly Change[],
    { previous, current }: Rows,
    found: readonly ReadonlySet<W>[],
    may: May<W>,
    isNow: (watch: W) => boolean,
  ): ChangeVisibility<W>[] {
    const view = this.#view;
    return changes.map((change, i) => {
      if (change.operation !== "TRUNCATE") {
        const result = findVisible(change, [previous[i]!, current[i]!], view, found, may);
        const failures = [...this.#undecided(change, result, isNow)];
        return failures.length === 0 ? result : { ...result, failures: [...result.failures, ...failures] };
      }
      const watches = [...this.#watches].filter(isNow);
      const visible = watches.map((watch) => ({ watch, view, event: "TRUNCATE", left: null, seesOld: false }) as const);
      return { change, visible, failures: [] };
    });
  }

  /** The watches, of those that are decided now, that are not decided yet, because the log lacks a column that they read. */
  *#undecided(change: Change, { visible, failures }: ChangeVisibility<W>, isNow: (watch: W) => boolean) {
    for (const { columns, wantOld, watches } of this.#readers.values()) {
      const error = lackOf(change, presentTable(change.table, this.#view.table), columns, wantOld);
      if (error === null) continue;
      const decided = new Set([...visible, ...failures].map(({ watch }) => watch));
      for (const watch of watches) if (isNow(watch) && !decided.has(watch)) yield { watch, error };
    }
  }

  #readersOf(watch: W): [key: string, readers: Readers<W>] {
    const columns = columnsRead(this.#view, watch.filter?.columns.keys());
    const wantOld = typeof watch.lapse?.({ all: null, deletes: "" }) === "string";
    const key = JSON.stringify([wantOld, ...columns]);
    return [key, this.#readers.get(key) ?? { columns, wantOld, watches: new Set() }];
  }

  /** Admits the watches whose callers are prepared. */
  #admit(): void {
    for (const watch of [...this.#waiting]) {
      const decision = this.#policy?.decisionFor(watch.caller);
      if (this.#policy && !decision) continue;
      this.#waiting.delete(watch);
      const isInProcess = decision?.kind === "in process";
      if (decision && !isInProcess) this.#asking.add(watch, decision);
      if (isInProcess) this.#matcher.add(watch, { condition: this.#policy!.condition, terms: decision.terms });
      else if (!decision || watch.filter !== null) this.#matcher.add(watch, NO_PART);
    }
  }

  /** Prepares the callers of waiting watches. Returns false if there were none. */
  async #prepare(inquiry: Inquiry): Promise<boolean> {
    if (this.#waiting.size === 0) return false;
    try {
      await this.#policy!.prepare([...new Set([...this.#waiting].map(({ caller }) => caller))], inquiry);
    } catch (error) {
      if (!(error instanceof CheckError)) throw error;
    }
    this.#admit();
    return true;
  }

  /** Who sees the rows, by their indexes, as far as queries decide. Adds the watches without a filter to those found. */
  async #check(
    { all, current, previous }: Rows,
    found: readonly Set<W>[],
    inquiry: Inquiry,
  ): Promise<ReadonlyMap<number, RowVisibility>> {
    const open = this.#asking.openCallers;
    const callers = new Set<Caller>();
    const indexes = new Set<number>();
    for (const [i, row] of current.entries()) {
      // Whether an update takes a row out of the view depends on both rows.
      const both = [row, previous[i]!].filter((index) => index >= 0);
      const asked = both.flatMap((index) => [...found[index]!].flatMap((watch) => this.#asking.callerOf(watch) ?? []));
      for (const caller of asked) callers.add(caller);
      if (asked.length > 0 || open.length > 0) for (const index of both) indexes.add(index);
    }
    if (indexes.size === 0) return new Map();
    const asked = [...indexes];
    const seen = await this.#policy!.check(
      callers.size === 0 ? open : [...callers.union(new Set(open))],
      asked.map((i) => all[i]!),
      inquiry,
    );
    for (const [i, { by, errors }] of seen.entries()) {
      for (const caller of [...by, ...errors.keys()])
        for (const watch of this.#asking.openOf(caller)) found[asked[i]!]!.add(watch);
    }
    return new Map(seen.map((ofRow, i) => [asked[i]!, ofRow]));
  }
}

function rowsOf(changes: readonly Change[], view: View): Rows {
  const all: Row[] = [];
  const add = (change: Change, image: Change["new"]) =>
    image === null ? -1 : all.push({ table: presentTable(change.table, view.table), image }) - 1;
  const current = changes.map((change) => add(change, change.new));
  return { all, current, previous: changes.map((change) => add(change, change.old)) };
}

const loggedIn = forObjects(
  ({ columns }: ChangedTable) => new Set(columns.flatMap(({ name, isLogged }) => (isLogged ? [name] : []))),
);

/** Why the log does not decide a change for those who read these columns; null if it does. */
function lackOf(
  { operation, new: current, old }: Change,
  table: ChangedTable,
  columns: ReadonlySet<string>,
  wantOld: boolean,
): Error | null {
  // An update without an old row has not changed what is logged of it.
  const hasOld = () => (old ? hasColumns({ table, image: old }, columns) : columns.isSubsetOf(loggedIn(table)));
  if (wantOld && operation !== "INSERT" && !hasOld()) return feedGap();
  if (current === null || hasColumns({ table, image: current }, columns)) return null;
  if (columnIndexesOf(table, columns).length < columns.size) return feedGap();
  return new Error(
    "an update has not changed a large value that is needed to check it, which is logged only with replica identity full",
  );
}

function findVisible<W extends Watch>(
  change: Change,
  [previous, current]: readonly [previous: number, current: number],
  view: View,
  found: readonly ReadonlySet<W>[],
  may: May<W>,
): ChangeVisibility<W> {
  const { operation } = change;
  const visible: VisibleChange<W>[] = [];
  const failures: Failure<W>[] = [];
  const isDelete = operation === "DELETE";
  const decided = new Set<W>();
  for (const watch of found[isDelete ? previous : current] ?? []) {
    const mayNow = may(watch, isDelete ? previous : current);
    if (mayNow === false) continue;
    decided.add(watch);
    if (mayNow !== true) failures.push({ watch, error: mayNow });
    else {
      const seesOld = isDelete || (operation === "UPDATE" && may(watch, previous) === true);
      visible.push({ watch, view, event: operation, left: null, seesOld });
    }
  }
  if (operation !== "UPDATE") return { change, visible, failures };
  for (const watch of found[previous] ?? []) {
    if (decided.has(watch) || may(watch, previous) !== true) continue;
    const mayNow = may(watch, current);
    if (typeof mayNow !== "boolean") failures.push({ watch, error: mayNow });
    else visible.push({ watch, view, event: "DELETE", left: mayNow ? "filter" : "rights", seesOld: false });
  }
  return { change, visible, failures };
}
