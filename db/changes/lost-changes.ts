import { quoteIfNeeded } from "../catalog/catalog.ts";
import { type Obstacle, publishGenerated } from "./publication-plan.ts";
import type { PublicationState, TableState } from "./publication-state.ts";

/** What a subscriber who may read rows of a table does not receive. Both are sentences that say why, and what prevents it. */
export type LostChanges = {
  /** No change arrives, because it cannot be checked. Null if changes arrive. */
  readonly all: string | null;
  /** No DELETE arrives, and no UPDATE that takes a row out of the subscriber's view. Null if they arrive. */
  readonly deletes: string | null;
};

export const NOTHING_LOST: LostChanges = { all: null, deletes: null };

type Published = Pick<TableState, "name" | "relations" | "columns" | "publishedColumns" | "generatedColumns">;

/**
 * What is lost for subscribers whose policies and filter read these columns. The service checks them on the row of a change, and
 * of an old row it has only what the replica identity contains.
 */
export function lostChangesOf(table: Published, read: Iterable<string>, publication: PublicationState): LostChanges {
  const loss = lossOf(table, read, publication);
  if (loss === null) return NOTHING_LOST;
  const { reason, advice, isSql } = loss;
  const text = advice === "" ? reason : `${reason}: ${isSql ? `a DBA can run: ${advice}` : advice}`;
  return loss.isAll ? { all: text, deletes: null } : { all: null, deletes: text };
}

/** The same as its parts. Null if nothing is lost. */
export function lossOf(
  table: Published,
  read: Iterable<string>,
  publication: PublicationState,
): (Obstacle & { /** Whether no change arrives at all. */ readonly isAll: boolean }) | null {
  const columns = [...new Set(read)];
  const gone = columns.filter((column) => !table.columns.includes(column));
  if (gone.length > 0) {
    const reason = `${table.name} no longer has ${gone.join(", ")}, without which ${READ}`;
    return { reason, advice: "", isSql: false, isAll: true };
  }
  const published = new Set(table.publishedColumns);
  const unpublished = columns.filter((column) => !published.has(column));
  if (unpublished.length > 0) {
    const reason = `the publication ${publication.name} leaves out ${unpublished.join(", ")}, without which ${READ}`;
    const sql = publishSql(table, unpublished, publication);
    return { reason, advice: sql ?? "", isSql: sql !== null, isAll: true };
  }
  if (!publication.publishesDeletes)
    return { reason: `the publication ${publication.name} leaves out DELETE`, advice: "", isSql: false, isAll: false };
  const missing = columns.filter((column) => table.relations.some(({ oldColumns }) => !oldColumns.includes(column)));
  if (missing.length === 0) return null;
  const reason = `old rows are logged without ${missing.join(", ")}, without which ${READ}`;
  const sql = identitySql(table, publication);
  return { reason, advice: sql ?? "a DBA can choose another replica identity", isSql: sql !== null, isAll: false };
}

const READ = "policies or filters cannot be checked";

/** The SQL with which these columns are published too. Null if there is none, as for a generated column before PostgreSQL 18. */
function publishSql({ name, generatedColumns }: Published, columns: readonly string[], publication: PublicationState) {
  const generated = columns.filter((column) => generatedColumns.includes(column));
  if (generated.length === columns.length)
    return publication.publishesGenerated ? null : publishGenerated(publication.name);
  if (generated.length > 0) return null;
  const its = `alter publication ${quoteIfNeeded(publication.name)}`;
  return `${its} drop table ${name}; ${its} add table ${name}`;
}

/** The SQL with which whole old rows are logged, and no write fails. Null if there is none. */
function identitySql({ relations }: Published, { name, publishesGenerated }: PublicationState): string | null {
  const changed = relations.filter(({ identity }) => identity !== "f");
  // With whole old rows, updates of a table with such a column fail while it is published.
  if (changed.some(({ hasVirtualColumn }) => hasVirtualColumn)) return null;
  const needsGenerated = !publishesGenerated && changed.some(({ hasStoredColumn }) => hasStoredColumn);
  return [
    ...(needsGenerated ? [publishGenerated(name)] : []),
    ...changed.map((relation) => `alter table ${relation.name} replica identity full`),
  ].join("; ");
}
