import pg from "pg";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Change } from "../../../db/changes/change.ts";
import { ChangeFeed } from "../../../db/changes/feed.ts";
import { parseSnapshot } from "../../../db/changes/position.ts";
import { slotOf } from "../../../db/changes/replication-slot.ts";
import { Ring } from "../../../db/changes/ring.ts";
import {
  type FeedMode,
  type FeedOptions,
  logicalSource,
  rowOf,
  startFeed,
  subscribe,
  titles,
} from "../../support/changes.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { hasRedis, startRedis, type TestRedis } from "../../support/redis.ts";

const MISSED = expect.objectContaining({ reason: "changes missed" });

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

/** Executes statements as a DBA does in psql. */
const dba = async (sql: string, ...values: unknown[]) => (await database.owner.query(sql, values)).rows;

const addArticle = (title: string, content = "Some text.") =>
  dba("insert into articles (author_id, title, content) values (1, $1, $2)", title, content);

async function psql(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** They stay when their last reader has ended. */
const DROP_SLOTS = `
  select pg_drop_replication_slot(slot_name) from pg_replication_slots
  where database = current_database() and not temporary`;

const MODES: readonly FeedMode[] = hasRedis ? ["logical", "shared"] : ["logical"];

describe.each(MODES)("changes read by %s", (mode) => {
  let redis: TestRedis;
  beforeAll(async () => {
    if (mode !== "shared") return;
    redis = await startRedis();
    return async () => {
      await redis.kill();
      await dba(DROP_SLOTS);
    };
  });
  const start = (options: FeedOptions = {}) => startFeed(database, mode, { redis: redis?.url, ...options });

  test("a new row arrives with all its columns as text", async () => {
    const inserted = await subscribe(await start(), { table: "articles", operation: "INSERT" });
    await dba(
      "insert into articles (author_id, title, content, tags) values (2, 'Ünïcode \\u{1F600} \"quoted\"', 'A', '{x,\"y z\"}')",
    );
    const [change] = await inserted.take(1);
    expect(change).toMatchObject({ table: { schema: "public", name: "articles" }, operation: "INSERT", old: null });
    const row = rowOf(change!);
    expect(row).toMatchObject({ author_id: "2", content: "A", status: "DRAFT", tags: '{x,"y z"}', updated_at: null });
    expect(row.title).toBe('Ünïcode \\u{1F600} "quoted"');
    expect(row.created_at).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00$/);
    expect(Math.abs(change!.committedAt - Date.now())).toBeLessThan(60_000);
  });

  // The rows are as before the test file, in both modes.
  beforeEach(() =>
    dba(`set session_replication_role = replica; delete from comments where id > 3; delete from articles where id > 4;
      update articles set title = 'A title', content = 'Some text.'; reset session_replication_role`),
  );

  test("an update arrives with the new row, even with its large unchanged values", async () => {
    const updated = await subscribe(await start(), {
      table: "articles",
      operation: "UPDATE",
      id: "1",
    });
    const large = Array.from({ length: 5000 }, (_, i) => i.toString(36)).join(" ");
    await dba("update articles set content = $1 where id = 1", large);
    await dba("update articles set title = 'A new title' where id = 1");
    const [, second] = await updated.take(2);
    expect(rowOf(second!)).toMatchObject({ title: "A new title", content: large });
  });

  test("an update that changes no value sends nothing", async () => {
    const updated = await subscribe(await start(), { table: "articles", operation: "UPDATE" });
    await dba("update articles set title = title");
    await dba("update articles set title = 'The marker' where id = 2");
    expect(titles(await updated.take(1))).toEqual(["The marker"]);
  });

  test("a TRUNCATE arrives for each of its tables, between the changes before and after it", async () => {
    const comments = await subscribe(await start(), { table: "comments" });
    const add = "insert into comments (article_id, author_id, content) values (1, 2, 'A comment')";
    const kept = await dba("select * from comments");
    await dba(`begin; ${add}; truncate comments; ${add}; commit`);
    const changes = await comments.take(3);
    expect(changes.map(({ operation }) => operation)).toEqual(["INSERT", "TRUNCATE", "INSERT"]);
    expect(changes[1]).toMatchObject({ table: { schema: "public", name: "comments" }, old: null, new: null });
    await dba(
      `set session_replication_role = replica; delete from comments; insert into comments overriding system value
       select * from json_populate_recordset(null::comments, $json$${JSON.stringify(kept)}$json$); reset session_replication_role`,
    );
  });

  test("a delete arrives with the old row, and so do the deletes that cascade from it", async () => {
    const feed = await start();
    const articles = await subscribe(feed, { table: "articles", operation: "DELETE" });
    const comments = await subscribe(feed, { table: "comments", operation: "DELETE" });
    const [{ id }] = await dba(
      "insert into articles (author_id, title, content) values (1, 'To be deleted', '-') returning id",
    );
    await dba("insert into comments (article_id, author_id, content) values ($1, 2, 'Gone too')", id);
    await dba("delete from articles where id = $1", id);
    expect(rowOf((await articles.take(1))[0]!)).toMatchObject({ id, title: "To be deleted" });
    expect(rowOf((await comments.take(1))[0]!)).toMatchObject({ article_id: id, content: "Gone too" });
  });

  test("a transaction arrives at its commit, whole and in order, and one that is rolled back does not", async () => {
    const inserted = await subscribe(await start(), { table: "articles", operation: "INSERT" });
    const [first, second] = [await psql(), await psql()];
    const insert = "insert into articles (author_id, title, content) values (1, $1, 'Some text.')";
    await second.query("begin");
    await second.query(insert, ["Rolled back"]);
    await first.query("begin");
    await first.query(insert, ["First of two"]);
    await first.query(insert, ["Second of two"]);
    await second.query("rollback");
    await first.query("commit");
    await addArticle("Afterwards");
    expect(titles(await inserted.take(3))).toEqual(["First of two", "Second of two", "Afterwards"]);
  });

  test("queries see the row when its change arrives", async () => {
    const feed = await start();
    const inserted = await subscribe(feed, { table: "comments", operation: "INSERT" });
    const [reader, writer] = [await psql(), await psql()];
    // Then a commit is in the log before queries see it.
    await writer.query("set synchronous_commit = on");
    for (let i = 0; i < 30; i++) {
      const written = writer.query("insert into comments (article_id, author_id, content) values (1, 1, 'Seen')");
      const [change] = await inserted.take(1);
      const { rowCount } = await reader.query("select from comments where id = $1", [rowOf(change!).id]);
      expect(rowCount).toBe(1);
      await written;
    }
  });

  test("a transaction that runs when the subscription starts arrives when it is committed", async () => {
    const feed = await start();
    // A replication slot cannot be created while transactions run: here it exists before.
    await subscribe(feed, { table: "comments", operation: "INSERT" });
    const running = await psql();
    await running.query("begin");
    await running.query("insert into articles (author_id, title, content) values (1, 'Begun before', '-')");
    const inserted = await subscribe(feed, { table: "articles", operation: "INSERT" });
    await running.query("commit");
    expect(titles(await inserted.take(1))).toEqual(["Begun before"]);
  });

  test("changes before the subscription do not arrive", async () => {
    const feed = await start();
    await addArticle("Too early");
    const inserted = await subscribe(feed, { table: "articles", operation: "INSERT" });
    await addArticle("In time");
    expect(titles(await inserted.take(1))).toEqual(["In time"]);
  });

  test("every row of a large transaction arrives, however slowly the subscriber reads", async () => {
    const feed = await start({ maxBytes: 64_000_000 });
    const inserted = await subscribe(feed, { table: "articles", operation: "INSERT" });
    await dba(`insert into articles (author_id, title, content)
      select 1, 'Article ' || i, 'Some text.' from generate_series(1, 5000) as i`);
    const changes = await inserted.take(5000);
    expect(titles(changes)).toEqual(Array.from({ length: 5000 }, (_, i) => `Article ${i + 1}`));
  });

  test("changes of concurrent writers all arrive once, and those of one writer in order", async () => {
    const feed = await start({ maxBytes: 64_000_000 });
    const inserted = await subscribe(feed, { table: "comments", operation: "INSERT" });
    const writers = await Promise.all(Array.from({ length: 8 }, psql));
    await Promise.all(
      writers.map(async (writer, w) => {
        for (let i = 0; i < 50; i++)
          await writer.query("insert into comments (article_id, author_id, content) values (1, 1, $1)", [`${w} ${i}`]);
      }),
    );
    const contents = (await inserted.take(400)).map((change) => rowOf(change).content!);
    for (const w of writers.keys()) {
      const own = contents.filter((content) => content.startsWith(`${w} `));
      expect(own).toEqual(Array.from({ length: 50 }, (_, i) => `${w} ${i}`));
    }
  });

  test("a reader that may fall behind gets an error when it is overtaken, and the others receive everything", async () => {
    const feed = await start({ maxBytes: 20_000 });
    await feed.open();
    const slow = feed.read({ mayFallBehind: true });
    const quick = await subscribe(feed, { table: "articles", operation: "INSERT" });
    for (let i = 0; i < 10; i++) {
      await addArticle(`Large ${i}`, "x".repeat(5000));
      expect(titles(await quick.take(1))).toEqual([`Large ${i}`]);
    }
    expect(() => slow.take()).toThrow(MISSED);
    await expect(slow.wait()).rejects.toThrow(MISSED);
  });

  // Several processes cannot hold it back.
  test.skipIf(mode === "shared")(
    "a transaction that is larger than what is kept reaches a slow reader whole, which holds back the stream",
    async () => {
      const feed = await start({ maxBytes: 100_000 });
      const inserted = await subscribe(feed, { table: "comments", operation: "INSERT" });
      await dba(`insert into comments (article_id, author_id, content)
      select 1, 1, i || repeat('x', 1000) from generate_series(1, 1000) as i`);
      for (let i = 1; i <= 1000; i += 50) {
        const contents = (await inserted.take(50)).map((change) => Number.parseInt(rowOf(change).content!, 10));
        expect(contents).toEqual(Array.from({ length: 50 }, (_, n) => i + n));
      }
    },
  );

  test("a reader continues after the position of another, without a gap or a duplicate", async () => {
    const feed = await start();
    const first = await subscribe(feed, { table: "articles", operation: "INSERT" });
    await dba(`insert into articles (author_id, title, content)
      select 1, 'Article ' || i, 'Some text.' from generate_series(1, 10) as i`);
    const changes = await first.take(10);
    for (const [i, { position }] of changes.entries()) {
      const since = feed.startOf(feed.textOf(position))!;
      const again = await subscribe(feed, { table: "articles", operation: "INSERT" }, since);
      expect(titles(await again.take(9 - i))).toEqual(titles(changes.slice(i + 1)));
      again.reader.close();
    }
  });

  test("a reader that starts at a snapshot gets exactly what the snapshot does not see", async () => {
    const feed = await start();
    const before = await subscribe(feed, { table: "comments" });
    const position = before.reader.position;
    const [seen, unseen] = [await psql(), await psql()];
    const insert = "insert into comments (article_id, author_id, content) values (1, 1, $1)";
    for (const writer of [seen, unseen]) await writer.query("begin");
    await unseen.query(insert, ["committed after the snapshot"]);
    await seen.query(insert, ["committed before the snapshot"]);
    await seen.query("commit");
    const [{ snapshot }] = await dba("select pg_current_snapshot()::text as snapshot");
    await dba(insert, "begun after the snapshot");
    await unseen.query("commit");
    await before.take(3);
    const text = feed.textOf({ ...position, snapshot: parseSnapshot(snapshot) });
    const reader = await subscribe(feed, { table: "comments" }, feed.startOf(text)!);
    const contents = (await reader.take(2)).map((change) => rowOf(change).content);
    expect(contents).toEqual(["begun after the snapshot", "committed after the snapshot"]);
  });

  test("a position that is no longer kept, or that another server has given, is refused as a gap", async () => {
    const feed = await start({ maxBytes: 5000 });
    const inserted = await subscribe(feed, { table: "articles", operation: "INSERT" });
    const old = feed.textOf(inserted.reader.position);
    for (let i = 0; i < 3; i++) {
      await addArticle(`Large ${i}`, "x".repeat(5000));
      await inserted.take(1);
    }
    expect(() => feed.read({ since: feed.startOf(old)! })).toThrow(MISSED);
    const foreign = feed.textOf(inserted.reader.position).replace(/^\w+/, "another");
    expect(() => feed.read({ since: feed.startOf(foreign)! })).toThrow(MISSED);
    for (const malformed of ["", "x", "1-2", "1-2-3-4", "1-2-Z", "a-b-c-d-e-f"])
      expect(feed.startOf(malformed)).toBeNull();
  });

  test("a change of the table's columns is followed", async () => {
    await dba("create table if not exists followed (id int primary key, first text)");
    await dba("alter publication content_changes add table followed");
    onTestFinished(async () => void (await dba("drop table followed")));
    const feed = await start();
    const inserted = await subscribe(feed, { table: "followed", operation: "INSERT" });
    await dba("insert into followed values (1, 'a')");
    await dba("alter table followed rename first to renamed; alter table followed add column second int");
    await dba("insert into followed values (2, 'b', 3)");
    const changes = await inserted.take(2);
    // Subscribers get the names of the catalog, by the numbers.
    expect(changes.map(rowOf)).toEqual([
      { id: "1", first: "a" },
      { id: "2", renamed: "b", second: "3" },
    ]);
    expect(changes.map(({ table }) => table.columns.map(({ number }) => number))).toEqual([
      [1, 2],
      [1, 2, 3],
    ]);
  });
});

test("changes that follow DDL are received when the listeners know it, also in its own transaction", async () => {
  const feed = await startFeed(database, "logical");
  const before = await subscribe(feed, { table: "articles", operation: "INSERT" });
  const changes = await subscribe(feed, { table: "articles", operation: "INSERT" });
  const known: string[][] = [];
  feed.onSchemaChange(async () => {
    const received = titles(before.reader.take());
    const rows = await dba("select tablename from pg_tables where tablename like 'ddl%' order by 1");
    known.push([...received.map(String), ...rows.map(({ tablename }) => tablename)]);
  });
  await dba(`begin; insert into articles (author_id, title, content) values (1, 'Before the DDL', '-');
    create table ddl_1 (id int primary key); create table ddl_2 (id int primary key);
    insert into articles (author_id, title, content) values (1, 'After the DDL', '-'); commit`);
  expect(titles(await changes.take(2))).toEqual(["Before the DDL", "After the DDL"]);
  // The two statements are waited for once.
  expect(known).toEqual([["Before the DDL", "ddl_1", "ddl_2"]]);
  await dba("drop table ddl_1, ddl_2");
});

test("changes are kept for a time, too", () => {
  const ring = new Ring(1_000_000, 300_000);
  for (const second of [1, 200, 302])
    ring.add({ position: { lsn: BigInt(second), index: 1 } } as Change, 100, undefined, second * 1000);
  expect([ring.start, ring.next - ring.oldest]).toEqual([{ lsn: 1n, index: 1 }, 2]);
});

describe("a lost connection to the database", () => {
  const loseConnection = () =>
    dba(`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'content-service changes' and datname = current_database()`);
  const slots = () =>
    dba("select count(*)::int as count from pg_replication_slots where database = current_database()");

  test("is restored, and readers receive what was committed meanwhile, once and in order", async () => {
    const feed = await startFeed(database, "logical", { instance: "restored" });
    onTestFinished(async () => {
      await feed.close();
      await dba(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()",
      );
    });
    const inserted = await subscribe(feed, { table: "articles", operation: "INSERT" });
    const expected: string[] = [];
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < 20; i++) {
        expected.push(`Round ${round}, article ${i}`);
        await addArticle(expected.at(-1)!);
        if (i === 10) await loseConnection();
      }
    }
    expect(titles(await inserted.take(100))).toEqual(expected);
  });

  test("is a gap with a temporary slot, and later readers receive changes again", async () => {
    const feed = await startFeed(database, "logical");
    const lost = await subscribe(feed, { table: "articles", operation: "INSERT" });
    await loseConnection();
    await expect(lost.take(1)).rejects.toThrow(MISSED);
    const again = await subscribe(feed, { table: "articles", operation: "INSERT" });
    await addArticle("After the loss");
    expect(titles(await again.take(1))).toEqual(["After the loss"]);
  });

  test("refuses new readers when it lasts too long, with an error that asks to try again", async () => {
    const source = logicalSource({ url: "postgres://nowhere@127.0.0.1:1/nothing" }, slotOf(1, ""));
    const feed = new ChangeFeed({ source, maxBytes: 1_000_000, openTimeout: 1 });
    onTestFinished(() => feed.close());
    await expect(feed.open()).rejects.toThrow("changes are not available at the moment: try again");
    await expect(new ChangeFeed({ source: null, maxBytes: 1, openTimeout: 1 }).open()).rejects.toThrow(
      expect.objectContaining({ reason: "changes unavailable" }),
    );
  });

  test("leaves no temporary slot behind, even if the slot waits for other transactions", async () => {
    const running = await psql();
    await running.query("begin; select pg_current_xact_id()");
    const waiting = await startFeed(database, "logical");
    await expect.poll(async () => (await slots())[0].count).toBe(1);
    await waiting.close();
    expect(await slots()).toEqual([{ count: 0 }]);
    await running.query("rollback");
  });

  test("leaves no temporary slot behind when the feed is closed", async () => {
    const feed = await startFeed(database, "logical");
    await subscribe(feed, { table: "articles" });
    await feed.close();
    expect(await slots()).toEqual([{ count: 0 }]);
  });
});
