import { type Broadcast, BroadcastMessages } from "./broadcast.ts";
import { Presences } from "./presence.ts";
import type { ChannelRights } from "./private-channels.ts";
import type { Version } from "./serializer.ts";

/** A channel, for the others with the same topic. */
export interface Member {
  readonly presenceKey: string;
  readonly receivesPresence: boolean;
  readonly rights: ChannelRights;
  readonly socket: { readonly version: Version; send(message: Buffer, isBinary: boolean): void };
  /** `payload` is JSON. */
  send(event: string, payload: string): void;
}

/** The channels with one topic, which exchange broadcasts and presences. Private ones are separate from public ones. */
export class Topic {
  readonly presences: Presences;
  readonly #name: string;
  readonly #members = new Set<Member>();
  readonly #onEmpty: () => void;

  /** `name` begins with `realtime:`. */
  constructor(name: string, onEmpty: () => void) {
    this.#name = name;
    this.#onEmpty = onEmpty;
    this.presences = new Presences((diff) => this.#sendPresences(diff));
  }

  add(member: Member): void {
    this.#members.add(member);
  }

  delete(member: Member): void {
    this.presences.untrack(member);
    if (this.#members.delete(member) && this.#members.size === 0) this.#onEmpty();
  }

  /** `except` is the sender, if it does not receive its own broadcasts. */
  broadcast(broadcast: Broadcast, except: Member | null): void {
    const messages = new BroadcastMessages(this.#name, broadcast);
    for (const member of this.#members) {
      if (member === except || !member.rights.broadcast.read) continue;
      const message = messages.of(member.socket.version);
      if (message !== null) member.socket.send(message, messages.isBinary);
    }
  }

  #sendPresences(diff: string): void {
    for (const member of this.#members) {
      if (member.receivesPresence && member.rights.presence.read) member.send("presence_diff", diff);
    }
  }
}

/** The topics that channels have joined. */
export class Topics {
  readonly #topics = new Map<string, Topic>();

  /** The number of topics. */
  get size(): number {
    return this.#topics.size;
  }

  /** Creates it if there is none. Members must be added at once. */
  open(name: string, isPrivate: boolean): Topic {
    const key = keyOf(name, isPrivate);
    const topic = this.#topics.get(key) ?? new Topic(name, () => this.#topics.delete(key));
    this.#topics.set(key, topic);
    return topic;
  }

  /** Sends a broadcast that comes from no channel. */
  broadcast(name: string, isPrivate: boolean, broadcast: Broadcast): void {
    this.#topics.get(keyOf(name, isPrivate))?.broadcast(broadcast, null);
  }
}

const keyOf = (name: string, isPrivate: boolean) => `${isPrivate ? "private" : "public"} ${name}`;
