import type { ByteBudget } from "../db/admission/byte-budget.ts";
import { pieces } from "../db/admission/pieces.ts";
import { problem } from "../problems/problem.ts";
import { type Broadcast, BroadcastMessages } from "./broadcast.ts";
import type { ChannelRights } from "./channel-access.ts";
import { Presences } from "./presence.ts";
import { isChannelProblem } from "./problem.ts";
import { type Frame, SharedText, type Version } from "./serializer.ts";
import { broadcastOf, eventOf, isMeta, type MessageLimits, type TopicEvent } from "./topic-message.ts";

/** A channel, for the others with the same topic. */
export interface Member {
  readonly presenceKey: string;
  readonly receivesPresence: boolean;
  readonly rights: ChannelRights;
  /** The ids of broadcasts that it has received already. */
  readonly replayed?: ReadonlySet<string> | undefined;
  readonly socket: {
    readonly version: Version;
    readonly network: string;
    send(message: Frame): void;
  };
}

/** Who sends a broadcast. */
export type Sender = {
  /** Under which the time and the memory for it are counted. */
  readonly network: string;
  /** A member that does not receive it. */
  readonly except?: Member | null;
  /** Whether its memory is counted already. */
  readonly isHeld?: boolean;
};

/** The senders of messages whose networks are not known: clients of other processes, and those who come and go. */
const PEERS = "peers";
const PRESENCE = "presence";

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
  /** Resolves when the members have all messages; null if they have. */
  #sending: Promise<void> | null = null;
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

  /** Returns what `share` does, when the members in this process have it too. Throws Problem like `deliver`. */
  broadcast(broadcast: Broadcast, sender: Sender): boolean | Promise<boolean> {
    const delivered = this.deliver(broadcast, sender);
    const shared = this.#options.share(eventOf(broadcast));
    return delivered === null ? shared : delivered.then(() => shared);
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
    socket.send(this.#state.message.of(socket.version));
  }

  #receiveBroadcast(event: TopicEvent & { kind: "broadcast" }): boolean {
    const broadcast = broadcastOf(event, this.#options.limits);
    if (broadcast) this.deliverIfPossible(broadcast, PEERS);
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

  /**
   * To the members in this process. Null if they have it; otherwise resolves when they have. Throws Problem if it would have to wait
   * and the network of the sender makes the service hold too much.
   */
  deliver(broadcast: Broadcast, { network, except = null, isHeld = false }: Sender): Promise<void> | null {
    const { budget } = this.#options;
    const mustWait = this.#sending !== null || pieces.isBusy;
    if (mustWait && !isHeld && budget.limitReached(network) !== null) throw problem("broadcasts hold too much");
    const messages = new BroadcastMessages(this.name, broadcast);
    const sent = this.#send(network, [...this.#members], (member) => {
      if (member === except || !member.rights.broadcast.read || member.replayed?.has(broadcast.meta?.id ?? "")) return;
      const message = messages.of(member.socket.version);
      if (message !== null) member.socket.send(message);
    });
    if (sent === null || isHeld) return sent;
    const holding = budget.hold(network, "messages");
    holding.add(broadcast.body.bytes.length);
    return sent.finally(() => holding.close());
  }

  /** The same for a sender who cannot be refused. What this process cannot deliver as fast as it comes is lost. */
  deliverIfPossible(broadcast: Broadcast, network: string): void {
    try {
      this.deliver(broadcast, { network });
    } catch (error) {
      if (!isChannelProblem(error)) throw error;
    }
  }

  #audience(): Member[] {
    return [...this.#members].filter(({ receivesPresence, rights }) => receivesPresence && rights.presence.read);
  }

  #sendDiff(diff: string): Promise<void> | null {
    const message = new SharedText({ topic: this.name, event: "presence_diff" }, diff);
    return this.#send(PRESENCE, this.#audience(), ({ socket }) => socket.send(message.of(socket.version)));
  }

  /** Sends to the members that do not leave meanwhile, after all earlier messages. */
  #send(client: string, members: readonly Member[], send: (member: Member) => void): Promise<void> | null {
    const act = (member: Member) => {
      if (this.#members.has(member)) send(member);
    };
    const start = () => pieces.each(client, members, act);
    const sent = this.#sending === null ? start() : this.#sending.then(() => start() ?? undefined);
    if (sent === null) return null;
    const settled = sent.finally(() => {
      if (this.#sending === settled) this.#sending = null;
    });
    this.#sending = settled;
    return settled;
  }
}
