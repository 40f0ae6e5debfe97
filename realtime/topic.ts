import type { ByteBudget } from "../db/admission/byte-budget.ts";
import type { Peers } from "../http/process/peers.ts";
import { type Broadcast, BroadcastMessages } from "./broadcast.ts";
import type { ChannelRights } from "./channel-access.ts";
import { Presences } from "./presence.ts";
import { isChannelProblem } from "./problem.ts";
import { SharedText, type Version } from "./serializer.ts";
import {
  broadcastOf,
  eventOf,
  isMeta,
  type MessageLimits,
  parseTopicMessage,
  type TopicEvent,
  type TopicMessage,
} from "./topic-message.ts";

/** A channel, for the others with the same topic. */
export interface Member {
  readonly presenceKey: string;
  readonly receivesPresence: boolean;
  readonly rights: ChannelRights;
  readonly socket: {
    readonly version: Version;
    readonly network: string;
    send(message: Buffer, isBinary: boolean): void;
  };
}

type TopicOptions = {
  /** It begins with `realtime:`. */
  readonly name: string;
  readonly isPrivate: boolean;
  readonly budget: ByteBudget;
  readonly limits: MessageLimits;
  /** See PresencesOptions. */
  newRef(): string;
  /** Tells the other processes. False, or a promise of false, if they do not get it. */
  share(event: TopicEvent): boolean | Promise<boolean>;
  onEmpty(): void;
};

/** The channels with one topic, which exchange broadcasts and presences. Private ones are separate from public ones. */
export class Topic {
  readonly name: string;
  readonly isPrivate: boolean;
  readonly presences: Presences;
  readonly #members = new Set<Member>();
  readonly #options: TopicOptions;
  /** The last message that says who is present. */
  #state: { readonly payload: string; readonly message: SharedText } | null = null;

  constructor(options: TopicOptions) {
    const { budget, newRef, share } = options;
    this.#options = options;
    this.name = options.name;
    this.isPrivate = options.isPrivate;
    this.presences = new Presences({
      budget,
      newRef,
      audience: () => this.#audience().length,
      send: (diff) => this.#sendDiff(diff),
      share: (change) => share({ kind: "presence", change }),
    });
  }

  add(member: Member): void {
    this.#members.add(member);
  }

  delete(member: Member): void {
    this.presences.untrack(member);
    if (this.#members.delete(member)) this.#closeIfEmpty();
  }

  /** `except` is the sender, if it does not receive its own broadcasts. Returns what `share` does. */
  broadcast(broadcast: Broadcast, except: Member | null): boolean | Promise<boolean> {
    this.deliver(broadcast, except);
    return this.#options.share(eventOf(broadcast));
  }

  /** Something has happened in another process. Returns whether it is acceptable. */
  receive(event: TopicEvent, from: string): boolean {
    try {
      return event.kind === "broadcast" ? this.#receiveBroadcast(event) : this.#receivePresence(event, from);
    } finally {
      this.#closeIfEmpty();
    }
  }

  /** See Presences. */
  forget(from: string, all: boolean): void {
    this.presences.forget(from, all);
    this.#closeIfEmpty();
  }

  /** Tells the member who is present. */
  sendPresences({ socket }: Member): void {
    const payload = this.presences.state();
    if (this.#state?.payload !== payload)
      this.#state = {
        payload,
        message: new SharedText({ topic: this.name, event: "presence_state" }, payload),
      };
    socket.send(this.#state.message.of(socket.version), false);
  }

  #receiveBroadcast(event: TopicEvent & { kind: "broadcast" }): boolean {
    const broadcast = broadcastOf(event, this.#options.limits);
    if (broadcast) this.deliver(broadcast, null);
    return broadcast !== null;
  }

  #receivePresence({ change }: TopicEvent & { kind: "presence" }, from: string): boolean {
    if (change.meta !== null && !isMeta(change.meta)) return false;
    try {
      this.presences.receive(change, from);
      return true;
    } catch (error) {
      if (isChannelProblem(error)) return false;
      throw error;
    }
  }

  #closeIfEmpty(): void {
    if (this.#members.size === 0 && this.presences.size === 0) this.#options.onEmpty();
  }

  /** To the members in this process. */
  deliver(broadcast: Broadcast, except: Member | null): void {
    const messages = new BroadcastMessages(this.name, broadcast);
    for (const member of this.#members) {
      if (member === except || !member.rights.broadcast.read) continue;
      const message = messages.of(member.socket.version);
      if (message !== null) member.socket.send(message, messages.isBinary);
    }
  }

  #audience(): Member[] {
    return [...this.#members].filter(({ receivesPresence, rights }) => receivesPresence && rights.presence.read);
  }

  #sendDiff(diff: string): void {
    const message = new SharedText({ topic: this.name, event: "presence_diff" }, diff);
    for (const { socket } of this.#audience()) socket.send(message.of(socket.version), false);
  }
}

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

  /** Sends a broadcast that comes from no channel. False, or a promise of false, if the other processes do not get it. */
  broadcast(name: string, isPrivate: boolean, broadcast: Broadcast): boolean | Promise<boolean> {
    const topic = this.#topics.get(keyOf(name, isPrivate));
    return topic ? topic.broadcast(broadcast, null) : this.#send({ ...eventOf(broadcast), name, isPrivate });
  }

  /** Delivers a broadcast that each process gets by itself. */
  deliver(name: string, isPrivate: boolean, broadcast: Broadcast): void {
    this.#topics.get(keyOf(name, isPrivate))?.deliver(broadcast, null);
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
