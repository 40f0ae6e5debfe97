import type { Start } from "../db/changes/position.ts";
import { isFeedGap } from "../db/changes/reader.ts";
import { WatchEnded } from "../db/delivery/watch-group.ts";
import { IntervalCount } from "../gate/limits/clients.ts";
import type { SocketExchange } from "../gate/limits/upgrade-gate.ts";
import type { SocketCaller } from "../identity/socket-caller.ts";
import { type Problem, problem } from "../problems/problem.ts";
import { type Broadcast, faultOf } from "./broadcast.ts";
import type { ChannelRights } from "./channel-access.ts";
import { type JoinRequest, NOT_STORED, parseToken } from "./join.ts";
import { channelReason, internal, isChannelProblem, notPossible } from "./problem.ts";
import { type ClientMessage, type Frame, isObject, writeText } from "./serializer.ts";
import type { Subscription, SubscriptionListener } from "./subscription.ts";
import type { Member, Topic } from "./topic.ts";

export type ChannelOptions = {
  readonly socket: Member["socket"] & {
    readonly exchange: Pick<SocketExchange, "onLimit">;
    readonly maxDepth: number;
    send(message: Frame): void;
    reply(message: ClientMessage, status: "ok" | "error", response?: object): void;
  };
  readonly joinRef: string;
  readonly request: JoinRequest;
  readonly rights: ChannelRights;
  readonly replayed: Member["replayed"];
  /** Null for a channel without bindings. */
  readonly subscription: Subscription | null;
  readonly topic: Topic;
  textOf(position: Start): string;
  /** Gives the channel the rights of a new token. Rejects with Problem. */
  authorize(channel: Channel, token: string): Promise<void>;
  /** Stores the position, so that the channel can be resumed: the connection was lost, or the channel has failed. */
  keep(channel: Channel): void;
  onClosed(): void;
};

/** The client goes to another page, and does not come back. */
const GOING_AWAY = 1001;
/** Maximum messages about its presence that a channel may send per second. */
const MAX_PRESENCE_MESSAGES = 10;
type Extension = "postgres_changes" | "presence" | "broadcast" | "system";

/** A channel that a client has joined. */
export class Channel implements Member, SubscriptionListener {
  readonly joinRef: string;
  readonly request: JoinRequest;
  readonly socket: ChannelOptions["socket"];
  readonly subscription: Subscription | null;
  rights: ChannelRights;
  /** Set when the channel is open. */
  caller: SocketCaller | null = null;
  readonly presenceKey: string;
  readonly replayed: Member["replayed"];
  readonly #options: ChannelOptions;
  readonly #presenceMessages = new IntervalCount();
  #isOpen = true;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.joinRef = options.joinRef;
    this.request = options.request;
    this.socket = options.socket;
    this.subscription = options.subscription;
    this.rights = options.rights;
    this.replayed = options.replayed;
    this.presenceKey = options.request.presence.key || crypto.randomUUID();
    this.receivesPresence = options.request.presence.isEnabled;
  }

  receivesPresence: boolean;

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get topic(): string {
    return this.request.topic;
  }

  receive(message: ClientMessage): Promise<void> | undefined {
    switch (message.event) {
      case "access_token":
        return this.#changeToken(message);
      case "phx_leave":
        return this.#leave(message);
      case "broadcast":
        return this.#broadcast(message);
      case "presence":
        return this.#presence(message);
      default:
        return this.#reject(message, `unknown event ${message.event}`);
    }
  }

  /** `payload` is JSON. */
  send(event: string, payload: string): void {
    this.socket.send(writeText(this.socket.version, { topic: this.topic, event }, payload));
  }

  /** Tells the developer about the state of the channel. */
  system(extension: Extension, status: "ok" | "error", message: string, more: object = {}): void {
    this.send("system", JSON.stringify({ extension, status, message, channel: this.request.name, ...more }));
  }

  sendFailure(message: string): void {
    this.system("postgres_changes", "error", message);
  }

  sendGap(message: string): void {
    this.system("postgres_changes", "error", message, { gap: true });
  }

  /** Closes the channel with an error. The client then joins again. */
  fail(extension: Extension, reason: string): void {
    if (!this.#isOpen) return;
    this.system(extension, "error", reason);
    this.#options.keep(this);
    this.#close();
    this.#sendWithRef("phx_error");
  }

  /** Closes the channel because its changes have ended. After a gap, it cannot be resumed. */
  endChanges(error: Error): void {
    if (!isFeedGap(error)) {
      const reason = error instanceof WatchEnded ? notPossible(error.message) : internal("changes have ended");
      this.fail("postgres_changes", channelReason(reason));
      return;
    }
    if (!this.#isOpen) return;
    this.sendGap(error.message);
    this.#close();
    this.#sendWithRef("phx_error");
  }

  /** The socket is closed. */
  disconnect(code: number): void {
    if (!this.#isOpen) return;
    if (code !== GOING_AWAY) this.#options.keep(this);
    this.#close();
  }

  /** Another join of the same client replaces this one, and continues where it was. */
  replace(): void {
    this.#close();
    this.#sendWithRef("phx_close");
  }

  /** Only to a client that has requested positions. */
  sendPosition(): void {
    const { subscription } = this;
    if (!this.#isOpen || !subscription || !this.request.options.positions) return;
    const position = this.#options.textOf(subscription.sent);
    this.system("postgres_changes", "ok", "position", { position });
  }

  #sendWithRef(event: string): void {
    const { joinRef, topic } = this;
    this.socket.send(writeText(this.socket.version, { joinRef, ref: joinRef, topic, event }, "{}"));
  }

  #close(): void {
    this.#isOpen = false;
    this.subscription?.stop();
    this.caller?.close();
    this.#options.topic.delete(this);
    this.#options.onClosed();
  }

  #leave(message: ClientMessage): undefined {
    this.socket.reply(message, "ok");
    this.#close();
    this.#sendWithRef("phx_close");
  }

  async #changeToken(message: ClientMessage): Promise<void> {
    const { access_token } = message.payload;
    const token = parseToken(access_token);
    if (token === null) {
      if (typeof (access_token ?? "") !== "string") this.#reject(message, "access_token must be a string");
      return;
    }
    try {
      await this.#options.authorize(this, token);
    } catch (error) {
      if (!isChannelProblem(error)) throw error;
      this.fail("system", channelReason(error));
    }
  }

  #broadcast(message: ClientMessage): undefined {
    const { payload, body } = message;
    const { event = "", persist } = payload;
    if (typeof event !== "string") return this.#reject(message, "the event of a broadcast must be a string");
    if (persist) return this.#reject(message, NOT_STORED);
    const { ack, self } = this.request.broadcast;
    if (!this.rights.broadcast.write)
      return this.#refuse(message, "broadcast", problem("may not write topic", { topic: this.request.name }));
    const broadcast: Broadcast = { event, body: body ?? bodyOf(payload.payload) };
    const fault = faultOf(broadcast, this.socket.maxDepth);
    if (fault !== null) return this.#reject(message, fault);
    const sender = { network: this.socket.network, except: self ? null : this };
    try {
      const shared = this.#options.topic.broadcast(broadcast, sender);
      if (!ack) return undefined;
      if (shared === true) this.#acknowledge(message, true);
      // Further messages do not wait.
      else void Promise.resolve(shared).then((isShared) => this.#acknowledge(message, isShared));
      return undefined;
    } catch (error) {
      if (!isChannelProblem(error)) throw error;
      this.socket.exchange.onLimit("address_memory");
      return this.#refuse(message, "broadcast", error);
    }
  }

  #acknowledge(message: ClientMessage, isShared: boolean): void {
    if (isShared) this.socket.reply(message, "ok");
    else this.#refuse(message, "broadcast", problem("not shared"));
  }

  #presence(message: ClientMessage): undefined {
    const { event, payload = {} } = message.payload;
    if (!this.rights.presence.write)
      return this.#refuse(message, "presence", problem("may not write topic", { topic: this.request.name }));
    if (event !== "track" && event !== "untrack")
      return this.#reject(message, "the event of a presence must be track or untrack");
    if (!isObject(payload)) return this.#reject(message, "the payload of a presence must be an object");
    try {
      this.#track(event, payload);
    } catch (error) {
      if (!isChannelProblem(error)) throw error;
      this.socket.exchange.onLimit("PRESENCE");
      return this.#refuse(message, "presence", error);
    }
    // A client may request presence after it has joined.
    if (!this.receivesPresence && this.rights.presence.read) {
      this.receivesPresence = true;
      this.#options.topic.sendPresences(this);
    }
    this.socket.reply(message, "ok");
    return undefined;
  }

  /** Throws Problem. */
  #track(event: "track" | "untrack", payload: Readonly<Record<string, unknown>>): void {
    const { presences } = this.#options.topic;
    if (this.#presenceMessages.add() > MAX_PRESENCE_MESSAGES)
      throw problem("too many presence messages", { max: MAX_PRESENCE_MESSAGES });
    if (event === "track") presences.track(this, payload);
    else presences.untrack(this);
  }

  /** A message that is not valid. */
  #reject(message: ClientMessage, reason: string): undefined {
    this.socket.reply(message, "error", { reason });
  }

  #refuse(message: ClientMessage, extension: "broadcast" | "presence", problem: Problem): undefined {
    const reason = channelReason(problem);
    this.socket.reply(message, "error", { reason });
    this.system(extension, "error", reason);
    return undefined;
  }
}

const bodyOf = (payload: unknown): Broadcast["body"] => ({
  isJson: true,
  bytes: Buffer.from(JSON.stringify(payload ?? {})),
});
