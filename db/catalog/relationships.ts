import type { ColumnPairs, Relationship, TableName } from "./catalog.ts";
import type { Keys } from "./constraints.ts";
import { mapYielding } from "./event-loop.ts";
import type { Oid, Relations } from "./relations.ts";
import type { Views } from "./views.ts";

export type ForeignKeyRow = {
  readonly name: string;
  readonly from: Oid;
  readonly columns: readonly number[];
  readonly to: Oid;
  readonly references: readonly number[];
};

/** SQL for a row of pg_constraint. A foreign key over periods (PostgreSQL 18) compares by overlap: its index is an exclusion index. */
export const comparesForEquality = (constraint: string) =>
  `not (${constraint}.contype = 'f' and ${constraint}.conindid in (select indexrelid from pg_index where indisexclusion))`;

// Without foreign keys that derive from a partitioned table's: they have a parent constraint.
export const FOREIGN_KEYS = `
  select c.conname as name, c.conrelid as from, c.conkey as columns, c.confrelid as to, c.confkey as references
  from pg_constraint as c
  join relations as source on source.oid = c.conrelid
  join relations as target on target.oid = c.confrelid
  where c.contype = 'f' and c.conparentid = 0 and ${comparesForEquality("c")}
  order by source.schema, source.name, c.conname`;

/** A foreign key between two served tables or views. */
type Reference = {
  readonly constraint: string;
  readonly from: Oid;
  readonly to: Oid;
  readonly columns: ColumnPairs;
  /** Whether at most one row refers to each target row. */
  readonly isUnique: boolean;
};

type Found = { readonly relation: Oid; readonly relationship: Relationship };

export type Relationships = ReadonlyMap<Oid, readonly Relationship[]>;

/**
 * The relationships by foreign keys: per table first its own keys, then the keys that refer to it, then many-to-many.
 */
export async function findRelationships(
  foreignKeys: readonly ForeignKeyRow[],
  relations: Relations,
  views: Views,
  keys: Keys,
): Promise<Relationships> {
  const references = (await mapYielding(foreignKeys, (key) => referencesOf(key, relations, views, keys))).flat();
  const name = (oid: Oid) => relations.nameOf(oid);
  const found = new Map<Oid, Relationship[]>();
  for (const { relation, relationship } of [
    ...references.map((reference) => forward(reference, name)),
    ...references.map((reference) => backward(reference, name)),
    ...throughJunctions(references, relations, keys),
  ]) {
    const known = found.get(relation);
    if (known) known.push(relationship);
    else found.set(relation, [relationship]);
  }
  return found;
}

/** From every relation with the key's columns to every relation with the referenced columns. */
function referencesOf(key: ForeignKeyRow, relations: Relations, views: Views, keys: Keys): Reference[] {
  const isUnique = keys.isConstrained(key.from, key.columns);
  const targets = views.appearancesOf(key.to, key.references);
  return views.appearancesOf(key.from, key.columns).flatMap((source) =>
    targets.map((target) => ({
      constraint: key.name,
      from: source.relation,
      to: target.relation,
      columns: pairs(
        relations.columnNames(source.relation, source.numbers),
        relations.columnNames(target.relation, target.numbers),
      ),
      isUnique,
    })),
  );
}

const forward = ({ constraint, from, to, columns, isUnique }: Reference, name: (oid: Oid) => TableName): Found => ({
  relation: from,
  relationship: {
    kind: isUnique ? "one-to-one" : "many-to-one",
    isToOne: true,
    target: name(to),
    constraint,
    columns,
    isOwner: true,
  },
});

const backward = ({ constraint, from, to, columns, isUnique }: Reference, name: (oid: Oid) => TableName): Found => ({
  relation: to,
  relationship: {
    kind: isUnique ? "one-to-one" : "one-to-many",
    isToOne: isUnique,
    target: name(from),
    constraint,
    columns: swap(columns),
    isOwner: false,
  },
});

/** A junction has two foreign keys within its primary key. */
function throughJunctions(references: readonly Reference[], relations: Relations, keys: Keys): Found[] {
  const byJunction = Map.groupBy(
    references.filter(({ isUnique }) => !isUnique),
    ({ from }) => from,
  );
  return [...byJunction].flatMap(([junction, all]) => {
    const key = relations.columnNames(junction, keys.primaryKeyOf(junction));
    const within = all.filter(({ columns }) => columns.every(([column]) => key.includes(column)));
    return within.flatMap((source) =>
      within
        .filter(({ constraint }) => constraint !== source.constraint)
        .map((further) => through(source, further, relations)),
    );
  });
}

const through = (source: Reference, further: Reference, relations: Relations): Found => ({
  relation: source.to,
  relationship: {
    kind: "many-to-many",
    isToOne: false,
    target: relations.nameOf(further.to),
    junction: relations.nameOf(source.from),
    source: { constraint: source.constraint, columns: swap(source.columns) },
    further: { constraint: further.constraint, columns: further.columns },
  },
});

const pairs = (from: readonly string[], to: readonly string[]): ColumnPairs => from.map((name, i) => [name, to[i]!]);
const swap = (columns: ColumnPairs): ColumnPairs => columns.map(([from, to]) => [to, from]);
