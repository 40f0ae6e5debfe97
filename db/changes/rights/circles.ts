import type { Caller } from "../../caller.ts";
import type { Standing } from "./policy.ts";
import type { Watch } from "./watch.ts";

/** Watches whose callers see the same rows: those of one caller, or of callers for whom the terms of a policy are equal. */
type Circle<W> = {
  readonly key: Caller | string;
  /** The caller that the queries check for the whole circle. */
  readonly caller: Caller;
  readonly watches: Set<W>;
  /** Those without a filter. */
  readonly open: Set<W>;
};

/**
 * The watches whose policy is decided by queries. Those without a filter are found by who sees a row, so that the time for a change
 * does not depend on how many do not see it.
 */
export class Circles<W extends Watch> {
  readonly #byKey = new Map<Caller | string, Circle<W>>();
  readonly #byCaller = new Map<Caller, Circle<W>>();
  /** It also has those that were deleted while they were judged. */
  readonly #byWatch = new WeakMap<W, Circle<W>>();
  #openCallers: readonly Caller[] | null = null;

  add(watch: W, standing: Exclude<Standing, { way: "here" }>): void {
    const key = standing.way === "alone" ? watch.caller : JSON.stringify(standing.terms);
    const circle = this.#byKey.get(key) ?? { key, caller: watch.caller, watches: new Set(), open: new Set() };
    this.#byKey.set(key, circle);
    this.#byCaller.set(circle.caller, circle);
    this.#byWatch.set(watch, circle);
    circle.watches.add(watch);
    if (watch.filter !== null) return;
    if (circle.open.size === 0) this.#openCallers = null;
    circle.open.add(watch);
  }

  delete(watch: W): void {
    const circle = this.#byWatch.get(watch);
    if (!circle) return;
    circle.watches.delete(watch);
    if (circle.open.delete(watch) && circle.open.size === 0) this.#openCallers = null;
    if (circle.watches.size > 0) return;
    this.#byKey.delete(circle.key);
    this.#byCaller.delete(circle.caller);
  }

  /** The caller that the queries check for the watch; undefined for a watch that is in no circle. */
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
