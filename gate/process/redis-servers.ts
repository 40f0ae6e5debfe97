import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import type { createClient, RESP_TYPES } from "@redis/client";
import { parseRedisUrl, type RedisHost, type RedisLogin, type RedisUrl } from "../../config/redis-url.ts";

export type Library = { readonly createClient: typeof createClient; readonly RESP_TYPES: typeof RESP_TYPES };
export type RedisClient = ReturnType<typeof createClient>;

/** Milliseconds for a connection, */
const CONNECT_TIMEOUT = 5000;
/** and for the question which server has the data. */
const ASK_TIMEOUT = 1000;

/** A server that has become a replica or is cut off from them, or a node that no longer has the keys, answers so. Another one has them. */
const ELSEWHERE = /^(MOVED|READONLY|CLUSTERDOWN|MASTERDOWN|NOREPLICAS)\b/;
/** The node of a cluster that has a key, "" for the node that has answered: `MOVED 3999 10.0.0.1:6381`. */
const MOVED = /^MOVED \d+ (.*):(\d+)$/;

export const isElsewhere = ({ message }: Error): boolean => ELSEWHERE.test(message);

/** Finds the server that has the data of the service, and creates clients of it, which are not connected yet. */
export class RedisServers {
  readonly #library: Library;
  readonly #url: RedisUrl;

  constructor(library: Library, url: string) {
    this.#library = library;
    this.#url = parseRedisUrl(url);
  }

  /** Rejects if none is found. In a cluster it is the node that has `key`: all keys of the service have the same hash tag. */
  async find(key: string): Promise<RedisHost> {
    const { kind, hosts, primary, login, sentinelLogin } = this.#url;
    if (kind === "server") return hosts[0]!;
    const askSentinel = async (host: RedisHost) =>
      primaryIn(await this.#ask(host, sentinelLogin, ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary]));
    const askNode = async (host: RedisHost) => {
      const error = await this.#ask(host, login, ["EXISTS", key]).then(
        () => null,
        (error: Error) => error,
      );
      return error === null ? host : nodeIn(error, host);
    };
    return this.#vote(kind === "sentinel" ? askSentinel : askNode);
  }

  clientOf(host: RedisHost, RESP: 2 | 3): RedisClient {
    const { login, database } = this.#url;
    return this.#client(host, login, CONNECT_TIMEOUT, { database, name: "content-service", RESP });
  }

  #client(
    { host, port }: RedisHost,
    { username, password }: RedisLogin,
    connectTimeout: number,
    options: object,
  ): RedisClient {
    const tls = this.#tls && { ...this.#tls, ...(isIP(host) === 0 && { servername: host }) };
    return this.#library.createClient({
      ...options,
      ...(username !== "" && { username }),
      ...(password !== "" && { password }),
      disableClientInfo: true,
      maintNotifications: "disabled",
      socket: { host, port, ...tls, connectTimeout, reconnectStrategy: false } as object,
    }) as unknown as RedisClient;
  }

  /** The certificates are read again for each connection, because they are renewed. */
  get #tls() {
    const { tls } = this.#url;
    const read = (file: string) => (file === "" ? undefined : readFileSync(file));
    return tls && { tls: true, ca: read(tls.ca), cert: read(tls.cert), key: read(tls.key) };
  }

  /** Asks all hosts, because one may be cut off from the others and know only what was. The answer of most counts. */
  async #vote(ask: (host: RedisHost) => Promise<RedisHost>): Promise<RedisHost> {
    const answers = await Promise.allSettled(this.#url.hosts.map(ask));
    const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    const votesOf = ({ host, port }: RedisHost) => found.filter((other) => other.host === host && other.port === port);
    const [most] = found.toSorted((a, b) => votesOf(b).length - votesOf(a).length);
    if (most) return most;
    const faults = answers.map((answer, i) => {
      const { host, port } = this.#url.hosts[i]!;
      return `${host}:${port}: ${answer.status === "rejected" && (answer.reason as Error).message}`;
    });
    throw new Error(`no server says which one has the data: ${faults.join("; ")}`);
  }

  async #ask(host: RedisHost, login: RedisLogin, command: string[]): Promise<unknown> {
    const connection = await openRedis(this.#client(host, login, ASK_TIMEOUT, { RESP: 2 }), ASK_TIMEOUT);
    return connection.send(command, ASK_TIMEOUT).finally(connection.close);
  }
}

/** The primary in the reply of a Sentinel: `["10.0.0.1", "6379"]`; null for a name that it does not know. */
function primaryIn(answer: unknown): RedisHost {
  const [host, port] = (answer as [string, string] | null) ?? [];
  if (host === undefined) throw new Error("it knows no primary of this name");
  return { host, port: Number(port) };
}

/** The node in the error with which another one refers to it. Throws any other error. */
function nodeIn(error: Error, from: RedisHost): RedisHost {
  const [, host, port] = MOVED.exec(error.message) ?? [];
  if (host === undefined) throw error;
  return { host: host === "" || host === "?" ? from.host : host, port: Number(port) };
}

export type RedisConnection = {
  /** Rejects if there is no reply within so many milliseconds: then the connection is closed. */
  send(command: string[], timeout: number): Promise<unknown>;
  close(): void;
};

/** Connects a client. Rejects if that takes more milliseconds. */
export async function openRedis(client: RedisClient, timeout: number, options = {}): Promise<RedisConnection> {
  client.on("error", () => {});
  const close = () => {
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
  return { close, send: (command, timeout) => within(timeout, client.sendCommand(command, options)) };
}
