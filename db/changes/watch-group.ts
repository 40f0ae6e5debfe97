import { setTimeout as sleep } from "node:timers/promises";
import { columnsRead, type Rights } from "../rights/rights.ts";
import type { ChangeVisibility, Watch, Watches } from "../rights/subscriber-watches.ts";
import { comparePositions } from "./change.ts";
import type { ChangeFeed } from "./feed.ts";
import { follows, isCommittedAfter, type Start } from "./position.ts";
import type { ChangeReader } from "./reader.ts";

/** The right to see a table has ended, or it cannot be decided. The message is for the subscriber. */
export class WatchEnded extends Error {}

export type DeliveryHandler<W extends Watch> = {
  /**
   * Receives a batch of changes and who sees them, and sends to each subscriber with `trySend`. The next batch is processed after
   * the promise is resolved.
   */
  deliver(results: readonly ChangeVisibility<W>[], trySend: TrySend<W>): Promise<void> | void;
  /**
   * Resolves when the watch can take further changes; null if it can. The others do not wait for it: until it has caught up, it has a
   * reader for itself. Absent if every watch always can.
   */
  untilReady?(watch: W): Promise<void> | null;
  /**
   * The watch has ended: `feedGap` if it has missed changes, otherwise an error whose message is for the subscriber. It has got every
   * change up to `position`.
   */
  end(watch: W, error: Error, position: Start): void;
};

/** Sends to the subscriber of a watch. If that throws, only this watch ends. Does nothing for a watch that has ended meanwhile. */
export type TrySend<W extends Watch> = (watch: W, send: () => void) => void;

/** The watches of one subscriber, for themselves. */
export type Apart<W> = {
  readonly watches: readonly W[];
  /** After so many further changes, if none of them is difficult to decide, they join the others again. */
  remaining: number;
  /** Whether one was difficult to decide last time, so that they wait with other slow ones. */
  isSlow: boolean;
};

/** Watches that share one reader: all live watches, all that are catching up, or those of one subscriber that is apart. */
export class WatchGroup<W extends Watch> {
  readonly reader: ChangeReader;
  readonly watches: Watches<W>;
  /** Null for a group of several subscribers. */
  readonly apart: Apart<W> | null;
  /** While changes are delivered, the position before them; otherwise null: everything up to the reader's position has been delivered. */
  delivered: Start | null = null;
  /** Whether the changes have been delivered to the subscribers that are decided, and Postgres is asked about the others. */
  isAsking = false;
  readonly #behind = new Set<W>();
  /** The start of each watch that does not get every change of the group. */
  readonly #starts = new Map<W, Start>();

  constructor(reader: ChangeReader, watches: Watches<W>, apart: Apart<W> | null = null) {
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

  /** After these have been delivered: waits for the watches of a subscriber that is apart. Others do not wait for each other. */
  async pace(delivered: readonly ChangeVisibility<W>[], { untilReady }: DeliveryHandler<W>): Promise<void> {
    if (!untilReady) return;
    for (const watch of new Set(delivered.flatMap(({ visible }) => visible.map((seen) => seen.watch)))) {
      const ready = untilReady(watch);
      if (ready && this.apart) await ready;
      else if (ready) this.#behind.add(watch);
    }
  }

  /** Returns the watches that cannot take the next batch yet. */
  finishBatch(): readonly W[] {
    this.delivered = null;
    this.isAsking = false;
    const behind = [...this.#behind];
    this.#behind.clear();
    return behind;
  }

  /** Every change up to here that the watch sees has been delivered to it. */
  positionOf(watch: W): Start {
    const start = this.#starts.get(watch);
    const isDelivered = this.delivered === null || (this.isAsking && !this.watches.isOpen(watch));
    const delivered = isDelivered ? this.reader.position : this.delivered!;
    if (!start || comparePositions(start, delivered) <= 0) return withSnapshot(delivered, start);
    return start;
  }

  /** The position after a change that was delivered to the watch. */
  positionAfter(watch: W, position: Start): Start {
    return withSnapshot(position, this.#starts.get(watch));
  }

  /** Without watches that have been deleted meanwhile or start after the change, and without changes that no watch sees. */
  present(results: readonly ChangeVisibility<W>[]): ChangeVisibility<W>[] {
    return results.flatMap(({ change, visible, failures }) => {
      const gets = ({ watch }: { readonly watch: W }) => {
        if (!this.watches.has(watch)) return false;
        const start = this.#starts.get(watch);
        if (!start) return true;
        if (isCommittedAfter(change, start)) this.#starts.delete(watch);
        return follows(change, start);
      };
      const present = { change, visible: visible.filter(gets), failures: failures.filter(gets) };
      return present.visible.length + present.failures.length > 0 ? [present] : [];
    });
  }
}

/** The position, with the snapshot of `start` if it still matters. */
const withSnapshot = ({ lsn, index }: Start, start: Start | undefined): Start =>
  start?.snapshot ? { lsn, index, snapshot: start.snapshot } : { lsn, index };

/**
 * The watches that no longer receive what they want, because a table, a right or the publication has been altered, with the reason. Their
 * clients subscribe again, and then learn what is lost as at the first time.
 */
export function* lapsed<W extends Watch>(
  watches: Iterable<W>,
  feed: Pick<ChangeFeed, "knownLosses">,
  rights: Pick<Rights, "viewOf">,
): Generator<readonly [watch: W, reason: string]> {
  for (const watch of watches) {
    const view = rights.viewOf(watch.table, watch.caller.role);
    if (view === undefined) continue;
    if ("refusal" in view) {
      // No change may arrive that would end it: a table that no caller may read is not published.
      yield [watch, view.refusal];
      continue;
    }
    const read = columnsRead(view, watch.filter?.columns.keys());
    const reason = watch.lapse?.(feed.knownLosses(watch.table, read)) ?? null;
    if (reason !== null) yield [watch, reason];
  }
}

/** How often each subscriber was difficult to decide. */
export class Difficulties {
  readonly #counts = new WeakMap<object, number>();

  /** The changes after which the subscriber may join the others again: each time twice as many, so that n changes set it apart log n times. */
  note(watch: Watch): number {
    const subscriber = watch.subscriber ?? watch;
    const count = (this.#counts.get(subscriber) ?? 0) + 1;
    this.#counts.set(subscriber, count);
    return 2 ** count;
  }
}

/** Maximum changes of a batch, and maximum pairs of changes and watches in a batch about which Postgres was asked. */
const BATCH = 256;
const PAIRS = 100_000;

/** How many changes are taken at once if Postgres is asked about each for so many watches. */
export const batchSize = (asked: number): number => Math.max(1, Math.min(BATCH, Math.floor(PAIRS / asked)));

/** How often a batch is tried for a watch that is apart, and what the milliseconds between depend on. */
const ATTEMPTS = 3;
const PAUSE = 5;

/** Tries work again after internal errors. Rejects if it fails again and again, or if `onError` throws. */
export async function tryAgain<T>(work: () => Promise<T>, onError: (error: unknown) => void): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      onError(error);
      if (attempt === ATTEMPTS) throw new Error("internal error");
      await sleep(PAUSE * 4 ** attempt, null, { ref: false });
    }
  }
}

export const timeoutOf = <W extends Watch>({ failures }: ChangeVisibility<W>) =>
  failures.find(({ error }) => error.isTimeout);

export const tooSlow = ({ table: { schema, name } }: Watch) =>
  new WatchEnded(`the filter, or a policy of ${schema}.${name}, takes longer than CHANGES_POLICY_TIMEOUT`);
