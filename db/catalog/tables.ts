import type { Column, DomainCasts, Table, TableKind } from "./catalog.ts";
import type { Keys } from "./constraints.ts";
import type { ComputedFields } from "./functions.ts";
import type { Grants } from "./grants.ts";
import type { Policies } from "./policies.ts";
import type { ColumnRow, Oid, RelationRow, Relations } from "./relations.ts";
import type { Relationships } from "./relationships.ts";
import { type CastRow, findCasts, type Types } from "./types.ts";
import type { Views } from "./views.ts";

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

/** The models that a table is built from. */
export type TableParts = {
  readonly relations: Relations;
  readonly columns: Columns;
  readonly keys: Keys;
  readonly relationships: Relationships;
  readonly computed: ComputedFields;
  readonly grants: Grants;
  readonly policies: Policies;
};

export function buildTable(
  row: RelationRow,
  { relations, columns, keys, relationships, computed, grants, policies }: TableParts,
): Table {
  const kind = KINDS[row.kind as keyof typeof KINDS];
  const added = computed.table(row);
  const may = (bit: number) => kind === "table" || kind === "partitioned table" || ((row.writes ?? 0) & bit) !== 0;
  return Object.freeze({
    oid: Number(row.oid),
    schema: row.schema,
    name: row.name,
    kind,
    owner: grants.roleOf(row.owner),
    isInherited: row.isInherited,
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
    rowSecurity: policies.of(row),
  });
}

/** Builds the columns of tables and views from their rows. */
export class Columns {
  readonly #relations: Relations;
  readonly #views: Views;
  readonly #types: Types;
  readonly #grants: Grants;
  readonly #casts: ReadonlyMap<Oid, DomainCasts>;

  constructor(relations: Relations, views: Views, types: Types, grants: Grants, casts: readonly CastRow[]) {
    this.#relations = relations;
    this.#views = views;
    this.#types = types;
    this.#grants = grants;
    this.#casts = findCasts(casts, types);
  }

  of(relation: Oid): ReadonlyMap<string, Column> {
    const columns = new Map<string, Column>();
    for (const row of this.#relations.columnsOf(relation)) columns.set(row.name, this.#build(row));
    return columns;
  }

  #build(row: ColumnRow): Column {
    return Object.freeze({
      name: row.name,
      number: row.number,
      type: row.typeText ?? this.#types.textOf(row.type),
      shape: this.#types.shapeOf(row.type),
      isNullable: this.#isNullable(row),
      isDeterministic: row.isDeterministic,
      ...this.#value(row),
      maxLength: this.#maxLength(row),
      comment: row.comment,
      casts: this.#casts.get(row.type) ?? null,
      grants: this.#grants.onTable(row.acl),
    });
  }

  #isNullable(row: ColumnRow): boolean {
    const same = this.#views.sameNullness(row);
    return !same || !(same.isNotNull || this.#types.refusesNull(same.type));
  }

  /** The value when an insert omits the column. A view over one table inherits the table's defaults, or has its own. */
  #value(row: ColumnRow): Pick<Column, "hasDefault" | "defaultExpression" | "generated"> {
    const own = row.default ?? this.#types.chainOf(row.type)[0]!.default;
    const origin = this.#views.isOverOneTable(row.relation) ? this.#views.originOf(row) : undefined;
    if (origin && own === null) return this.#value(origin);
    const isAlways = row.identity === "a" || row.generated !== "" || (!origin && this.#isComputed(row));
    return {
      hasDefault: isAlways || own !== null,
      defaultExpression: isAlways ? null : own,
      generated: isAlways ? "always" : row.identity === "d" ? "by default" : null,
    };
  }

  /** Whether a column of an automatically updatable view is not a column of its table. */
  #isComputed({ relation }: ColumnRow): boolean {
    return this.#views.isOverOneTable(relation) && !this.#relations.get(relation)!.hasOwnWrites;
  }

  #maxLength({ type, modifier }: ColumnRow): number | null {
    const chain = this.#types.chainOf(type);
    const packed = [modifier, ...chain.map((link) => link.modifier)].find((value) => value >= 0);
    const overhead = LENGTH_OVERHEAD[this.#types.systemNameOf(chain.at(-1)!.oid) ?? ""];
    return packed === undefined || overhead === undefined ? null : packed - overhead;
  }
}

/** Types whose modifier is a length, and the overhead that Postgres adds to it. */
const LENGTH_OVERHEAD: Readonly<Record<string, number>> = { varchar: 4, bpchar: 4, bit: 0, varbit: 0 };
