import type { ExecutionResult } from "postgraphile/graphql";
import { laterOf, type Start } from "../../db/changes/position.ts";
import { feedGap } from "../../db/changes/reader.ts";
import { type DatabaseErrorLike, MISSING } from "../../db/sqlstates.ts";
import type { ChangeEvents, Subscriptions } from "./change-events.ts";
import { causeOf } from "./errors.ts";

/**
 * The events whose row the subscriber may see. A row that was deleted meanwhile, or that a policy hides, reads as null, and its
 * event is skipped.
 */
export class SubscriptionEvents implements AsyncIterableIterator<ExecutionResult> {
  readonly #results: AsyncGenerator<ExecutionResult>;
  readonly #changes: ChangeEvents;
  readonly #subscriptions: Subscriptions;
  #returned = false;
  /** Called when the events have ended; may be called again. */
  onEnd = () => {};
  /** The position of the last change that was dealt with; null before the first. */
  #last: Start | null = null;

  constructor(results: AsyncGenerator<ExecutionResult>, changes: ChangeEvents, subscriptions: Subscriptions) {
    this.#results = results;
    this.#changes = changes;
    this.#subscriptions = subscriptions;
  }

  /** Resolves when the point at which a subscriber resumes is known. */
  get begun(): Promise<void> {
    return this.#changes.begun;
  }

  /** The position, as text, at which a subscriber that has received the last event resumes; null before the first event. */
  get position(): string | null {
    return this.#last && this.#subscriptions.textOf(this.#last);
  }

  /** The same for a subscriber that has received every event so far; null if it is not known yet. */
  get resumePoint(): string | null {
    const { positions, waiting } = this.#changes;
    const isUpToDate = positions.length === 0 && waiting === 0;
    const delivered = isUpToDate ? this.#subscriptions.positionOf(this.#changes) : undefined;
    if (!delivered) return this.position;
    // While a batch is being delivered, the last event may be later than the position that counts as delivered.
    return this.#subscriptions.textOf(this.#last ? laterOf(delivered, this.#last) : delivered);
  }

  /** Throws if the events end before the subscriber ends them. */
  async next(): Promise<IteratorResult<ExecutionResult>> {
    for (;;) {
      const result = await this.#nextResult();
      // Grafast reports an error only if next() is already waiting; otherwise the results just end.
      if (result.done && !this.#returned) throw this.#changes.error ?? feedGap();
      if (result.done) return result;
      const gone = result.value.errors?.map(causeOf).find(isGone);
      if (gone) {
        this.#changes.end(gone);
        continue;
      }
      // There is one result for each change, in order.
      this.#last = this.#changes.positions.shift() ?? this.#last;
      if (isVisible(result.value)) return { value: { ...result.value, extensions: { changePosition: this.position } } };
    }
  }

  async #nextResult(): Promise<IteratorResult<ExecutionResult>> {
    try {
      const result = await this.#results.next();
      if (result.done) this.onEnd();
      return result;
    } catch (error) {
      this.onEnd();
      throw error;
    }
  }

  return(): Promise<IteratorResult<ExecutionResult>> {
    this.#returned = true;
    this.onEnd();
    return this.#results.return(undefined);
  }

  throw(error: unknown): Promise<IteratorResult<ExecutionResult>> {
    this.#returned = true;
    this.onEnd();
    return this.#results.throw(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** The database no longer has what the subscription selects, so every event would fail. In a function, it may be missing for some. */
const isGone = ({ code, where }: Partial<DatabaseErrorLike>): boolean => MISSING.has(code) && !where;

function isVisible({ data, errors = [] }: ExecutionResult): boolean {
  const isNull = data === null || data === undefined || Object.values(data)[0] === null;
  // If the null has another cause than a hidden row, the subscriber must receive the error.
  return !isNull || errors.some((error) => error.originalError || (error.path?.length ?? 0) !== 1);
}
