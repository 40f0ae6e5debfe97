import type { Subscription } from "./subscription.ts";

/**
 * Milliseconds. A ping goes with a message if so much time has passed since the last one, and alone after so much more time without
 * one: a ping and its answer cost as much as a message.
 */
const PAUSE = 500;

/** Finds out which messages the client of a socket has received: it answers a ping that follows them. */
export class Receipts {
  readonly #ping: (payload: string) => void;
  /** The subscriptions with messages that no ping follows yet. */
  readonly #unpinged = new Set<Subscription>();
  /** Those whose messages the client confirms by answering the outstanding ping. */
  readonly #pinged = new Set<Subscription>();
  #timer: NodeJS.Timeout | undefined;
  #pingedAt = Number.NEGATIVE_INFINITY;
  #pings = 0;

  constructor(ping: (payload: string) => void) {
    this.#ping = ping;
  }

  /** Messages of the subscription follow. */
  expect(subscription: Subscription): void {
    this.#unpinged.add(subscription);
  }

  /** After the messages of a turn of the event loop. The next ping waits until the client has answered the last one. */
  endTurn(): void {
    if (this.#unpinged.size === 0 || this.#pinged.size > 0) return;
    const pause = this.#pingedAt + PAUSE - performance.now();
    if (pause <= 0) this.#send();
    else this.#timer ??= setTimeout(this.#send, pause + PAUSE);
  }

  /** The client has answered a ping. */
  pong(payload: string): void {
    if (payload !== String(this.#pings)) return;
    for (const subscription of this.#pinged) subscription.pong();
    this.#pinged.clear();
    if (this.#unpinged.size > 0) this.#timer ??= setTimeout(this.#send, PAUSE);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  readonly #send = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#pingedAt = performance.now();
    for (const subscription of this.#unpinged) {
      this.#pinged.add(subscription);
      subscription.ping();
    }
    this.#unpinged.clear();
    this.#ping(String(++this.#pings));
  };
}
