import { expect, onTestFinished, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { startTestService, type TestService, type TestSettings } from "../support/service.ts";

async function start(settings: TestSettings): Promise<TestService> {
  const service = await startTestService({ METRICS: "on", ...settings });
  onTestFinished(() => service.stop());
  return service;
}

const rejected = async ({ url }: TestService, limit: string): Promise<number> => {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`content_service_limits_hit_total{limit="${limit}"} (\\d+)`).exec(text)?.[1] ?? 0);
};

const open = (service: TestService, address: string) => new ChannelClient(service, address).open();

test("channels and presences that a limit refuses are counted by its setting", async () => {
  const service = await start({ realtimeMaxChannels: 2, realtimeMaxChannelsPerAddress: 3 });
  const first = await open(service, "127.0.0.2");
  for (const topic of ["a", "b", "c"]) await first.ask(topic, "phx_join");
  expect(await rejected(service, "socket_channels")).toBe(1);
  const second = await open(service, "127.0.0.2");
  for (const topic of ["a", "b"]) await second.ask(topic, "phx_join");
  expect(await rejected(service, "address_channels")).toBe(1);

  const large = { type: "presence", event: "track", payload: { text: "x".repeat(5000) } };
  expect(await first.ask("a", "presence", large)).toMatchObject({ status: "error" });
  expect(await rejected(service, "PRESENCE")).toBe(1);
});

test("so are joins, of one socket and of a network", async () => {
  const service = await start({ realtimeJoinRate: 5, realtimeJoinRatePerAddress: 8 });
  const one = await open(service, "127.0.0.2");
  await Promise.all(Array.from({ length: 30 }, () => one.ask("a", "phx_join")));
  expect(await rejected(service, "socket_joins")).toBeGreaterThan(0);
  const many = await Promise.all(Array.from({ length: 8 }, () => open(service, "127.0.0.3")));
  await Promise.all(many.flatMap((each) => [1, 2, 3, 4, 5].map(() => each.ask("a", "phx_join"))));
  expect(await rejected(service, "address_joins")).toBeGreaterThan(0);
});

test("channels beyond the memory of a network are counted", async () => {
  const service = await start({ clientMemoryPerAddress: 20_000 });
  const client = await open(service, "127.0.0.2");
  for (let i = 0; i < 5; i++) await client.ask(`topic ${i}`, "phx_join");
  expect(await rejected(service, "address_memory")).toBeGreaterThan(0);
});

test("and sockets whose clients read too slowly", async () => {
  const service = await start({ wsMaxBufferedBytes: 10_000 });
  const client = await open(service, "127.0.0.2");
  await client.ask("room", "phx_join");
  client.socket.pause();
  // Over HTTP: while requests come, long messages of sockets may wait for seconds on a machine that is busy.
  const message = { topic: "room", event: "e", payload: { text: "x".repeat(50_000) } };
  const init = {
    method: "POST",
    headers: { apikey: service.service.tokens.issueKey("anon"), "content-type": "application/json" },
    body: JSON.stringify({ messages: Array.from({ length: 20 }, () => message) }),
  };
  const send = async () => {
    expect((await fetch(`${service.url}/realtime/v1/api/broadcast`, init)).status).toBe(202);
    return rejected(service, "unread_messages");
  };
  await expect.poll(send).toBe(1);
});
