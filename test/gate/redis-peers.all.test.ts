import pino from "pino";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { Redis } from "../../gate/process/redis.ts";
import { RedisPeers } from "../../gate/process/redis-peers.ts";
import { parseMetrics } from "../../parts/console/metrics-text.ts";
import { Metrics } from "../../telemetry/metrics.ts";
import { hasRedis, startRedis, type TestRedis } from "../support/redis.ts";
import { POLL } from "../support/until.ts";

const CHANNEL = "content:test:peers";

describe.runIf(hasRedis)("processes that share messages", () => {
  let server: TestRedis;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server?.kill());

  /** A connected process, and what it hears. */
  async function open({ maxLength = 1_000_000 } = {}) {
    const log = pino({ level: "silent" });
    const redis = await Redis.open({ url: server.url, prefix: "content:test", log });
    onTestFinished(() => redis.close());
    const metrics = new Metrics();
    const peers = new RedisPeers({ redis, metrics, maxLength });
    onTestFinished(() => peers.close());
    const heard: { message: unknown; from: string }[] = [];
    const joined: string[] = [];
    const ended: string[] = [];
    peers.listen({
      onMessage: (message, from) => heard.push({ message, from }) > 0 && message !== "refused",
      onJoin: (from) => joined.push(from),
      onEnd: (from) => ended.push(from),
    });
    await vi.waitUntil(() => redis.isReady, POLL);
    const lost = async () =>
      parseMetrics(await metrics.text()).get("content_service_shared_messages_lost_total")![0]!.value;
    return { redis, peers, heard, joined, ended, lost, messages: () => heard.map(({ message }) => message) };
  }

  test("get the messages of each other in order, and not their own", async () => {
    const [first, second, third] = [await open(), await open(), await open()];
    const numbers = Array.from({ length: 5000 }, (_, i) => i);
    const sent = await Promise.all(numbers.map((number) => first.peers.send(number)));
    expect(new Set(sent)).toEqual(new Set([true]));
    await second.peers.send("to one", third.peers.own);
    await expect.poll(() => second.messages().length, POLL).toBe(5000);
    await expect.poll(() => third.messages().length, POLL).toBe(5001);
    expect(second.messages()).toEqual(numbers);
    expect(third.messages().filter((message) => message !== "to one")).toEqual(numbers);
    expect(first.messages()).toEqual([]);
    expect(third.heard.find(({ message }) => message === "to one")!.from).toBe(second.peers.own);
  });

  test("do not wait for a server that accepts a connection and never answers", async () => {
    const { redis } = await open();
    const connection = await redis.connect(60_000);
    server.signal("SIGSTOP");
    onTestFinished(() => server.signal("SIGCONT"));
    await expect(connection.send(["PING"], 1)).rejects.toThrow();
    await expect(redis.connect(1)).rejects.toThrow();
  });

  test("learn who joins and who ends, also without a word", async () => {
    const [first, second] = [await open(), await open()];
    await expect.poll(() => first.joined, POLL).toContain(second.peers.own);
    await expect.poll(() => second.joined, POLL).toContain(first.peers.own);
    await second.peers.close();
    await expect.poll(() => first.ended, POLL).toContain(second.peers.own);

    const third = await open();
    await expect.poll(() => first.joined, POLL).toContain(third.peers.own);
    // As a process that is killed.
    third.redis.close();
    await expect.poll(() => first.ended, POLL).toContain(third.peers.own);
  });

  test("ask each other for everything after a lost connection", async () => {
    const [first, second] = [await open(), await open()];
    await expect.poll(() => first.joined, POLL).toContain(second.peers.own);
    await expect.poll(() => second.joined, POLL).toContain(first.peers.own);
    first.joined.splice(0);
    second.joined.splice(0);
    await server.send("CLIENT", "KILL", "TYPE", "pubsub");
    await expect.poll(() => first.joined, POLL).toContain(second.peers.own);
    await expect.poll(() => second.joined, POLL).toContain(first.peers.own);
  });

  test("refuse and count what has another form, is too long or not valid", async () => {
    const { peers, heard, lost } = await open({ maxLength: 50 });
    const own = `${peers.own} 1 message "its own"`;
    const bad = ["", "x", "12345678 1 other {}", "12345678 1 message {", `12345678 1 message "${"x".repeat(50)}"`];
    for (const text of [own, ...bad, '12345678 1 message "refused"', '12345678 1 message "good"'])
      await server.send("PUBLISH", CHANNEL, text);
    await expect
      .poll(() => heard, POLL)
      .toEqual([
        { message: "refused", from: "12345678" },
        { message: "good", from: "12345678" },
      ]);
    expect(await lost()).toBe(bad.length + 1);
  });

  test("hold no more than 8 MB for a server that does not take messages, and tell everything when it does", async () => {
    const [first, second] = [await open({ maxLength: 2_000_000 }), await open({ maxLength: 2_000_000 })];
    await expect.poll(() => second.joined, POLL).toContain(first.peers.own);
    second.joined.splice(0);
    server.signal("SIGSTOP");
    onTestFinished(() => server.signal("SIGCONT"));
    const sent = Array.from({ length: 20 }, () => first.peers.send("x".repeat(1_000_000)));
    // Those beyond the limit are refused although the others still wait.
    expect(await Promise.race(sent)).toBe(false);
    server.signal("SIGCONT");
    const results = await Promise.all(sent);
    expect(results.filter((isSent) => !isSent).length).toBeGreaterThanOrEqual(12);
    await expect.poll(() => second.joined, POLL).toContain(first.peers.own);
  });
});
