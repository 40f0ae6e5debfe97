import { createHash } from "node:crypto";
import type { Logger } from "pino";
import type { RedisHost } from "../../config/redis-url.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { isElsewhere, type Library, type RedisClient, RedisServers } from "./redis-servers.ts";

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

/**
 * The connection of this process to Valkey or Redis, which instances share. While it is lost,
 * commands are refused at once, and each process goes on alone.
 */
export class Redis {
  readonly prefix: string;
  readonly #library: Library;
  readonly #options: RedisOptions;
  readonly #servers: RedisServers;
  /** The server of the connection. */
  #server: RedisHost | null = null;
  /** Null between two attempts to connect. */
  #client: RedisClient | null = null;
  /** Further connections to the same server. */
  readonly #others = new Set<RedisClient>();
  #isReady = false;
  /** When it was connected, in milliseconds of a monotonic clock. */
  connectedAt = Number.NEGATIVE_INFINITY;
  #subscription: Subscription | null = null;
  #unsent = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The latest attempt to connect; null if it was given up. */
  #attempt: object | null = null;
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
    void redis.#connect();
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
    if (this.#client !== null && this.#isReady) void this.#subscribe(this.#client, this.#subscription);
  }

  async #subscribe(client: RedisClient, { channels, onMessage, onReady }: Subscription): Promise<void> {
    try {
      await client.subscribe([...channels], (text, channel) => {
        if (this.#client === client) onMessage(text, channel);
      });
      if (this.#client !== client) return;
      this.#isReady = true;
      onReady();
    } catch (error) {
      this.#lose(client, error as Error);
    }
  }

  /**
   * Another connection, for commands that wait. Its owner closes it. Strings in replies are buffers. Rejects if the server accepts it
   * and does not answer within so many milliseconds.
   */
  async connect(timeout: number): Promise<RedisConnection> {
    if (!this.#isReady || this.#server === null) throw new Error("there is no connection to REDIS_URL");
    const client = this.#servers.clientOf(this.#server, 2);
    client.on("error", () => {});
    this.#others.add(client);
    const typeMapping = { [this.#library.RESP_TYPES.BLOB_STRING]: Buffer };
    const close = () => {
      this.#others.delete(client);
      if (client.isOpen) client.destroy();
    };
    const within = <T>(milliseconds: number, answer: Promise<T>) => {
      const timer = setTimeout(close, milliseconds);
      return answer.finally(() => clearTimeout(timer));
    };
    await within(timeout, client.connect()).catch((error) => {
      close();
      throw error;
    });
    return { close, send: (command, timeout) => within(timeout, client.sendCommand(command, { typeMapping })) };
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
    this.#drop();
  }

  /** A command that the server refuses, such as one that the user lacks the right to, is in the log once. */
  async #send<T>(command: (client: RedisClient) => Promise<T>): Promise<T> {
    const client = this.#client;
    if (!this.#isReady || client === null) throw new Error("there is no connection to REDIS_URL");
    try {
      const result = await command(client);
      this.#refusal = null;
      return result;
    } catch (error) {
      if (isElsewhere(error as Error)) this.#lose(client, error as Error);
      else if (this.#client === client) this.#refuse(error as Error);
      throw error;
    }
  }

  #refuse({ message }: Error): void {
    if (this.#refusal === null) this.#options.log.warn(`REDIS_URL refuses: ${message}`);
    this.#refusal = message;
  }

  /** The library would reconnect too, but it does not notice a server that accepts commands and never answers. */
  async #connect(): Promise<void> {
    const attempt = {};
    this.#attempt = attempt;
    const server = await this.#servers.find(this.#nothing).catch((error: Error) => error);
    if (this.#attempt !== attempt) return;
    if (server instanceof Error) return this.#miss(server);
    const client = this.#servers.clientOf(server, 3);
    this.#server = server;
    this.#client = client;
    client.on("error", (error: Error) => this.#lose(client, error));
    const opening = client.connect();
    this.#watch(client, opening);
    try {
      await opening;
      await this.#ping(client);
      if (this.#client === client) await this.#connected(client);
    } catch (error) {
      this.#lose(client, error as Error);
    }
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

  /** Loses the connection if the answer is late, and then asks again and again. */
  #watch(client: RedisClient, answer: Promise<unknown>, missed = 0): void {
    let isAnswered = false;
    answer.then(
      () => {
        isAnswered = true;
      },
      (error) => this.#lose(client, error),
    );
    const next = () => {
      if (this.#client !== client) return;
      if (isAnswered) this.#watch(client, this.#ping(client));
      else if (missed + 1 < MAX_MISSED) this.#watch(client, answer, missed + 1);
      else this.#lose(client, new Error("the server does not answer"));
    };
    setTimeout(next, PING_INTERVAL).unref();
  }

  async #connected(client: RedisClient): Promise<void> {
    this.#refusal = null;
    if (this.#subscription) await this.#subscribe(client, this.#subscription);
    if (this.#client !== client) return;
    this.#isReady = true;
    this.connectedAt = performance.now();
    if (this.#fault) this.#options.log.info(`REDIS_URL answers again: ${SHARED}`);
    this.#fault = null;
  }

  /** One line for each loss, however many attempts follow. */
  #lose(client: RedisClient, error: Error): void {
    if (this.#client !== client) return;
    this.#drop();
    this.#miss(error);
  }

  #miss({ message }: Error): void {
    if (!this.#fault) this.#options.log.warn(`REDIS_URL does not answer, so ${NOT_SHARED}: ${message}`);
    this.#fault = message;
    this.#timer = setTimeout(() => this.#connect(), RECONNECT).unref();
  }

  #drop(): void {
    const client = this.#client;
    clearTimeout(this.#timer);
    this.#attempt = null;
    this.#client = null;
    this.#isReady = false;
    for (const each of client ? [client, ...this.#others] : this.#others) if (each.isOpen) each.destroy();
    this.#others.clear();
  }
}

export type RedisConnection = {
  /** Rejects if there is no reply within so many milliseconds: then the connection is closed. */
  send(command: string[], timeout: number): Promise<unknown>;
  close(): void;
};

/** A script by its SHA-1, under which the server keeps it. */
export type Script = { readonly text: string; readonly sha: string };

export const scriptOf = (text: string): Script => ({ text, sha: createHash("sha1").update(text).digest("hex") });
