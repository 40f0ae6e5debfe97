import type { Caller } from "../../caller.ts";
import type { Table } from "../../catalog/catalog.ts";
import type { Change } from "../change.ts";
import type { CheckError, Checker } from "./checker.ts";
import { Matcher, type PolicyPart } from "./matcher.ts";
import type { Policy, PolicyDecision } from "./policy.ts";
import type { RowVisibility } from "./policy-check.ts";
import type { Row } from "./row-source.ts";
import type { ChangeVisibility, Failure, VisibleChange, Watch } from "./watches.ts";

type TableWatchesOptions = {
  readonly table: Table;
  readonly role: string;
  /** Null if the role sees every row. */
  readonly policy: Policy | null;
  readonly checker: Checker;
};

/** The rows of a batch. The n-th change has the rows at `current[n]` and `previous[n]`; -1 if the stream has none. */
type Rows = { readonly all: readonly Row[]; readonly current: readonly number[]; readonly previous: readonly number[] };

/** Whether a watch may see a row, by its index; an error if the policy raises one. */
type May<W> = (watch: W, row: number) => boolean | CheckError;

/** Decided by queries, or true for every row. */
const NO_PART: PolicyPart = { condition: null, terms: [] };

/** The watches of one table in one role. */
export class TableWatches<W extends Watch> {
  readonly #policy: Policy | null;
  readonly #matcher: Matcher<W>;
  readonly #watches = new Set<W>();
  /** Those whose callers are not prepared yet. */
  readonly #waiting = new Set<W>();
  /** Those whose policy is decided by queries. */
  readonly #asking = new CallerGroups<W>();

  constructor({ table, role, policy, checker }: TableWatchesOptions) {
    this.#policy = policy;
    this.#matcher = new Matcher(table, role, checker);
  }

  get watches(): ReadonlySet<W> {
    return this.#watches;
  }

  /** The watch sees the changes from the next batch on. */
  add(watch: W): void {
    this.#watches.add(watch);
    this.#waiting.add(watch);
  }

  delete(watch: W): void {
    this.#watches.delete(watch);
    if (this.#waiting.delete(watch)) return;
    this.#matcher.delete(watch);
    this.#asking.delete(watch);
  }

  /** Who sees which of the changes, in order. */
  async findVisible(changes: readonly Change[]): Promise<ChangeVisibility<W>[]> {
    await this.#admit();
    const rows = rowsOf(changes);
    const { watches: found, errors } = await this.#matcher.find(rows.all);
    const seen = await this.#ask(rows, found);
    const may: May<W> = (watch, row) => {
      if (row < 0) return false;
      const error = errors.get(watch)?.get(row);
      if (error) return error;
      const asked = this.#asking.callerOf(watch);
      if (asked === undefined) return this.#matcher.mayInProcess(watch, rows.all[row]!);
      const ofRow = seen.get(row);
      return ofRow?.errors.get(asked) ?? ofRow?.by.has(asked) ?? false;
    };
    return changes.map((change, i) =>
      change.operation === "TRUNCATE"
        ? { change, visible: [...this.#watches].map(truncation), failures: [] }
        : findVisible(change, [rows.previous[i]!, rows.current[i]!], found, may),
    );
  }

  async #admit(): Promise<void> {
    if (this.#waiting.size === 0) return;
    const watches = [...this.#waiting];
    await this.#policy?.prepare([...new Set(watches.map(({ caller }) => caller))]);
    for (const watch of watches) {
      // It may have been deleted meanwhile.
      if (!this.#waiting.delete(watch)) continue;
      const decision = this.#policy?.decisionFor(watch.caller);
      const isInProcess = decision?.kind === "in process";
      if (decision && !isInProcess) this.#asking.add(watch, decision);
      if (isInProcess) this.#matcher.add(watch, { condition: this.#policy!.condition, terms: decision.terms });
      else if (!decision || watch.filter !== null) this.#matcher.add(watch, NO_PART);
    }
  }

  /** Who sees the rows, by their indexes, as far as queries decide. Adds the watches without a filter to those found. */
  async #ask({ all, current, previous }: Rows, found: readonly Set<W>[]): Promise<ReadonlyMap<number, RowVisibility>> {
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
    );
    for (const [i, { by, errors }] of seen.entries()) {
      for (const caller of [...by, ...errors.keys()])
        for (const watch of this.#asking.openOf(caller)) found[asked[i]!]!.add(watch);
    }
    return new Map(seen.map((ofRow, i) => [asked[i]!, ofRow]));
  }
}

function rowsOf(changes: readonly Change[]): Rows {
  const all: Row[] = [];
  const add = ({ table }: Change, image: Change["new"]) => (image === null ? -1 : all.push({ table, image }) - 1);
  const current = changes.map((change) => add(change, change.new));
  return { all, current, previous: changes.map((change) => add(change, change.old)) };
}

const truncation = <W extends Watch>(watch: W): VisibleChange<W> => ({
  watch,
  event: "TRUNCATE",
  left: null,
  seesOld: false,
});

/** `found` are the watches that may see each row, as far as their filters decide. */
function findVisible<W extends Watch>(
  change: Change,
  [previous, current]: readonly [previous: number, current: number],
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
      visible.push({ watch, event: operation, left: null, seesOld });
    }
  }
  if (operation !== "UPDATE") return { change, visible, failures };
  for (const watch of found[previous] ?? []) {
    if (decided.has(watch) || may(watch, previous) !== true) continue;
    const mayNow = may(watch, current);
    if (typeof mayNow !== "boolean") failures.push({ watch, error: mayNow });
    else visible.push({ watch, event: "DELETE", left: mayNow ? "filter" : "rights", seesOld: false });
  }
  return { change, visible, failures };
}

/** Watches whose callers see the same rows: those of one caller, or of callers for whom the terms of a policy are equal. */
type CallerGroup<W> = {
  readonly key: Caller | string;
  /** The caller that the queries check for the whole group. */
  readonly caller: Caller;
  readonly watches: Set<W>;
  /** Those without a filter. */
  readonly open: Set<W>;
};

/**
 * The watches whose policy is decided by queries. Those without a filter are found by who sees a row, so that the time for a change
 * does not depend on how many do not see it.
 */
class CallerGroups<W extends Watch> {
  readonly #byKey = new Map<Caller | string, CallerGroup<W>>();
  readonly #byCaller = new Map<Caller, CallerGroup<W>>();
  /** It also has those that were deleted while they were checked. */
  readonly #byWatch = new WeakMap<W, CallerGroup<W>>();
  #openCallers: readonly Caller[] | null = null;

  add(watch: W, decision: Exclude<PolicyDecision, { kind: "in process" }>): void {
    const key = decision.kind === "own query" ? watch.caller : JSON.stringify(decision.terms);
    const group = this.#byKey.get(key) ?? { key, caller: watch.caller, watches: new Set(), open: new Set() };
    this.#byKey.set(key, group);
    this.#byCaller.set(group.caller, group);
    this.#byWatch.set(watch, group);
    group.watches.add(watch);
    if (watch.filter !== null) return;
    if (group.open.size === 0) this.#openCallers = null;
    group.open.add(watch);
  }

  delete(watch: W): void {
    const group = this.#byWatch.get(watch);
    if (!group) return;
    group.watches.delete(watch);
    if (group.open.delete(watch) && group.open.size === 0) this.#openCallers = null;
    if (group.watches.size > 0) return;
    this.#byKey.delete(group.key);
    this.#byCaller.delete(group.caller);
  }

  /** The caller that the queries check for the watch; undefined for a watch that is in no group. */
  callerOf(watch: W): Caller | undefined {
    return this.#byWatch.get(watch)?.caller;
  }

  /** The callers that the queries check for the watches without a filter: the same array as long as the callers are the same. */
  get openCallers(): readonly Caller[] {
    this.#openCallers ??= [...this.#byKey.values()].filter(({ open }) => open.size > 0).map(({ caller }) => caller);
    return this.#openCallers;
  }

  /** The watches without a filter for which the queries check this caller. */
  openOf(caller: Caller): Iterable<W> {
    return this.#byCaller.get(caller)?.open ?? [];
  }
}
