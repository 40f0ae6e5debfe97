import pino from "pino";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { parseRedisUrl } from "../../config/redis-url.ts";
import { Clients } from "../../gate/limits/clients.ts";
import { SharedRates } from "../../gate/limits/shared-rates.ts";
import { Redis, scriptOf } from "../../gate/process/redis.ts";
import { RedisLog } from "../../gate/process/redis-log.ts";
import { RedisPeers } from "../../gate/process/redis-peers.ts";
import { WritesInRedis } from "../../gate/process/shared-writes.ts";
import { Metrics } from "../../telemetry/metrics.ts";
import { hasRedis, sendTo, startRedis } from "../support/redis.ts";
import { startRedisCluster, startRedisWithTls, startSentinels, type TestServers } from "../support/redis-servers.ts";
import { POLL } from "../support/until.ts";

const PREFIX = "content:{7:16384}";
const HOUR = 3_600_000;

/** A process, connected or not. */
async function open(url: string) {
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const redis = await Redis.open({ url, prefix: PREFIX, log });
  onTestFinished(() => redis.close());
  await vi.waitUntil(() => redis.isReady || lines.length > 0, POLL);
  return { redis, lines, log };
}

/** A process, what it hears from others, and what it shares with them. */
async function openProcess(url: string) {
  const { redis, lines, log } = await open(url);
  const peers = new RedisPeers({ redis, metrics: new Metrics(), maxLength: 10_000 });
  const heard: unknown[] = [];
  peers.listen({ onMessage: (message) => heard.push(message) > 0, onJoin() {}, onEnd() {} });
  onTestFinished(() => peers.close());
  const clients = new Clients({ now: () => 5000 });
  clients.share(new SharedRates(redis));
  // As if that had been long ago.
  redis.connectedAt = Number.NEGATIVE_INFINITY;
  const changes = new RedisLog({ redis, publication: "all", maxBytes: 1_000_000 });
  onTestFinished(() => changes.close());
  return {
    ...{ redis, lines, peers, heard, changes },
    writes: new WritesInRedis({ redis, milliseconds: HOUR, log }),
    take: (name: string, times: number) =>
      Array.from({ length: times }, () => clients.of(name).take(60, 1)).filter(({ isOver }) => !isOver).length,
    remaining: (name: string) => clients.of(name).take(60, 0).remaining,
  };
}

const SET = scriptOf("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])");
const REMOVE = scriptOf("return redis.call('DEL', unpack(KEYS))");
const CHANGES = ["log:s1", "state:s1", "current", "wanted"].map((key) => `${PREFIX}:changes:all:${key}`);

/** Everything that processes share works over this URL. */
async function expectToShare(url: string): Promise<void> {
  const [first, second] = [await openProcess(url), await openProcess(url)];
  expect([first.redis.fault, second.redis.fault]).toEqual([null, null]);

  const client = `ada ${Math.random()}`;
  first.take(client, 40);
  // Those that are refilled meanwhile are few.
  await expect.poll(() => second.remaining(client), POLL).toBeLessThan(60);

  await expect.poll(() => first.peers.send("to all"), POLL).toBe(true);
  await expect.poll(() => second.heard, POLL).toContain("to all");
  await second.peers.send("to one", first.peers.own);
  await expect.poll(() => first.heard, POLL).toContain("to one");

  // The server has all writes.
  await first.redis.run(SET, [`${PREFIX}:writes`], ["since", "0"]);
  await first.writes.note("user 1", 0xffn);
  expect(await second.writes.lastOf(["user 1", "user 2"])).toBe(0xffn);

  const head = { stream: "s1", ancestors: new Map([["s0", 5n]]), reader: "host:1" };
  expect(await second.changes.want()).toBeNull();
  expect(await first.changes.isWanted()).toBe(true);
  await first.changes.begin(head, { lsn: 10n, index: 0 }, 20n);
  const entry = { base: { lsn: 10n, index: 0 }, end: { lsn: 12n, index: 0 }, data: Buffer.from("data") };
  expect(await first.changes.append("s1", entry, entry.base)).toBe("stored");
  expect(await first.changes.beat(head)).toBe("wanted");
  expect(await second.changes.want()).toEqual({ ...head, top: entry.end, live: 20n });
  expect(await second.changes.read("s1", entry.base)).toEqual([entry]);
  await first.redis.run(REMOVE, CHANGES, []);
}

describe.runIf(hasRedis)("REDIS_URL with TLS and a certificate of the client", () => {
  let server: Awaited<ReturnType<typeof startRedisWithTls>>;
  beforeAll(async () => {
    server = await startRedisWithTls();
  });
  afterAll(() => server?.stop());

  test("shares everything", () => expectToShare(server.url));

  test.each([
    ["without the certificate of the authority", "", /self-signed certificate/],
    ["while a file is missing", "sslrootcert=/missing.pem&", /ENOENT.*\/missing.pem/],
  ])("is refused %s", async (_when, parameter, fault) => {
    const { redis } = await open(server.url.replace(/sslrootcert=[^&]+&/, parameter));
    expect(redis.fault).toMatch(fault);
  });
});

describe.runIf(hasRedis).each([
  { name: "Sentinels", start: startSentinels },
  { name: "the nodes of a cluster", start: startRedisCluster },
])("REDIS_URL with $name", ({ start }) => {
  let servers: TestServers;
  beforeAll(async () => {
    servers = await start();
  }, POLL.timeout);
  afterAll(() => servers?.stop());

  test("shares everything", () => expectToShare(servers.url));

  test("follows the data to another server", async () => {
    const [first, second] = [await openProcess(servers.url), await openProcess(servers.url)];
    const key = `${PREFIX}:moved`;
    await first.redis.run(SET, [key], ["on", "one"]);
    const before = await servers.primary(key);
    // Its second connection waits there.
    const reading = first.changes.read("none", null).catch((error: Error) => error);
    await servers.move(key);
    await reading;
    const after = await servers.primary(key);
    expect(after).not.toBe(before);
    for (const { redis, lines } of [first, second]) {
      const stored = () =>
        redis.run(SET, [key], ["by", lines[0] ?? "no line yet"]).then(
          () => sendTo(after, "HGET", key, "by"),
          () => null,
        );
      await expect.poll(stored, POLL).toMatch(/^REDIS_URL does not answer/);
      await sendTo(after, "DEL", key);
    }
    await expectToShare(servers.url);
  });
});

test.runIf(hasRedis)("a read of the log returns at most as much as the log may hold, or one entry", async () => {
  const server = await startRedis();
  onTestFinished(() => server.kill());
  const { changes } = await openProcess(server.url);
  const at = (lsn: number) => ({ lsn: BigInt(lsn), index: 0 });
  await changes.begin({ stream: "s1", ancestors: new Map(), reader: "host:1" }, at(1), 100n);
  let last = 1;
  const add = async (bytes: number) => {
    const entry = { base: at(last), end: at(++last), data: Buffer.alloc(bytes) };
    expect(await changes.append("s1", entry, entry.base)).toBe("stored");
  };
  const sizes = async () => (await changes.read("s1", null)).map(({ data }) => data.length);
  for (let n = 0; n < 8; n++) await add(400_000);
  expect(await sizes()).toEqual([400_000, 400_000]);
  await add(1_500_000);
  expect(await sizes()).toEqual([1_500_000]);
});

test.runIf(hasRedis)("a server that has become a replica, or that Sentinels do not know, is lost", async () => {
  const server = await startRedis();
  onTestFinished(() => server.kill());
  const { redis, lines } = await open(server.url);
  expect(redis.isReady).toBe(true);
  await server.send("REPLICAOF", "127.0.0.1", String(server.port));
  await expect.poll(() => redis.isReady, POLL).toBe(false);
  expect(lines).toEqual([expect.stringMatching(/^REDIS_URL does not answer, .*(READONLY|LOADING|closed)/)]);
  const { redis: other } = await open(`redis+sentinel://127.0.0.1:${server.port}/main`);
  expect(other.fault).toMatch(/^no server says which one has the data: 127.0.0.1:\d+: ERR unknown command/);
});

test.each([
  ["redis://h", { kind: "server", hosts: [{ host: "h", port: 6379 }], database: 0, tls: null }],
  [
    "redis://:a%40b@[::1]:7000/2",
    { hosts: [{ host: "::1", port: 7000 }], database: 2, login: { username: "", password: "a@b" } },
  ],
  [
    "rediss+sentinel://u:p@a,b:1/my/main/3?sentinel_user=s&sentinel_password=t&sslrootcert=/ca.pem",
    {
      kind: "sentinel",
      hosts: [
        { host: "a", port: 26_379 },
        { host: "b", port: 1 },
      ],
      primary: "my/main",
      database: 3,
      login: { username: "u", password: "p" },
      sentinelLogin: { username: "s", password: "t" },
      tls: { ca: "/ca.pem", cert: "", key: "" },
    },
  ],
  ["redis+cluster://a:1,b:2", { kind: "cluster", primary: "", database: 0 }],
])("%s is read", (url, expected) => {
  expect(parseRedisUrl(url)).toMatchObject(expected);
});
