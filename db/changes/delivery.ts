import { type Change, comparePositions } from "./change.ts";
import type { ChangeFeed } from "./feed.ts";
import { follows, isCommittedAfter, type Start } from "./position.ts";
import type { ChangeReader } from "./reader.ts";
import type { Rights } from "./rights/rights.ts";
import type { Judgement, Watch } from "./rights/watch.ts";
import type { Watches } from "./rights/watches.ts";

export type DeliveryHandler<W extends Watch> = {
  /** Receives a batch of changes and who sees them. The next batch is processed after the promise is resolved. */
  deliver(judgements: readonly Judgement<W>[]): Promise<void> | void;
  /**
   * The watch has ended: a FeedGap if it has missed changes, otherwise an error whose message is for the subscriber. It has got every
   * change up to `position`.
   */
  end(watch: W, error: Error, position: Start): void;
};

/** Watches that share one reader: all live watches, or all that are catching up (the wave). */
type Lane<W extends Watch> = {
  readonly reader: ChangeReader;
  readonly watches: Watches<W>;
  /** The start of each watch that does not get every change of the lane. */
  readonly starts: Map<W, Start>;
  /** While changes are delivered, the position before them; otherwise null: everything up to the reader's position has been delivered. */
  delivered: Start | null;
};

/** The right to see a table has ended. The message is for the subscriber. */
export class WatchEnded extends Error {}

/**
 * Delivers changes to the watches that see them, in commit order. All live watches share one reader and are judged together. Watches
 * that resume from an earlier position catch up together, and then join the live ones, without a gap or a duplicate.
 */
export class Delivery<W extends Watch> {
  readonly #feed: ChangeFeed;
  readonly #rights: Rights;
  readonly #handler: DeliveryHandler<W>;
  /** The lane of each watch; null for one that waits for the next wave or for the feed. */
  readonly #lanes = new Map<W, Lane<W> | null>();
  #live: Lane<W> | null = null;
  /** The watches that catch up. */
  #wave: Lane<W> | null = null;
  readonly #waiting = new Map<W, Start>();

  constructor(feed: ChangeFeed, rights: Rights, handler: DeliveryHandler<W>) {
    this.#feed = feed;
    this.#rights = rights;
    this.#handler = handler;
    feed.count(this);
  }

  /**
   * Resolves when every later commit, or every change after `since`, will be delivered. Rejects with FeedGap if those after
   * `since` are no longer kept, and with FeedUnavailable.
   */
  async add(watch: W, since?: Start): Promise<void> {
    this.#lanes.set(watch, null);
    try {
      await this.open();
      if (this.#lanes.has(watch)) this.start([watch], since);
    } catch (error) {
      this.#lanes.delete(watch);
      throw error;
    }
  }

  /** Resolves when watches can be started. Rejects with FeedUnavailable. */
  open(): Promise<void> {
    return this.#feed.open();
  }

  /** The same as `add` for several watches, while the feed is open. They get every change after the result. Throws FeedGap. */
  start(watches: readonly W[], since?: Start): Start {
    const reader = this.#feed.read(since && { since, mayFallBehind: true });
    const start = since ?? reader.position;
    for (const watch of watches) {
      if (since) {
        this.#lanes.set(watch, null);
        this.#waiting.set(watch, since);
      } else this.#goLive(watch, start);
    }
    this.#startWave();
    // It was open until here so that the feed always has a reader and keeps reading.
    reader.close();
    return start;
  }

  delete(watch: W): void {
    const lane = this.#lanes.get(watch);
    this.#lanes.delete(watch);
    this.#waiting.delete(watch);
    if (lane) this.#leave(lane, watch);
  }

  get size(): number {
    return this.#lanes.size;
  }

  /** The position at which a watch resumes after this change. */
  positionAfter(watch: W, { position }: Change): Start {
    return withSnapshot(position, this.#lanes.get(watch)?.starts.get(watch));
  }

  /** Every change up to here that the watch sees has been delivered to it; undefined while it waits. */
  positionOf(watch: W): Start | undefined {
    const lane = this.#lanes.get(watch);
    if (!lane) return this.#waiting.get(watch);
    const start = lane.starts.get(watch);
    const delivered = lane.delivered ?? lane.reader.position;
    if (!start || comparePositions(start, delivered) <= 0) return withSnapshot(delivered, start);
    return start;
  }

  close(): void {
    for (const watch of [...this.#lanes.keys()]) this.delete(watch);
  }

  #goLive(watch: W, since?: Start): void {
    if (!this.#live || this.#live.reader.isClosed)
      this.#live = this.#startLane(this.#feed.read({ since: since && withoutSnapshot(since) }), (lane) => {
        if (this.#live === lane) this.#live = null;
      });
    this.#enter(this.#live, watch, since);
  }

  #startWave(): void {
    if ((this.#wave && !this.#wave.reader.isClosed) || this.#waiting.size === 0) return;
    const starts = [...this.#waiting];
    this.#waiting.clear();
    const first = starts.map(([, start]) => start).reduce((a, b) => (comparePositions(a, b) < 0 ? a : b));
    let reader: ChangeReader;
    try {
      reader = this.#feed.read({ since: withoutSnapshot(first), mayFallBehind: true });
    } catch (error) {
      for (const [watch] of starts) this.#end(watch, error as Error);
      return;
    }
    this.#wave = this.#startLane(reader, (lane) => {
      if (this.#wave === lane) this.#wave = null;
      this.#startWave();
    });
    for (const [watch, start] of starts) this.#enter(this.#wave, watch, start);
  }

  #startLane(reader: ChangeReader, onEnd: (lane: Lane<W>) => void): Lane<W> {
    const watches = this.#rights.watches<W>();
    const lane: Lane<W> = { reader, watches, starts: new Map(), delivered: null };
    this.#run(lane)
      .catch((error: Error) => {
        for (const [watch, own] of this.#lanes) if (own === lane) this.#end(watch, error);
      })
      .finally(() => {
        reader.close();
        onEnd(lane);
      });
    return lane;
  }

  async #run(lane: Lane<W>): Promise<void> {
    const { reader, watches } = lane;
    // Yields once, because the callers add the watches after this call.
    await null;
    while (!reader.isClosed) {
      const delivered = reader.position;
      const changes = reader.take();
      if (changes.length > 0) {
        lane.delivered = delivered;
        const { judgements, ended } = await watches.judge(changes);
        for (const { watch, reason } of ended) this.#end(watch, new WatchEnded(reason));
        await this.#handler.deliver(this.#present(lane, judgements));
        lane.delivered = null;
      }
      if (lane === this.#wave && this.#merge(lane)) return;
      if (changes.length === 0) await reader.wait();
    }
  }

  /** Without watches that have been deleted meanwhile or start after the change. */
  #present(lane: Lane<W>, judgements: readonly Judgement<W>[]): Judgement<W>[] {
    const { starts } = lane;
    return judgements.map(({ change, sights, failures }) => {
      const gets = ({ watch }: { readonly watch: W }) => {
        if (this.#lanes.get(watch) !== lane) return false;
        const start = starts.get(watch);
        if (!start) return true;
        if (isCommittedAfter(change, start)) starts.delete(watch);
        return follows(change, start);
      };
      return { change, sights: sights.filter(gets), failures: failures.filter(gets) };
    });
  }

  /** When the wave has delivered everything that the live lane has taken, its watches go live. */
  #merge(wave: Lane<W>): boolean {
    if (this.#live && comparePositions(wave.reader.position, this.#live.reader.position) < 0) return false;
    for (const [watch, lane] of this.#lanes) if (lane === wave) this.#goLive(watch, this.positionOf(watch));
    return true;
  }

  #enter(lane: Lane<W>, watch: W, start?: Start): void {
    this.#lanes.set(watch, lane);
    if (start) lane.starts.set(watch, start);
    lane.watches.add(watch);
  }

  #leave(lane: Lane<W>, watch: W): void {
    lane.watches.delete(watch);
    lane.starts.delete(watch);
    if (lane.watches.size === 0) lane.reader.close();
  }

  #end(watch: W, error: Error): void {
    const position = this.positionOf(watch)!;
    this.delete(watch);
    this.#handler.end(watch, error, position);
  }
}

/** The position, with the snapshot of `start` if it still matters. */
const withSnapshot = ({ lsn, index }: Start, start: Start | undefined): Start =>
  start?.snapshot ? { lsn, index, snapshot: start.snapshot } : { lsn, index };

const withoutSnapshot = ({ lsn, index }: Start): Start => ({ lsn, index });
