import { notEmbedded, orderNeedsToOne } from "../problem.ts";
import type { OrderTerm } from "../request.ts";
import { hasField, planField } from "./fields.ts";
import type { EmbedPlan, OrderKey, OrderPlan, Output, RowSource } from "./plan.ts";

/** The rows that are ordered. */
type Ordered = {
  readonly source: RowSource;
  /** What errors call them. */
  readonly name: string;
  readonly outputs: readonly Output[];
  readonly embeds: readonly EmbedPlan[];
};

export const planOrder = (term: OrderTerm, rows: Ordered): OrderPlan => ({
  key: term.relation === null ? planOwn(term, rows) : planRelated(term.relation, term, rows),
  direction: term.direction,
  nulls: term.nulls,
});

/** A column or computed field, or else what the select list calls so: `select=status,n:count()&order=n.desc`. */
function planOwn({ field }: OrderTerm, { source, name, outputs }: Ordered): OrderKey {
  const isOutput = field.path.length === 0 && !hasField(source, field.name) && outputs.some(isCalled(field.name));
  if (isOutput) return { kind: "output", name: field.name };
  return { kind: "field", field: planField(source, name, field) };
}

function planRelated(relation: string, { field }: OrderTerm, { name, embeds }: Ordered): OrderKey {
  const embed = embeds.find((each) => each.name === relation);
  if (!embed) throw notEmbedded(relation);
  if (!embed.relationship.isToOne) throw orderNeedsToOne(name, relation);
  return { kind: "related", embed, field: planField(embed.rows.source, embed.target.name, field) };
}

/** Objects and arrays of relations have no order; what is spread has that of its columns. */
const isCalled =
  (name: string) =>
  (output: Output): boolean => {
    if (output.kind === "all") return false;
    if (output.kind !== "embed") return output.alias === name;
    const { isSpread, relationship, rows } = output.embed;
    return isSpread && relationship.isToOne && rows.outputs.some(isCalled(name));
  };
