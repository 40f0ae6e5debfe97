import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
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
  #tls: ConnectionOptions | null = null;

  constructor(library: Library, url: string) {
    this.#library = library;
    this.#url = parseRedisUrl(url);
  }

  /** Rejects if none is found. In a cluster it is the node that has `key`: all keys of the service have the same hash tag. */
  async find(key: string): Promise<RedisHost> {
    const { kind, hosts, primary } = this.#url;
    await this.readCertificates();
    if (kind === "server") return hosts[0]!;
    if (kind === "sentinel") return this.#vote(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary], addressOfPrimary);
    return this.#vote(["EXISTS", key], addressOfNode);
  }

  /** They are read again for each connection, because they are renewed. */
  async readCertificates(): Promise<void> {
    const { tls } = this.#url;
    if (tls === null) return;
    const read = (file: string) => (file === "" ? undefined : readFile(file));
    const [ca, cert, key] = await Promise.all([tls.ca, tls.cert, tls.key].map(read));
    this.#tls = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
  }

  clientOf(host: RedisHost, RESP: 2 | 3): RedisClient {
    const { login, database } = this.#url;
    return this.#client(host, login, { database, name: "content-service", RESP });
  }

  #client(
    { host, port }: RedisHost,
    { username, password }: RedisLogin,
    options: object,
    connectTimeout = CONNECT_TIMEOUT,
  ) {
    const tls = this.#tls && { ...this.#tls, tls: true, ...(isIP(host) === 0 && { servername: host }) };
    return this.#library.createClient({
      ...options,
      ...(username !== "" && { username }),
      ...(password !== "" && { password }),
      disableClientInfo: true,
      maintNotifications: "disabled",
      socket: { host, port, ...tls, connectTimeout, reconnectStrategy: false } as object,
    }) as unknown as RedisClient;
  }

  /** Asks all hosts, because one may be cut off from the others and know only what was. The answer of most counts. */
  async #vote(command: string[], read: (answer: unknown, from: RedisHost) => RedisHost | null): Promise<RedisHost> {
    const answers = await Promise.allSettled(
      this.#url.hosts.map(async (host) => {
        const found = read(await this.#ask(host, command), host);
        if (found === null) throw new Error("it knows no primary of this name");
        return found;
      }),
    );
    const votes = new Map<string, { readonly host: RedisHost; count: number }>();
    const faults: string[] = [];
    for (const [i, answer] of answers.entries()) {
      if (answer.status === "rejected") {
        const { host, port } = this.#url.hosts[i]!;
        faults.push(`${host}:${port}: ${(answer.reason as Error).message}`);
      } else {
        const { host, port } = answer.value;
        const vote = votes.get(`${host}:${port}`) ?? { host: answer.value, count: 0 };
        vote.count++;
        votes.set(`${host}:${port}`, vote);
      }
    }
    const [most] = [...votes.values()].sort((a, b) => b.count - a.count);
    if (most === undefined) throw new Error(`no server says which one has the data: ${faults.join("; ")}`);
    return most.host;
  }

  /** The reply, or the error with which the server refers to another one. */
  async #ask(host: RedisHost, command: string[]): Promise<unknown> {
    const { kind, login, sentinelLogin } = this.#url;
    const client = this.#client(host, kind === "sentinel" ? sentinelLogin : login, { RESP: 2 }, ASK_TIMEOUT);
    client.on("error", () => {});
    const close = () => {
      if (client.isOpen) client.destroy();
    };
    const timer = setTimeout(close, ASK_TIMEOUT);
    try {
      await client.connect();
      return await client.sendCommand(command).catch((error: Error) => {
        if (MOVED.test(error.message)) return error;
        throw error;
      });
    } finally {
      clearTimeout(timer);
      close();
    }
  }
}

/** `["10.0.0.1", "6379"]`; null for a name that the Sentinel does not know. */
function addressOfPrimary(answer: unknown): RedisHost | null {
  const [host, port] = (answer as [string, string] | null) ?? [];
  return host === undefined ? null : { host, port: Number(port) };
}

function addressOfNode(answer: unknown, from: RedisHost): RedisHost {
  if (!(answer instanceof Error)) return from;
  const [, host, port] = MOVED.exec(answer.message)!;
  return { host: host === "" || host === "?" ? from.host : host!, port: Number(port) };
}
