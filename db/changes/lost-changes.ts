import { quoteIfNeeded } from "../catalog/catalog.ts";
import type { PublicationState, TableState } from "./publication-plan.ts";

/** What a subscriber who may read rows of a table does not receive. Both are sentences that say why, and what prevents it. */
export type LostChanges = {
  /** No change arrives, because it cannot be checked. Null if changes arrive. */
  readonly all: string | null;
  /** No DELETE arrives, and no UPDATE that takes a row out of the subscriber's view. Null if they arrive. */
  readonly deletes: string | null;
};

export const NOTHING_LOST: LostChanges = { all: null, deletes: null };

type Published = Pick<TableState, "name" | "relations" | "publishedColumns">;

/**
 * What is lost for subscribers whose policies and filter read these columns. The service checks them on the row of a change, and
 * of an old row it has only what the replica identity contains.
 */
export function lostChangesOf(
  table: Published,
  read: Iterable<string>,
  publication: PublicationState & { readonly name: string },
): LostChanges {
  const columns = [...new Set(read)];
  const published = new Set(table.publishedColumns);
  const unpublished = columns.filter((column) => !published.has(column));
  if (unpublished.length > 0)
    return {
      all: `the publication ${publication.name} leaves out ${unpublished.join(", ")}, without which ${READ}`,
      deletes: null,
    };
  if (!publication.publishesDeletes)
    return { all: null, deletes: `the publication ${publication.name} leaves out DELETE` };
  const missing = columns.filter((column) => table.relations.some(({ oldColumns }) => !oldColumns.includes(column)));
  if (missing.length === 0) return NOTHING_LOST;
  const fix = fixFor(table, publication);
  const advice = fix === null ? "a DBA can choose another replica identity" : `a DBA can run: ${fix}`;
  return { all: null, deletes: `old rows are logged without ${missing.join(", ")}, without which ${READ}: ${advice}` };
}

const READ = "policies or filters cannot be checked";

/** The SQL with which whole old rows are logged, and no write fails. Null if there is none. */
export function fixFor(
  { relations }: Pick<Published, "relations">,
  { name, publishesGenerated }: PublicationState & { readonly name: string },
): string | null {
  const changed = relations.filter(({ identity }) => identity !== "f");
  // With whole old rows, updates of a table with such a column fail while it is published.
  if (changed.some(({ hasVirtualColumn }) => hasVirtualColumn)) return null;
  const needsGenerated = !publishesGenerated && changed.some(({ hasStoredColumn }) => hasStoredColumn);
  return [
    ...(needsGenerated ? [`alter publication ${quoteIfNeeded(name)} set (publish_generated_columns = stored)`] : []),
    ...changed.map((relation) => `alter table ${relation.name} replica identity full`),
  ].join("; ");
}
