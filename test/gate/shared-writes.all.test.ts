import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { Redis } from "../../gate/process/redis.ts";
import { WritesInRedis } from "../../gate/process/shared-writes.ts";
import { hasRedis, startRedis, type TestRedis } from "../support/redis.ts";
import { metricOf, pauseReplicas, type ReplicaRig, startReplicaRig, untilUsed } from "../support/replica-rig.ts";
import { sendRest } from "../support/rest-client.ts";
import { type DemoUser, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

function newLog() {
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  return { log, lines: () => lines.filter((line) => line.includes("clients have written")) };
}

describe.runIf(hasRedis)("processes with the same REDIS_URL", () => {
  const HOUR = 3_600_000;
  let server: TestRedis;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server?.kill());
  /** The server has all writes. */
  beforeEach(() => server.send("HSET", "content:test:writes", "since", "0"));

  const connectedLongAgo = (redis: Redis) => {
    redis.connectedAt = Number.NEGATIVE_INFINITY;
  };

  async function connect({ url } = server) {
    const { log, lines } = newLog();
    const redis = await Redis.open({ url, prefix: "content:test", log });
    onTestFinished(() => redis.close());
    await vi.waitUntil(() => redis.isReady, POLL);
    return { redis, lines, log };
  }

  async function openProcess(milliseconds = HOUR) {
    const { redis, lines, log } = await connect();
    connectedLongAgo(redis);
    return { redis, lines, writes: new WritesInRedis({ redis, milliseconds, log }) };
  }

  test("know the last write of a client, also if they learn of it late", async () => {
    const [{ writes: first }, { writes: second }] = [await openProcess(), await openProcess()];
    await first.note("user 1", 0xffn);
    await second.note("user 1", 0x100n);
    await first.note("user 1", 0xfen);
    await second.note("203.0.113.7", 7n);
    expect(await first.lastOf(["user 1", "203.0.113.7"])).toBe(0x100n);
    expect(await second.lastOf(["203.0.113.7"])).toBe(7n);
    expect(await second.lastOf(["user 2"])).toBe(0n);
    await first.note("user 1", 2n ** 64n);
    expect(await second.lastOf(["user 1"])).toBe(2n ** 64n);
  });

  test("ask once for all reads that come meanwhile, and each gets what its clients had written before it", async () => {
    const [{ redis, writes }, { writes: other }] = [await openProcess(), await openProcess()];
    const runs = vi.spyOn(redis, "run");
    for (let n = 1; n <= 50; n++) await other.note(`client ${n}`, BigInt(n));
    const asked = Array.from({ length: 50 }, (_, i) => writes.lastOf([`client ${i + 1}`, `client ${50 - i}`]));
    await Promise.race(asked);
    // The question that is under way does not have this write.
    await other.note("client 1", 1000n);
    const later = [writes.lastOf(["client 1"]), writes.lastOf(["client 2"]), writes.lastOf(["nobody"])];
    expect(await Promise.all(asked)).toEqual(asked.map((_, i) => BigInt(Math.max(i + 1, 50 - i))));
    expect(await Promise.all(later)).toEqual([1000n, 2n, 0n]);
    expect(runs).toHaveBeenCalledTimes(2);
  });

  test("forget it after the time, and the server never learns who has written", async () => {
    const { writes } = await openProcess(100);
    await writes.note("user 3", 5n);
    expect(JSON.stringify(await server.send("KEYS", "*"))).not.toContain("user");
    await expect.poll(() => writes.lastOf(["user 3"]), POLL).toBe(0n);
  });

  test("do not know it while the server is away, or after it has lost its data", async () => {
    const { redis, writes, lines } = await openProcess();
    await writes.note("user 4", 5n);
    await server.kill();
    await vi.waitUntil(() => !redis.isReady, POLL);
    expect([await writes.lastOf(["user 4"]), await writes.lastOf(["user 4"])]).toEqual([null, null]);
    await expect(writes.note("user 4", 6n)).rejects.toThrow();
    await server.start();
    await vi.waitUntil(() => redis.isReady, POLL);
    expect(await writes.lastOf(["user 4"])).toBeNull();
    expect(lines()).toEqual([expect.stringContaining("does not say"), expect.stringContaining("says again")]);
    // A process that has not seen the server go.
    const { writes: other } = await openProcess();
    expect(await other.lastOf(["user 4"])).toBeNull();
  });

  test("do not know it at the first connection, which may follow a failover that has lost a confirmed write", async () => {
    const replica = await startRedis({ more: ["--replicaof", "127.0.0.1", `${server.port}`] });
    onTestFinished(() => replica.kill());
    await vi.waitUntil(async () => (await replica.send("HGET", "content:test:writes", "since")) === "0", POLL);
    await replica.send("REPLICAOF", "NO", "ONE");
    await (await openProcess()).writes.note("user 5", 5n);
    const { redis, log } = await connect(replica);
    const writes = new WritesInRedis({ redis, milliseconds: HOUR, log });
    expect(await writes.lastOf(["user 5"])).toBeNull();
    // Later, the write is not recent any more.
    connectedLongAgo(redis);
    expect(await writes.lastOf(["user 5"])).toBe(0n);
  });

  describe("and replicas", () => {
    let rig: ReplicaRig;
    let first: TestService;
    let second: TestService;
    const write = (id: number, as: DemoUser, at = first) => sendRest(at, "notes", { as, body: { id } });
    const has = async (id: number, as: DemoUser, at = second, headers = {}) =>
      (await sendRest(at, `notes?id=eq.${id}`, { as, headers })).json.length === 1;
    const unshared = async () =>
      (await metricOf(second, "db_replica_fallbacks_total")).find(([labels]) => labels.includes("unshared"))![1];
    /** Waits until the service knows what clients have written, and reads on replicas. */
    const untilShared = () =>
      vi.waitUntil(async () => {
        const before = await unshared();
        await has(0, "admin");
        return (await unshared()) === before;
      }, POLL);

    beforeAll(async () => {
      rig = await startReplicaRig(2);
      const settings = {
        ...{ GRAPHQL_DOCUMENTS: "none", METRICS: "on", SEED: "demo", replicaMaxWait: 0 },
        ...{ replicaMaxLag: HOUR, replicaSticky: HOUR, REDIS_URL: server.url },
        DATABASE_REPLICA_URLS: rig.replicas.map(({ url }) => url).join(),
      };
      const opened = vi.spyOn(Redis, "open");
      first = await startTestService(settings, rig.primary);
      await rig.primary.owner.query(
        "create table public.notes (id int); grant select, insert on public.notes to authenticated",
      );
      second = await startTestService(settings, rig.primary);
      const connections = await Promise.all(opened.mock.settledResults.map(({ value }) => value as Redis));
      await vi.waitUntil(() => connections.every(({ isReady }) => isReady), POLL);
      connections.forEach(connectedLongAgo);
      expect(connections).toHaveLength(2);
      for (const at of [first, second])
        await vi.waitUntil(async () => (await sendRest(at, "notes", { as: "admin" })).status === 200, POLL);
      const [key] = (await server
        .send("KEYS", "content:*:writes")
        .then((keys) => (keys as string[]).filter((each) => each !== "content:test:writes"))) as [string];
      await server.send("HSET", key, "since", "0");
      await untilUsed(rig, first, second);
      await untilShared();
      return async () => {
        await first.stop();
        await second.stop();
        await rig.remove();
      };
    });

    test("a caller reads at every instance what they have written at one", async () => {
      await pauseReplicas(rig, first, second);
      await write(1, "ada");
      for (let i = 0; i < 20; i++) expect(await has(1, "ada")).toBe(true);
      // Once the server has answered in time.
      await expect.poll(() => has(1, "bob"), POLL).toBe(false);
      expect(await has(1, "ada", first)).toBe(true);
    });

    test("without the server, the primary answers reads without a position, and replicas those with one", async () => {
      await untilUsed(rig, first, second);
      await server.kill();
      onTestFinished(() => server.start());
      // The client learns of its write when no replica can lack it.
      const position = (await write(2, "ada")).headers.get("change-position")!;
      expect(await has(2, "ada")).toBe(true);
      await pauseReplicas(rig, first, second);
      const late = write(3, "ada");
      const owner = async () => (await rig.primary.owner.query("select from notes where id = 3")).rowCount;
      await expect.poll(owner, POLL).toBe(1);
      const before = await unshared();
      expect(await has(3, "bob")).toBe(true);
      expect((await unshared()) - before).toBe(1);
      // Once the service has looked at the replicas again.
      await expect.poll(() => has(3, "bob", second, { "change-position": position }), POLL).toBe(false);
      for (const replica of rig.replicas) await replica.resume();
      expect((await late).status).toBe(201);
    });
  });
});
