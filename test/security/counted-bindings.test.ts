import { expect, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { useRealtime } from "../support/realtime.ts";

const { service, sql } = useRealtime({ RATE_LIMIT: "40", realtimeMaxChannelsPerAddress: 6 });

/** A socket from an address of its own. */
const open = (address: string) => new ChannelClient(service(), address).open();

const NOTES = { event: "INSERT", schema: "public", table: "notes" };

/** The changes that a socket receives. */
function changesOf({ socket }: ChannelClient): any[] {
  const received: any[] = [];
  socket.on("message", (data) => {
    const [, , , event, payload] = JSON.parse(String(data));
    if (event === "postgres_changes") received.push(payload);
  });
  return received;
}

test("equal bindings of a channel have one id and count once, different ones count for the address", async () => {
  const client = await open("127.0.0.22");
  const join = (topic: string, bindings: readonly object[]) =>
    client.ask(topic, "phx_join", { config: { postgres_changes: bindings } });
  const other = (n: number) => ({ ...NOTES, filter: `id=gt.${n}` });
  const changes = changesOf(client);
  const equal = await join("equal", [NOTES, NOTES, NOTES, NOTES, NOTES, { ...NOTES, note: "of the application" }]);
  const ids: number[] = equal.response.postgres_changes.map(({ id }: { id: number }) => id);
  expect(equal.response.postgres_changes).toHaveLength(6);
  expect(new Set(ids).size).toBe(1);
  expect(await join("different", [1, 2, 3, 4].map(other))).toMatchObject({ status: "ok" });
  expect(await join("too many", [NOTES, other(1)])).toMatchObject({
    status: "error",
    response: {
      reason: "ChannelRateLimitReached: too many channels: the maximum for each IP address is 6",
    },
  });
  expect(await join("last", [NOTES])).toMatchObject({ status: "ok" });

  await sql("insert into notes (id, body) values (1, 'A note')");
  await sql("insert into notes (id, body) values (2, 'Another note')");
  await expect.poll(() => changes.filter(({ data }) => data.record.id === 2).length).toBe(3);
  expect(changes.filter(({ data }) => data.record.id === 1)).toEqual([
    expect.objectContaining({ ids: [ids[0]] }),
    expect.objectContaining({ ids: [ids[0]] }),
  ]);

  await client.ask("different", "phx_leave");
  expect(await join("too many", [NOTES, other(1)])).toMatchObject({ status: "ok" });
});

test("a join counts for RATE_LIMIT once for each different binding", async () => {
  const client = await open("127.0.0.23");
  const join = (topic: string, bindings: readonly object[]) =>
    client.ask(topic, "phx_join", { config: { postgres_changes: bindings } });
  const many = Array.from({ length: 30 }, (_, n) => ({ ...NOTES, filter: `id=gt.${n}` }));
  // More bindings than channels are possible: this join is refused, and counts.
  expect(await join("many", many)).toMatchObject({ status: "error" });
  expect(await join("equal", new Array(30).fill(NOTES))).toMatchObject({ status: "ok" });
  expect(await join("many", many)).toMatchObject({
    status: "error",
    response: { reason: expect.stringMatching(/^RATE_LIMITED: /) },
  });
});

test("a join counts for RATE_LIMIT again for a replay", async () => {
  const client = await open("127.0.0.24");
  const join = (n: number) =>
    client.ask(`public ${n}`, "phx_join", { config: { broadcast: { replay: { since: 0 } } } });
  const replies = await Promise.all(Array.from({ length: 30 }, (_, n) => join(n)));
  const reasons = replies.map(({ response }) => response.reason.split(":")[0]);
  expect(new Set(reasons)).toEqual(new Set(["UnableToReplayMessages", "RATE_LIMITED"]));
});
