import { Delivery } from "../../db/changes/delivery.ts";
import type { ChangeFeed } from "../../db/changes/feed.ts";
import type { Start } from "../../db/changes/position.ts";
import type { Rights } from "../../db/changes/rights/rights.ts";
import type { Judgement, Sight } from "../../db/changes/rights/watch.ts";
import type { Bindings, ChangeWatch, Subscriber } from "./bindings.ts";
import { ChangeMessages } from "./serializer.ts";

export type ChangeRouterOptions = {
  readonly feed: ChangeFeed;
  readonly rights: Rights;
  readonly bindings: Bindings;
  /** Maximum size of a change in a message. */
  readonly maxChangeBytes: number;
};

/** Brings changes to the channels that watch them. */
export class ChangeRouter {
  readonly #delivery: Delivery<ChangeWatch>;
  readonly #bindings: Bindings;
  readonly #maxChangeBytes: number;

  constructor({ feed, rights, bindings, maxChangeBytes }: ChangeRouterOptions) {
    this.#bindings = bindings;
    this.#maxChangeBytes = maxChangeBytes;
    this.#delivery = new Delivery(feed, rights, {
      deliver: (judgements) => this.#deliver(judgements),
      end: ({ subscriber }, error, position) => subscriber.end(error, position),
    });
  }

  /** The number of watches. */
  get size(): number {
    return this.#delivery.size;
  }

  /** Resolves when changes can be received. Rejects with FeedUnavailable. */
  open(): Promise<void> {
    return this.#delivery.open();
  }

  /** See Delivery. */
  start(watches: readonly ChangeWatch[], since?: Start): Start {
    return this.#delivery.start(watches, since);
  }

  delete(watches: readonly ChangeWatch[]): void {
    for (const watch of watches) this.#delivery.delete(watch);
  }

  positionOf(watch: ChangeWatch): Start {
    return this.#delivery.positionOf(watch)!;
  }

  #deliver(judgements: readonly Judgement<ChangeWatch>[]): void {
    for (const { change, sights, failures } of judgements) {
      for (const { watch } of sights) this.#bindings.refresh(watch);
      const messages = new ChangeMessages(change, this.#maxChangeBytes);
      for (const [subscriber, seen] of bySubscriber(sights)) subscriber.receive(seen, messages);
      for (const { watch, error } of failures) watch.subscriber.fail(watch, error);
    }
  }
}

function bySubscriber(sights: readonly Sight<ChangeWatch>[]): Map<Subscriber, Sight<ChangeWatch>[]> {
  const groups = new Map<Subscriber, Sight<ChangeWatch>[]>();
  for (const sight of sights) {
    const group = groups.get(sight.watch.subscriber);
    if (group) group.push(sight);
    else groups.set(sight.watch.subscriber, [sight]);
  }
  return groups;
}
