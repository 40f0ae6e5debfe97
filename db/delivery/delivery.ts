import { pieces } from "../admission/pieces.ts";
import type { Change } from "../changes/change.ts";
import type { ChangeFeed } from "../changes/feed.ts";
import { comparePositions, type Start, withoutSnapshot } from "../changes/position.ts";
import type { ChangeReader } from "../changes/reader.ts";
import type { Rights } from "../rights/rights.ts";
import { Watches } from "../rights/subscriber-watches.ts";
import type { ChangeVisibility, Watch } from "../rights/watch.ts";
import { computeColumns } from "./computed-columns.ts";
import {
  type Apart,
  batchSize,
  CHANGES,
  type DeliveryHandler,
  Difficulties,
  lapsed,
  timeoutOf,
  tooSlow,
  tryAgain,
  WatchEnded,
  WatchGroup,
} from "./watch-group.ts";

/**
 * Delivers changes to the watches that see them, in commit order for each subscriber. All live watches share one reader and are decided
 * together: first the subscribers that this process decides, then the others, for which Postgres is asked. Those for which that takes
 * too long or fails are set apart: each subscriber with a reader for itself, until it has caught up. Watches that resume from an earlier position catch up together,
 * and then join the live ones, without a gap or a duplicate.
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
  readonly #difficulties = new Difficulties();

  constructor(feed: ChangeFeed, rights: Rights, handler: DeliveryHandler<W>) {
    this.#feed = feed;
    this.#rights = rights;
    this.#handler = handler;
    feed.count(this);
    feed.onLosses((recreated) => {
      for (const [watch, error] of lapsed([...this.#groups.keys()], recreated, feed, rights)) this.#end(watch, error);
    });
  }

  /** Resolves when every later commit, or every change after `since`, will be delivered. Rejects with `feedGap` or another Problem. */
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

  /** Resolves when watches can be started. Rejects with Problem. */
  open(): Promise<void> {
    return this.#feed.open();
  }

  /** The same as `add` for several watches, while the feed is open. They get every change after the result. Throws `feedGap`. */
  start(watches: readonly W[], since?: Start): Start {
    const tables = watches.map(({ table }) => table);
    const reader = this.#feed.read(since ? { since, tables, mayFallBehind: true } : { tables });
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
    group?.delete(watch);
  }

  get size(): number {
    return this.#groups.size;
  }

  /** The position at which a watch resumes after this change. */
  positionAfter(watch: W, { position }: Change): Start {
    return this.#groups.get(watch)?.positionAfter(watch, position) ?? position;
  }

  /** Every change up to here that the watch sees has been delivered to it; undefined while it waits. */
  positionOf(watch: W): Start | undefined {
    return this.#groups.get(watch)?.positionOf(watch) ?? this.#waiting.get(watch);
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
      for (const [watch, start] of starts) this.#end(watch, error as Error, start);
      return;
    }
    this.#catchingUp = this.#startGroup(reader, (group) => {
      if (this.#catchingUp === group) this.#catchingUp = null;
      this.#startCatchUp();
    });
    for (const [watch, start] of starts) this.#enter(this.#catchingUp, watch, start);
  }

  #startGroup(
    reader: ChangeReader,
    onEnd: (group: WatchGroup<W>) => void,
    apart: Apart<W> | null = null,
  ): WatchGroup<W> {
    const group = new WatchGroup(reader, new Watches<W>(this.#rights), apart);
    this.#run(group)
      .catch((error: Error) => {
        for (const watch of this.#watchesOf(group)) this.#end(watch, error);
      })
      .finally(() => {
        reader.close();
        onEnd(group);
      });
    return group;
  }

  #watchesOf(group: WatchGroup<W>): W[] {
    return [...this.#groups].flatMap(([watch, own]) => (own === group ? [watch] : []));
  }

  async #run(group: WatchGroup<W>): Promise<void> {
    const { reader, apart } = group;
    // Yields once, because the callers add the watches after this call.
    await null;
    while (!reader.isClosed) {
      const delivered = reader.position;
      const changes = reader.take(batchSize(group.watches.size));
      if (changes.length > 0) {
        group.delivered = delivered;
        await this.#rights.meet(changes);
        await (apart ? this.#processApart(group, apart, changes) : this.#process(group, changes));
        for (const watch of group.finishBatch()) this.#setApart(watch, group);
        if (apart && apart.remaining <= 0) this.#rejoin(group, apart.watches);
      }
      if (group === this.#catchingUp && this.#merge(group)) return;
      await (changes.length === 0 ? reader.wait() : pieces.next(CHANGES));
    }
  }

  /** After an internal error, the batch is tried again for each of its subscribers alone. */
  async #process(group: WatchGroup<W>, changes: readonly Change[]): Promise<void> {
    const { watches } = group;
    try {
      const { ended, decided, ask } = watches.decide(changes);
      for (const { watch, reason } of ended) this.#end(watch, new WatchEnded(reason));
      await this.#deliver(group, decided);
      if (ask === null) return;
      group.startAsking();
      const { results, undecided } = await ask(this.#rights.checker.inquiry("together"));
      for (const watch of undecided) this.#setApart(watch, group);
      await this.#deliver(group, results);
    } catch (error) {
      this.#report(error);
      const open = this.#watchesOf(group).filter((watch) => !group.isAsking || watches.isOpen(watch));
      for (const watch of open) this.#setApart(watch, group);
    }
  }

  /** The same for a subscriber that is apart. It ends if it cannot be decided. */
  async #processApart(group: WatchGroup<W>, apart: Apart<W>, changes: readonly Change[]): Promise<void> {
    const inquiry = this.#rights.checker.inquiry(apart.isSlow ? "at length" : "alone");
    const found = await tryAgain(() => group.watches.findVisible(changes, inquiry), this.#report);
    if (!apart.isSlow && found.results.some(timeoutOf)) {
      apart.isSlow = true;
      return this.#processApart(group, apart, changes);
    }
    apart.isSlow = inquiry.wasDifficult;
    for (const { watch, reason } of found.ended) this.#end(watch, new WatchEnded(reason));
    const end = found.results.findIndex(timeoutOf);
    await this.#deliver(group, end < 0 ? found.results : found.results.slice(0, end));
    const slow = found.results[end] && timeoutOf(found.results[end])!.watch;
    if (slow && this.#groups.get(slow) === group) {
      const position = end === 0 ? group.positionOf(slow) : group.positionAfter(slow, changes[end - 1]!.position);
      this.#end(slow, tooSlow(slow), position);
    }
    if (inquiry.wasDifficult) apart.remaining = this.#difficulties.note(apart.watches[0]!);
    else apart.remaining -= changes.length;
  }

  /** Logs an internal error. Throws it if the service is stopping. */
  #report = (error: unknown): void => {
    if (this.#rights.checker.isClosed) throw error;
    this.#rights.onInternalError(error);
  };

  /** The others do not wait for the subscriber of this watch: it continues with a reader for itself. */
  #setApart(watch: W, group: WatchGroup<W>): void {
    if (this.#groups.get(watch) !== group) return;
    const position = this.positionOf(watch)!;
    let reader: ChangeReader;
    try {
      reader = this.#feed.read({ since: withoutSnapshot(position), mayFallBehind: true });
    } catch (error) {
      this.#end(watch, error as Error);
      return;
    }
    const watches = [...group.watches.siblingsOf(watch)];
    const apart = { watches, remaining: this.#difficulties.note(watch), isSlow: false };
    const own = this.#startGroup(reader, () => {}, apart);
    for (const each of watches) {
      group.delete(each);
      this.#enter(own, each, position);
    }
  }

  #rejoin(group: WatchGroup<W>, watches: readonly W[]): void {
    for (const watch of watches) {
      if (this.#groups.get(watch) !== group) continue;
      this.#waiting.set(watch, this.positionOf(watch)!);
      this.#groups.set(watch, null);
      group.delete(watch);
    }
    this.#startCatchUp();
  }

  async #deliver(group: WatchGroup<W>, results: readonly ChangeVisibility<W>[]): Promise<void> {
    const presented = group.present(results);
    await computeColumns(presented, this.#rights);
    const fail = (watch: W, error: unknown) => {
      this.#report(error);
      if (this.#groups.get(watch) === group) this.#end(watch, new Error("internal error"));
    };
    const trySend = (watch: W, send: () => void) => {
      if (this.#groups.get(watch) !== group) return;
      try {
        send();
      } catch (error) {
        fail(watch, error);
      }
    };
    for (const seen of presented) {
      // Fails only if the change cannot be prepared for any watch. Each then ends with a reason: a change must not be lost in silence.
      try {
        await group.deliver(seen, this.#handler, trySend);
      } catch (error) {
        for (const { watch } of [...seen.visible, ...seen.failures]) fail(watch, error);
      }
    }
    await group.pace(presented, this.#handler);
  }

  /** When the group that catches up has delivered everything that the live group has taken, its watches go live. */
  #merge(catchingUp: WatchGroup<W>): boolean {
    if (this.#live && comparePositions(catchingUp.reader.position, this.#live.reader.position) < 0) return false;
    for (const [watch, group] of this.#groups) if (group === catchingUp) this.#goLive(watch, this.positionOf(watch));
    return true;
  }

  #enter(group: WatchGroup<W>, watch: W, start?: Start): void {
    this.#groups.set(watch, group);
    group.add(watch, start);
  }

  #end(watch: W, error: Error, position = this.positionOf(watch)!): void {
    this.delete(watch);
    try {
      this.#handler.end(watch, error, position);
    } catch (fault) {
      this.#rights.onInternalError(fault);
    }
  }
}
