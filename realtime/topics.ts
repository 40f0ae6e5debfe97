import type { ByteBudget } from "../db/admission/byte-budget.ts";
import type { Peers } from "../gate/process/peers.ts";
import type { Broadcast } from "./broadcast.ts";
import { Topic } from "./topic.ts";
import { eventOf, type MessageLimits, parseTopicMessage, type TopicEvent, type TopicMessage } from "./topic-message.ts";

/** The sender of broadcasts from functions. */
const SQL = "sql";

export type TopicsOptions = {
  /** The other processes of the service; null without any. */
  readonly peers: Peers | null;
  readonly budget: ByteBudget;
  readonly limits: MessageLimits;
};

/** Messages that may wait for the others while a process is told everything. */
const TOLD_AT_ONCE = 100;

/** The topics that channels have joined, in this process or, with a presence, in others. */
export class Topics {
  readonly #topics = new Map<string, Topic>();
  readonly #options: TopicsOptions;
  readonly #listeners = new Map<string, Set<(broadcast: Broadcast) => void>>();
  #refs = 0;
  /** One process at a time is told everything. */
  #telling: Promise<unknown> = Promise.resolve();

  constructor(options: TopicsOptions) {
    this.#options = options;
    options.peers?.listen({
      onMessage: (message, from) => this.#receive(message, from),
      onJoin: (from) => {
        this.#telling = this.#telling.then(() => this.#tell(from));
      },
      onEnd: (from) => this.#each((topic) => topic.forget(from, true)),
    });
  }

  /** The number of topics. */
  get size(): number {
    return this.#topics.size;
  }

  /** Creates it if there is none. Members must be added at once. */
  open(name: string, isPrivate: boolean): Topic {
    const key = keyOf(name, isPrivate);
    const topic = this.#topics.get(key) ?? this.#create(name, isPrivate);
    this.#topics.set(key, topic);
    return topic;
  }

  /**
   * Sends a broadcast from this network that comes from no channel, and whose memory is counted until the result is known. False, or
   * a promise of false, if the other processes do not get it.
   */
  broadcast(name: string, isPrivate: boolean, broadcast: Broadcast, network: string): boolean | Promise<boolean> {
    const topic = this.#topics.get(keyOf(name, isPrivate));
    return topic
      ? topic.broadcast(broadcast, { network, isHeld: true })
      : this.#send({ ...eventOf(broadcast), name, isPrivate });
  }

  /** Delivers a broadcast that each process gets by itself. */
  deliver(name: string, isPrivate: boolean, broadcast: Broadcast): void {
    for (const listener of this.#listeners.get(keyOf(name, isPrivate)) ?? []) listener(broadcast);
    this.#topics.get(keyOf(name, isPrivate))?.deliverIfPossible(broadcast, SQL);
  }

  /** Calls back with each broadcast that `deliver` gets for a topic, until the result is called. */
  onDelivery(name: string, isPrivate: boolean, listener: (broadcast: Broadcast) => void): () => void {
    const key = keyOf(name, isPrivate);
    const listeners = this.#listeners.get(key) ?? new Set();
    this.#listeners.set(key, listeners.add(listener));
    return () => {
      if (listeners.delete(listener) && listeners.size === 0) this.#listeners.delete(key);
    };
  }

  #create(name: string, isPrivate: boolean): Topic {
    const { peers, budget, limits } = this.#options;
    return new Topic({
      ...{ name, isPrivate, budget, limits },
      newRef: () => `${peers ? `${peers.own}.` : ""}${++this.#refs}`,
      share: (event) => this.#send({ ...event, name, isPrivate }),
      onEmpty: () => this.#topics.delete(keyOf(name, isPrivate)),
    });
  }

  #send(message: TopicMessage, to?: string): boolean | Promise<boolean> {
    return this.#options.peers?.send(message, to) ?? true;
  }

  /** Tells a process who is present. If it cannot be told, it will ask again. */
  async #tell(to: string): Promise<void> {
    let told = 0;
    await this.#send({ kind: "telling" }, to);
    for (const topic of [...this.#topics.values()])
      for (const change of topic.presences.own) {
        const sent = this.#send({ kind: "presence", change, name: topic.name, isPrivate: topic.isPrivate }, to);
        if (++told % TOLD_AT_ONCE === 0) await sent;
      }
    await this.#send({ kind: "told" }, to);
  }

  /** Returns whether the message is acceptable. */
  #receive(received: unknown, from: string): boolean {
    const message = parseTopicMessage(received);
    if (message === null) return false;
    if (message.kind === "telling") this.#each((topic) => topic.presences.doubt(from));
    else if (message.kind === "told") this.#each((topic) => topic.forget(from, false));
    else return this.#receiveEvent(message, from);
    return true;
  }

  #receiveEvent(message: TopicMessage & TopicEvent, from: string): boolean {
    const { name, isPrivate } = message;
    const known = this.#topics.get(keyOf(name, isPrivate));
    const topic = known ?? (message.kind === "presence" ? this.open(name, isPrivate) : null);
    return topic === null || topic.receive(message, from);
  }

  #each(act: (topic: Topic) => void): void {
    for (const topic of [...this.#topics.values()]) act(topic);
  }
}

const keyOf = (name: string, isPrivate: boolean) => `${isPrivate ? "private" : "public"} ${name}`;
