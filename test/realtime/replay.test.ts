import { expect, test } from "vitest";
import { den, numbers, useReplay } from "../support/replay.ts";
import { POLL } from "../support/until.ts";

const { client, heard, join, send, service, sql } = useReplay();

test("a private channel gets the last broadcasts since a time, oldest first, and then those that follow", async () => {
  const topic = den();
  await send(topic, 0);
  const since = Date.now() + 1;
  await sql("select pg_sleep(0.01)");
  // One transaction has an order as well.
  await sql(
    "select realtime.send(jsonb_build_object('n', n), 'n', $1) from generate_series(1, 4) as n order by n",
    topic,
  );
  await heard();
  const { received } = await join(topic, { since, limit: 3 });
  await expect.poll(() => received.length, POLL).toBe(3);
  await send(topic, 5);
  await expect.poll(() => numbers(received), POLL).toEqual([2, 3, 4, 5]);
  const { received: all } = await join(topic, { since });
  await expect.poll(() => numbers(all), POLL).toEqual([1, 2, 3, 4, 5]);
  const stored = await sql("select id from realtime.messages where topic = $1 order by inserted_at", topic);
  expect(stored.length).toBe(6);
  const id = (n: number) => stored[n].id;
  expect(received[0]).toEqual({
    type: "broadcast",
    event: "n",
    payload: { n: 2 },
    meta: { replayed: true, id: id(2) },
  });
  expect(received[3].meta).toEqual({ id: id(5) });
  const other = await join(den(), { since: 0 });
  expect(other.received).toEqual([]);
});

test("bytes are replayed as bytes, in order, and not at all in version 1.0.0", async () => {
  const topic = den();
  await send(topic, 1);
  await sql("select realtime.send_binary('\\xdeadbeef00ff', 'bytes', $1)", topic);
  await send(topic, 2);
  const [newer, older] = [await join(topic, { since: 0 }), await join(topic, { since: 0 }, { vsn: "1.0.0" })];
  await expect.poll(() => newer.received.map(({ event }) => event), POLL).toEqual(["n", "bytes", "n"]);
  const { payload, meta } = newer.received[1];
  expect(Buffer.from(payload).toString("hex")).toBe("deadbeef00ff");
  expect(meta).toEqual({ replayed: true, id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
  await expect.poll(() => older.received, POLL).toEqual([newer.received[0], newer.received[2]]);
});

test("a replay has the rows that the policies let the caller read", async () => {
  const topic = den();
  await send(topic, 1);
  await send(topic, 2, "secret");
  await heard();
  const [ada, bob] = [await join(topic, { since: 0 }, { as: "ada" }), await join(topic, { since: 0, limit: 1 })];
  await expect.poll(() => numbers(ada.received), POLL).toEqual([1, 2]);
  await expect.poll(() => numbers(bob.received), POLL).toEqual([1]);
});

test("only broadcasts from SQL to private channels are stored, as long as their transaction is committed, for 72 hours", async () => {
  const topic = den();
  const { owner } = service().database;
  await owner.query("begin");
  await send(topic, 1);
  await owner.query("rollback");
  await sql("select realtime.send('{}', 'public', $1, false)", topic);
  const sender = client({ as: "ada" });
  await sender.realtime.setAuth();
  await sender.channel(topic, { config: { private: true } }).httpSend("http", {});
  expect(await sql("select from realtime.messages where topic = $1", topic)).toEqual([]);
  await send(topic, 2);
  await sql("update realtime.messages set inserted_at = now() - interval '72 hours' where topic = $1", topic);
  await heard();
  expect((await join(topic, { since: 0 })).received).toEqual([]);
  await send(topic, 3);
  await sql(
    "update realtime.messages set inserted_at = inserted_at - interval '71 hours' where inserted_at > now() - interval '1 hour'",
  );
  await service().database.owner.query("select realtime.purge()");
  expect(await sql("select payload from realtime.messages where topic = $1", topic)).toEqual([{ payload: { n: 3 } }]);
});

test("what is sent while the stored broadcasts are read follows them, once", async () => {
  const topic = den();
  await send(topic, 1, "slow");
  await send(topic, 2, "slow");
  const joining = join(topic, { since: 0 });
  await expect
    .poll(
      () => sql("select from pg_stat_activity where wait_event = 'PgSleep' and query like '%realtime.replay%'"),
      POLL,
    )
    .toHaveLength(1);
  await send(topic, 3);
  await send(topic, 4);
  const { received } = await joining;
  await send(topic, 5);
  await expect.poll(() => numbers(received), POLL).toEqual([1, 2, 3, 4, 5]);
  expect(received.map(({ meta }) => meta.replayed)).toEqual([true, true, undefined, undefined, undefined]);
  // A notification that comes later than the replay.
  const message = JSON.stringify({ topic, event: "n", private: true, payload: { n: 1 } });
  await sql("select pg_notify('broadcasts', $1)", `${received[0].meta.id} 1 1 ${message}`);
  await send(topic, 6);
  await expect.poll(() => numbers(received), POLL).toEqual([1, 2, 3, 4, 5, 6]);
});

test("the reason of a replay that a policy refuses is what the policy has raised", async () => {
  const topic = den();
  await send(topic, 1, "broken");
  const { states } = await join(topic, { since: 0 });
  expect(states[0]).toMatch(/UnableToReplayMessages: the den is closed \(PT403\)/);
});

test("without a replay nothing is replayed, and who may not read in the channel gets nothing", async () => {
  const topic = den();
  await send(topic, 1);
  await heard();
  for (const replay of [undefined, false, null])
    expect(await join(topic, replay)).toEqual({ received: [], states: ["SUBSCRIBED"] });
  await sql("select realtime.send('{}', 'x', 'attic')");
  const { states } = await join("attic", { since: 0 });
  expect(states[0]).toBe(
    "CHANNEL_ERROR: Unauthorized: You do not have permissions to read from this Channel topic: attic",
  );
});
