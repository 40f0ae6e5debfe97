import type { Socket } from "node:net";
import type { RawData, WebSocket } from "ws";
import type { ByteBudget, Holder, Holding } from "../db/admission/byte-budget.ts";
import type { Caller } from "../db/caller.ts";
import type { RequestContext } from "../db/transaction/identity.ts";
import { type SocketExchange, TRY_AGAIN_LATER } from "../gate/limits/upgrade-gate.ts";
import type { HttpLimits } from "../gate/limits.ts";
import { contextOf } from "../gate/pipeline/exchange.ts";
import type { RequestIdentity } from "../identity/caller-resolver.ts";
import { isRefusal, Problem, problem } from "../problems/problem.ts";
import type { Channel } from "./channel.ts";
import { costOf, type JoinLimitSettings, parseToken, SocketJoins } from "./join.ts";
import { badToken, channelReason, internal, isChannelProblem, malformed } from "./problem.ts";
import { Receipts } from "./receipts.ts";
import {
  type ClientMessage,
  type Frame,
  MalformedMessage,
  parseBinary,
  parseText,
  type Version,
  writeText,
} from "./serializer.ts";
import type { Subscription } from "./subscription.ts";
import { atEndOfTurn } from "./turn-end.ts";

export type ChannelSocketOptions = {
  readonly limits: Pick<HttpLimits, "wsMaxBufferedBytes" | "jsonMaxDepth"> & JoinLimitSettings;
  readonly budget: ByteBudget;
  readonly needsKey: boolean;
  /** Joins a channel and replies. Rejects with Problem. */
  join(socket: ChannelSocket, message: ClientMessage): Promise<void>;
  onInternalError(error: unknown, requestId: string): void;
};

const MALFORMED = 4400;
const INTERNAL_ERROR = 1011;
/** A client for which this many times the limit is buffered is disconnected. */
const MAX_BUFFERED = 16;
const PATH = "/realtime/v1/websocket";
const HEARTBEAT_TOPIC = "phoenix";

/** One WebSocket and its channels. Without the parameter `vsn`, it has the version 1.0.0, as with Phoenix. */
export class ChannelSocket {
  readonly version: Version;
  readonly exchange: SocketExchange;
  /** The channels by topic. */
  readonly channels = new Map<string, Channel>();
  /** The parameter `client_id` of the URL: identifies the client across connections. */
  readonly clientId: string | null;
  /** The network of the client. */
  readonly network: string;
  readonly joins: SocketJoins;
  /** The highest reference so far. Clients count across connections. */
  lastRef = 0;
  readonly #websocket: WebSocket;
  readonly #holder: Holder;
  /** The messages that the client has not read. */
  readonly #unread: Holding;
  readonly #options: ChannelSocketOptions;
  /** By topic: messages are handled in order. */
  readonly #handling = new Map<string, Promise<void>>();
  readonly #receipts: Receipts;
  readonly #draining: (() => void)[] = [];

  constructor(websocket: WebSocket, exchange: SocketExchange, options: ChannelSocketOptions) {
    const parameters = new URL(exchange.request.url!, "http://localhost").searchParams;
    this.version = parameters.get("vsn")?.startsWith("2.") ? 2 : 1;
    this.clientId = parameters.get("client_id");
    this.network = exchange.client.name;
    this.exchange = exchange;
    this.joins = new SocketJoins(options.limits, exchange.client, exchange.onLimit);
    this.#websocket = websocket;
    this.#holder = { destroy: () => websocket.terminate() };
    this.#unread = options.budget.hold(this.network, "messages", this.#holder);
    this.#options = options;
    exchange.onMessage((data, isBinary) => this.#receive(data, isBinary));
    this.#receipts = new Receipts((payload) => exchange.ping(payload));
    websocket.on("pong", (payload) => this.#receipts.pong(String(payload)));
    websocket.once("close", (code) => this.#close(code));
  }

  /** The request as functions and policies see it. */
  get request(): RequestContext {
    const { request, identity } = this.exchange;
    return contextOf(request, PATH, { showsCredentials: identity.showsCredentials });
  }

  get isOpen(): boolean {
    return this.#websocket.readyState === this.#websocket.OPEN;
  }

  /** Maximum nesting of brackets in a message. */
  get maxDepth(): number {
    return this.#options.limits.jsonMaxDepth;
  }

  /** Whether the client reads so slowly that changes must wait. */
  get isFull(): boolean {
    return this.#websocket.bufferedAmount > this.#options.limits.wsMaxBufferedBytes;
  }

  send(message: Frame): void {
    if (!this.isOpen) return;
    const { limits } = this.#options;
    if (this.#websocket.bufferedAmount > MAX_BUFFERED * limits.wsMaxBufferedBytes) {
      this.closeSlow();
      return;
    }
    const { length: bytes } = message;
    if (!this.#unread.send(bytes)) return;
    const { socket } = this.exchange.request;
    if (socket.writableCorked === 0) this.#collect(socket);
    // As ws does, which would make the frame anew for each socket.
    socket.write(message, () => {
      this.#unread.give(bytes);
      if (this.#draining.length > 0) this.#drain();
    });
  }

  /** Everything of one turn of the event loop is sent with one system call: it is most of the cost of a message. */
  #collect(socket: Socket): void {
    socket.cork();
    atEndOfTurn(this.#endTurn);
  }

  readonly #endTurn = (): void => {
    if (this.isOpen) this.#receipts.endTurn();
    this.exchange.request.socket.uncork();
  };

  /** Sends a message that answers one of the client. `response` is an object. */
  reply({ joinRef, ref, topic }: ClientMessage, status: "ok" | "error", response: object = {}): undefined {
    if (ref === null) return;
    const payload = JSON.stringify({ status, response });
    this.send(writeText(this.version, { joinRef, ref, topic, event: "phx_reply" }, payload));
  }

  closeSlow(): void {
    if (this.isOpen) this.exchange.onLimit("unread_messages");
    this.#websocket.close(TRY_AGAIN_LATER, "the client reads too slowly");
  }

  /** Counts what a channel makes the service hold; it must be closed with the channel. Throws Problem. */
  hold(bytes: number): Holding {
    const held = this.#options.budget.reserve(this.network, "subscriptions", bytes, this.#holder);
    if (held !== null) return held;
    this.exchange.onLimit("address_memory");
    throw problem("channels too large");
  }

  /** Calls back when the client has read what is buffered. */
  whenDrained(callback: () => void): void {
    this.#draining.push(callback);
  }

  /** Finds out whether the client has received the messages of a subscription. */
  pingSoon(subscription: Subscription): void {
    this.#receipts.expect(subscription);
  }

  /** The caller on a channel. Rejects with Problem if the credentials are refused. */
  async callerOf(token: string | null): Promise<Caller> {
    try {
      return await this.resolve(token);
    } catch (error) {
      if (isRefusal(error)) throw badToken(error.message);
      if (error instanceof Problem) throw internal(error.message);
      throw error;
    }
  }

  /** The same. Throws, or rejects with, Problem. */
  resolve(token: string | null): Caller | Promise<Caller> {
    return this.#identityOf(token).caller({ needsKey: this.#options.needsKey });
  }

  #identityOf(token: string | null): RequestIdentity {
    return this.exchange.identity.onSocket(token === null ? {} : { authorization: `Bearer ${token}` });
  }

  /** Resolves when the message has been handled. */
  #receive(data: RawData, isBinary: boolean): Promise<void> | undefined {
    // Messages that arrive after the close frame was sent are ignored.
    if (!this.isOpen) return undefined;
    try {
      const bytes = data as Buffer;
      const message = isBinary ? parseBinary(bytes, this.version) : parseText(bytes, this.version, this.maxDepth);
      const ref = Number(message.ref);
      if (Number.isSafeInteger(ref)) this.lastRef = Math.max(this.lastRef, ref);
      return this.#enqueue(message);
    } catch (error) {
      if (error instanceof MalformedMessage) this.#websocket.close(MALFORMED, error.message);
      else this.#fail(error);
      return undefined;
    }
  }

  #enqueue(message: ClientMessage): Promise<void> | undefined {
    const { topic } = message;
    const before = this.#handling.get(topic);
    const handled = before ? before.then(() => this.#handle(message)) : this.#handle(message);
    if (!handled) return undefined;
    const settled: Promise<void> = handled
      .catch((error) => this.#fail(error))
      .finally(() => {
        if (this.#handling.get(topic) === settled) this.#handling.delete(topic);
      });
    this.#handling.set(topic, settled);
    return settled;
  }

  #handle(message: ClientMessage): Promise<void> | undefined {
    const { topic, event, joinRef, fault } = message;
    if (!this.isOpen) return undefined;
    if (topic === HEARTBEAT_TOPIC) return this.#heartbeat(message);
    if (fault !== null) return this.#refuse(message, event === "phx_join" ? channelReason(malformed(fault)) : fault);
    if (event === "phx_join") return this.#join(message);
    const channel = this.channels.get(topic);
    // A message to a channel that has been closed meanwhile.
    if (!channel || (joinRef !== null && joinRef !== channel.joinRef))
      return event === "phx_leave" ? this.reply(message, "ok") : this.#refuse(message, "unmatched topic");
    if (event !== "phx_leave" && this.#isRefused(message, this.#nameOf(channel))) return undefined;
    return channel.receive(message);
  }

  /** For the limits; null for an anonymous caller. */
  #nameOf({ caller }: Channel): string | null {
    return caller === null ? null : this.exchange.identity.nameOf(caller.current);
  }

  /** Counts a message towards RATE_LIMIT, and answers it if it is refused. */
  #isRefused(message: ClientMessage, knownName: string | null, cost = 1): boolean {
    const refusal = this.exchange.countOperation(knownName, cost);
    if (refusal !== null) this.#refuse(message, channelReason(refusal));
    return refusal !== null;
  }

  #refuse(message: ClientMessage, reason: string): undefined {
    this.reply(message, "error", { reason });
  }

  #heartbeat(message: ClientMessage): undefined {
    this.reply(message, "ok");
    for (const channel of this.channels.values()) channel.sendPosition();
  }

  async #join(message: ClientMessage): Promise<void> {
    const { knownName } = this.#identityOf(parseToken(message.payload.access_token));
    if (this.#isRefused(message, knownName, costOf(message.payload))) return;
    try {
      this.joins.countJoin();
      await this.#options.join(this, message);
    } catch (error) {
      if (!isChannelProblem(error)) {
        this.#options.onInternalError(error, this.exchange.requestId);
        this.#refuse(message, channelReason(internal("the channel cannot be joined at the moment")));
      } else this.#refuse(message, channelReason(error));
    }
  }

  #drain(): void {
    if (this.#websocket.bufferedAmount > this.#options.limits.wsMaxBufferedBytes / 2) return;
    for (const callback of this.#draining.splice(0)) callback();
  }

  #fail(error: unknown): void {
    this.#options.onInternalError(error, this.exchange.requestId);
    this.#websocket.close(INTERNAL_ERROR, "internal error");
  }

  #close(code: number): void {
    this.#receipts.close();
    this.#unread.close();
    for (const channel of [...this.channels.values()]) channel.disconnect(code);
    this.channels.clear();
  }
}
