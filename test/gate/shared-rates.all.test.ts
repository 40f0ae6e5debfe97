import pino from "pino";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { Clients } from "../../gate/limits/clients.ts";
import { SharedRates } from "../../gate/limits/shared-rates.ts";
import { Redis } from "../../gate/process/redis.ts";
import { hasRedis, startRedis, type TestRedis } from "../support/redis.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** A log, and its messages. */
function newLog() {
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  return { log, lines };
}

/** Connected, or not if the server refuses. */
async function open(url: string, prefix = "content:test") {
  const { log, lines } = newLog();
  const redis = await Redis.open({ url, prefix, log });
  onTestFinished(() => redis.close());
  await vi.waitUntil(() => redis.isReady || lines.length > 0, POLL);
  return { redis, lines };
}

describe.runIf(hasRedis)("processes with the same REDIS_URL", () => {
  let server: TestRedis;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server?.kill());

  /** A process whose clock stands still. A client may send 60 requests a minute. */
  async function openProcess() {
    const { redis } = await open(server.url);
    const clients = new Clients({ now: () => 5000 });
    clients.share(new SharedRates(redis));
    const take = (name: string, times: number) =>
      Array.from({ length: times }, () => clients.of(name).take(60, 1)).filter(({ isOver }) => !isOver).length;
    return { take, remaining: (name: string) => clients.of(name).take(60, 0).remaining };
  }

  /** Clients whose requests are not refilled on the server. */
  const freeze = (...names: string[]) =>
    Promise.all(names.map((name) => server.freeze(`content:test:rate:${name}`, 60)));

  test("count the requests of a client together", async () => {
    await freeze("ada", "bob");
    const [first, second] = [await openProcess(), await openProcess()];
    expect(first.take("ada", 40)).toBe(40);
    await expect.poll(() => second.remaining("ada"), POLL).toBe(20);
    expect(second.take("ada", 50)).toBe(20);
    await expect.poll(() => first.remaining("ada"), POLL).toBe(0);
    expect(first.take("ada", 1)).toBe(0);
    expect(second.remaining("bob")).toBe(60);
  });

  test("grant at the same time what each knows of, and what that is too much is owed", async () => {
    await freeze("carol");
    const [first, second] = [await openProcess(), await openProcess()];
    expect([first.take("carol", 70), second.take("carol", 50)]).toEqual([60, 50]);
    await expect.poll(() => server.send("HGET", "content:test:rate:carol", "tokens"), POLL).toBe("-50");
    for (const each of [first, second]) {
      await expect.poll(() => each.remaining("carol"), POLL).toBe(0);
      expect(each.take("carol", 1)).toBe(0);
    }
  });

  test("give a server that has lost everything what they know", async () => {
    await freeze("dan");
    const { take } = await openProcess();
    const left = () => server.send("HGET", "content:test:rate:dan", "tokens");
    take("dan", 50);
    await expect.poll(left, POLL).toBe("10");
    await server.send("DEL", "content:test:rate:dan");
    take("dan", 1);
    await expect.poll(left, POLL).toBe("9");
  });
});

test("an answer that cannot be what a client has left is ignored", () => {
  const client = new Clients({ now: () => 0 }).of("ada");
  for (const left of [Number.NaN, Number.POSITIVE_INFINITY, 61, -61]) client.learn(left, 60);
  expect(client.take(60, 1).remaining).toBe(59);
  client.learn(-60, 60);
  expect(client.take(60, 1)).toEqual({ isOver: true, remaining: 0, retryAfter: 62 });
});

describe.runIf(hasRedis)("a connection to REDIS_URL", () => {
  test("is lost if the server does not answer, and opened again when it does", async () => {
    const server = await startRedis();
    onTestFinished(() => server.kill());
    const { redis, lines } = await open(server.url);
    server.signal("SIGSTOP");
    await expect.poll(() => redis.fault, POLL).toBe("the server does not answer");
    server.signal("SIGCONT");
    await expect.poll(() => redis.fault, POLL).toBeNull();
    expect(lines).toEqual([
      "REDIS_URL does not answer, so each process counts RATE_LIMIT alone, messages of channels stay in it, and changes of rows wait: the server does not answer",
      "REDIS_URL answers again: limits, messages of channels and changes of rows are shared",
    ]);
  });

  test("says once why the server refuses the password, or a command", async () => {
    const server = await startRedis({ rights: "~content:* +ping +hello +auth" });
    onTestFinished(() => server.kill());
    const refused = await open(server.url.replace("secret", "wrong"));
    expect(refused.redis.fault).toMatch(/WRONGPASS/);

    const { redis, lines } = await open(server.url);
    for (let i = 0; i < 2; i++)
      await expect(redis.run({ text: "return 1", sha: "1" }, [], [])).rejects.toThrow("NOPERM");
    expect(redis.fault).toMatch(/^NOPERM.*evalsha/);
    expect(lines).toEqual([expect.stringMatching(/^REDIS_URL refuses: NOPERM/)]);
  });
});

/** Two instances on one database, which log what they say. A client may send one request a minute. */
async function startTwo({ url }: TestRedis) {
  const { log, lines } = newLog();
  const settings = { RATE_LIMIT: "1", REDIS_URL: url, TRUST_PROXY: "loopback", METRICS: "on" };
  const first = await startTestService(settings, undefined, log);
  const second = await startTestService(settings, first.database, log);
  onTestFinished(() => second.service.stop().then(() => first.stop()));
  return { first, second, lines };
}

/** A client with this address. */
function clientAt(address: string) {
  const headers = { "x-forwarded-for": address };
  const send = ({ url }: TestService, path: string) => fetch(`${url}${path}`, { headers });
  return {
    status: async (service: TestService) => (await send(service, "/nothing")).status,
    /** Without counting. */
    remaining: async (service: TestService) => (await send(service, "/live")).headers.get("x-ratelimit-remaining"),
  };
}

/** How many processes are connected. */
const connections = async ({ url }: TestService) =>
  /^content_service_redis_connections (\d)/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1];

test.runIf(hasRedis)(
  "RATE_LIMIT counts in all instances together; while REDIS_URL is away, each counts alone, requests go on, and the log and a metric say so",
  async () => {
    const server = await startRedis();
    const { first, second, lines } = await startTwo(server);
    const areConnected = async (expected: string) => {
      for (const each of [first, second]) await expect.poll(() => connections(each), POLL).toBe(expected);
    };
    const countTogether = async (address: string) => {
      const client = clientAt(address);
      expect(await client.status(first)).toBe(404);
      await expect.poll(() => server.freezeAll(`*:rate:${address}`), POLL).toBe(1);
      await expect.poll(() => client.remaining(second), POLL).toBe("0");
    };
    await areConnected("1");
    await countTogether("203.0.113.1");

    await server.kill();
    await areConnected("0");
    const alone = clientAt("203.0.113.2");
    for (const each of [first, second]) expect(await alone.status(each)).toBe(404);
    const said = (text: string) => lines.filter((line) => line.startsWith(text)).length;
    expect(said("REDIS_URL does not answer, so each process counts RATE_LIMIT alone")).toBe(2);

    await server.start();
    onTestFinished(() => server.kill());
    await areConnected("1");
    expect(said("REDIS_URL answers again: limits, messages of channels and changes of rows are shared")).toBe(2);
    await countTogether("203.0.113.3");
  },
);
