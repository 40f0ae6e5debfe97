import type { ChangeFeed } from "../db/changes/feed.ts";
import type { Start } from "../db/changes/position.ts";
import { Delivery } from "../db/delivery/delivery.ts";
import type { TrySend } from "../db/delivery/watch-group.ts";
import type { Rights } from "../db/rights/rights.ts";
import type { ChangeVisibility, VisibleChange } from "../db/rights/watch.ts";
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

  constructor({ feed, rights, bindings, maxChangeBytes }: ChangeRouterOptions) {
    this.#bindings = bindings;
    this.#delivery = new Delivery(feed, rights, {
      prepare: (change) => {
        const messages = new ChangeMessages(change, maxChangeBytes);
        return (seen, trySend) => this.#deliver(seen, messages, trySend);
      },
      end: ({ subscriber }, error, position) => subscriber.end(error, position),
    });
  }

  /** The number of watches. */
  get size(): number {
    return this.#delivery.size;
  }

  /** Resolves when changes can be received. Rejects with Problem. */
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

  /** All watches of a channel end together. */
  #deliver(
    { visible, failures }: ChangeVisibility<ChangeWatch>,
    messages: ChangeMessages,
    trySend: TrySend<ChangeWatch>,
  ): void {
    for (const [subscriber, seen] of bySubscriber(visible))
      trySend(seen[0]!.watch, () => {
        for (const each of seen) this.#bindings.refresh(each);
        subscriber.receive(seen, messages);
      });
    for (const { watch, error } of failures) trySend(watch, () => watch.subscriber.fail(watch, error));
  }
}

function bySubscriber(visible: readonly VisibleChange<ChangeWatch>[]): Map<Subscriber, VisibleChange<ChangeWatch>[]> {
  const groups = new Map<Subscriber, VisibleChange<ChangeWatch>[]>();
  for (const seen of visible) {
    const group = groups.get(seen.watch.subscriber);
    if (group) group.push(seen);
    else groups.set(seen.watch.subscriber, [seen]);
  }
  return groups;
}
