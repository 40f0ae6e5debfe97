import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type ScratchCluster, startScratchCluster } from "../../../cli/scratch-cluster.ts";
import { PUBLICATION } from "../../../db/changes/changes-config.ts";
import { ChangeFeed } from "../../../db/changes/feed.ts";
import { LogicalSource, type LogicalSourceOptions } from "../../../db/changes/logical.ts";
import { Publication } from "../../../db/changes/publication.ts";
import { Acknowledgement, SlotHeartbeats, slotOf } from "../../../db/changes/replication-slot.ts";
import { startCluster } from "../../../db/cluster/embedded.ts";
import { within } from "../../../db/repeat.ts";
import { Changes, PUBLISH, poolOf, titles } from "../../support/changes.ts";
import { makeTemplate, TEMPLATE } from "../../support/cluster.ts";
import { POLL } from "../../support/until.ts";

const MISSED = expect.objectContaining({ reason: "changes missed" });

/** Its settings change, and it is restarted. */
let cluster: ScratchCluster;
let url: string;
let owner: pg.Client;

beforeAll(async () => {
  cluster = await startScratchCluster();
  await makeTemplate(cluster.url("postgres"), cluster.url(TEMPLATE));
  url = cluster.url(TEMPLATE);
  owner = await connected();
  await dba(PUBLISH);
});
afterAll(async () => {
  await owner.end();
  await cluster.remove();
});

async function connected(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  return client;
}

const dba = async (sql: string, ...values: unknown[]) => (await owner.query(sql, values)).rows;

const addArticle = (title: string) =>
  dba("insert into articles (author_id, title, content) values (1, $1, 'Some text.')", title);

const slots = async () =>
  (await dba("select slot_name from pg_replication_slots order by 1")).map((row) => row.slot_name);

/** The feed of an instance; `crash` ends it as SIGKILL would, with the changes since the last acknowledgement in its slot. */
function startInstance(
  instance: string,
  { followed = null, ...options }: Partial<LogicalSourceOptions & { followed: Publication | null }> = {},
) {
  const warnings: string[] = [];
  const source = new LogicalSource({
    ...{ connectionString: url, pool: poolOf(url) },
    slot: slotOf(1, instance),
    publication: PUBLICATION,
    hasInstances: true,
    onError: () => {},
    onWarning: (warning) => warnings.push(warning),
    ...options,
  });
  const feed = new ChangeFeed({ source, publication: followed, maxBytes: 1_000_000, openTimeout: 60_000 });
  onTestFinished(async () => {
    await feed.close();
    await dba(
      "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1",
      slotOf(1, instance).name,
    );
  });
  return { feed, warnings };
}

test("a restarted instance continues where its subscribers are, without a loss", async () => {
  const first = startInstance("restarted").feed;
  await first.open();
  const before = new Changes(first.read(), { table: "articles" });
  await addArticle("Seen before the restart");
  const [seen] = await before.take(1);
  await addArticle("Unseen before the restart");
  const position = first.textOf(seen!.position);
  await first.close();
  await addArticle("Committed meanwhile");

  const second = startInstance("restarted").feed;
  await second.open();
  const after = new Changes(second.read({ since: second.startOf(position)! }), { table: "articles" });
  await addArticle("Committed afterwards");
  expect(titles(await after.take(3))).toEqual([
    "Unseen before the restart",
    "Committed meanwhile",
    "Committed afterwards",
  ]);
});

/** The publication of a process that publishes what the role anon may read. */
const publicationOfProcess = () =>
  new Publication({
    ...{ pool: poolOf(url), name: PUBLICATION, manager: "service", schemas: ["public"], logins: ["anon"] },
    ...{ onError: () => {}, onChange: () => {}, onWarning: () => {} },
  });

const CRATES = "create table crates (id int primary key, note text); grant select on crates to anon;";

test("a reader of a table that has just been published resumes at its position without a gap", async () => {
  const followed = publicationOfProcess();
  const { feed } = startInstance("just", { followed });
  await feed.open();
  // What has arrived is behind what is published, more often than not.
  for (let i = 0; i < 20; i++) {
    const tables = [{ schema: "public", name: `just_${i}` }];
    await dba(`create table just_${i} (id int primary key); grant select on just_${i} to anon`);
    feed.followSchema();
    await expect.poll(async () => (await feed.lostChanges(tables[0]!, new Set(["id"]))).all, POLL).toBeNull();
    const { position } = feed.read({ tables });
    await dba(`insert into just_${i} values (1)`);
    const resumed = feed.read({ since: feed.startOf(feed.textOf(position))!, tables });
    expect(await new Changes(resumed, { table: `just_${i}` }).take(1)).toMatchObject([{ operation: "INSERT" }]);
    resumed.close();
  }
});

test.each([
  ["nothing", "select", false],
  ["that other tables were created", "create table bins (id int); grant select on bins to anon", false],
  ["that its table was altered", "alter table crates rename note to remark; grant select on crates to public", false],
  ["that its table was created again", `drop table crates; ${CRATES}`, true],
  ["that another table got its name", "alter table crates rename to old; alter table spare rename to crates", true],
  ["that its table was not published for some time", "alter publication content_changes drop table crates", true],
])("%s between a position and the start of the next process: it knows what is missing", async (_, ddl, isMissing) => {
  await dba(`drop table if exists crates, old, bins, spare;
    ${CRATES} create table spare (like crates); grant select on spare to anon`);
  const table = { schema: "public", name: "crates" };
  const first = startInstance("moved", { followed: publicationOfProcess() }).feed;
  await first.open();
  const before = new Changes(first.read(), { table: "crates" });
  await dba("insert into crates values (1)");
  const [seen] = await before.take(1);
  const positions = [
    first.textOf(seen!.position),
    first.textAfter(first.mark!, (await dba("select pg_current_snapshot()::text as snapshot"))[0].snapshot)!,
  ];
  await first.close();
  await dba(`${ddl}; insert into crates values (2)`);
  await dba("insert into crates values (3)");

  const second = startInstance("moved", { followed: publicationOfProcess() }).feed;
  await second.open();
  for (const position of positions) {
    const read = () => second.read({ since: second.startOf(position)!, tables: [table] });
    if (isMissing) expect(read).toThrow(MISSED);
    else {
      const [received] = await new Changes(read(), { table: "crates" }).take(1);
      expect(received).toMatchObject({ operation: "INSERT" });
      // The connection is lost again while it catches up.
      const since = second.startOf(second.textOf(received!.position))!;
      const again = new Changes(second.read({ since, tables: [table] }), { table: "crates", id: "3" });
      expect(await again.take(1)).toMatchObject([{ operation: "INSERT" }]);
    }
  }
  // A position of this process: nothing is missing after it.
  await dba("insert into crates values (4)");
  const after = new Changes(second.read(), { table: "crates", id: "5" });
  await dba("insert into crates values (5)");
  const [next] = await after.take(1);
  const resumed = second.read({ since: second.startOf(second.textOf(next!.position))!, tables: [table] });
  expect(resumed.take()).toEqual([]);
});

test("a second instance with the same name waits until the first has ended, and says why", async () => {
  const first = startInstance("twice").feed;
  await first.open();
  const second = startInstance("twice").feed;
  await expect
    .poll(() => second.health)
    .toMatchObject({ state: "disconnected", reason: expect.stringContaining("INSTANCE_ID must be unique") });
  await first.close();
  await second.open();
});

test("two instances give the same change the same position", async () => {
  const feeds = [startInstance("one").feed, startInstance("other").feed];
  await Promise.all(feeds.map((feed) => feed.open()));
  const readers = feeds.map((feed) => new Changes(feed.read(), { table: "articles" }));
  await dba(
    "insert into articles (author_id, title, content) select 1, 'Article ' || i, '-' from generate_series(1, 3) as i",
  );
  const [one, other] = await Promise.all(readers.map((reader) => reader.take(3)));
  expect(one!.map(({ position }) => feeds[0]!.textOf(position))).toEqual(
    other!.map(({ position }) => feeds[1]!.textOf(position)),
  );
});

test("a restart of the database is invisible to readers, who receive everything once and in order", async () => {
  const { feed } = startInstance("survivor");
  await feed.open();
  const changes = new Changes(feed.read(), { table: "articles" });
  for (let i = 0; i < 10; i++) await addArticle(`Before ${i}`);
  await cluster.stop();
  const { port } = cluster;
  const restarted = await startCluster({ dataDir: cluster.dataDir, password: "scratch", durable: false, port });
  cluster = { ...cluster, ...restarted, remove: cluster.remove };
  owner = await connected();
  for (let i = 0; i < 10; i++) await addArticle(`After ${i}`);
  const numbers = Array.from({ length: 10 }, (_, i) => i);
  expect(titles(await changes.take(20))).toEqual([
    ...numbers.map((i) => `Before ${i}`),
    ...numbers.map((i) => `After ${i}`),
  ]);
});

describe("the slots of instances that are gone", () => {
  test("are dropped after ten minutes without a heartbeat", async () => {
    await dba("select pg_create_logical_replication_slot('content_1_dead', 'pgoutput')");
    await dba("select pg_create_logical_replication_slot('content_1_quiet', 'pgoutput')");
    await dba("select pg_create_logical_replication_slot('somebody_else', 'pgoutput')");
    await dba(`insert into changes.instances values
      ('content_1_dead', now() - interval '11 minutes'), ('content_1_quiet', now() - interval '9 minutes'),
      ('content_1_missing', now() - interval '1 hour')`);
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    onTestFinished(() => pool.end());
    const dropped: string[] = [];
    await new SlotHeartbeats(pool, pool, "content_1_alive", (slot) => dropped.push(slot)).beat();
    expect(dropped).toEqual(["content_1_dead"]);
    expect(await slots()).toEqual(["content_1_quiet", "somebody_else"]);
    expect(await dba("select slot from changes.instances where slot like 'content_1_%' order by 1")).toEqual(
      expect.arrayContaining([{ slot: "content_1_alive" }, { slot: "content_1_quiet" }]),
    );
    await dba("select pg_drop_replication_slot(slot_name) from pg_replication_slots");
  });

  test("that another instance uses are waited for without an error, and named in one warning if that lasts", async () => {
    const errors: Error[] = [];
    const first = startInstance("shared");
    await first.feed.open();
    const second = startInstance("shared", { onError: (error) => errors.push(error) });
    void second.feed.open().catch(() => {});
    const warning = expect.stringMatching(
      /^the replication slot content_1_shared is in use: INSTANCE_ID must be unique/,
    );
    await expect.poll(() => second.warnings, POLL).toEqual([warning]);
    await first.feed.close();
    await second.feed.open();
    expect(errors).toEqual([]);
  });

  test("are kept while they are in use, whatever the heartbeat says", async () => {
    const { feed } = startInstance("active");
    await feed.open();
    await dba("update changes.instances set seen_at = '2000-01-01' where slot = 'content_1_active'");
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    onTestFinished(() => pool.end());
    await new SlotHeartbeats(pool, pool, "content_1_other", () => {}).beat();
    expect(await slots()).toContain("content_1_active");
  });
});

describe("a slot whose write-ahead log the server has dropped", () => {
  test("is created again, and readers receive an error instead of missing changes silently", async () => {
    const { feed } = startInstance("lost");
    await feed.open();
    const reader = feed.read();
    const { position } = reader;
    await feed.close();
    await dba("alter system set max_slot_wal_keep_size = '1MB'");
    await dba("select pg_reload_conf()");
    onTestFinished(async () => {
      await dba("alter system reset max_slot_wal_keep_size");
      await dba("select pg_reload_conf()");
    });
    await expect
      .poll(async () => {
        await dba("select pg_switch_wal()");
        await dba("checkpoint");
        await addArticle("Write-ahead log");
        return (await dba("select wal_status from pg_replication_slots where slot_name = 'content_1_lost'"))[0]
          .wal_status;
      })
      .toBe("lost");

    const again = startInstance("lost").feed;
    await again.open();
    expect(() => again.read({ since: again.startOf(feed.textOf(position))! })).toThrow(MISSED);
    const changes = new Changes(again.read(), { table: "articles" });
    await addArticle("Received");
    expect(titles(await changes.take(1))).toEqual(["Received"]);
  });

  test("is avoided by a warning at the start, if the server keeps it without a limit", async () => {
    const { feed, warnings } = startInstance("unlimited");
    await feed.open();
    await expect.poll(() => warnings).toEqual([expect.stringContaining("alter system set max_slot_wal_keep_size")]);
  });
});

test("a publication that a DBA drops and creates again is read again", async () => {
  await dba("create publication recreated for table articles");
  const { feed } = startInstance("recreated", { publication: "recreated" });
  await feed.open();
  await dba("drop publication recreated");
  await addArticle("Unheard");
  await dba("create publication recreated for table articles");
  // PostgreSQL 15 to 17 cannot read past the change without a publication: there, it is a gap.
  const heard = async () => {
    await feed.open();
    const reader = feed.read();
    await addArticle("Heard");
    await within(1000, reader.wait());
    return titles(reader.take()).at(-1);
  };
  await expect.poll(() => heard().catch(() => null)).toBe("Heard");
});

test("the socket is paused while readers are behind, and the connection lives", async () => {
  await dba("alter system set wal_sender_timeout = '3s'");
  await dba("select pg_reload_conf()");
  onTestFinished(async () => {
    await dba("alter system reset wal_sender_timeout");
    await dba("select pg_reload_conf()");
  });
  const { feed } = startInstance("paused");
  await feed.open();
  const changes = new Changes(feed.read(), { table: "comments" });
  await dba(`insert into comments (article_id, author_id, content)
    select 1, 1, i || repeat('x', 5000) from generate_series(1, 4000) as i`);
  const writer = await connected();
  onTestFinished(() => writer.end());
  const sender = "select pid from pg_stat_replication where application_name = 'content-service changes'";
  const [{ pid }] = await dba(sender);
  // The ring has 1 MB; the server's timeout passes while nothing is taken.
  await writer.query("select pg_sleep(4)");
  expect(feed.health).toMatchObject({ ring: { bytes: expect.any(Number) } });
  expect((feed.health as { ring: { bytes: number } }).ring.bytes).toBeLessThan(1_000_000);
  expect(await dba(sender)).toEqual([{ pid }]);
  expect(await changes.take(4000)).toHaveLength(4000);
});

test("the first reader of a slot does not receive what was written long before, although the slot is moved seldom", async () => {
  const { feed } = startInstance("moved");
  /** The instance looks at the slot every two seconds. */
  const hasSeenAll = async () => {
    const [{ lsn }] = await dba("select pg_current_wal_insert_lsn() - '0/0' as lsn");
    await expect.poll(() => feed.mark?.position?.lsn ?? 0n).toBeGreaterThanOrEqual(BigInt(lsn));
  };
  await hasSeenAll();
  await addArticle("Long before");
  await hasSeenAll();
  await dba("select pg_logical_emit_message(false, 'test', repeat('x', 100000000))");
  await hasSeenAll();
  await feed.open();
  const changes = new Changes(feed.read(), { table: "articles" });
  await addArticle("After the beginning");
  await changes.take(1);
  expect(feed.health).toMatchObject({ received: { INSERT: 1 } });
});

test("health shows mode, slot, lag, and what is kept", async () => {
  const { feed } = startInstance("healthy");
  expect(feed.health).toMatchObject({ state: "disconnected", reason: "it has not connected yet" });
  await expect.poll(() => feed.health).toMatchObject({ state: "resting" });
  await feed.open();
  const changes = new Changes(feed.read(), { table: "articles" });
  await addArticle("Counted");
  await dba("update articles set title = 'Counted again' where title = 'Counted'");
  await dba("delete from articles where title = 'Counted again'");
  await changes.take(3);
  await expect
    .poll(() => feed.health)
    .toEqual({
      state: "streaming",
      slot: { name: "content_1_healthy", temporary: false, wal: "reserved" },
      lag: { bytes: expect.any(Number), seconds: 0 },
      subscriptions: 0,
      readers: 1,
      ring: { changes: 3, bytes: expect.any(Number), seconds: expect.any(Number) },
      received: { INSERT: 1, UPDATE: 1, DELETE: 1, TRUNCATE: 0 },
      gaps: 0,
    });
});

describe("the acknowledgement stays behind the stream", () => {
  const limits = { maxAge: 60_000, maxBytes: 1000n };

  test("by a time", () => {
    const acknowledgement = new Acknowledgement(limits);
    const reached = [0, 30, 60, 61, 90, 91, 200].map((second) => acknowledgement.reach(BigInt(second), second * 1000));
    expect(reached).toEqual([0n, 0n, 0n, 0n, 0n, 30n, 91n].map((lsn, i) => (i === 3 ? 0n : lsn)));
  });

  test("by a number of bytes, if that is reached earlier", () => {
    const acknowledgement = new Acknowledgement(limits);
    expect([0n, 500n, 1000n, 1501n, 3000n].map((lsn) => acknowledgement.reach(lsn, 0))).toEqual([
      0n,
      0n,
      0n,
      500n,
      1501n,
    ]);
  });

  test("and never precedes what has been read, when the stream begins again at an earlier position", () => {
    const acknowledgement = new Acknowledgement(limits);
    acknowledgement.reach(5000n, 0);
    expect(acknowledgement.reach(100n, 70_000)).toBe(100n);
  });
});

test("a slot without a reader is moved at most every 15 seconds, because each move reads the write-ahead log again", () => {
  const acknowledgement = new Acknowledgement({ maxAge: 60_000, maxBytes: 1000n });
  const due = [0, 2, 14, 15, 17, 29, 30].filter((second) => acknowledgement.isMoveDue(second * 1000));
  expect(due).toEqual([0, 15, 30]);
});

test("a server whose commits would wait for the service is not read until it names its standbys", async () => {
  const { feed } = startInstance("synchronous");
  await feed.open();
  const reset = async () => {
    await dba("alter system reset synchronous_standby_names");
    await dba("select pg_reload_conf()");
  };
  onTestFinished(reset);
  await dba("alter system set synchronous_standby_names = '*'");
  await dba("select pg_reload_conf()");
  await expect
    .poll(() => feed.health)
    .toMatchObject({ state: "disconnected", reason: expect.stringContaining("synchronous_standby_names has *") });
  await reset();
  await feed.open();
  const changes = new Changes(feed.read(), { table: "articles" });
  await addArticle("Asynchronous");
  expect(titles(await changes.take(1))).toEqual(["Asynchronous"]);
});
