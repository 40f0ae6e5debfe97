import type { Field } from "../../../db/filters/field.ts";
import type {
  EmbedPlan,
  FieldPlan,
  OrderKey,
  OrderPlan,
  Output,
  RowSource,
  RowsPlan,
  SourceColumn,
  ValuePlan,
} from "../../../db/query/plan.ts";
import { notEmbedded, orderNeedsToOne } from "../problem.ts";
import type { OrderTerm } from "../request.ts";
import { hasField, planField } from "./fields.ts";

/** The rows to order. */
type Ordered = Pick<RowsPlan, "source" | "outputs" | "embeds" | "isGrouped"> & {
  /** Their name in error messages. */
  readonly name: string;
};

export const planOrder = (term: OrderTerm, rows: Ordered): OrderPlan => ({
  key: term.relation === null ? planOwn(term, rows) : planRelated(term.relation, term, rows),
  direction: term.direction,
  nulls: term.nulls,
});

/**
 * A column or computed field; if there is none, an entry of the select list: `select=status,n:count()&order=n.desc`. In grouped
 * rows an entry takes precedence over a column: only grouped columns and aggregates can order groups.
 */
function planOwn({ field }: OrderTerm, { source, name, outputs, isGrouped }: Ordered): OrderKey {
  if (isGrouped || !hasField(source, field.name)) {
    const index = findNamed(entriesOf(outputs, source), field);
    if (index >= 0 && isGrouped) return { kind: "position", position: index + 1 };
    if (index >= 0) return { kind: "output", name: field.name };
  }
  return { kind: "field", field: planField(source, name, field) };
}

/** A field of a to-one relation, or the name of an entry in its select list. */
function planRelated(relation: string, { field }: OrderTerm, rows: Ordered): OrderKey {
  const embed = rows.embeds.find((each) => each.name === relation);
  if (!embed) throw notEmbedded(relation);
  if (!embed.relationship.isToOne) throw orderNeedsToOne(rows.name, relation);
  const { source, outputs } = embed.rows;
  const entries = entriesOf(outputs, source);
  const index = findEntry(entries, field);
  if (embed.isSpread && embed.isShown && index >= 0 && rows.isGrouped)
    return { kind: "position", position: entriesBefore(embed, rows) + index + 1 };
  if (index >= 0 && !hasField(source, field.name)) {
    const aliased = entries[index]!.field;
    if (aliased) return { kind: "related", embed, field: aliased };
    if (embed.isSpread) return { kind: "output", name: field.name };
  }
  return { kind: "related", embed, field: planField(source, embed.target.name, field) };
}

function entriesBefore(embed: EmbedPlan, { outputs, source }: Ordered): number {
  const index = outputs.findIndex((each) => each.kind === "embed" && each.embed === embed);
  return entriesOf(outputs.slice(0, index), source).length;
}

/** An entry of the select list. */
type Entry = {
  /** Null for objects and arrays of relations, which cannot order rows. */
  readonly name: string | null;
  /** Null unless the entry is a field of these rows without a cast or aggregate. */
  readonly field: FieldPlan | null;
};

const entriesOf = (outputs: readonly Output[], { columns }: RowSource): Entry[] =>
  outputs.flatMap((output): Entry[] => {
    if (output.kind === "all") return [...(columns?.values() ?? [])].map(entryOfColumn);
    if (output.kind === "expression") return [{ name: output.alias, field: null }];
    if (output.kind === "field") return [entryOfField(output.alias, output.value)];
    const { isSpread, relationship, rows } = output.embed;
    const hidden = { name: null, field: null };
    if (!isSpread) return [hidden];
    const entries = entriesOf(rows.outputs, rows.source);
    return entries.map(({ name }) => (relationship.isToOne ? { name, field: null } : hidden));
  });

const entryOfColumn = (column: SourceColumn): Entry => ({
  name: column.name,
  field: { origin: { kind: "column", column }, path: [] },
});

const entryOfField = (name: string, { field, cast, aggregate }: ValuePlan): Entry => ({
  name,
  field: cast === null && aggregate === null ? field : null,
});

/** The index of the first entry with this name; -1 without one. */
const findNamed = (entries: readonly Entry[], { name, path }: Field): number =>
  path.length === 0 ? entries.findIndex((each) => each.name === name) : -1;

/** As findNamed; if no entry has this name, the index of the first entry that shows this field under another name. */
function findEntry(entries: readonly Entry[], wanted: Field): number {
  const named = findNamed(entries, wanted);
  return named >= 0 ? named : entries.findIndex(({ field }) => field !== null && isSame(field, wanted));
}

const isSame = ({ origin, path }: FieldPlan, wanted: Field): boolean => {
  const name = origin.kind === "column" ? origin.column.name : origin.computed.name;
  return name === wanted.name && JSON.stringify(path) === JSON.stringify(wanted.path);
};
