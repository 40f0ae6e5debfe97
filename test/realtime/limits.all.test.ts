import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { observe, useRealtime } from "../support/realtime.ts";

const { client, receivedInserts, sql, url } = useRealtime({
  changesMaxBytes: 20_000_000,
  wsMaxBufferedBytes: 65_536,
  realtimeMaxChannelsPerAddress: 6,
  realtimeJoinRatePerAddress: 12,
});

const NOTES = { event: "INSERT", schema: "public", table: "notes" };

/** A client that has joined a channel, and has stopped reading. */
async function slowClient(): Promise<{ socket: WebSocket; ids: number[]; ends: unknown[] }> {
  const socket = new WebSocket(url());
  onTestFinished(() => socket.terminate());
  const [ids, ends]: [number[], unknown[]] = [[], []];
  const joined = new Promise<void>((resolve) => {
    socket.on("message", (data) => {
      const [, , , event, payload] = JSON.parse(String(data));
      if (event === "postgres_changes") ids.push(payload.data.record.id);
      else if (event === "phx_reply") resolve();
      else if (payload.gap || event === "phx_error") ends.push(payload.gap ? payload.message : event);
    });
  });
  await once(socket, "open");
  socket.send(JSON.stringify(["1", "1", "realtime:slow", "phx_join", { config: { postgres_changes: [NOTES] } }]));
  await joined;
  socket.pause();
  return { socket, ids, ends };
}

/** 50 kB each. */
const insert = (from: number, to: number) =>
  sql(
    "insert into notes (id, body) select n, repeat('x', 50000) from generate_series($1::int, $2::int) as n",
    from,
    to,
  );

test("a client that reads slowly gets every change once and in order, when it reads again", async () => {
  const { socket, ids } = await slowClient();
  await insert(1, 300);
  socket.resume();
  await expect.poll(() => ids.length).toBe(300);
  expect(ids).toEqual(Array.from({ length: 300 }, (_, i) => i + 1));
});

test("a client that reads so slowly that its changes are no longer kept gets a gap, and its socket stays open", async () => {
  const { socket, ids, ends } = await slowClient();
  const before = await receivedInserts();
  for (let from = 1001; from < 2000; from += 200) await insert(from, from + 199);
  await expect.poll(receivedInserts).toBeGreaterThanOrEqual(before + 1000);
  socket.resume();
  await expect.poll(() => ends).toEqual(["changes have been missed: subscribe again and reload the data", "phx_error"]);
  // What has arrived has no gap.
  expect(ids).toEqual(ids.map((_, i) => 1001 + i));
  expect(socket.readyState).toBe(socket.OPEN);
});

test("channels and joins per second of all sockets from one address are limited", async () => {
  const one = client();
  const [first, second] = [one, client()].map((each, n) =>
    [1, 2, 3, 4].map((i) => observe(each, `channel ${n} ${i}`, [])),
  );
  const states = () => [...first!, ...second!].map((observed) => observed.states[0]);
  await expect.poll(() => states().every((state) => state !== undefined)).toBe(true);
  const refused = "CHANNEL_ERROR: ChannelRateLimitReached: too many channels: the maximum for each IP address is 6";
  expect(states().filter((state) => state === "SUBSCRIBED")).toHaveLength(6);
  expect(states().filter((state) => state === refused)).toHaveLength(2);
  // A channel that is closed makes room for another.
  await first![0]!.channel.unsubscribe();
  const joined = () => [...first!, ...second!].filter((observed) => observed.states.includes("SUBSCRIBED"));
  await expect.poll(() => joined().length).toBe(7);
});
