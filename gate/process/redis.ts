import { createHash } from "node:crypto";
import type { Logger } from "pino";
import type { RedisHost } from "../../config/redis-url.ts";
import { every, retry } from "../../db/repeat.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import {
  isElsewhere,
  type Library,
  openRedis,
  type RedisClient,
  type RedisConnection,
  RedisServers,
} from "./redis-servers.ts";

export type RedisOptions = {
  /** `rediss://user:password@host:6379/0`, or a URL of Sentinels or of a cluster. */
  readonly url: string;
  /** Begins the names of all keys. */
  readonly prefix: string;
  readonly log: Logger;
};

/** What the user of the service needs, as docs/deployment.md lists it. */
export const RIGHTS_IN_REDIS =
  "~content:* &content:* +ping +hello +auth +select +client|setname +eval +evalsha +time +exists +del +set +hget +hmget +hset +hincrby +pexpire +xadd +xdel +xrange +xread +publish +subscribe";

/** Milliseconds between two pings, */
const PING_INTERVAL = 1000;
/** and between two attempts to connect. */
const RECONNECT = 500;
/** A server that leaves a ping unanswered for so many intervals is lost. If this process is blocked, that is one interval. */
const MAX_MISSED = 4;
/** Bytes of published messages that the server has not taken: further ones are refused. */
const MAX_UNSENT = 8_388_608;

const SHARED = "limits, messages of channels and changes of rows are shared";
const NOT_SHARED = "each process counts RATE_LIMIT alone, messages of channels stay in it, and changes of rows wait";

type Subscription = {
  readonly channels: readonly string[];
  onMessage(text: string, channel: string): void;
  /** The subscription has begun, or again after a lost connection. */
  onReady(): void;
};

/** A connection from its first attempt to its loss. */
type Session = { readonly client: RedisClient; readonly server: RedisHost; lose(error: Error): void };

/**
 * The connection of this process to Valkey or Redis, which instances share. While it is lost,
 * commands are refused at once, and each process goes on alone.
 */
export class Redis {
  readonly prefix: string;
  readonly #library: Library;
  readonly #options: RedisOptions;
  readonly #servers: RedisServers;
  readonly #closing = new AbortController();
  /** Null between two attempts to connect. */
  #session: Session | null = null;
  #isReady = false;
  /** When it was connected, in milliseconds of a monotonic clock. */
  connectedAt = Number.NEGATIVE_INFINITY;
  #subscription: Subscription | null = null;
  #unsent = 0;
  /** Why there is no connection; null if there is one, and undefined before the first attempt has ended. */
  #fault: string | null | undefined;
  /** Why the server has refused the last command; null if it has not. */
  #refusal: string | null = null;

  private constructor(library: Library, options: RedisOptions) {
    this.#library = library;
    this.#options = options;
    this.#servers = new RedisServers(library, options.url);
    this.prefix = options.prefix;
  }

  /** Begins to connect. The client library is loaded only where it is used. */
  static async open(options: RedisOptions): Promise<Redis> {
    const redis = new Redis(await import("@redis/client"), options);
    const { signal } = redis.#closing;
    const onError = (error: Error) => redis.#miss(error);
    retry(() => redis.#connect(), { first: RECONNECT, signal, onError }).catch(() => {});
    return redis;
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  /** Why nothing is shared now, for `/health`; null if everything is. */
  get fault(): string | null {
    return this.#isReady ? this.#refusal : (this.#fault ?? "the connection is not open yet");
  }

  /** Runs a script on the keys. Rejects while there is no connection. */
  run(script: Script, keys: readonly string[], values: readonly (string | Buffer)[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...values];
    return this.#send((client) =>
      client.sendCommand(["EVALSHA", script.sha, ...rest]).catch((error: Error) => {
        if (!error.message.startsWith("NOSCRIPT")) throw error;
        return client.sendCommand(["EVAL", script.text, ...rest]);
      }),
    );
  }

  /** Messages are taken in the order of the calls. Rejects while there is no connection, or too much waits for the server. */
  async publish(channel: string, text: string): Promise<void> {
    const bytes = Buffer.byteLength(text);
    if (this.#unsent + bytes > MAX_UNSENT) throw new Error("REDIS_URL takes messages too slowly");
    this.#unsent += bytes;
    await this.#send((client) => client.publish(channel, text)).finally(() => {
      this.#unsent -= bytes;
    });
  }

  /** May be called once. */
  subscribe(channels: readonly string[], listener: Omit<Subscription, "channels">): void {
    this.#subscription = { channels, ...listener };
    const session = this.#session;
    if (session !== null && this.#isReady) this.#subscribe(session.client).then(listener.onReady, session.lose);
  }

  /**
   * Another connection to the same server, for commands that wait. Its owner closes it. Strings in replies are buffers. Rejects if the
   * server accepts it and does not answer within so many milliseconds.
   */
  async connect(timeout: number): Promise<RedisConnection> {
    const client = this.#servers.clientOf(this.#ready().server, 2);
    return openRedis(client, timeout, { typeMapping: { [this.#library.RESP_TYPES.BLOB_STRING]: Buffer } });
  }

  registerMetrics(metrics: Metrics): void {
    metrics.gauge({
      name: "redis_connections",
      about:
        "Processes that are connected to REDIS_URL, and so share RATE_LIMIT, broadcasts and presences with the others.",
      read: () => (this.fault === null ? 1 : 0),
    });
  }

  close(): void {
    this.#closing.abort();
    this.#session?.lose(new Error("closed"));
  }

  #ready(): Session {
    if (!this.#isReady || this.#session === null) throw new Error("there is no connection to REDIS_URL");
    return this.#session;
  }

  /** A command that the server refuses, such as one that the user lacks the right to, is in the log once. */
  async #send<T>(command: (client: RedisClient) => Promise<T>): Promise<T> {
    const session = this.#ready();
    try {
      const result = await command(session.client);
      this.#refusal = null;
      return result;
    } catch (error) {
      if (isElsewhere(error as Error)) session.lose(error as Error);
      else if (this.#session === session) this.#refuse(error as Error);
      throw error;
    }
  }

  #refuse({ message }: Error): void {
    if (this.#refusal === null) this.#options.log.warn(`REDIS_URL refuses: ${message}`);
    this.#refusal = message;
  }

  /**
   * Connects, and rejects when the connection is lost. The library would reconnect too, but it does not notice a server that accepts
   * commands and never answers.
   */
  async #connect(): Promise<never> {
    const server = await this.#servers.find(this.#nothing);
    this.#closing.signal.throwIfAborted();
    const client = this.#servers.clientOf(server, 3);
    const lost = Promise.withResolvers<never>();
    const lose = (error: Error) => {
      if (this.#session?.client === client) this.#isReady = false;
      lost.reject(error);
    };
    this.#session = { client, server, lose };
    client.on("error", lose);
    let missed = 0;
    const pings = every(PING_INTERVAL, () => {
      if (missed++ >= MAX_MISSED) return lose(new Error("the server does not answer"));
      this.#ping(client).then(() => {
        missed = 0;
      }, lose);
    });
    try {
      await Promise.race([this.#begin(client), lost.promise]);
      return await lost.promise;
    } finally {
      void pings.stop();
      this.#session = null;
      this.#isReady = false;
      if (client.isOpen) client.destroy();
    }
  }

  async #begin(client: RedisClient): Promise<void> {
    await client.connect();
    await this.#ping(client);
    await this.#subscribe(client);
    if (this.#session?.client !== client) return;
    this.#refusal = null;
    this.#isReady = true;
    this.connectedAt = performance.now();
    if (this.#fault) this.#options.log.info(`REDIS_URL answers again: ${SHARED}`);
    this.#fault = null;
    this.#subscription?.onReady();
  }

  /** A key that never exists. */
  get #nothing(): string {
    return `${this.prefix}:nothing`;
  }

  /** A write that changes nothing: a replica refuses it, which a PING would not notice. */
  async #ping(client: RedisClient): Promise<void> {
    await client.del(this.#nothing).catch((error: Error) => {
      if (!error.message.startsWith("NOPERM")) throw error;
    });
  }

  async #subscribe(client: RedisClient): Promise<void> {
    const { channels = [], onMessage } = this.#subscription ?? {};
    if (onMessage === undefined) return;
    await client.subscribe([...channels], (text, channel) => {
      if (this.#session?.client === client) onMessage(text, channel);
    });
  }

  /** One line for each loss, however many attempts follow. */
  #miss({ message }: Error): void {
    if (!this.#fault) this.#options.log.warn(`REDIS_URL does not answer, so ${NOT_SHARED}: ${message}`);
    this.#fault = message;
  }
}

/** A script by its SHA-1, under which the server keeps it. */
export type Script = { readonly text: string; readonly sha: string };

export const scriptOf = (text: string): Script => ({ text, sha: createHash("sha1").update(text).digest("hex") });
