import { comparePositions, type Start } from "../db/changes/position.ts";
import type { Delivery } from "../db/delivery/delivery.ts";
import type { VisibleChange } from "../db/rights/watch.ts";
import { type Bindings, type ChangeSubscriber, type ChangeWatch, wantsDeletes } from "./bindings.ts";
import type { ChangesOptions } from "./join.ts";
import { type ChangeMessages, type Frame, shownIn, type Version } from "./serializer.ts";

export type SubscriptionOptions = {
  readonly topic: string;
  readonly socket: {
    readonly version: Version;
    readonly isFull: boolean;
    send(message: Frame): void;
    pingSoon(subscription: Subscription): void;
    whenDrained(callback: () => void): void;
  };
  readonly delivery: Pick<Delivery<ChangeWatch, ChangeMessages>, "start" | "delete" | "positionOf">;
  readonly bindings: Pick<Bindings, "refresh">;
  readonly options: ChangesOptions;
};

/** The channel of a subscription. */
export type SubscriptionListener = {
  sendPosition(): void;
  /** A policy has raised an error. */
  sendFailure(message: string): void;
  /** The data of the client is no longer up to date. */
  sendGap(message: string): void;
  /** No further changes are received, for the reason in the message. `feedGap` if changes have been missed. */
  endChanges(error: Error): void;
};

/** Milliseconds between two messages about errors of policies. */
const FAILURES = 1000;

/** The changes that a channel receives, and how far its client has received them. */
export class Subscription implements ChangeSubscriber {
  /** Set before the first change is received. */
  listener!: SubscriptionListener;
  readonly #options: SubscriptionOptions;
  #watches: readonly ChangeWatch[] = [];
  /** The position before the messages that the outstanding ping follows. */
  #pinged: Start | null = null;
  /** The position before the messages that no ping follows yet. */
  #unpinged: Start | null = null;
  #failedAt = 0;
  /** The position after the last change if the subscription has ended; null until then. */
  #end: Start | null = null;

  constructor(options: SubscriptionOptions) {
    this.#options = options;
  }

  /** Receives the changes after `since`; without it, those after the position that is returned. Throws `feedGap`. */
  start(watches: readonly ChangeWatch[], since?: Start): Start {
    const start = this.#options.delivery.start(watches, since);
    this.#watches = watches;
    return start;
  }

  /** Continues with other watches for the same bindings. */
  replace(watches: readonly ChangeWatch[]): void {
    if (this.#end !== null) return;
    const position = this.sent;
    this.#forget();
    try {
      this.start(watches, position);
    } catch (error) {
      this.end(error as Error, position);
    }
  }

  stop(): void {
    this.#end ??= this.sent;
    this.#forget();
  }

  /** What the channel does not receive, although its bindings ask for it. */
  get losses(): ReadonlySet<string> {
    const wanting = this.#watches.filter(({ binding }) => wantsDeletes(binding.request.event));
    return new Set(wanting.flatMap(({ lost }) => lost ?? []));
  }

  /** Everything up to here has been sent. */
  get sent(): Start {
    if (this.#end !== null) return this.#end;
    const positions = this.#watches.map((watch) => this.#options.delivery.positionOf(watch)!);
    return positions.reduce((one, other) => (comparePositions(one, other) < 0 ? one : other));
  }

  /** The client has received everything up to here. */
  get received(): Start {
    return this.#pinged ?? this.#unpinged ?? this.sent;
  }

  receive(visible: readonly VisibleChange<ChangeWatch>[], messages: ChangeMessages): void {
    const { topic, socket, bindings } = this.#options;
    for (const seen of visible) bindings.refresh(seen);
    const wanted = visible.filter((seen) => this.#wants(seen));
    if (wanted.length === 0) return;
    if (this.#unpinged === null) {
      this.#unpinged = this.sent;
      socket.pingSoon(this);
    }
    if (messages.change.operation === "TRUNCATE") {
      const { schema, name } = wanted[0]!.view.table;
      this.listener.sendGap(`the table ${schema}.${name} was truncated: load the data again`);
      return;
    }
    if (wanted.length === 1) {
      socket.send(messages.of(topic, socket.version, [wanted[0]!.watch.binding.id], wanted[0]!));
      return;
    }
    for (const group of Map.groupBy(wanted, shownIn).values()) {
      const ids = [...new Set(group.map(({ watch }) => watch.binding.id))].sort((a, b) => a - b);
      socket.send(messages.of(topic, socket.version, ids, group[0]!));
    }
  }

  fail({ table }: ChangeWatch, error: Error): void {
    if (Date.now() - this.#failedAt < FAILURES) return;
    this.#failedAt = Date.now();
    this.listener.sendFailure(
      `a policy of ${table.schema}.${table.name} failed, so changes are not sent: ${error.message}`,
    );
  }

  end(error: Error, position: Start): void {
    if (this.#end !== null) return;
    this.#end = position;
    this.stop();
    this.listener.endChanges(error);
  }

  untilReady(): Promise<void> | null {
    const { socket } = this.#options;
    return socket.isFull ? new Promise((resolve) => socket.whenDrained(resolve)) : null;
  }

  /** A ping follows the messages so far. */
  ping(): void {
    this.#pinged = this.#unpinged;
    this.#unpinged = null;
    if (this.#options.options.positions && this.#end === null) this.listener.sendPosition();
  }

  /** The client has answered the ping. */
  pong(): void {
    this.#pinged = null;
  }

  #wants({ event, left, watch }: VisibleChange<ChangeWatch>): boolean {
    const wanted = watch.binding.request.event;
    return (
      (wanted === "*" || wanted === (event === "TRUNCATE" ? "DELETE" : event)) &&
      (left !== "filter" || this.#options.options.leave)
    );
  }

  #forget(): void {
    for (const watch of this.#watches) this.#options.delivery.delete(watch);
    this.#watches = [];
  }
}
