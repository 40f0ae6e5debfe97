import pg from "pg";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { FeedInterrupted } from "../../../db/changes/feed.ts";
import { filter, startFeed, subscribe, take } from "../../support/changes.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

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

const titles = (changes: readonly { row: Readonly<Record<string, string | null>> }[]) =>
  changes.map(({ row }) => row.title);

describe.each(["logical", "outbox"] as const)("changes read by %s", (mode) => {
  test("a new row arrives with all its columns as text", async () => {
    const inserted = await subscribe(await startFeed(database, mode), filter("articles", "INSERT"));
    await dba(
      "insert into articles (author_id, title, content, tags) values (2, 'Ünïcode \\u{1F600} \"quoted\"', 'A', '{x,\"y z\"}')",
    );
    const [change] = await take(inserted, 1);
    expect(change).toMatchObject({ schema: "public", table: "articles", operation: "INSERT" });
    expect(change!.row).toMatchObject({ author_id: "2", content: "A", status: "DRAFT", updated_at: null });
    expect(change!.row.id).toMatch(/^\d+$/);
  });

  // The rows are as before the test file, in both modes.
  beforeEach(() => dba("update articles set title = 'A title', content = 'Some text.'"));

  test("an update arrives with the new row, even with its large unchanged values", async () => {
    const updated = await subscribe(await startFeed(database, mode), filter("articles", "UPDATE", { id: "1" }));
    const large = Array.from({ length: 5000 }, (_, i) => i.toString(36)).join(" ");
    await dba("update articles set content = $1 where id = 1", large);
    await dba("update articles set title = 'A new title' where id = 1");
    const [, second] = await take(updated, 2);
    expect(second!.row).toMatchObject({ title: "A new title", content: large });
  });

  test("an update that changes no value sends nothing", async () => {
    const updated = await subscribe(await startFeed(database, mode), filter("articles", "UPDATE"));
    await dba("update articles set title = title");
    await dba("update articles set title = 'The marker' where id = 2");
    expect(titles(await take(updated, 1))).toEqual(["The marker"]);
  });

  test("a delete arrives with the old row, and so do the deletes that cascade from it", async () => {
    const feed = await startFeed(database, mode);
    const articles = await subscribe(feed, filter("articles", "DELETE"));
    const comments = await subscribe(feed, filter("comments", "DELETE"));
    const [{ id }] = await dba(
      "insert into articles (author_id, title, content) values (1, 'To be deleted', '-') returning id",
    );
    await dba("insert into comments (article_id, author_id, content) values ($1, 2, 'Gone too')", id);
    await dba("delete from articles where id = $1", id);
    expect((await take(articles, 1))[0]!.row).toMatchObject({ id, title: "To be deleted" });
    expect((await take(comments, 1))[0]!.row).toMatchObject({ article_id: id, content: "Gone too" });
  });

  test("a transaction arrives at its commit, whole and in order, and one that is rolled back does not", async () => {
    const inserted = await subscribe(await startFeed(database, mode), filter("articles", "INSERT"));
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
    expect(titles(await take(inserted, 3))).toEqual(["First of two", "Second of two", "Afterwards"]);
  });

  test("queries see the row when its change arrives", async () => {
    const feed = await startFeed(database, mode);
    const inserted = await subscribe(feed, filter("comments", "INSERT"));
    const [reader, writer] = [await psql(), await psql()];
    // Then a commit is in the log before queries see it.
    await writer.query("set synchronous_commit = on");
    for (let i = 0; i < 100; i++) {
      const written = writer.query("insert into comments (article_id, author_id, content) values (1, 1, 'Seen')");
      const [change] = await take(inserted, 1);
      const { rowCount } = await reader.query("select from comments where id = $1", [change!.row.id]);
      expect(rowCount).toBe(1);
      await written;
    }
  });

  test("a transaction that runs when the subscription starts arrives when it is committed", async () => {
    const feed = await startFeed(database, mode);
    // A replication slot cannot be created while transactions run: here it exists before.
    await subscribe(feed, filter("comments", "INSERT"));
    const running = await psql();
    await running.query("begin");
    await running.query("insert into articles (author_id, title, content) values (1, 'Begun before', '-')");
    const inserted = await subscribe(feed, filter("articles", "INSERT"));
    await running.query("commit");
    expect(titles(await take(inserted, 1))).toEqual(["Begun before"]);
  });

  test("changes before the subscription do not arrive", async () => {
    const feed = await startFeed(database, mode);
    await addArticle("Too early");
    const inserted = await subscribe(feed, filter("articles", "INSERT"));
    await addArticle("In time");
    expect(titles(await take(inserted, 1))).toEqual(["In time"]);
  });

  test("every row of a large transaction arrives, however slowly the subscriber reads", async () => {
    const feed = await startFeed(database, mode, 64_000_000);
    const inserted = await subscribe(feed, filter("articles", "INSERT"));
    await dba(`insert into articles (author_id, title, content)
      select 1, 'Article ' || i, 'Some text.' from generate_series(1, 5000) as i`);
    const changes = await take(inserted, 5000);
    expect(titles(changes)).toEqual(Array.from({ length: 5000 }, (_, i) => `Article ${i + 1}`));
  });

  test("changes of concurrent writers all arrive once, and those of one writer in order", async () => {
    const feed = await startFeed(database, mode, 64_000_000);
    const inserted = await subscribe(feed, filter("comments", "INSERT"));
    const writers = await Promise.all(Array.from({ length: 8 }, psql));
    await Promise.all(
      writers.map(async (writer, w) => {
        for (let i = 0; i < 50; i++)
          await writer.query("insert into comments (article_id, author_id, content) values (1, 1, $1)", [`${w} ${i}`]);
      }),
    );
    const contents = (await take(inserted, 400)).map(({ row }) => row.content!);
    for (const w of writers.keys()) {
      const own = contents.filter((content) => content.startsWith(`${w} `));
      expect(own).toEqual(Array.from({ length: 50 }, (_, i) => `${w} ${i}`));
    }
  });

  test("a subscriber that is overtaken by the kept changes receives an error, and the others receive everything", async () => {
    const feed = await startFeed(database, mode, 20_000);
    const slow = await subscribe(feed, filter("articles", "INSERT"));
    const quick = await subscribe(feed, filter("articles", "INSERT"));
    for (let i = 0; i < 10; i++) {
      await addArticle(`Large ${i}`, "x".repeat(5000));
      expect(titles(await take(quick, 1))).toEqual([`Large ${i}`]);
    }
    await expect(slow.next()).rejects.toThrow(FeedInterrupted);
    expect(feed.subscriptions).toBe(1);
  });

  test("a change of the table's columns is followed", async () => {
    await dba("create table if not exists followed (id int primary key, first text)");
    await dba("alter publication content_changes add table followed");
    onTestFinished(async () => void (await dba("drop table followed")));
    const feed = await startFeed(database, mode);
    const inserted = await subscribe(feed, filter("followed", "INSERT"));
    await dba("insert into followed values (1, 'a')");
    await dba("alter table followed rename first to renamed; alter table followed add column second int");
    await dba("insert into followed values (2, 'b', 3)");
    expect((await take(inserted, 2)).map(({ row }) => ({ ...row }))).toEqual([
      { id: "1", first: "a" },
      { id: "2", renamed: "b", second: "3" },
    ]);
  });
});

describe("a connection that ends", () => {
  const loseConnection = () =>
    dba(`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'content-service changes' and datname = current_database()`);

  test("unexpectedly ends the subscriptions with an error that asks to reload, and later ones receive changes again", async () => {
    const feed = await startFeed(database, "logical");
    const lost = await subscribe(feed, filter("articles", "INSERT"));
    await loseConnection();
    await expect(lost.next()).rejects.toThrow(
      "the connection to the database was lost; subscribe again and reload the data",
    );
    const again = await subscribe(feed, filter("articles", "INSERT"));
    await addArticle("After the loss");
    expect(titles(await take(again, 1))).toEqual(["After the loss"]);
  });

  test("with the feed leaves no replication slot behind, even if the slot waits for other transactions", async () => {
    const running = await psql();
    await running.query("begin; select pg_current_xact_id()");
    const waiting = await startFeed(database, "logical");
    const slots = "select count(*)::int as count from pg_replication_slots where database = current_database()";
    await expect.poll(async () => (await dba(slots))[0].count).toBe(1);
    await waiting.close();
    expect(await dba(slots)).toEqual([{ count: 0 }]);
    await running.query("rollback");
  });

  test("with the feed leaves no replication slot behind", async () => {
    const feed = await startFeed(database, "logical");
    await subscribe(feed, filter("articles", "INSERT"));
    await feed.close();
    const slots = "select count(*)::int as count from pg_replication_slots where database = current_database()";
    expect(await dba(slots)).toEqual([{ count: 0 }]);
  });
});

test("the outbox holds nothing with logical decoding, and its triggers exist only without", async () => {
  await startFeed(database, "logical");
  await addArticle("Not recorded");
  expect(await dba("select from changes.outbox where changed ->> 'title' = 'Not recorded'")).toEqual([]);
  await dba("select changes.use_outbox(true)");
  await addArticle("Recorded");
  expect(await dba("select operation from changes.outbox where changed ->> 'title' = 'Recorded'")).toEqual([
    { operation: "INSERT" },
  ]);
});

test("callers can neither read nor write the outbox", async () => {
  for (const role of ["anon", "authenticated", "admin", "service_role"]) {
    await expect(dba(`begin; set local role ${role}; select from changes.outbox`)).rejects.toMatchObject({
      code: "42501",
    });
    await dba("rollback");
  }
});
