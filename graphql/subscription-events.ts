import type { ExecutionResult } from "postgraphile/graphql";
import { laterOf } from "../db/changes/change.ts";
import type { Start } from "../db/changes/position.ts";
import { FeedGap } from "../db/changes/reader.ts";
import type { ChangeEvents, Subscriptions } from "./change-events.ts";

/**
 * The events whose row the subscriber may see. A row that was deleted meanwhile, or that a policy hides, reads as null, and its
 * event is skipped.
 */
export class SubscriptionEvents implements AsyncIterableIterator<ExecutionResult> {
  readonly #results: AsyncGenerator<ExecutionResult>;
  readonly #changes: ChangeEvents;
  readonly #subscriptions: Subscriptions;
  #returned = false;
  /** Where a subscriber resumes that has got the last event; null before the first. */
  position: Start | null = null;

  constructor(results: AsyncGenerator<ExecutionResult>, changes: ChangeEvents, subscriptions: Subscriptions) {
    this.#results = results;
    this.#changes = changes;
    this.#subscriptions = subscriptions;
  }

  /** Where a subscriber resumes that has got every event so far; null if that is not known yet. */
  get resumePoint(): Start | null {
    const { positions, waiting } = this.#changes;
    const isUpToDate = positions.length === 0 && waiting === 0;
    const delivered = isUpToDate ? this.#subscriptions.positionOf(this.#changes) : undefined;
    if (!delivered || !this.position) return delivered ?? this.position;
    // While the changes of a batch are delivered, the last event is the later one.
    return laterOf(delivered, this.position);
  }

  /** Throws if the events end before the subscriber ends them. */
  async next(): Promise<IteratorResult<ExecutionResult>> {
    for (;;) {
      const result = await this.#results.next();
      // Grafast reports an error only if next() is already waiting; otherwise the results just end.
      if (result.done && !this.#returned) throw this.#changes.error ?? new FeedGap();
      if (result.done) return result;
      // There is one result for each change, in order.
      this.position = this.#changes.positions.shift() ?? this.position;
      if (isVisible(result.value)) return result;
    }
  }

  return(): Promise<IteratorResult<ExecutionResult>> {
    this.#returned = true;
    return this.#results.return(undefined);
  }

  throw(error: unknown): Promise<IteratorResult<ExecutionResult>> {
    this.#returned = true;
    return this.#results.throw(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function isVisible({ data, errors = [] }: ExecutionResult): boolean {
  const isNull = data === null || data === undefined || Object.values(data)[0] === null;
  // If the null has another cause than a hidden row, the subscriber must receive the error.
  return !isNull || errors.some((error) => error.originalError || (error.path?.length ?? 0) !== 1);
}
