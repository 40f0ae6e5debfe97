import type { ByteBudget } from "../db/admission/byte-budget.ts";
import type { Peers } from "../http/process/peers.ts";
import { type Broadcast, BroadcastMessages } from "./broadcast.ts";
import { type PresenceChange, Presences } from "./presence.ts";
import type { ChannelRights } from "./private-channels.ts";
import { SharedText, type Version } from "./serializer.ts";

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

/** What happens in a topic, for the other processes of the service. `bytes` is base64. */
type TopicEvent =
  | { readonly kind: "broadcast"; readonly event: string; readonly isJson: boolean; readonly bytes: string }
  | { readonly kind: "presence"; readonly change: PresenceChange };

/** What a process tells the others; "hello" when it has started, and wants to know who is present. */
export type TopicMessage =
  | (TopicEvent & { readonly name: string; readonly isPrivate: boolean })
  | { readonly kind: "hello" };

type TopicOptions = {
  /** It begins with `realtime:`. */
  readonly name: string;
  readonly budget: ByteBudget;
  /** See PresencesOptions. */
  newRef(): string;
  share(event: TopicEvent): void;
  onEmpty(): void;
};

/** The channels with one topic, which exchange broadcasts and presences. Private ones are separate from public ones. */
export class Topic {
  readonly presences: Presences;
  readonly #members = new Set<Member>();
  readonly #options: TopicOptions;
  /** The last message that says who is present. */
  #state: { readonly payload: string; readonly message: SharedText } | null = null;

  constructor(options: TopicOptions) {
    const { budget, newRef, share } = options;
    this.#options = options;
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

  /** `except` is the sender, if it does not receive its own broadcasts. */
  broadcast(broadcast: Broadcast, except: Member | null): void {
    this.#deliver(broadcast, except);
    this.#options.share(eventOf(broadcast));
  }

  /** Something has happened in another process; the change is null if the process has ended. */
  receive(event: TopicEvent | null, from: number): void {
    if (event === null) this.presences.forget(from);
    else if (event.kind === "presence") this.presences.receive(event.change, from);
    else this.#deliver(broadcastOf(event), null);
    this.#closeIfEmpty();
  }

  /** Tells the member who is present. */
  sendPresences({ socket }: Member): void {
    const payload = this.presences.state();
    if (this.#state?.payload !== payload)
      this.#state = {
        payload,
        message: new SharedText({ topic: this.#options.name, event: "presence_state" }, payload),
      };
    socket.send(this.#state.message.of(socket.version), false);
  }

  /** Tells the other processes who is present. */
  sharePresences(): void {
    for (const change of this.presences.own) this.#options.share({ kind: "presence", change });
  }

  #closeIfEmpty(): void {
    if (this.#members.size === 0 && this.presences.size === 0) this.#options.onEmpty();
  }

  #deliver(broadcast: Broadcast, except: Member | null): void {
    const messages = new BroadcastMessages(this.#options.name, broadcast);
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
    const message = new SharedText({ topic: this.#options.name, event: "presence_diff" }, diff);
    for (const { socket } of this.#audience()) socket.send(message.of(socket.version), false);
  }
}

const eventOf = ({ event, body: { isJson, bytes } }: Broadcast): TopicEvent & { readonly kind: "broadcast" } => ({
  kind: "broadcast",
  event,
  isJson,
  bytes: bytes.toString("base64"),
});

const broadcastOf = ({ event, isJson, bytes }: ReturnType<typeof eventOf>): Broadcast => ({
  event,
  body: { isJson, bytes: Buffer.from(bytes, "base64") },
});

/** The topics that channels have joined, in this process or, with a presence, in others. */
export class Topics {
  readonly #topics = new Map<string, Topic>();
  readonly #peers: Peers<TopicMessage> | null;
  readonly #budget: ByteBudget;
  #refs = 0;

  /** `peers` are the other processes of the service. */
  constructor(peers: Peers<TopicMessage> | null, budget: ByteBudget) {
    this.#peers = peers;
    this.#budget = budget;
    peers?.listen(
      (message, from) => this.#receive(message, from),
      (from) => this.#each((topic) => topic.receive(null, from)),
    );
    peers?.send({ kind: "hello" });
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

  /** Sends a broadcast that comes from no channel. */
  broadcast(name: string, isPrivate: boolean, broadcast: Broadcast): void {
    const topic = this.#topics.get(keyOf(name, isPrivate));
    if (topic) topic.broadcast(broadcast, null);
    else this.#peers?.send({ ...eventOf(broadcast), name, isPrivate });
  }

  #create(name: string, isPrivate: boolean): Topic {
    return new Topic({
      name,
      budget: this.#budget,
      newRef: () => `${this.#peers ? `${this.#peers.own}.` : ""}${++this.#refs}`,
      share: (event) => this.#peers?.send({ ...event, name, isPrivate }),
      onEmpty: () => this.#topics.delete(keyOf(name, isPrivate)),
    });
  }

  #receive(message: TopicMessage, from: number): void {
    if (message.kind === "hello") {
      this.#each((topic) => topic.sharePresences());
      return;
    }
    const { name, isPrivate } = message;
    const topic = this.#topics.get(keyOf(name, isPrivate));
    if (topic) topic.receive(message, from);
    else if (message.kind === "presence") this.open(name, isPrivate).receive(message, from);
  }

  #each(act: (topic: Topic) => void): void {
    for (const topic of [...this.#topics.values()]) act(topic);
  }
}

const keyOf = (name: string, isPrivate: boolean) => `${isPrivate ? "private" : "public"} ${name}`;
