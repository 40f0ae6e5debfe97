import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { useRealtime } from "../support/realtime.ts";

const { sql, url } = useRealtime({
  changesMaxBytes: 60_000_000,
  wsMaxBufferedBytes: 65_536,
  realtimeMaxChannelsPerAddress: 10_000,
  realtimeJoinRatePerAddress: 10_000,
});

const NOTES = { event: "INSERT", schema: "public", table: "notes" };

/** What each of so many channels on one socket receives, and whether the socket has been closed. */
async function openChannels(count: number) {
  const socket = new WebSocket(url());
  onTestFinished(() => socket.terminate());
  const received = new Map<string, number[]>();
  socket.on("message", (data) => {
    const [, , topic, event, payload] = JSON.parse(String(data));
    if (event === "phx_reply") received.set(topic, []);
    else if (event === "postgres_changes") received.get(topic)!.push(payload.data.record.id);
  });
  await once(socket, "open");
  for (let n = 1; n <= count; n++) {
    const config = { postgres_changes: [NOTES] };
    socket.send(JSON.stringify([`${n}`, `${n}`, `realtime:${n}`, "phx_join", { config }]));
    await expect.poll(() => received.size, { interval: 1 }).toBe(n);
  }
  return { socket, received };
}

const insert = (from: number, to: number, bytes: number) =>
  sql(
    "insert into notes (id, body) select n, repeat('x', $3::int) from generate_series($1::int, $2::int) n",
    from,
    to,
    bytes,
  );

test("many channels of sockets that are full again and again get every change once and in order", async () => {
  const sockets = [await openChannels(100), await openChannels(100), await openChannels(100)];
  const lists = sockets.flatMap(({ received }) => [...received.values()]);
  for (let from = 1; from <= 200; from += 40) await insert(from, from + 39, 3000);
  await expect.poll(() => lists.filter(({ length }) => length < 200).length, { timeout: 60_000 }).toBe(0);
  const expected = Array.from({ length: 200 }, (_, i) => i + 1);
  for (const ids of lists) expect(ids).toEqual(expected);
}, 120_000);

test("a large change for many channels of one socket does not close it while its client reads", async () => {
  const { socket, received } = await openChannels(30);
  await insert(1001, 1001, 900_000);
  await expect
    .poll(() => [...received.values()].filter(({ length }) => length === 1).length, { timeout: 60_000 })
    .toBe(30);
  expect(socket.readyState).toBe(socket.OPEN);
}, 120_000);
