import { existsSync } from "node:fs";
import { createClient } from "@redis/client";
import { expect } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { RIGHTS_IN_REDIS } from "../../gate/process/redis.ts";
import { Program } from "./program.ts";
import { accepts, POLL } from "./until.ts";

const PROGRAMS = ["/usr/bin/valkey-server", "/usr/bin/redis-server"];
export const REDIS_PROGRAM = PROGRAMS.find((path) => existsSync(path));

export const hasRedis = REDIS_PROGRAM !== undefined;
if (!hasRedis) console.warn(`skipped: what instances share, because neither ${PROGRAMS.join(" nor ")} is installed`);

export type TestRedis = {
  readonly port: number;
  /** `redis://content:secret@127.0.0.1:port` */
  readonly url: string;
  readonly pid: number;
  /** Runs a command with all rights. */
  send(...command: string[]): Promise<unknown>;
  /** Makes a client have this many requests left, which are not refilled. */
  freeze(key: string, left: number): Promise<unknown>;
  /** The same with what the clients have, whose keys match. Returns their number. */
  freezeAll(pattern: string): Promise<number>;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
  /** Starts it again, empty. */
  start(): Promise<void>;
  /** Stops answering, or goes on. */
  signal(name: "SIGSTOP" | "SIGCONT"): void;
};

/** The year 2100: a bucket is not refilled before. */
const LATER = "4102444800000";

export type RedisServerOptions = {
  readonly rights?: string;
  /** Further options on the command line. */
  readonly more?: readonly string[];
};

/** A server that writes no file, with the user `content`, who has the rights that the documentation lists. */
export async function startRedis({ rights = RIGHTS_IN_REDIS, more = [] }: RedisServerOptions = {}): Promise<TestRedis> {
  const port = await findFreePort();
  const user = ["--user", "content", "on", ">secret", ...rights.split(" ")];
  const options = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  // A replica would otherwise write what it gets to a file, from which every later server would start.
  options.push("--repl-diskless-load", "swapdb", "--dbfilename", `none-${port}.rdb`);
  const command = [REDIS_PROGRAM!, ...options, ...more, ...user] as const;
  const program = await Program.start({ command, isReady: () => accepts(port) });
  const send = (...command: string[]) => sendTo(port, ...command);
  return {
    ...{ port, send },
    url: `redis://content:secret@127.0.0.1:${port}`,
    get pid() {
      return program.pid;
    },
    freeze: (key, left) => send("HSET", key, "tokens", String(left), "at", LATER),
    async freezeAll(pattern) {
      const keys = (await send("KEYS", pattern)) as string[];
      for (const key of keys) await send("HSET", key, "at", LATER);
      return keys.length;
    },
    start: () => program.start(),
    signal: (name) => program.signal(name),
    kill: () => program.kill(),
  };
}

/** Runs a command with all rights. */
export async function sendTo(port: number, ...command: string[]): Promise<unknown> {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  // A server that becomes a replica ends the connection.
  client.on("error", () => {});
  await client.connect();
  return client.sendCommand(command).finally(() => client.isOpen && client.destroy());
}

type Instance = { readonly url: string };

/** Two instances with REDIS_URL, RATE_LIMIT=100 and TRUST_PROXY=loopback count the requests of a client together. */
export async function expectSharedLimit(redis: TestRedis, first: Instance, second: Instance): Promise<void> {
  const address = "203.0.113.1";
  const ask = ({ url }: Instance, path: string) => fetch(`${url}${path}`, { headers: { "x-forwarded-for": address } });
  // In a second, the bucket gets fewer than two back.
  const sent = await Promise.all(Array.from({ length: 50 }, () => ask(first, "/nothing")));
  expect(new Set(sent.map(({ status }) => status))).toEqual(new Set([404]));
  await expect.poll(() => redis.freezeAll(`*:rate:${address}`), POLL).toBe(1);
  const remaining = async () => Number((await ask(second, "/live")).headers.get("x-ratelimit-remaining"));
  await expect.poll(remaining, POLL).toBeLessThan(100);
}
