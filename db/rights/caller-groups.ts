import type { Caller } from "../caller.ts";
import type { PolicyDecision } from "./policy.ts";
import type { Watch } from "./watch.ts";

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
export class CallerGroups<W extends Watch> {
  readonly #byKey = new Map<Caller | string, CallerGroup<W>>();
  readonly #byCaller = new Map<Caller, CallerGroup<W>>();
  /** It also has those that were deleted while they were checked. */
  readonly #byWatch = new WeakMap<W, CallerGroup<W>>();
  #openCallers: readonly Caller[] | null = null;

  add(watch: W, { kind, terms }: PolicyDecision): void {
    const key = kind === "own query" ? watch.caller : JSON.stringify(terms);
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

  get isEmpty(): boolean {
    return this.#byKey.size === 0;
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
