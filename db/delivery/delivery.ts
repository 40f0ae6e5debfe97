import { pieces } from "../admission/pieces.ts";
import type { Change } from "../changes/change.ts";
import type { ChangeFeed } from "../changes/feed.ts";
import { comparePositions, type Start, withoutSnapshot } from "../changes/position.ts";
import { type ChangeReader, isFeedGap } from "../changes/reader.ts";
import type { Rights } from "../rights/rights.ts";
import { Watches } from "../rights/subscriber-watches.ts";
import type { ChangeVisibility } from "../rights/watch.ts";
import { computeColumns } from "./computed-columns.ts";
import type { Subscribed } from "./subscriber.ts";
import {
  type Apart,
  batchSize,
  CHANGES,
  Difficulties,
  type GroupEvents,
  lapsed,
  partsApart,
  timeoutOf,
  tooSlow,
  WatchEnded,
  WatchGroup,
} from "./watch-group.ts";

/** Where a watch is (SPEC.md): in a group that receives changes, waiting for the next catch-up, or paused until its subscriber is ready. */
type Place<W extends Subscribed<W, Shared>, Shared> =
  | WatchGroup<W, Shared>
  | { readonly state: "waiting" | "paused"; readonly position: Start };

/**
 * Delivers changes to the watches that see them, in commit order for each subscriber. All live watches share one reader and are decided
 * together: first the subscribers that this process decides, then the others, for which Postgres is asked. Those for which that takes
 * too long or fails are set apart, so that a few of them do not delay the others: together at first, then in halves, and finally each
 * alone. So a database that is slow for a moment does not get a query for each subscriber.
 */
export class Delivery<W extends Subscribed<W, Shared>, Shared> {
  readonly #feed: ChangeFeed;
  readonly #rights: Rights;
  readonly #prepare: (change: Change) => Shared;
  readonly #places = new Map<W, Place<W, Shared>>();
  #live: WatchGroup<W, Shared> | null = null;
  /** The watches that catch up. */
  #catchingUp: WatchGroup<W, Shared> | null = null;
  readonly #difficulties = new Difficulties();

  /** `prepare` makes what is equal for all who see a change. */
  constructor(feed: ChangeFeed, rights: Rights, prepare: (change: Change) => Shared) {
    this.#feed = feed;
    this.#rights = rights;
    this.#prepare = prepare;
    feed.count(this);
    const endLapsed = (recreated: ReadonlySet<string>) => {
      for (const [watch, error] of lapsed([...this.#places.keys()], recreated, feed, rights)) this.#end(watch, error);
    };
    feed.onLosses(endLapsed);
    // The catalog may be read after the publication.
    rights.onChange(() => endLapsed(new Set()));
  }

  /** Resolves when watches can be started. Rejects with Problem. */
  open(): Promise<void> {
    return this.#feed.open();
  }

  /** Delivers every later commit, or every change after `since`. The feed must be open. They get every change after the result. Throws `feedGap`. */
  start(watches: readonly W[], since?: Start): Start {
    const tables = watches.map(({ table }) => table);
    const reader = this.#feed.read(since ? { since, tables, mayFallBehind: true } : { tables });
    const start = since ?? reader.position;
    for (const watch of watches) {
      if (since) this.#put(watch, { state: "waiting", position: since });
      else this.#put(watch, this.#liveFrom(start), start);
    }
    if (since) this.#startCatchUp();
    // It was open until here so that the feed always has a reader and keeps reading.
    reader.close();
    return start;
  }

  get size(): number {
    return this.#places.size;
  }

  delete(watch: W): void {
    const place = this.#places.get(watch);
    this.#places.delete(watch);
    if (place instanceof WatchGroup) place.delete(watch);
  }

  /** Every change up to here that the watch sees has been delivered to it; undefined for one that has not started, or has ended. */
  positionOf(watch: W): Start | undefined {
    const place = this.#places.get(watch);
    return place instanceof WatchGroup ? place.positionOf(watch) : place?.position;
  }

  close(): void {
    for (const watch of [...this.#places.keys()]) this.delete(watch);
  }

  /** The live group; a new one takes the changes after the position. */
  #liveFrom(position: Start): WatchGroup<W, Shared> {
    if (!this.#live || this.#live.reader.isClosed)
      this.#live = this.#startGroup(this.#feed.read({ since: withoutSnapshot(position) }), (group) => {
        if (this.#live === group) this.#live = null;
      });
    return this.#live;
  }

  #startCatchUp(): void {
    if (this.#catchingUp && !this.#catchingUp.reader.isClosed) return;
    const starts = [...this.#places].flatMap(([watch, place]) =>
      !(place instanceof WatchGroup) && place.state === "waiting" ? [[watch, place.position] as const] : [],
    );
    if (starts.length === 0) return;
    this.#catchingUp = this.#startAt(starts, null, (group) => {
      if (this.#catchingUp === group) this.#catchingUp = null;
      this.#startCatchUp();
    });
  }

  /** A group of these watches, each from its start on; null if the changes since then are no longer kept: then they end. */
  #startAt(
    starts: readonly (readonly [watch: W, start: Start])[],
    apart: Apart | null,
    onEnd: (group: WatchGroup<W, Shared>) => void = () => {},
  ): WatchGroup<W, Shared> | null {
    const first = starts.map(([, start]) => start).reduce((a, b) => (comparePositions(a, b) < 0 ? a : b));
    let reader: ChangeReader;
    try {
      reader = this.#feed.read({ since: withoutSnapshot(first), mayFallBehind: true });
    } catch (error) {
      for (const [watch, start] of starts) this.#end(watch, error as Error, start);
      return null;
    }
    const group = this.#startGroup(reader, onEnd, apart);
    for (const [watch, start] of starts) this.#put(watch, group, start);
    return group;
  }

  #startGroup(
    reader: ChangeReader,
    onEnd: (group: WatchGroup<W, Shared>) => void,
    apart: Apart | null = null,
  ): WatchGroup<W, Shared> {
    const group = new WatchGroup(reader, new Watches<W>(this.#rights), apart);
    this.#run(group)
      .catch((error: Error) => {
        for (const [watch, place] of [...this.#places]) if (place === group) this.#end(watch, error);
      })
      .finally(() => {
        reader.close();
        onEnd(group);
      });
    return group;
  }

  async #run(group: WatchGroup<W, Shared>): Promise<void> {
    const { reader, apart } = group;
    // Yields once, because the callers add the watches after this call.
    await null;
    while (!reader.isClosed) {
      const delivered = reader.position;
      const changes = reader.take(batchSize(group.watches.size));
      if (changes.length > 0) {
        group.delivered = delivered;
        await this.#rights.meet(changes);
        await (apart?.isAlone ? this.#processAlone(group, apart, changes) : this.#process(group, changes));
        group.finishBatch();
        if (apart && !apart.isAlone) apart.remaining -= changes.length;
        if (apart && apart.remaining <= 0) this.#rejoin(group);
      }
      if (group === this.#catchingUp && this.#merge(group)) return;
      await (changes.length === 0 ? reader.wait() : pieces.next(CHANGES));
    }
  }

  /** After an internal error, the batch is tried again for its subscribers apart. */
  async #process(group: WatchGroup<W, Shared>, changes: readonly Change[]): Promise<void> {
    const { watches } = group;
    let isAsking = false;
    try {
      const { ended, decided, ask } = watches.decide(changes);
      for (const { watch, reason } of ended) this.#end(watch, new WatchEnded(reason));
      await this.#deliver(group, decided);
      if (ask === null) return;
      isAsking = true;
      const { results, undecided } = await ask(this.#rights.checker.inquiry("together"));
      this.#setApart(undecided, group);
      await this.#deliver(group, results);
    } catch (error) {
      this.#report(error);
      this.#setApart(
        [...watches].filter((watch) => !isAsking || watches.isOpen(watch)),
        group,
      );
    }
  }

  /** The same for a subscriber that is alone. It ends if it cannot be decided, also after an internal error. */
  async #processAlone(group: WatchGroup<W, Shared>, apart: Apart, changes: readonly Change[]): Promise<void> {
    const inquiry = this.#rights.checker.inquiry("alone");
    const found = await group.watches.findVisible(changes, inquiry).catch((error) => {
      this.#report(error);
      throw new Error("internal error");
    });
    for (const { watch, reason } of found.ended) this.#end(watch, new WatchEnded(reason));
    const end = found.results.findIndex(timeoutOf);
    await this.#deliver(group, end < 0 ? found.results : found.results.slice(0, end));
    const slow = found.results[end] && timeoutOf(found.results[end])!.watch;
    if (slow && group.watches.has(slow)) this.#end(slow, tooSlow(slow));
    const [watch] = group.watches;
    if (inquiry.wasDifficult && watch) apart.remaining = this.#difficulties.note(watch);
    else apart.remaining -= changes.length;
  }

  /** Logs an internal error. Throws it if the service is stopping. */
  #report = (error: unknown): void => {
    if (this.#rights.checker.isClosed) throw error;
    this.#rights.onInternalError(error);
  };

  /** The others do not wait for the subscribers of these watches. */
  #setApart(undecided: Iterable<W>, group: WatchGroup<W, Shared>): void {
    const present = [...undecided].filter((watch) => group.watches.has(watch));
    const subscribers = Map.groupBy(present, ({ subscriber }) => subscriber);
    for (const part of partsApart([...subscribers.values()], group.apart !== null)) {
      const starts = part
        .flatMap(([watch]) => [...group.watches.siblingsOf(watch!)])
        .map((watch) => [watch, group.positionOf(watch)] as const);
      const inherited = part.length > 1 ? group.apart?.remaining : undefined;
      const remaining = inherited ?? Math.max(...part.map(([watch]) => this.#difficulties.note(watch!)));
      this.#startAt(starts, { remaining, isAlone: part.length === 1 });
    }
  }

  #rejoin(group: WatchGroup<W, Shared>): void {
    for (const watch of [...group.watches]) this.#put(watch, { state: "waiting", position: group.positionOf(watch) });
    this.#startCatchUp();
  }

  async #deliver(group: WatchGroup<W, Shared>, results: readonly ChangeVisibility<W>[]): Promise<void> {
    const presented = group.present(results);
    await computeColumns(presented, this.#rights);
    const onError = (watch: W, error: unknown, { position }: Change) => {
      if (isFeedGap(error)) this.#feed.miss(watch.table, position);
      else this.#report(error);
      if (group.watches.has(watch)) this.#end(watch, isFeedGap(error) ? error : new Error("internal error"));
    };
    const onPause: GroupEvents<W>["onPause"] = (...paused) => void this.#pause(group, ...paused);
    const events = { onError, onPause, onFailure: this.#rights.note };
    for (const seen of presented) {
      // Fails only if the change cannot be prepared for any watch. Each then ends with a reason: a change must not be lost in silence.
      try {
        await group.deliver(seen, this.#prepare(seen.change), events);
      } catch (error) {
        for (const { watch } of [...seen.visible, ...seen.failures]) onError(watch, error, seen.change);
      }
    }
  }

  /** The subscriber of this watch continues at the position when it is ready. */
  async #pause(group: WatchGroup<W, Shared>, watch: W, position: Start, ready: Promise<void>): Promise<void> {
    const watches = [...group.watches.siblingsOf(watch)];
    const place = { state: "paused", position } as const;
    for (const each of watches) this.#put(each, place);
    const paused = () => watches.filter((each) => this.#places.get(each) === place);
    try {
      await ready;
      if (paused().length > 0) this.start(paused(), position);
    } catch (error) {
      for (const each of paused()) this.#end(each, error as Error);
    }
  }

  /** When the group that catches up has delivered everything that the live group has taken, its watches go live. */
  #merge(catchingUp: WatchGroup<W, Shared>): boolean {
    if (this.#live && comparePositions(catchingUp.reader.position, this.#live.reader.position) < 0) return false;
    const live = this.#liveFrom(catchingUp.reader.position);
    for (const watch of [...catchingUp.watches]) this.#put(watch, live, catchingUp.positionOf(watch));
    return true;
  }

  /** Moves a watch. In a group, it gets the changes after `start`. */
  #put(watch: W, place: Place<W, Shared>, start?: Start): void {
    const before = this.#places.get(watch);
    this.#places.set(watch, place);
    if (before instanceof WatchGroup) before.delete(watch);
    if (place instanceof WatchGroup) place.add(watch, start);
  }

  #end(watch: W, error: Error, position = this.positionOf(watch)!): void {
    if (!this.#places.has(watch)) return;
    this.delete(watch);
    try {
      watch.subscriber.end(error, position);
    } catch (fault) {
      this.#rights.onInternalError(fault);
    }
  }
}
