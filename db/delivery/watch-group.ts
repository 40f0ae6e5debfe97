import { pieces } from "../admission/pieces.ts";
import { quoteName } from "../catalog/catalog.ts";
import type { Change } from "../changes/change.ts";
import type { ChangeFeed } from "../changes/feed.ts";
import { comparePositions, follows, isCommittedAfter, type Position, type Start } from "../changes/position.ts";
import { type ChangeReader, feedGap, isFeedGap } from "../changes/reader.ts";
import { CheckError } from "../rights/checker.ts";
import { columnsRead, type Rights } from "../rights/rights.ts";
import type { Watches } from "../rights/subscriber-watches.ts";
import { type ChangeVisibility, type Failure, onlyOf, type VisibleChange, type Watch } from "../rights/watch.ts";
import type { Subscribed } from "./subscriber.ts";

/** The client for which the delivery of all changes counts. */
export const CHANGES = "changes";

/** The right to see a table has ended, or it cannot be decided. The message is for the subscriber. */
export class WatchEnded extends Error {}

/** What happens while a change is given to subscribers. */
export type GroupEvents<W extends Watch> = {
  /** The subscriber of the watch cannot receive the next change. It has received everything up to the position. */
  onPause(watch: W, position: Start, ready: Promise<void>): void;
  onError(watch: W, error: unknown, change: Change): void;
  onFailure(failure: Failure<W>): void;
};

/** Subscribers for which Postgres could not decide with the others. */
export type Apart = {
  /** After so many further changes, if none of them is difficult to decide, they join the others again. */
  remaining: number;
  /** Whether it is one subscriber. */
  readonly isAlone: boolean;
};

/** Up to so many subscribers are asked about each alone. */
const FEW = 8;

/** How subscribers continue that are set apart: few of them each alone; more of them together, and from then on in halves. */
export function partsApart<S>(subscribers: readonly S[], wereApart: boolean): readonly (readonly S[])[] {
  if (subscribers.length <= FEW) return subscribers.map((each) => [each]);
  const middle = Math.ceil(subscribers.length / 2);
  return wereApart ? [subscribers.slice(0, middle), subscribers.slice(middle)] : [subscribers];
}

/** Watches that share one reader: all live watches, all that are catching up, or those of subscribers that are apart. */
export class WatchGroup<W extends Subscribed<W, Shared>, Shared> {
  readonly reader: ChangeReader;
  readonly watches: Watches<W>;
  readonly apart: Apart | null;
  /** While changes are delivered, the position before them; otherwise null: everything up to the reader's position has been delivered. */
  delivered: Start | null = null;
  /** While changes are delivered, the last change that each subscriber has got, if it has got one. */
  readonly #reached = new Map<object, Position>();
  /** The start of each watch that does not get every change of the group. */
  readonly #starts = new Map<W, Start>();

  constructor(reader: ChangeReader, watches: Watches<W>, apart: Apart | null = null) {
    this.reader = reader;
    this.watches = watches;
    this.apart = apart;
  }

  add(watch: W, start?: Start): void {
    if (start) this.#starts.set(watch, start);
    this.watches.add(watch);
  }

  delete(watch: W): void {
    this.watches.delete(watch);
    this.#starts.delete(watch);
    if (this.watches.size === 0) this.reader.close();
  }

  /** Gives a change to all subscribers that see it. In between, requests are handled. */
  async deliver(
    { change, visible, failures }: ChangeVisibility<W>,
    shared: Shared,
    events: GroupEvents<W>,
  ): Promise<void> {
    const subscribers = [...Map.groupBy(visible, ({ watch }) => watch.subscriber).values()];
    for (let from = 0; from < subscribers.length; from += PART) {
      const pause = pieces.next(CHANGES);
      if (pause) await pause;
      for (const seen of subscribers.slice(from, from + PART)) this.#give(seen, shared, change, events);
    }
    const fail = (failure: Failure<W>) => {
      const { watch, error } = failure;
      if (isFeedGap(error)) throw error;
      events.onFailure(failure);
      watch.subscriber.fail(watch, error);
      this.#reached.set(watch.subscriber, change.position);
    };
    for (const failure of failures) this.#try(failure.watch, change, () => fail(failure), events);
  }

  #give(seen: readonly VisibleChange<W>[], shared: Shared, change: Change, events: GroupEvents<W>): void {
    const { watch } = seen[0]!;
    const { lsn, index } = change.position;
    const give = () => {
      const ready = watch.subscriber.untilReady();
      if (ready) return events.onPause(watch, this.#positionAfter(watch, { lsn, index: index - 1 }), ready);
      watch.subscriber.receive(seen, shared, this.#positionAfter(watch, change.position));
      this.#reached.set(watch.subscriber, change.position);
    };
    this.#try(watch, change, give, events);
  }

  /**
   * If it throws, only the subscriber of this watch ends. Does nothing for a watch that has left the group meanwhile, or has come back
   * with a later start.
   */
  #try(watch: W, change: Change, act: () => void, { onError }: GroupEvents<W>): void {
    const start = this.#starts.get(watch);
    if (!this.watches.has(watch) || (start && comparePositions(change.position, start) <= 0)) return;
    try {
      act();
    } catch (error) {
      onError(watch, error, change);
    }
  }

  finishBatch(): void {
    this.delivered = null;
    this.#reached.clear();
  }

  /** Every change up to here that the watch sees has been delivered to it. */
  positionOf(watch: W): Start {
    const start = this.#starts.get(watch);
    const delivered = this.#reached.get(watch.subscriber) ?? this.delivered ?? this.reader.position;
    if (!start || comparePositions(start, delivered) <= 0) return withSnapshot(delivered, start);
    return start;
  }

  /** The position after a change that was delivered to the watch. */
  #positionAfter(watch: W, position: Start): Start {
    return withSnapshot(position, this.#starts.get(watch));
  }

  /** Without watches that have been deleted meanwhile or start after the change, and without changes that no watch sees. */
  present(results: readonly ChangeVisibility<W>[]): ChangeVisibility<W>[] {
    return results.flatMap((result) => {
      const { change } = result;
      const gets = (watch: W) => {
        if (!this.watches.has(watch)) return false;
        const start = this.#starts.get(watch);
        if (!start) return true;
        if (isCommittedAfter(change, start)) this.#starts.delete(watch);
        return follows(change, start);
      };
      const present = onlyOf(gets, result);
      return present.visible.length + present.failures.length > 0 ? [present] : [];
    });
  }
}

/** After so many subscribers, delivery may pause. */
const PART = 128;

/** The position, with the snapshot of `start` if it still matters. */
const withSnapshot = ({ lsn, index }: Start, start: Start | undefined): Start =>
  start?.snapshot ? { lsn, index, snapshot: start.snapshot } : { lsn, index };

/**
 * The watches that no longer receive what they want, because a table, a right or the publication has been altered, with the reason. Their
 * clients subscribe again, and then learn what is lost as at the first time. `feedGap` if another table has the name of theirs: what was
 * changed before it was published is missing.
 */
export function* lapsed<W extends Watch>(
  watches: Iterable<W>,
  recreated: ReadonlySet<string>,
  feed: Pick<ChangeFeed, "knownLosses">,
  rights: Pick<Rights, "viewOf">,
): Generator<readonly [watch: W, error: Error]> {
  for (const watch of watches) {
    if (recreated.has(quoteName(watch.table))) {
      yield [watch, feedGap()];
      continue;
    }
    const view = rights.viewOf(watch.table, watch.caller.role);
    if (view === undefined) continue;
    if ("refusal" in view) {
      // No change may arrive that would end it: a table that no caller may read is not published.
      yield [watch, new WatchEnded(view.refusal)];
      continue;
    }
    const read = columnsRead(view, watch.filter?.columns.keys());
    const reason = watch.lapse?.(feed.knownLosses(watch.table, read)) ?? null;
    if (reason !== null) yield [watch, new WatchEnded(reason)];
  }
}

/** How often each subscriber was difficult to decide. */
export class Difficulties {
  readonly #counts = new WeakMap<object, number>();

  /** The changes after which the subscriber may join the others again: each time twice as many, so that n changes set it apart log n times. */
  note({ subscriber }: Watch): number {
    const count = (this.#counts.get(subscriber) ?? 0) + 1;
    this.#counts.set(subscriber, count);
    return 2 ** count;
  }
}

/** Maximum changes of a batch, and maximum pairs of changes and watches in it: who sees them is decided without a pause. */
const BATCH = 256;
const PAIRS = 10_000;

/** How many changes are taken at once for so many watches. */
export const batchSize = (watches: number): number => Math.max(1, Math.min(BATCH, Math.floor(PAIRS / watches)));

export const timeoutOf = <W extends Watch>({ failures }: ChangeVisibility<W>) =>
  failures.find(({ error }) => error instanceof CheckError && error.isTimeout);

export const tooSlow = ({ table: { schema, name } }: Watch) =>
  new WatchEnded(`the filter, or a policy of ${schema}.${name}, takes too long: simplify it, or give it an index`);
