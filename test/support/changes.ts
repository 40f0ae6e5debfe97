import { expect, onTestFinished } from "vitest";
import { type Change, ChangeFeed, type ChangeFilter } from "../../db/changes/feed.ts";
import { LogicalSource } from "../../db/changes/logical.ts";
import { type ChangeMode, prepareChanges } from "../../db/changes/mode.ts";
import { OutboxSource } from "../../db/changes/outbox.ts";
import type { TestDatabase } from "./database.ts";

/** A feed of the committed changes of `database`, read as the owner. */
export async function startFeed(database: TestDatabase, mode: ChangeMode, maxBytes = 1_000_000): Promise<ChangeFeed> {
  if (mode === "logical") await prepareChanges(database.owner, "postgres");
  else await database.owner.query("select changes.use_outbox(true)");
  const Source = mode === "logical" ? LogicalSource : OutboxSource;
  const source = new Source({ connectionString: database.url, onError: () => {} });
  const feed = new ChangeFeed({ source, maxBytes });
  onTestFinished(() => feed.close());
  return feed;
}

export const filter = (table: string, operation: Change["operation"], where: ChangeFilter["where"] = {}) =>
  ({ schema: "public", table, operation, where }) satisfies ChangeFilter;

/** A subscription that receives every change from now on. */
export async function subscribe(feed: ChangeFeed, wanted: ChangeFilter): Promise<AsyncIterableIterator<Change>> {
  const before = feed.subscriptions;
  const changes = feed.subscribe(wanted);
  await expect.poll(() => feed.subscriptions, { interval: 5, timeout: 10_000 }).toBe(before + 1);
  return changes;
}

/** The next `count` changes. */
export async function take(changes: AsyncIterableIterator<Change>, count: number): Promise<Change[]> {
  const taken: Change[] = [];
  while (taken.length < count) {
    const { value, done } = await changes.next();
    if (done) break;
    taken.push(value);
  }
  return taken;
}
