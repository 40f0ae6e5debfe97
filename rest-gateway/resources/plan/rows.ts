import type { Relationship } from "../../../db/catalog/catalog.ts";
import { sourceOf } from "../../table/plan/rows.ts";
import type { EmbedPlan, FieldPlan, Output, RowsPlan } from "../../table/plan.ts";
import { nameIn, type Selection, type Style } from "../request.ts";
import type { Relation, Resource, ResourceField } from "../resource.ts";
import { linksOf } from "../write/links.ts";

/** How records are shown: fields under the client's spelling, the records that they refer to, links. */
export function planRows(resource: Resource, { fields, relations, hasLinks }: Selection, style: Style): RowsPlan {
  const embeds = relations.map(({ relation, selection }) => planRelation(relation, selection, style));
  const outputs: Output[] = [
    ...fields.map((field) => planOutput(field, style)),
    ...embeds.map((embed) => ({ kind: "embed", embed }) as const),
  ];
  if (hasLinks) outputs.push(linksOf(resource, style));
  return {
    source: sourceOf(resource.table),
    outputs,
    embeds,
    conditions: [],
    order: [],
    limit: null,
    offset: 0,
    isGrouped: false,
  };
}

const planOutput = (field: ResourceField, style: Style): Output => ({
  kind: "field",
  value: { field: fieldPlan(field), cast: null, aggregate: null },
  alias: nameIn(field, style),
});

export const fieldPlan = ({ column }: ResourceField): FieldPlan => ({ origin: { kind: "column", column }, path: [] });

/** The record that a field refers to; null when the caller may not see it. */
function planRelation(relation: Relation, selection: Selection, style: Style): EmbedPlan {
  const target = relation.resource();
  return {
    name: nameIn(relation, style),
    olderName: null,
    relationship: relationshipOf(relation, target),
    target: target.table,
    rows: planRows(target, selection, style),
    isInner: false,
    isSpread: false,
    isShown: true,
  };
}

/** As a foreign key would be; the database need not have one. */
const relationshipOf = ({ name, field }: Relation, { table, key }: Resource): Relationship => ({
  kind: "many-to-one",
  isToOne: true,
  isOwner: true,
  target: table,
  constraint: name,
  columns: [[field.column.name, key.column.name]],
});
