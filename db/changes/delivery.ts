import { type Change, comparePositions } from "./change.ts";
import type { ChangeFeed } from "./feed.ts";
import { follows, isCommittedAfter, type Start } from "./position.ts";
import type { ChangeReader } from "./reader.ts";
import type { Rights } from "./rights/rights.ts";
import type { ChangeVisibility, Watch, Watches } from "./rights/watches.ts";

export type DeliveryHandler<W extends Watch> = {
  /** Receives a batch of changes and who sees them. The next batch is processed after the promise is resolved. */
  deliver(results: readonly ChangeVisibility<W>[]): Promise<void> | void;
  /**
   * The watch has ended: a FeedGap if it has missed changes, otherwise an error whose message is for the subscriber. It has got every
   * change up to `position`.
   */
  end(watch: W, error: Error, position: Start): void;
};

/** Watches that share one reader: all live watches, or all that are catching up. */
type WatchGroup<W extends Watch> = {
  readonly reader: ChangeReader;
  readonly watches: Watches<W>;
  /** The start of each watch that does not get every change of the group. */
  readonly starts: Map<W, Start>;
  /** While changes are delivered, the position before them; otherwise null: everything up to the reader's position has been delivered. */
  delivered: Start | null;
};

/** The right to see a table has ended. The message is for the subscriber. */
export class WatchEnded extends Error {}

/**
 * Delivers changes to the watches that see them, in commit order. All live watches share one reader and are checked together. Watches
 * that resume from an earlier position catch up together, and then join the live ones, without a gap or a duplicate.
 */
export class Delivery<W extends Watch> {
  readonly #feed: ChangeFeed;
  readonly #rights: Rights;
  readonly #handler: DeliveryHandler<W>;
  /** The group of each watch; null for one that waits for the next catch-up or for the feed. */
  readonly #groups = new Map<W, WatchGroup<W> | null>();
  #live: WatchGroup<W> | null = null;
  /** The watches that catch up. */
  #catchingUp: WatchGroup<W> | null = null;
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
    this.#groups.set(watch, null);
    try {
      await this.open();
      if (this.#groups.has(watch)) this.start([watch], since);
    } catch (error) {
      this.#groups.delete(watch);
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
        this.#groups.set(watch, null);
        this.#waiting.set(watch, since);
      } else this.#goLive(watch, start);
    }
    this.#startCatchUp();
    // It was open until here so that the feed always has a reader and keeps reading.
    reader.close();
    return start;
  }

  delete(watch: W): void {
    const group = this.#groups.get(watch);
    this.#groups.delete(watch);
    this.#waiting.delete(watch);
    if (group) this.#leave(group, watch);
  }

  get size(): number {
    return this.#groups.size;
  }

  /** The position at which a watch resumes after this change. */
  positionAfter(watch: W, { position }: Change): Start {
    return withSnapshot(position, this.#groups.get(watch)?.starts.get(watch));
  }

  /** Every change up to here that the watch sees has been delivered to it; undefined while it waits. */
  positionOf(watch: W): Start | undefined {
    const group = this.#groups.get(watch);
    if (!group) return this.#waiting.get(watch);
    const start = group.starts.get(watch);
    const delivered = group.delivered ?? group.reader.position;
    if (!start || comparePositions(start, delivered) <= 0) return withSnapshot(delivered, start);
    return start;
  }

  close(): void {
    for (const watch of [...this.#groups.keys()]) this.delete(watch);
  }

  #goLive(watch: W, since?: Start): void {
    if (!this.#live || this.#live.reader.isClosed)
      this.#live = this.#startGroup(this.#feed.read({ since: since && withoutSnapshot(since) }), (group) => {
        if (this.#live === group) this.#live = null;
      });
    this.#enter(this.#live, watch, since);
  }

  #startCatchUp(): void {
    if ((this.#catchingUp && !this.#catchingUp.reader.isClosed) || this.#waiting.size === 0) return;
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
    this.#catchingUp = this.#startGroup(reader, (group) => {
      if (this.#catchingUp === group) this.#catchingUp = null;
      this.#startCatchUp();
    });
    for (const [watch, start] of starts) this.#enter(this.#catchingUp, watch, start);
  }

  #startGroup(reader: ChangeReader, onEnd: (group: WatchGroup<W>) => void): WatchGroup<W> {
    const watches = this.#rights.watches<W>();
    const group: WatchGroup<W> = { reader, watches, starts: new Map(), delivered: null };
    this.#run(group)
      .catch((error: Error) => {
        for (const [watch, own] of this.#groups) if (own === group) this.#end(watch, error);
      })
      .finally(() => {
        reader.close();
        onEnd(group);
      });
    return group;
  }

  async #run(group: WatchGroup<W>): Promise<void> {
    const { reader, watches } = group;
    // Yields once, because the callers add the watches after this call.
    await null;
    while (!reader.isClosed) {
      const delivered = reader.position;
      const changes = reader.take();
      if (changes.length > 0) {
        group.delivered = delivered;
        const { results, ended } = await watches.findVisible(changes);
        for (const { watch, reason } of ended) this.#end(watch, new WatchEnded(reason));
        await this.#handler.deliver(this.#present(group, results));
        group.delivered = null;
      }
      if (group === this.#catchingUp && this.#merge(group)) return;
      if (changes.length === 0) await reader.wait();
    }
  }

  /** Without watches that have been deleted meanwhile or start after the change. */
  #present(group: WatchGroup<W>, results: readonly ChangeVisibility<W>[]): ChangeVisibility<W>[] {
    const { starts } = group;
    return results.map(({ change, visible, failures }) => {
      const gets = ({ watch }: { readonly watch: W }) => {
        if (this.#groups.get(watch) !== group) return false;
        const start = starts.get(watch);
        if (!start) return true;
        if (isCommittedAfter(change, start)) starts.delete(watch);
        return follows(change, start);
      };
      return { change, visible: visible.filter(gets), failures: failures.filter(gets) };
    });
  }

  /** When the group that catches up has delivered everything that the live group has taken, its watches go live. */
  #merge(catchingUp: WatchGroup<W>): boolean {
    if (this.#live && comparePositions(catchingUp.reader.position, this.#live.reader.position) < 0) return false;
    for (const [watch, group] of this.#groups) if (group === catchingUp) this.#goLive(watch, this.positionOf(watch));
    return true;
  }

  #enter(group: WatchGroup<W>, watch: W, start?: Start): void {
    this.#groups.set(watch, group);
    if (start) group.starts.set(watch, start);
    group.watches.add(watch);
  }

  #leave(group: WatchGroup<W>, watch: W): void {
    group.watches.delete(watch);
    group.starts.delete(watch);
    if (group.watches.size === 0) group.reader.close();
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
