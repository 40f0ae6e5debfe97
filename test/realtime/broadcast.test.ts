import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { useRealtime } from "../support/realtime.ts";

const { client } = useRealtime({}, "");

type Config = { readonly broadcast?: object; readonly presence?: object };

/** A channel that records the broadcasts it receives. */
async function join(made: ReturnType<typeof client>, name: string, config: Config = {}) {
  const received: any[] = [];
  const states: string[] = [];
  const channel = made.channel(name, { config } as never);
  channel.on("broadcast", { event: "*" }, (message) => received.push(message));
  channel.subscribe((status) => states.push(status));
  await expect.poll(() => states).toEqual(["SUBSCRIBED"]);
  return { channel, received };
}

test.each(["1.0.0", "2.0.0"])(
  "a broadcast in version %s reaches the other channels of the topic in both versions",
  async (vsn) => {
    const topic = randomUUID();
    const sender = await join(client({ realtime: { vsn } }), topic);
    const others = [
      await join(client({ realtime: { vsn: "1.0.0" } }), topic),
      await join(client({ realtime: { vsn: "2.0.0" } }), topic),
    ];
    const elsewhere = await join(client(), `${topic} elsewhere`);
    const sent = { x: 1, y: ["a", null, "\u{1f600}"] };
    await sender.channel.send({ type: "broadcast", event: "cursor", payload: sent });
    for (const { received } of others)
      await expect.poll(() => received).toEqual([{ type: "broadcast", event: "cursor", payload: sent }]);
    expect([sender.received, elsewhere.received]).toEqual([[], []]);
  },
);

test("with self the sender receives its broadcasts, and with ack it learns that they have arrived", async () => {
  const { channel, received } = await join(client(), randomUUID(), { broadcast: { self: true, ack: true } });
  expect(await channel.send({ type: "broadcast", event: "cursor", payload: { x: 1 } })).toBe("ok");
  await expect.poll(() => received).toEqual([{ type: "broadcast", event: "cursor", payload: { x: 1 } }]);
});

test("bytes arrive as bytes in version 2.0.0, and not at all in version 1.0.0, which cannot carry them", async () => {
  const topic = randomUUID();
  const [sender, newer, older] = [
    await join(client(), topic),
    await join(client(), topic),
    await join(client({ realtime: { vsn: "1.0.0" } }), topic),
  ];
  await sender.channel.send({
    type: "broadcast",
    event: "bytes",
    payload: new Uint8Array([0, 1, 255]).buffer as never,
  });
  await sender.channel.send({ type: "broadcast", event: "text", payload: { last: true } });
  await expect.poll(() => newer.received.length).toBe(2);
  expect(new Uint8Array(newer.received[0].payload)).toEqual(new Uint8Array([0, 1, 255]));
  await expect.poll(() => older.received).toEqual([{ type: "broadcast", event: "text", payload: { last: true } }]);
});

test("those who are present know each other, and see who comes, changes and goes", async () => {
  const topic = randomUUID();
  const seen: string[] = [];
  const watcher = client().channel(topic, { config: { presence: { key: "ada" } } });
  watcher
    .on("presence", { event: "join" }, ({ key, newPresences }) => seen.push(`${key} joins: ${newPresences[0]!.mood}`))
    .on("presence", { event: "leave" }, ({ key, leftPresences }) =>
      seen.push(`${key} leaves: ${leftPresences[0]!.mood}`),
    )
    .subscribe((status) => void (status === "SUBSCRIBED" && watcher.track({ mood: "calm" })));
  await expect.poll(() => seen).toEqual(["ada joins: calm"]);

  const bob = client();
  const other = bob.channel(topic, { config: { presence: { key: "bob" } } });
  other.on("presence", { event: "sync" }, () => {}).subscribe();
  await expect.poll(() => Object.keys(other.presenceState())).toEqual(["ada"]);
  expect(await other.track({ mood: "glad" })).toBe("ok");
  await expect.poll(() => seen.at(-1)).toBe("bob joins: glad");
  await expect.poll(() => Object.keys(other.presenceState()).sort()).toEqual(["ada", "bob"]);
  await other.track({ mood: "sad" });
  await expect.poll(() => seen.slice(2).sort()).toEqual(["bob joins: sad", "bob leaves: glad"]);
  await other.untrack();
  await expect.poll(() => seen.at(-1)).toBe("bob leaves: sad");

  await other.track({ mood: "back" });
  await expect.poll(() => seen.at(-1)).toBe("bob joins: back");
  // A connection that is lost ends the presence too.
  void bob.realtime.disconnect();
  await expect.poll(() => seen.at(-1)).toBe("bob leaves: back");
  expect(watcher.presenceState()).toMatchObject({ ada: [{ mood: "calm" }] });
});

test("presences without a key get different keys", async () => {
  const topic = randomUUID();
  const [one, other] = [client().channel(topic), client().channel(topic)];
  for (const channel of [one, other])
    channel
      .on("presence", { event: "sync" }, () => {})
      .subscribe((status) => void (status === "SUBSCRIBED" && channel.track({})));
  await expect.poll(() => Object.keys(one.presenceState()).length).toBe(2);
});
