import { expect, onTestFinished, test } from "vitest";
import { den, numbers, useReplay } from "../support/replay.ts";
import { startTestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const { heard, join, send, service, sql } = useReplay();

test("channels that join while broadcasts are sent miss none and get none twice", async () => {
  const topic = den();
  const all = Array.from({ length: 60 }, (_, n) => n);
  const joining: ReturnType<typeof join>[] = [];
  for (const n of all) {
    await send(topic, n);
    if (n < 20 && n % 2 === 0) joining.push(join(topic, { since: 0 }, { vsn: n % 4 === 0 ? "2.0.0" : "1.0.0" }));
    // Not more than a replay has.
    if (n === 24) await Promise.all(joining);
  }
  for (const { received } of await Promise.all(joining)) await expect.poll(() => numbers(received), POLL).toEqual(all);
});

test("a replay has at most 25 broadcasts, which is also the default, and at least one", async () => {
  const topic = den();
  await sql(
    "select realtime.send(jsonb_build_object('n', n), 'n', $1) from generate_series(1, 30) as n order by n",
    topic,
  );
  await heard();
  const last = (count: number) => Array.from({ length: count }, (_, i) => 31 - count + i);
  for (const [limit, count] of [
    [undefined, 25],
    [null, 25],
    [1000, 25],
    [2, 2],
    [0, 1],
    [-5, 1],
  ] as const) {
    const { received } = await join(topic, { since: 0, limit });
    await expect.poll(() => numbers(received), POLL).toEqual(last(count));
  }
});

test("25 broadcasts of the largest size are replayed", async () => {
  const topic = den();
  await sql(
    "select realtime.send(jsonb_build_object('n', n, 'text', repeat('x', 260000)), 'n', $1) from generate_series(1, 25) as n order by n",
    topic,
  );
  const { received } = await join(topic, { since: 0 });
  await expect.poll(() => numbers(received), POLL).toEqual(Array.from({ length: 25 }, (_, i) => i + 1));
  expect(received.every(({ payload }) => payload.text.length === 260_000)).toBe(true);
});

test("a start deletes the broadcasts that are no longer kept", async () => {
  const topic = den();
  await send(topic, 1);
  await sql("update realtime.messages set inserted_at = now() - interval '73 hours' where topic = $1", topic);
  await send(topic, 2);
  const second = await startTestService({}, { ...service().database, drop: async () => {} });
  onTestFinished(second.stop);
  await expect
    .poll(() => sql("select payload from realtime.messages where topic = $1", topic), POLL)
    .toEqual([{ payload: { n: 2 } }]);
});
