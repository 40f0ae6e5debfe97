import type { Table, TableKind } from "./catalog.ts";
import type { Columns } from "./columns.ts";
import type { ComputedOf } from "./computed.ts";
import type { Grants } from "./grants.ts";
import type { Keys } from "./keys.ts";
import type { Relations } from "./relations.ts";
import type { Relationships } from "./relationships.ts";
import type { RelationRow } from "./rows/relations.ts";

const KINDS: Readonly<Record<Exclude<RelationRow["kind"], "c">, TableKind>> = {
  r: "table",
  p: "partitioned table",
  v: "view",
  m: "materialized view",
  f: "foreign table",
};

/** Bits of pg_relation_is_updatable. */
const UPDATE = 4;
const INSERT = 8;
const DELETE = 16;

/** What is known of tables, by topic. */
export type TableParts = {
  readonly relations: Relations;
  readonly columns: Columns;
  readonly keys: Keys;
  readonly relationships: Relationships;
  readonly computed: ComputedOf;
  readonly grants: Grants;
};

export function buildTable(
  row: RelationRow,
  { relations, columns, keys, relationships, computed, grants }: TableParts,
): Table {
  const kind = KINDS[row.kind as keyof typeof KINDS];
  const added = computed.table(row);
  const may = (bit: number) => kind === "table" || kind === "partitioned table" || ((row.writes ?? 0) & bit) !== 0;
  return Object.freeze({
    schema: row.schema,
    name: row.name,
    kind,
    owner: grants.roleOf(row.owner),
    comment: row.comment,
    columns: columns.of(row.oid),
    primaryKey: relations.columnNames(row.oid, keys.primaryKeyOf(row.oid)),
    uniqueKeys: keys.uniqueKeysOf(row.oid).map((key) => relations.columnNames(row.oid, key)),
    isInsertable: may(INSERT),
    isUpdatable: may(UPDATE),
    isDeletable: may(DELETE),
    relationships: [...(relationships.get(row.oid) ?? []), ...added.relationships],
    computedFields: added.fields,
    grants: grants.onTable(row.acl),
  });
}
