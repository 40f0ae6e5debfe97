import { quoteIfNeeded } from "../catalog/catalog.ts";
import type { Identity, PublicationState, Relation, TableState } from "./publication-state.ts";

/** A publication as the service suggests it. */
export const WHOLE: PublicationState = {
  name: "",
  publishesUpdates: true,
  publishesDeletes: true,
  publishesGenerated: true,
  publishesRoots: true,
};

/**
 * Decides how a table can be published without making its updates and deletes fail: returns the relations whose identity must
 * be changed first, or why the table cannot be published. Whole old rows are preferred, because policies can be checked on them.
 * For a service that may alter tables; its event trigger also keeps later DDL from making writes fail.
 * Source: PostgreSQL documentation, "Replica Identity", and what PostgreSQL 15 and 18 do (docs/realtime.md).
 */
export function planReplicaIdentities({ relations }: Pick<TableState, "relations">): string | IdentityChange[] {
  const changes: IdentityChange[] = [];
  for (const relation of relations) {
    const identity = identityFor(relation);
    if (typeof identity !== "string") return sentenceOf(identity);
    if (identity === relation.identity) continue;
    changes.push({ oid: relation.oid, name: relation.name, identity });
  }
  return changes;
}

/** Why changes do not arrive or cannot be written, and what prevents that. */
export type Obstacle = {
  readonly reason: string;
  /** What a DBA can do: SQL, or words if there is none. */
  readonly advice: string;
  readonly isSql: boolean;
};

const sentenceOf = ({ reason, advice }: Obstacle): string => `${reason}: ${advice}`;

type Publishable = Pick<TableState, "name" | "relations" | "isKeylessParent">;

/** Why updates and deletes of a table fail while it is in a publication as it is now, and what prevents that. Null if they do not. */
export function failureOf(table: Publishable, publication: PublicationState): string | null {
  const obstacle = obstacleOf(table, publication);
  return obstacle && sentenceOf(obstacle);
}

/** The same as its parts. */
export function obstacleOf(
  { name, relations, isKeylessParent }: Publishable,
  { name: publication, publishesGenerated }: PublicationState,
): Obstacle | null {
  for (const relation of relations) {
    const identity = identityFor(relation);
    if (typeof identity !== "string") return identity;
    if (identity !== relation.identity && !(relation.identity === "d" && relation.hasKey))
      return bySql(
        failing(relation.name),
        `alter table ${relation.name} replica identity ${identity === "f" ? "full" : "default"}`,
      );
    if (relation.identity === "f" && relation.hasStoredColumn && !publishesGenerated)
      return bySql(
        `${failing(relation.name)}, because it has a generated column and whole old rows, and the publication leaves out generated columns`,
        publishGenerated(publication),
      );
  }
  return isKeylessParent ? byWords(failing(`new partitions of ${name}`), `add a primary key to ${name}`) : null;
}

/** PostgreSQL 18 and later leave out stored generated columns unless a publication has this setting. */
export const publishGenerated = (publication: string): string =>
  `alter publication ${quoteIfNeeded(publication)} set (publish_generated_columns = stored)`;

const bySql = (reason: string, advice: string): Obstacle => ({ reason, advice, isSql: true });
const byWords = (reason: string, advice: string): Obstacle => ({ reason, advice, isSql: false });

const failing = (name: string) => `updates and deletes of ${name} fail while it is published`;

type IdentityChange = { readonly oid: number; readonly name: string; readonly identity: Identity };

function identityFor({
  name,
  identity,
  hasKey,
  hasIdentityIndex,
  hasVirtualColumn,
  isLogged,
}: Relation): Identity | Obstacle {
  if (!isLogged) return bySql(`${name} is unlogged`, `alter table ${name} set logged`);
  if (identity === "n")
    return bySql(
      `the replica identity of ${name} is nothing, so its updates and deletes fail while it is published`,
      `alter table ${name} replica identity default`,
    );
  // A DBA has chosen the index.
  if (identity === "i" && hasIdentityIndex) return "i";
  if (!hasVirtualColumn) return "f";
  if (hasKey) return "d";
  return byWords(
    `${name} has a virtual generated column and no primary key, so its updates and deletes fail while it is published`,
    "add a primary key",
  );
}

/** The statement that creates a publication of the tables that callers may read. Null if none of them can be published. */
export function creationOf(
  tables: readonly TableState[],
  { name, server }: { readonly name: string /** Its version, as in `server_version_num`. */; readonly server: number },
): { readonly sql: string | null /** Why tables are left out. */; readonly leftOut: readonly string[] } {
  const readable = tables.filter(({ isReadable }) => isReadable);
  const failures = readable.map((table) => failureOf(table, WHOLE));
  const names = readable.flatMap((table, i) => (failures[i] === null ? [table.name] : []));
  const generated = server >= 180_000 ? ", publish_generated_columns = stored" : "";
  const sql = `create publication ${quoteIfNeeded(name)} for table ${names.join(", ")} with (publish_via_partition_root${generated})`;
  return { sql: names.length === 0 ? null : sql, leftOut: failures.filter((failure) => failure !== null) };
}

/** The statement that publishes a table which can be. */
export function additionOf(
  { oid, name, relations }: Pick<TableState, "oid" | "name" | "relations">,
  { name: publication, publishesRoots }: PublicationState,
): string {
  const hasPartitions = relations.every((relation) => relation.oid !== oid);
  const change = hasPartitions && !publishesRoots ? "set (publish_via_partition_root = true)" : `add table ${name}`;
  return `alter publication ${quoteIfNeeded(publication)} ${change}`;
}

/** What the log says of a table that is not published. */
export const noChangesOf = ({ name }: Pick<TableState, "name">, reason: string): string =>
  `subscribers receive no changes of ${name}: ${reason}`;
