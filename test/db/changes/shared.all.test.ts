import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ChangeFeed } from "../../../db/changes/feed.ts";
import type { SharedSourceOptions } from "../../../db/changes/shared.ts";
import type { Entry, SharedLog } from "../../../db/changes/shared-log.ts";
import { Changes, PUBLISH, poolOf, sharedSource, titles } from "../../support/changes.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { hasRedis, startRedis, type TestRedis } from "../../support/redis.ts";

const MISSED = expect.objectContaining({ reason: "changes missed" });

const SLOTS = "select slot_name from pg_replication_slots where database = current_database()";

describe.runIf(hasRedis)("changes that one process reads for all", () => {
  let database: TestDatabase;
  let redis: TestRedis;
  beforeAll(async () => {
    database = await createTestDatabase();
    redis = await startRedis();
    await dba(PUBLISH);
  });
  afterAll(async () => {
    await redis.kill();
    await database.drop();
  });

  const dba = async (sql: string, ...values: unknown[]) => (await database.owner.query(sql, values)).rows;
  const addArticle = (title: string) =>
    dba("insert into articles (author_id, title, content) values (1, $1, 'Some text.')", title);
  const addArticles = async (name: string, count: number) => {
    const added = Array.from({ length: count }, (_, i) => `${name} ${i}`);
    for (const title of added) await addArticle(title);
    return added;
  };
  const slots = () => dba(SLOTS);

  async function startProcess(options: Partial<SharedSourceOptions> = {}, openTimeout = 120_000, at = redis) {
    const { maxBytes = 1_000_000 } = options;
    const { source, log } = await sharedSource(database, at.url, options);
    const feed = new ChangeFeed({ source, maxBytes, openTimeout });
    onTestFinished(() => feed.close());
    const subscribe = async (since?: string) => {
      await feed.open();
      return new Changes(feed.read(since === undefined ? {} : { since: feed.startOf(since)! }), { table: "articles" });
    };
    return { feed, source, log, subscribe, isReader: () => source.health.shared!.isReader };
  }
  const startProcesses = async (count: number) => {
    const processes = await Promise.all(Array.from({ length: count }, () => startProcess()));
    return { processes, subscribers: await Promise.all(processes.map(({ subscribe }) => subscribe())) };
  };

  test("reach subscribers of each process once and in order, over one replication slot", async () => {
    const { processes, subscribers } = await startProcesses(3);
    const added = await addArticles("Shared", 20);
    for (const changes of subscribers) expect(titles(await changes.take(20))).toEqual(added);
    expect(await slots()).toHaveLength(1);
    expect(processes.filter(({ isReader }) => isReader())).toHaveLength(1);
  });

  test("continue at another process after a position, also at one that starts later", async () => {
    const { processes, subscribers } = await startProcesses(2);
    const added = await addArticles("Continued", 6);
    const [, , third] = await subscribers[0]!.take(6);
    const position = processes[0]!.feed.textOf(third!.position);
    const late = await startProcess();
    for (const { subscribe } of [processes[1]!, late])
      expect(titles(await (await subscribe(position)).take(3))).toEqual(added.slice(3));
  });

  test("are read by another process when the elected one ends, without a loss or a duplicate", async () => {
    const { processes, subscribers } = await startProcesses(3);
    const added = await addArticles("Before", 5);
    await expect.poll(() => processes.filter(({ isReader }) => isReader()).length).toBe(1);
    const elected = processes.findIndex(({ isReader }) => isReader());
    await processes[elected]!.feed.close();
    added.push(...(await addArticles("After", 5)));
    const others = subscribers.filter((_, i) => i !== elected);
    for (const changes of others) expect(titles(await changes.take(10))).toEqual(added);
    await expect.poll(() => processes.filter(({ isReader }) => isReader()).length).toBe(1);
  });

  test("of a large transaction are stored in parts, and another process goes on in the middle of it", async () => {
    const stored: Entry[] = [];
    let isCut = false;
    const first = await startProcess();
    // The first process ends while it stores a part.
    const { log } = first;
    const append = log.append.bind(log);
    log.append = async (...of: Parameters<SharedLog["append"]>) => {
      stored.push(of[1]);
      isCut ||= of[1].end.index > 0 && stored.filter(({ end }) => end.index > 0).length > 2;
      return isCut ? new Promise<never>(() => {}) : append(...of);
    };
    await first.subscribe();
    await expect.poll(first.isReader).toBe(true);
    const second = await startProcess();
    const changes = await second.subscribe();
    const text = "x".repeat(2000);
    const inserted = dba(
      "insert into articles (author_id, title, content) select 1, 'Row ' || i, $1 from generate_series(1, 2000) as i",
      text,
    );
    await expect.poll(() => isCut).toBe(true);
    await first.feed.close();
    await inserted;
    expect(titles(await changes.take(2000))).toEqual(Array.from({ length: 2000 }, (_, i) => `Row ${i + 1}`));
    expect(second.feed.counts.gaps).toBe(0);
  });

  test("are stored again from the slot when the server loses them", async () => {
    const { processes, subscribers } = await startProcesses(2);
    const added = await addArticles("Before the loss", 5);
    for (const changes of subscribers) expect(titles(await changes.take(5))).toEqual(added);
    await redis.kill();
    const meanwhile = await addArticles("Meanwhile", 5);
    await redis.start();
    meanwhile.push(...(await addArticles("Afterwards", 5)));
    for (const changes of subscribers) expect(titles(await changes.take(10))).toEqual(meanwhile);

    // Entries that another user removes, or that the server evicts.
    await redis.send("FLUSHALL");
    const later = await addArticles("Later", 5);
    for (const changes of subscribers) expect(titles(await changes.take(5))).toEqual(later);
    expect(processes.map(({ feed }) => feed.counts.gaps)).toEqual([0, 0]);
  });

  test("are not received while the server is away: /health says why, and new subscriptions are refused", async () => {
    const { processes } = await startProcesses(1);
    const [{ feed }] = processes as [(typeof processes)[0]];
    await redis.kill();
    onTestFinished(() => redis.start());
    await expect
      .poll(() => feed.health)
      .toMatchObject({ state: "disconnected", reason: expect.stringMatching(/REDIS_URL/) });
    const other = await startProcess({}, 1);
    await expect(other.feed.open()).rejects.toThrow("changes are not available at the moment: try again");
  });

  test("are not received by a process with another REDIS_URL: /health says why", async () => {
    const { isReader, subscribe } = await startProcess();
    await subscribe();
    await expect.poll(isReader).toBe(true);
    const other = await startRedis();
    onTestFinished(() => other.kill());
    const { feed } = await startProcess({}, 1, other);
    await expect(feed.open()).rejects.toThrow("try again");
    const reason = expect.stringMatching(/all processes on the database must have the same REDIS_URL/);
    await expect.poll(() => feed.health).toMatchObject({ state: "disconnected", reason });
  });

  test("are an explicit gap for a process that is slower than what is kept, and for no other", async () => {
    const options = { maxBytes: 100_000 };
    const [slow, quick] = [await startProcess(options), await startProcess(options)];
    const [held, taken] = [await slow.subscribe(), await quick.subscribe()];
    const text = "x".repeat(5000);
    const add = "insert into articles (author_id, title, content) values (1, $1, $2)";
    // Its reader takes nothing, and so it stops reading.
    for (let i = 0; i < 100; i++) {
      await dba(add, `Kept ${i}`, text);
      expect(titles(await taken.take(1))).toEqual([`Kept ${i}`]);
    }
    await expect(held.take(100)).rejects.toThrow(MISSED);
    held.reader.close();
    expect([slow.feed.counts.gaps, quick.feed.counts.gaps]).toEqual([1, 0]);
    const again = await slow.subscribe();
    await dba(add, "After the gap", text);
    expect(titles(await again.take(1))).toEqual(["After the gap"]);
  });

  test("are an explicit gap if a row is larger than what is kept", async () => {
    const process = await startProcess({ maxBytes: 100_000 });
    const changes = await process.subscribe();
    await dba("insert into articles (author_id, title, content) values (1, 'Large', $1)", "x".repeat(200_000));
    await expect(changes.take(1)).rejects.toThrow(MISSED);
    changes.reader.close();
    const again = await process.subscribe();
    await addArticle("Small");
    expect(titles(await again.take(1))).toEqual(["Small"]);
  });

  test("that cannot be decoded are an explicit gap", async () => {
    const errors: Error[] = [];
    const process = await startProcess({ onError: (error) => errors.push(error) });
    const { log } = process;
    const read = log.read.bind(log);
    let isBroken = false;
    log.read = async (...of) => {
      const entries = await read(...of);
      return isBroken ? entries.map((entry) => ({ ...entry, data: entry.data.fill("?") })) : entries;
    };
    const changes = await process.subscribe();
    await addArticle("Well-formed");
    await changes.take(1);
    isBroken = true;
    await addArticle("Broken");
    await expect.poll(() => errors.length).toBeGreaterThan(0);
    isBroken = false;
    await expect(changes.take(1)).rejects.toThrow(MISSED);
    changes.reader.close();
    const again = await process.subscribe();
    await addArticle("After the gap");
    expect(titles(await again.take(1))).toEqual(["After the gap"]);
  });

  test("do not begin after all, if the last subscriber leaves while they begin", async () => {
    const pool = poolOf(database.url);
    const query = pool.query.bind(pool);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    let isAsked = false;
    // The query of the follower, before it begins.
    pool.query = (async (...of: Parameters<typeof query>) => {
      isAsked ||= String(of[0]).startsWith("select pg_current_wal_insert_lsn()");
      if (isAsked) await held;
      return query(...of);
    }) as never;
    const { source } = await startProcess({ pool });
    let hasBegun = false;
    const sink = { begin: () => (hasBegun = true), lose() {}, reach() {}, waitForCapacity: () => null };
    source.open(sink as never);
    await expect.poll(() => isAsked).toBe(true);
    source.rest();
    release();
    await source.close();
    expect(hasBegun).toBe(false);
  });

  test("are not decoded while no process wants them, and nothing is kept then", async () => {
    const { source, feed, subscribe } = await startProcess();
    await subscribe();
    const active = async () => (await dba(`${SLOTS} and active`)).length;
    await expect.poll(active).toBe(1);
    source.rest();
    await expect.poll(active).toBe(0);
    await expect.poll(() => redis.send("KEYS", "content:*:log:*")).toEqual([]);
    expect(feed.health).toMatchObject({ state: "resting" });
  });
});
