import type { ChangeFeed } from "../../db/changes/feed.ts";
import type { Header } from "./endpoint.ts";

/**
 * The position in the changes that follow a read: a subscriber that starts there misses nothing and gets nothing twice. `mark` was
 * read before the query, and `snapshot` is its pg_current_snapshot(). No header if either is missing.
 */
export function positionHeader(
  feed: Pick<ChangeFeed, "textAfter">,
  mark: ChangeFeed["mark"],
  snapshot: Buffer | null | undefined,
): Header[] {
  const text = mark && snapshot ? feed.textAfter(mark, snapshot.toString()) : null;
  return text === null ? [] : [["Change-Position", text]];
}
