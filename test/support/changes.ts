import type pg from "pg";
import { onTestFinished } from "vitest";
import type { Change } from "../../db/changes/change.ts";
import { changesPool, PUBLICATION } from "../../db/changes/changes-config.ts";
import { ChangeFeed } from "../../db/changes/feed.ts";
import { LogicalSource } from "../../db/changes/logical.ts";
import type { Start } from "../../db/changes/position.ts";
import type { ChangeReader } from "../../db/changes/reader.ts";
import { type ReplicationSlot, sharedSlotOf, slotOf } from "../../db/changes/replication-slot.ts";
import { SharedSource, type SharedSourceOptions } from "../../db/changes/shared.ts";
import type { SharedLog } from "../../db/changes/shared-log.ts";
import { createLog } from "../../gate/pipeline/log.ts";
import { Redis } from "../../gate/process/redis.ts";
import { RedisLog } from "../../gate/process/redis-log.ts";
import type { TestDatabase } from "./database.ts";

export type FeedOptions = { readonly maxBytes?: number; readonly instance?: string; readonly redis?: string };
/** "logical": by a replication slot of its own. "shared": through a server of Redis. */
export type FeedMode = "logical" | "shared";

/** A service publishes what callers may read; without one, this publishes articles and comments. */
export const PUBLISH =
  "select changes.publish_table(name) from unnest(array['public.articles', 'public.comments']::regclass[]) as name";

/** A feed of the committed changes of articles, comments, and what else is published in `database`, read as the owner. */
export async function startFeed(
  database: TestDatabase,
  mode: FeedMode,
  { maxBytes = 1_000_000, instance = "", redis = "" }: FeedOptions = {},
): Promise<ChangeFeed> {
  await database.owner.query(PUBLISH);
  const { rows } = await database.owner.query("select oid from pg_database where datname = current_database()");
  const source =
    mode === "shared"
      ? (await sharedSource(database, redis)).source
      : logicalSource(database, slotOf(rows[0].oid, instance));
  // A replication slot is created after all running transactions of the cluster, also those of other test files.
  const feed = new ChangeFeed({ source, maxBytes, openTimeout: 60_000 });
  onTestFinished(() => feed.close());
  return feed;
}

/** The connections of a source, which are closed at the end of the test. */
export function poolOf(url: string): pg.Pool {
  const pool = changesPool({ url, manager: "service" }, () => {});
  onTestFinished(() => pool.end());
  return pool;
}

export const logicalSource = ({ url }: Pick<TestDatabase, "url">, slot: ReplicationSlot): LogicalSource =>
  new LogicalSource({
    ...{ connectionString: url, pool: poolOf(url) },
    slot,
    publication: PUBLICATION,
    hasInstances: true,
    onError: () => {},
    onWarning: () => {},
  });

/** The source of one of several processes that share what one of them reads. Its connection to Redis ends with the test. */
export async function sharedSource(
  { url }: Pick<TestDatabase, "url">,
  redisUrl: string,
  { maxBytes = 64_000_000, ...options }: Partial<SharedSourceOptions> = {},
) {
  const redis = await Redis.open({
    url: redisUrl,
    prefix: `content:{${new URL(url).pathname}}`,
    log: createLog("silent"),
  });
  onTestFinished(() => redis.close());
  const log: SharedLog = new RedisLog({ redis, publication: PUBLICATION, maxBytes });
  const source = new SharedSource({
    ...{ connectionString: url, pool: poolOf(url), maxBytes, log },
    slot: sharedSlotOf(1, new URL(url).pathname),
    publication: PUBLICATION,
    hasInstances: true,
    onError: () => {},
    onWarning: () => {},
    onTable: () => null,
    ...options,
  });
  return { source, log };
}

/** What the reader of a test wants to see. */
export type Wanted = { readonly table: string; readonly operation?: Change["operation"]; readonly id?: string };

/** The changes of one table, from now on or since a position. */
export class Changes {
  readonly reader: ChangeReader;
  readonly #wanted: Wanted;
  readonly #taken: Change[] = [];

  constructor(reader: ChangeReader, wanted: Wanted) {
    this.reader = reader;
    this.#wanted = wanted;
  }

  /** The next `count` changes. */
  async take(count: number): Promise<Change[]> {
    while (this.#taken.length < count) {
      const taken = this.reader.take();
      if (this.reader.isClosed) throw new Error("the feed has been closed");
      if (taken.length === 0) await this.reader.wait();
      this.#taken.push(...taken.filter((change) => matches(change, this.#wanted)));
    }
    return this.#taken.splice(0, count);
  }
}

export async function subscribe(feed: ChangeFeed, wanted: Wanted, since?: Start): Promise<Changes> {
  await feed.open();
  return new Changes(feed.read({ since }), wanted);
}

const matches = (change: Change, { table, operation, id }: Wanted) =>
  change.table.name === table &&
  (operation === undefined || change.operation === operation) &&
  (id === undefined || rowOf(change).id === id);

/** The row after the change, or before a DELETE, by column. Columns without a value are left out. */
export function rowOf({ table, new: after, old }: Change): Record<string, string | null> {
  const image = after ?? old!;
  return Object.fromEntries(
    table.columns.flatMap(({ name }, i) => (image[i] === undefined ? [] : [[name, image[i]!]])),
  );
}

export const titles = (changes: readonly Change[]) => changes.map((change) => rowOf(change).title);
