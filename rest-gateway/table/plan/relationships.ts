import { type Catalog, type Relationship, type Table, tableOf } from "../../../db/catalog/catalog.ts";
import { readsTable } from "../../../db/catalog/exposure.ts";
import { similarTo } from "../../../db/catalog/similar.ts";
import { ambiguousRelationship, noRelationship } from "../problem.ts";

/** How `select` names a relation: `authors!author_id(…)`. */
export type Wanted = {
  /** A related table or view, a foreign key's name or a column of one, or a function that returns related rows. */
  readonly name: string;
  /** Distinguishes several relationships: a foreign key, its column, a junction. */
  readonly hint: string | null;
};

/**
 * The only matching relationship. Throws Problem if none or several match. A function takes precedence over foreign keys to
 * a relation with its name.
 */
export function findRelationship(catalog: Catalog, source: Table, { name, hint }: Wanted): Relationship {
  const computed = source.relationships.find(
    (each) => each.kind === "computed" && each.function.name === name && (hint === null || hint === name),
  );
  if (computed) return computed;

  const found =
    hint === null
      ? findByName(catalog, source, name)
      : source.relationships.filter((each) => isTarget(each, source, name, hint));
  const best = preferOwnSchema(found, source);
  if (best.length === 1) return best[0]!;
  if (best.length === 0) throw notRelated(source, name, hint);
  throw ambiguous(source, name, best);
}

/**
 * `name` may be a target, a key of the source, or a column that other keys refer to; the first of `ways` that matches applies. Views
 * inherit the keys of their tables: the name of a key selects the relationship between the tables, if both are served.
 */
function findByName(catalog: Catalog, source: Table, name: string): readonly Relationship[] {
  const leadsToTable = ({ target }: Relationship) => !tableOf(catalog, target)?.kind.endsWith("view");
  const ways: readonly ((each: Relationship) => boolean)[] = [
    (each) => isTarget(each, source, name) || (isKey(each, source, name) && leadsToTable(each)),
    // Within a view: PostgREST lets a key lead to no other view.
    (each) => isKey(each, source, name) && isSelf(each, source),
    (each) => isKey(each, source, name),
    (each) => isReferencedBy(each, source, name) && leadsToTable(each),
    (each) => isReferencedBy(each, source, name),
  ];
  for (const matches of ways) {
    const found = source.relationships.filter(matches);
    if (found.length > 0) return found;
  }
  return [];
}

/**
 * A foreign key from a table to itself is two relationships. The name of the table selects the rows that refer to this row.
 * The name of the key or of its column selects the row that this row refers to. A junction from a table to itself needs a hint.
 */
function isTarget(each: Relationship, source: Table, name: string, hint: string | null = null): boolean {
  if (each.kind === "computed" || each.target.name !== name) return false;
  if (each.kind === "many-to-many") return hint === null ? !isSelf(each, source) : isHint(each, hint);
  return !(each.isOwner && isSelf(each, source)) && (hint === null || isHint(each, hint));
}

function isKey(each: Relationship, source: Table, name: string): boolean {
  if (!("constraint" in each)) return false;
  if (each.isOwner) return each.constraint === name || hasColumn(each, name, 0);
  return each.constraint === name && !isSelf(each, source);
}

const isReferencedBy = (each: Relationship, source: Table, column: string): boolean =>
  "constraint" in each && !each.isOwner && !isSelf(each, source) && hasColumn(each, column, 0);

const isSelf = ({ target }: Relationship, source: Table) =>
  target.name === source.name && target.schema === source.schema;

function isHint(each: Exclude<Relationship, { kind: "computed" }>, hint: string): boolean {
  if (each.kind === "many-to-many") return each.junction.name === hint || each.further.constraint === hint;
  return each.constraint === hint || hasColumn(each, hint, 0) || hasColumn(each, hint, 1);
}

/** Whether the key has only this column: in the source (side 0) or in the target (side 1). */
const hasColumn = ({ columns }: Extract<Relationship, { columns: unknown }>, name: string, side: 0 | 1) =>
  columns.length === 1 && columns[0]![side] === name;

function preferOwnSchema(found: readonly Relationship[], source: Table): readonly Relationship[] {
  const own = found.filter(({ target }) => target.schema === source.schema);
  return own.length > 0 ? own : found;
}

function notRelated(source: Table, name: string, hint: string | null) {
  const wanted = hint === null ? "" : ` using the hint '${hint}'`;
  const details =
    `Searched for a foreign key relationship between '${source.name}' and '${name}'${wanted} in the schema ` +
    `'${source.schema}', but no matches were found.`;
  return noRelationship(source.name, name, details, (reader) => {
    const related = source.relationships.filter(({ target }) => readsTable(reader.catalog, reader.role, target));
    const spellings = new Map(related.flatMap(spellingsOf));
    const similar = similarTo(name, spellings.keys());
    // The name may be right, and the hint of the client wrong.
    if (similar !== null && spellings.get(similar) !== name)
      return `Perhaps you meant '${spellings.get(similar)}' instead of '${name}'.`;
    const names = [...new Set(related.map((each) => nameOf(each)))].sort();
    return names.length > 0 ? `'${source.name}' has relationships with ${names.join(", ")}.` : null;
  });
}

/** What a client may mean by a relationship, and how `select` spells it: `author` → `users!author_id` */
function spellingsOf(each: Relationship): [meant: string, spelling: string][] {
  const name = nameOf(each);
  const column = "isOwner" in each && each.isOwner && each.columns.length === 1 ? each.columns[0]![0] : null;
  if (column === null) return [[name, name]];
  return [name, column, column.replace(/_id$/, "")].map((meant) => [
    meant,
    meant === name ? name : `${name}!${column}`,
  ]);
}

const nameOf = (each: Relationship) => (each.kind === "computed" ? each.function.name : each.target.name);

function ambiguous(source: Table, name: string, found: readonly Relationship[]) {
  const details = found.map((each) => ({
    cardinality: each.kind,
    embedding: `${source.name} with ${each.target.name}`,
    relationship: describe(source, each),
  }));
  const ways = found.map((each) => `'${each.target.name}!${hintFor(each, found)}'`).join(", ");
  const hint = `Try changing '${name}' to one of the following: ${ways}. Find the desired relationship in the 'details' key.`;
  return ambiguousRelationship(source.name, name, details, hint);
}

/** The name of a key is enough, unless a view shows its column twice; that of a junction, unless it refers to the same table twice. */
function hintFor(each: Relationship, all: readonly Relationship[]): string {
  if (each.kind === "computed") return each.function.name;
  if (each.kind !== "many-to-many") {
    const twins = all.filter((other) => isTwin(each, other));
    return twins.length > 1 && each.columns.length === 1 ? each.columns[0]![each.isOwner ? 0 : 1] : each.constraint;
  }
  const same = all.filter((other) => other.kind === "many-to-many" && other.junction.name === each.junction.name);
  return same.length > 1 ? each.further.constraint : each.junction.name;
}

const isTwin = (each: Relationship, other: Relationship): boolean =>
  "constraint" in each &&
  "constraint" in other &&
  each.constraint === other.constraint &&
  each.isOwner === other.isOwner &&
  each.target.name === other.target.name;

function describe(source: Table, each: Relationship): string {
  const columns = (name: string, list: readonly string[]) => `${name}(${list.join(", ")})`;
  if (each.kind === "computed") return each.function.name;
  if (each.kind === "many-to-many") {
    const { junction, source: near, further } = each;
    const here = columns(
      near.constraint,
      near.columns.map(([, column]) => column),
    );
    const there = columns(
      further.constraint,
      further.columns.map(([column]) => column),
    );
    return `${junction.name} using ${here} and ${there}`;
  }
  const here = columns(
    source.name,
    each.columns.map(([column]) => column),
  );
  const there = columns(
    each.target.name,
    each.columns.map(([, column]) => column),
  );
  return `${each.constraint} using ${here} and ${there}`;
}
