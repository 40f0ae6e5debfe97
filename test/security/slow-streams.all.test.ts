import { afterEach, beforeAll, expect, test } from "vitest";
import { CHECKS } from "../../gate/limits/slow-streams.ts";
import { createTestDatabase } from "../support/database.ts";
import { openRaw, type RawSocket } from "../support/raw-socket.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** More than the system buffers for a connection: 40 MB. */
const LARGE = "rpc/lines?n=2000";
const SMALL = "rpc/lines?n=2";

/** Two networks can use all four streams. */
let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    create function public.lines(n int) returns setof text language sql stable as
      'select repeat(''x'', 20000) from generate_series(1, n)';
    grant execute on function public.lines(int) to anon`);
  const settings = {
    ...{ DB_POOL: "8", streamConnections: 4, dbPoolShare: 50, dbPoolTimeout: 20_000 },
    // So that only the rate ends a stream.
    sendTimeout: 600_000,
    API_KEY_REQUIRED: "off",
  };
  service = await startTestService(settings, database);
  return () => service.stop();
});

const count = async (condition: string): Promise<number> => {
  const { rows } = await service.database.owner.query(
    `select from pg_stat_activity where datname = current_database() and usename like '%_data' and ${condition}`,
  );
  return rows.length;
};
const openTransactions = () => count("xact_start is not null");
afterEach(() => expect.poll(openTransactions, POLL).toBe(0));

async function request(path: string, from: string): Promise<RawSocket> {
  const raw = await openRaw(service.url, from);
  raw.write(`GET /rest/v1/${path} HTTP/1.1\r\nHost: a\r\nAccept: application/x-ndjson\r\nConnection: close\r\n\r\n`);
  return raw;
}

/** A stream of which the client has read the beginning, and then nothing. */
async function openSlow(from: string): Promise<RawSocket> {
  const raw = await request(LARGE, from);
  expect((await raw.head()).status).toBe(200);
  raw.socket.pause();
  return raw;
}

/** Two networks, each with two streams. */
const openAll = () => Promise.all(["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"].map(openSlow));

/** Checks until the rate of each stream has been measured. The system may first take some more of each. */
const check = () => {
  for (let i = 0; i <= CHECKS; i++) service.service.checkStreams();
};

/** Reads another megabyte, which is less than the rest. */
async function readSome(raw: RawSocket): Promise<void> {
  const until = raw.size + 1_000_000;
  const { promise, resolve } = Promise.withResolvers<void>();
  const onData = () => {
    if (raw.size < until) return;
    raw.socket.pause().off("data", onData);
    resolve();
  };
  raw.socket.on("data", onData).resume();
  await promise;
}

/** Whether the rest of the stream is complete. */
async function readAll(raw: RawSocket): Promise<boolean> {
  raw.socket.resume();
  await expect.poll(() => raw.ended, POLL).toBe(true);
  return raw.text.endsWith("\r\n0\r\n\r\n");
}

test("slow streams of two networks are broken off for those that wait, and only for these", async () => {
  const slow = await openAll();
  expect(await openTransactions()).toBe(4);
  const other = await request(SMALL, "127.0.0.4");
  const served = () => {
    check();
    return other.ended;
  };
  await expect.poll(served, POLL).toBe(true);
  expect((await other.head()).status).toBe(200);
  check();
  expect((await Promise.all(slow.map(readAll))).sort()).toEqual([false, true, true, true]);
});

test("streams that are read fast are not broken off, however many wait", async () => {
  const fast = await openAll();
  const waiting = await request(SMALL, "127.0.0.4");
  for (let i = 0; i <= CHECKS; i++) {
    for (const raw of fast) await readSome(raw);
    service.service.checkStreams();
  }
  expect(waiting.size).toBe(0);
  expect(await Promise.all(fast.map(readAll))).toEqual([true, true, true, true]);
  expect((await waiting.head()).status).toBe(200);
});

test("slow streams for which no other waits go on", async () => {
  const slow = await openAll();
  check();
  expect(await Promise.all(slow.map(readAll))).toEqual([true, true, true, true]);
});
