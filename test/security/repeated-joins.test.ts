import { once } from "node:events";
import { expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { ByteBudget } from "../../db/admission/byte-budget.ts";
import { Resumption } from "../../realtime/resumption.ts";
import { useRealtime } from "../support/realtime.ts";

const { sql, url } = useRealtime();

const NOTES = { config: { postgres_changes: [{ event: "INSERT", schema: "public", table: "notes" }] } };

/** A client of our own. */
async function connect() {
  const socket = new WebSocket(url());
  onTestFinished(() => socket.terminate());
  const received: [event: string, payload: any][] = [];
  socket.on("message", (data) => {
    const [, , , event, payload] = JSON.parse(String(data));
    received.push([event, payload]);
  });
  await once(socket, "open");
  const of = (wanted: string) => received.filter(([event]) => event === wanted).map(([, payload]) => payload);
  const join = (topic: string, payload: object = {}, ref = "0") =>
    socket.send(JSON.stringify([ref, ref, `realtime:${topic}`, "phx_join", payload]));
  return { socket, join, of };
}

/** What the table keeps. */
const lost = async () => (await sql("select count(*)::int as count from changes.lost_channels"))[0].count as number;

test("a channel that is joined again and again continues where it was, and no position is kept for it", async () => {
  const { socket, join, of } = await connect();
  const ids = () => of("postgres_changes").map(({ data }) => data.record.id);
  for (let n = 1; n <= 50; n++) {
    join("again", NOTES);
    await expect.poll(() => of("phx_reply").length).toBe(n);
    if (n % 10 === 0) await sql("insert into notes (id) values ($1)", n);
  }
  await expect.poll(() => [...new Set(ids())]).toEqual([10, 20, 30, 40, 50]);
  expect(of("system").filter(({ resumed }) => resumed)).toHaveLength(49);
  expect(await lost()).toBe(0);
  socket.terminate();
  await expect.poll(lost).toBe(1);
});

test("a reference that is no integer does not keep the position of its channel from being stored", async () => {
  const { socket, join, of } = await connect();
  join("fraction", NOTES, "0.5");
  await expect.poll(() => of("phx_reply")).toHaveLength(1);
  socket.terminate();
  await expect.poll(lost).toBe(2);
});

const IDENTITY = { client: "one network", isExact: false, channel: "a channel", network: "203.0.113.7" };

/** Positions as text: `"7"` */
function resumptionWith(budget: ByteBudget): Resumption {
  const textOf = ({ index }: { index: number }) => String(index);
  const startOf = (text: string) => ({ lsn: 1n, index: Number(text) });
  return new Resumption({ budget, textOf, startOf, shared: null });
}

test("however many positions an identity has, at most eleven are kept, and none of them is later than its own", () => {
  const budget = new ByteBudget({ total: 0, perAddress: 0 });
  const resumption = resumptionWith(budget);
  for (let n = 0; n < 10_000; n++) resumption.keep(IDENTITY, { lsn: 1n, index: 10_000 - (n % 100) }, n % 50);
  const kept = resumption.take(IDENTITY, 10_000);
  expect(kept.length).toBeLessThanOrEqual(11);
  expect(kept.map(Number)).toContain(9901);
  // Another client may be the one that has continued.
  expect(resumption.take(IDENTITY, 10_000)).toEqual(kept);
});

test("positions count for the network of the client until they are taken or too old, and none is kept beyond its share", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const budget = new ByteBudget({ total: 1_000_000, perAddress: 10_000 });
  const resumption = resumptionWith(budget);
  for (let n = 0; n < 100; n++) resumption.keep({ ...IDENTITY, channel: `channel ${n}` }, { lsn: 1n, index: n }, n);
  expect(budget.kinds.resumption).toBe(budget.heldBy(IDENTITY.network));
  expect(resumption.size).toBeGreaterThan(10);
  expect(resumption.size).toBeLessThan(20);
  const other = { ...IDENTITY, network: "203.0.113.8", channel: "another channel" };
  resumption.keep(other, { lsn: 1n, index: 5 }, 5);
  expect(resumption.take(other, 6)).toEqual(["5"]);
  expect(budget.heldBy(other.network)).toBe(0);
  // Nothing else happens meanwhile.
  vi.advanceTimersByTime(80_000);
  expect([budget.total, budget.networks, resumption.size]).toEqual([0, 0, 0]);
});
