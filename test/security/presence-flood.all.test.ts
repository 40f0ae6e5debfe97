import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { useRealtime } from "../support/realtime.ts";

const { client, url } = useRealtime(
  {
    wsMaxConnectionsPerAddress: 1000,
    maxConnectionsPerAddress: 1000,
    wsMessageRatePerAddress: 100_000,
    realtimeJoinRatePerAddress: 10_000,
  },
  "",
);

/** A client of our own, in a channel that receives presences. */
async function join(topic: string, key: string = randomUUID()) {
  const socket = new WebSocket(url());
  onTestFinished(() => socket.terminate());
  const replies: any[] = [];
  const diffs: any[] = [];
  const state = new Promise<any>((resolve) => {
    socket.on("message", (data) => {
      const [, , , event, payload] = JSON.parse(String(data));
      if (event === "phx_reply") replies.push(payload);
      else if (event === "presence_diff") diffs.push(payload);
      else if (event === "presence_state") resolve(payload);
    });
  });
  await once(socket, "open");
  const send = (event: string, payload: object) =>
    socket.send(JSON.stringify(["1", "1", `realtime:${topic}`, event, payload]));
  send("phx_join", { config: { presence: { enabled: true, key } } });
  const presentAtJoin = Object.keys(await state);
  const track = async (payload: object): Promise<any> => {
    const count = replies.length;
    send("presence", { type: "presence", event: "track", payload });
    await expect.poll(() => replies.length).toBe(count + 1);
    return replies.at(-1);
  };
  return { key, send, track, replies, diffs, presentAtJoin };
}

test("a presence that is too large is refused with the reason, and the one before stays", async () => {
  const topic = randomUUID();
  const ada = client().channel(topic, { config: { presence: { key: "ada" } } });
  const system: any[] = [];
  ada
    .on("presence", { event: "sync" }, () => {})
    .on("system" as never, {} as never, (message: any) => {
      system.push(message);
    });
  ada.subscribe();
  await expect.poll(() => ada.state).toBe("joined");
  expect(await ada.track({ mood: "calm" })).toBe("ok");
  expect(await ada.track({ mood: "x".repeat(60_000) })).toBe("error");
  const reason = "PresenceTooLarge: a presence has at most 4096 bytes";
  await expect
    .poll(() => system)
    .toContainEqual(expect.objectContaining({ extension: "presence", status: "error", message: reason }));
  const other = await join(topic);
  expect((await other.track({ mood: "glad" })).status).toBe("ok");
  await expect.poll(() => Object.keys(ada.presenceState())).toContain(other.key);
  expect(ada.presenceState()).toMatchObject({ ada: [{ mood: "calm" }] });
});

test("the presences of a topic have at most a mebibyte, which those who leave make free", async () => {
  const topic = randomUUID();
  const large = { text: "x".repeat(4000) };
  const members = [];
  for (let n = 0; n < 270; n++) members.push(await join(topic));
  const answers = await Promise.all(members.map((member) => member.track(large)));
  const refused = answers.filter(({ status }) => status === "error");
  expect(refused.length).toBeGreaterThan(0);
  expect(refused[0].response.reason).toBe(
    "PresenceLimitReached: the presences of a topic have at most 1048576 bytes together",
  );
  const late = await join(topic);
  expect((await late.track(large)).status).toBe("error");
  members[answers.findIndex(({ status }) => status === "ok")]!.send("phx_leave", {});
  await expect.poll(async () => (await late.track(large)).status, { interval: 200 }).toBe("ok");
});

test("a channel may say ten times a second who is present", async () => {
  const { send, replies } = await join(randomUUID());
  for (let n = 0; n < 90; n++)
    send("presence", { type: "presence", event: n % 2 ? "untrack" : "track", payload: { n } });
  await expect.poll(() => replies.length).toBe(91);
  const reasons = replies.filter(({ status }) => status === "error").map(({ response }) => response.reason);
  expect(reasons.length).toBeLessThanOrEqual(80);
  expect(new Set(reasons)).toEqual(
    new Set(["ClientPresenceRateLimitReached: too many messages: the maximum is 10 per second on a channel"]),
  );
});

test("the key of a presence and a topic have at most 255 bytes", async () => {
  const states: string[] = [];
  const join = (topic: string, key: string) =>
    client()
      .channel(topic, { config: { presence: { key } } })
      .subscribe((status, error) => states.push(`${status} ${error?.message ?? ""}`));
  join("x", "k".repeat(256));
  await expect
    .poll(() => states[0])
    .toBe("CHANNEL_ERROR MalformedJoin: config.presence.key must have at most 255 bytes");
  states.splice(0);
  join("x".repeat(300), "");
  await expect.poll(() => states[0]).toBe("CHANNEL_ERROR MalformedJoin: the topic must have at most 255 bytes");
});

test("a member that comes while another is about to leave does not keep it", async () => {
  const topic = randomUUID();
  const watcher = await join(topic);
  const guest = await join(topic, "guest");
  // Within the time in which changes are collected.
  guest.send("presence", { type: "presence", event: "track", payload: {} });
  const late = client().channel(topic, { config: { presence: { key: "late" } } });
  late.on("presence", { event: "sync" }, () => {}).subscribe();
  await expect.poll(() => late.state).toBe("joined");
  guest.send("presence", { type: "presence", event: "untrack" });
  expect((await watcher.track({})).status).toBe("ok");
  await expect.poll(() => Object.keys(late.presenceState())).toEqual([watcher.key]);
});
