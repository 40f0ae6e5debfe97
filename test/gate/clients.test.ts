import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { NETWORKS_PER_SITE } from "../../db/network.ts";
import { Clients } from "../../gate/limits/clients.ts";
import { parseMetrics } from "../../parts/console/metrics-text.ts";
import { Metrics } from "../../telemetry/metrics.ts";

/** Clients with 60 requests a minute, one a second, on a clock that the test advances. */
function clientsWith60(max?: number) {
  let now = 5000;
  const clients = new Clients({ now: () => now, ...(max && { max }) });
  const wait = (milliseconds: number) => {
    now += milliseconds;
  };
  const take = (times: number, name = "a") => Array.from({ length: times }, () => clients.of(name).take(60, 1)).at(-1)!;
  return { clients, wait, take };
}

describe("a client", () => {
  test("may send as many requests at the same time as the limit, and learns how many remain", () => {
    const { take } = clientsWith60();
    expect(take(1)).toEqual({ isOver: false, remaining: 59, retryAfter: 0 });
    expect(take(59)).toMatchObject({ isOver: false, remaining: 0 });
    expect(take(1)).toEqual({ isOver: true, remaining: 0, retryAfter: 1 });
  });

  test("is refilled evenly: with 60 per minute by one request per second", () => {
    const { take, wait } = clientsWith60();
    take(60);
    wait(999);
    expect(take(1)).toEqual({ isOver: true, remaining: 0, retryAfter: 1 });
    wait(1);
    expect(take(1)).toMatchObject({ isOver: false, remaining: 0 });
    expect(take(1).isOver).toBe(true);
    wait(30_000);
    expect(take(1)).toMatchObject({ isOver: false, remaining: 29 });
  });

  test("is full after a minute, and never holds more than the limit", () => {
    const { take, wait } = clientsWith60();
    take(60);
    wait(3_600_000);
    expect(take(1).remaining).toBe(59);
  });

  test("returns in whole seconds when the next request is allowed", () => {
    const slow = new Clients({ now: () => 0 }).of("a");
    for (let i = 0; i < 7; i++) slow.take(7, 1);
    expect(slow.take(7, 1)).toEqual({ isOver: true, remaining: 0, retryAfter: 9 }); // 8.6 s
  });

  test("can be read without taking a request", () => {
    const { clients, take } = clientsWith60();
    take(60);
    expect(clients.of("a").take(60, 0)).toMatchObject({ isOver: false, remaining: 0 });
    expect(clients.of("b").take(60, 0)).toMatchObject({ isOver: false, remaining: 60 });
  });

  test("has requests of its own", () => {
    const { take } = clientsWith60();
    take(61, "a");
    expect(take(1, "b")).toMatchObject({ isOver: false, remaining: 59 });
  });
});

describe("the clients in memory", () => {
  test("drops only those that have sent nothing for a minute", () => {
    const { clients, take, wait } = clientsWith60();
    take(60, "a");
    wait(59_000);
    take(60, "b");
    wait(2000); // "a" and "b" are the older half now
    expect(take(1, "c").remaining).toBe(59);
    wait(1000);
    expect(take(1, "b").remaining).toBe(2);
    wait(61_000);
    take(1, "c");
    wait(61_000);
    take(1, "c");
    expect(clients.size).toBe(1);
  });

  test("has a bounded size for any number of clients", () => {
    const { clients, take } = clientsWith60(100);
    for (let i = 0; i < 10_000; i++) take(1, `10.0.${i >> 8}.${i & 255}`);
    expect(clients.size).toBeLessThanOrEqual(200);
  });
});

const network = (site: number, i: number) => `2001:db8:${site}:${i.toString(16)}`;

describe("the networks of one site", () => {
  test("may send 16 times the requests of one network together", () => {
    const { take } = clientsWith60();
    for (let i = 0; i < NETWORKS_PER_SITE; i++) expect(take(60, network(1, i)).isOver).toBe(false);
    expect(take(1, network(1, 99))).toEqual({ isOver: true, remaining: 0, retryAfter: 1 });
    expect(take(1, network(2, 1))).toMatchObject({ isOver: false, remaining: 59 });
  });

  test("take no requests from the site for those that are refused", () => {
    const { take } = clientsWith60();
    take(60 * NETWORKS_PER_SITE * 2, network(1, 1));
    expect(take(60, network(1, 2)).isOver).toBe(false);
  });

  test("may hold and do 16 times as much as one network", () => {
    const { clients } = clientsWith60();
    for (let i = 0; i < NETWORKS_PER_SITE; i++) {
      const client = clients.of(network(1, i));
      expect([client.isFull("sockets", 1), client.exceeds("messages", 1)]).toEqual([false, false]);
      client.hold("sockets");
      expect([client.isFull("sockets", 1), client.exceeds("messages", 1)]).toEqual([true, true]);
    }
    expect(clients.of(network(1, 99)).isFull("sockets", 1)).toBe(true);
    expect(clients.of(network(1, 99)).exceeds("messages", 1)).toBe(true);
    expect(clients.of(network(2, 1)).isFull("sockets", 1)).toBe(false);
  });
});

test("a client that holds something stays, however many others come and however long it is silent", () => {
  const { clients, take, wait } = clientsWith60(10);
  const release = clients.of(network(1, 1)).hold("connections");
  for (let i = 0; i < 1000; i++) take(1, `198.18.0.${i}`);
  for (let i = 0; i < 5; i++, wait(61_000)) take(1, "a");
  expect(clients.of(network(1, 1)).isFull("connections", 1)).toBe(true);
  expect(clients.of(network(1, 2)).site!.held.connections).toBe(1);
  release();
  expect(clients.of(network(1, 1)).isFull("connections", 1)).toBe(false);
  for (let i = 0; i < 5; i++, wait(61_000)) take(1, "a");
  expect(clients.size).toBe(1);
});

test("after any order of holding and releasing, nothing is held, by networks and by sites", () => {
  const counter = fc.constantFrom("connections", "sockets", "channels");
  const name = fc.tuple(fc.nat(2), fc.nat(3)).map(([site, i]) => (site === 0 ? `203.0.113.${i}` : network(site, i)));
  const steps = fc.array(fc.oneof(fc.tuple(name, counter), fc.nat(20), fc.constant("wait" as const)), {
    maxLength: 60,
  });
  fc.assert(
    fc.property(steps, (steps) => {
      const { clients, wait } = clientsWith60(3);
      const held: (() => void)[] = [];
      for (const step of steps) {
        if (step === "wait") wait(61_000);
        else if (typeof step === "number") held.splice(step % Math.max(1, held.length), 1)[0]?.();
        else held.push(clients.of(step[0]).hold(step[1]));
      }
      for (const release of held) release();
      for (const each of ["connections", "sockets", "channels"] as const) {
        expect(clients.holding(each)).toBe(0);
        for (let site = 1; site <= 2; site++) expect(clients.of(network(site, 0)).site!.held[each]).toBe(0);
      }
    }),
  );
});

test("/metrics has the number of clients by what is counted, and the highest count of one", async () => {
  const { clients, take, wait } = clientsWith60();
  const metrics = new Metrics();
  clients.registerMetrics(metrics, () => 60);
  take(7, "user 7");
  take(2, "203.0.113.7");
  for (const i of [1, 2, 3]) clients.of(network(1, i % 2)).hold("sockets");
  for (let i = 0; i < 5; i++) clients.of(network(1, 1)).exceeds("messages", 100);
  wait(1000);
  const found = parseMetrics(await metrics.text());
  const valuesOf = (name: string) =>
    Object.fromEntries(found.get(`content_service_${name}`)!.map(({ labels, value }) => [labels.counter, value]));
  expect(valuesOf("clients")).toEqual({ connections: 0, sockets: 2, channels: 0, messages: 1, joins: 0, requests: 2 });
  expect(valuesOf("clients_highest")).toMatchObject({ connections: 0, sockets: 2, messages: 5, requests: 6 });
});
