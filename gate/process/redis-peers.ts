import { randomBytes } from "node:crypto";
import { every, type Repetition } from "../../db/repeat.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { PeerListener, Peers } from "./peers.ts";
import type { Redis } from "./redis.ts";

/** Milliseconds between two signs of life. */
const HEARTBEAT = 2000;
/** A process that is silent for so many of its own heartbeats has ended: after 8 seconds at the latest. */
const MAX_MISSED = 3;
/** Further processes are ignored. */
const MAX_PEERS = 1000;

/**
 * `<name> <connection> <kind> <message as JSON>`. The connection grows when messages of this process, or to it, may have been lost.
 * The kinds: a message, "alive" regularly, "ask" to be told everything, "bye" at the end.
 */
const FRAME = /^([\w-]{8}) (\d{1,15}) (message|alive|ask|bye) (.*)$/s;

type Known = { connection: string; missed: number };

export type RedisPeersOptions = {
  readonly redis: Redis;
  /** Maximum characters of a message. */
  readonly maxLength: number;
  readonly metrics: Metrics;
};

/**
 * The other processes, over Valkey or Redis: what a process publishes reaches all, in order, unless a connection is lost. A process
 * that is heard for the first time, or again, is told everything and asked for everything.
 */
export class RedisPeers implements Peers {
  readonly own = randomBytes(6).toString("base64url");
  readonly #options: RedisPeersOptions;
  readonly #known = new Map<string, Known>();
  readonly #all: string;
  #connection = 0;
  /** Whether something could not be handed over since the last sign of life. */
  #isBehind = false;
  #heartbeat: Repetition | null = null;
  #lost = 0;

  constructor(options: RedisPeersOptions) {
    this.#options = options;
    this.#all = `${options.redis.prefix}:peers`;
    options.metrics.counter({
      name: "shared_messages_lost_total",
      about: "Broadcasts and presences that could not be handed to REDIS_URL, or came from there and were refused.",
      read: () => this.#lost,
    });
  }

  listen(listener: PeerListener): void {
    this.#options.redis.subscribe([this.#all, this.#channelOf(this.own)], {
      onMessage: (text, channel) => this.#receive(text, channel === this.#all, listener),
      onReady: () => this.#renew(),
    });
    this.#heartbeat = every(HEARTBEAT, () => this.#beat(listener));
  }

  async send(message: unknown, to?: string): Promise<boolean> {
    const isSent = await this.#publish("message", JSON.stringify(message), to);
    if (isSent) return true;
    this.#isBehind = true;
    this.#lost++;
    return false;
  }

  async close(): Promise<void> {
    await this.#heartbeat?.stop();
    await this.#publish("bye");
  }

  #channelOf(peer: string): string {
    return `${this.#all}:${peer}`;
  }

  #publish(kind: string, json = "", to?: string): Promise<boolean> {
    const channel = to === undefined ? this.#all : this.#channelOf(to);
    return this.#options.redis.publish(channel, `${this.own} ${this.#connection} ${kind} ${json}`).then(
      () => true,
      () => false,
    );
  }

  /** The others hear a process that they do not know yet. */
  #renew(): void {
    this.#connection++;
    this.#isBehind = false;
    void this.#publish("alive");
  }

  #beat({ onEnd }: PeerListener): void {
    if (this.#isBehind && this.#options.redis.isReady) this.#renew();
    else void this.#publish("alive");
    for (const [peer, known] of this.#known) {
      if (known.missed++ < MAX_MISSED) continue;
      this.#known.delete(peer);
      onEnd(peer);
    }
  }

  #receive(text: string, isToAll: boolean, listener: PeerListener): void {
    if (text.startsWith(this.own)) return;
    const [, from, connection, kind, json] = text.length > this.#options.maxLength ? [] : (FRAME.exec(text) ?? []);
    if (from === undefined || !this.#hear(from, connection!, isToAll, listener)) this.#lost++;
    else if (kind === "ask") listener.onJoin(from);
    else if (kind === "message" && !isAccepted(json!, from, listener)) this.#lost++;
    else if (kind === "bye" && this.#known.delete(from)) listener.onEnd(from);
  }

  /** Returns false if there are too many processes. */
  #hear(from: string, connection: string, isToAll: boolean, { onJoin }: PeerListener): boolean {
    const known = this.#known.get(from);
    if (known?.connection === connection) {
      known.missed = 0;
      return true;
    }
    if (!known && this.#known.size >= MAX_PEERS) return false;
    this.#known.set(from, { connection, missed: 0 });
    // What a process sends to this one alone is the answer to such a question.
    if (!isToAll) return true;
    void this.#publish("ask", "", from);
    onJoin(from);
    return true;
  }
}

function isAccepted(json: string, from: string, { onMessage }: PeerListener): boolean {
  try {
    return onMessage(JSON.parse(json), from);
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}
