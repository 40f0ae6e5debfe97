import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { useRealtime } from "../support/realtime.ts";
import { hasRedis, startRedis, type TestRedis } from "../support/redis.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** Ada may read and write in the private channel "den", and Bob may read. */
const DEN = `
  create policy "users receive" on realtime.messages for select to authenticated using (realtime.topic() = 'den');
  create policy "ada sends" on realtime.messages for insert to authenticated with check (auth.uid() = 1);`;

describe.runIf(hasRedis)("two instances with the same REDIS_URL", async () => {
  const server: TestRedis = hasRedis ? await startRedis() : (undefined as never);
  const { service: first, client } = useRealtime({ REDIS_URL: server?.url ?? "", METRICS: "on" }, DEN);
  let second: TestService;
  beforeAll(async () => {
    second = await startTestService({ REDIS_URL: server.url, METRICS: "on" }, first().database);
    await areConnected("1");
    return () => second.service.stop();
  });
  afterAll(() => server.kill());

  const metric = async ({ url }: TestService, name: string) =>
    new RegExp(`^content_service_${name} (\\d+)`, "m").exec(await (await fetch(`${url}/metrics`)).text())?.[1];

  const areConnected = async (expected: string) => {
    for (const each of [first(), second])
      await vi.waitUntil(async () => (await metric(each, "redis_connections")) === expected, POLL);
  };

  type Options = Parameters<typeof client>[0];
  /** On a busy machine, an acknowledgement may take long. */
  const onFirst = (options: Options = {}) => client({ realtime: POLL, ...options });
  const onSecond = (options: Options = {}) => onFirst({ url: second.url, ...options });

  /** A channel that records what it receives. */
  async function join(made: ReturnType<typeof client>, topic: string, config: object = {}) {
    const received: any[] = [];
    const states: string[] = [];
    await made.realtime.setAuth();
    const channel = made.channel(topic, { config: config as never });
    channel
      .on("broadcast", { event: "*" }, ({ event, payload }) => received.push({ event, payload }))
      .on("presence", { event: "sync" }, () => {})
      .subscribe((status) => states.push(status));
    await expect.poll(() => states, POLL).toEqual(["SUBSCRIBED"]);
    return { channel, received, present: () => Object.keys(channel.presenceState()).sort() };
  }

  /** `["1", "2"]`: a broadcast for each. */
  const messages = ({ received }: { received: any[] }) => received.map(({ payload }) => payload.n);
  const send = (channel: { send(message: any): Promise<string> }, n: number) =>
    channel.send({ type: "broadcast", event: "count", payload: { n } });

  test("a broadcast reaches the channels of both once, in the order of its sender", async () => {
    const topic = randomUUID();
    const acknowledged = { broadcast: { ack: true } };
    const sender = await join(onFirst(), topic, acknowledged);
    const others = [await join(onFirst(), topic), await join(onSecond({ realtime: { ...POLL, vsn: "1.0.0" } }), topic)];
    const elsewhere = await join(onSecond(), `${topic} elsewhere`);
    const numbers = Array.from({ length: 50 }, (_, i) => i);
    const answers = await Promise.all(numbers.map((n) => send(sender.channel, n)));
    expect(new Set(answers)).toEqual(new Set(["ok"]));
    for (const other of others) await expect.poll(() => messages(other), POLL).toEqual(numbers);
    expect([sender.received, elsewhere.received]).toEqual([[], []]);
  });

  test("bytes arrive unchanged", async () => {
    const topic = randomUUID();
    const [sender, other] = [await join(onFirst(), topic), await join(onSecond(), topic)];
    const payload = new Uint8Array([0, 10, 32, 255]).buffer as never;
    await sender.channel.send({ type: "broadcast", event: "bytes", payload });
    await expect.poll(() => other.received.length, POLL).toBe(1);
    expect(new Uint8Array(other.received[0].payload)).toEqual(new Uint8Array([0, 10, 32, 255]));
  });

  test("a broadcast over HTTP reaches the channels of the other, also if the first has none", async () => {
    const topic = randomUUID();
    const other = await join(onSecond(), topic);
    expect(await onFirst().channel(topic).httpSend("count", { n: 7 })).toEqual({ success: true });
    await expect.poll(() => messages(other), POLL).toEqual([7]);
  });

  test("the policies decide at each of them who sends and receives in a private channel", async () => {
    const config = { private: true, broadcast: { ack: true } };
    const ada = await join(onFirst({ as: "ada" }), "den", config);
    const bob = await join(onSecond({ as: "bob" }), "den", config);
    const outside = await join(onSecond(), "den");
    expect(await send(ada.channel, 1)).toBe("ok");
    await expect.poll(() => messages(bob), POLL).toEqual([1]);
    expect(await send(bob.channel, 2)).toBe("error");
    expect(await ada.channel.track({ mood: "calm" })).toBe("ok");
    await expect.poll(() => bob.present().length, POLL).toBe(1);
    expect([outside.received, outside.present(), messages(ada)]).toEqual([[], [], []]);
  });

  test("those who are present at one are present at the other, who came before and who comes", async () => {
    const topic = randomUUID();
    const ada = await join(onFirst(), topic, { presence: { key: "ada" } });
    await ada.channel.track({});
    const bob = await join(onSecond(), topic, { presence: { key: "bob" } });
    await expect.poll(bob.present, POLL).toEqual(["ada"]);
    await bob.channel.track({});
    for (const { present } of [ada, bob]) await expect.poll(present, POLL).toEqual(["ada", "bob"]);
    await ada.channel.untrack();
    for (const { present } of [ada, bob]) await expect.poll(present, POLL).toEqual(["bob"]);

    // An instance that starts learns who is present.
    const third = await startTestService({ REDIS_URL: server.url, METRICS: "on" }, first().database);
    onTestFinished(() => third.service.stop());
    await expect.poll(() => metric(third, "redis_connections"), POLL).toBe("1");
    const carol = await join(client({ url: third.url }), topic, { presence: { key: "carol" } });
    await expect.poll(carol.present, POLL).toEqual(["bob"]);
    await carol.channel.track({});
    await expect.poll(bob.present, POLL).toEqual(["bob", "carol"]);
    await third.service.stop();
    await expect.poll(bob.present, POLL).toEqual(["bob"]);
  });

  test("what is not valid in Valkey reaches no client, and is counted", async () => {
    const topic = `realtime:${randomUUID()}`;
    const other = await join(onSecond(), topic.slice("realtime:".length));
    const before = Number(await metric(second, "shared_messages_lost_total"));
    const broadcast = { kind: "broadcast", name: topic, isPrivate: false, event: "x", isJson: true };
    const presence = { id: "1", key: "eve", network: "203.0.113.1", meta: { ref: "1", json: '{"phx_ref":"1"}' } };
    const bad = [
      { kind: "other" },
      { ...broadcast, bytes: 1 },
      { ...broadcast, bytes: Buffer.from('1},"x":{').toString("base64") },
      { ...broadcast, event: "x".repeat(256), bytes: "" },
      { kind: "presence", name: topic, isPrivate: false, change: { ...presence, meta: { ref: "1", json: "{},{}" } } },
      { kind: "presence", name: "other", isPrivate: false, change: presence },
    ];
    const good = { ...broadcast, bytes: Buffer.from('{"n":1}').toString("base64") };
    const [channel] = (await server.send("PUBSUB", "CHANNELS", "content:*:peers")) as string[];
    for (const message of [...bad, good])
      await server.send("PUBLISH", channel!, `attacker 1 message ${JSON.stringify(message)}`);
    await expect.poll(() => other.received, POLL).toEqual([{ event: "x", payload: { n: 1 } }]);
    expect(other.present()).toEqual([]);
    expect(Number(await metric(second, "shared_messages_lost_total")) - before).toBe(bad.length);
  });

  test("while REDIS_URL is away, messages stay in the instance and an acknowledgement is an error; afterwards all is shared", async () => {
    const topic = randomUUID();
    const ada = await join(onFirst(), topic, { broadcast: { ack: true }, presence: { key: "ada" } });
    const near = await join(onFirst(), topic);
    const bob = await join(onSecond(), topic, { presence: { key: "bob" } });
    await bob.channel.track({});
    await expect.poll(ada.present, POLL).toEqual(["bob"]);
    await server.kill();
    await areConnected("0");
    expect(await send(ada.channel, 1)).toBe("error");
    await expect(onFirst().channel(topic).httpSend("count", { n: 2 })).rejects.toThrow("REDIS_URL does not answer");
    await expect.poll(() => messages(near), POLL).toEqual([1, 2]);
    await ada.channel.track({});
    await expect.poll(near.present, POLL).toContain("ada");
    expect((await first().health()).details.redis).toMatch(/ECONN|EPIPE|closed/i);

    await server.start();
    await areConnected("1");
    for (const { present } of [ada, near, bob]) await expect.poll(present, POLL).toEqual(["ada", "bob"]);
    expect(await send(ada.channel, 3)).toBe("ok");
    await expect.poll(() => messages(bob), POLL).toEqual([3]);
  });
});
