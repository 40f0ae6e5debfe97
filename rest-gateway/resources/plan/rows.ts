import type { Relationship } from "../../../db/catalog/catalog.ts";
import { filterOf, mapFilters } from "../../../db/filters/condition.ts";
import type { ConditionPlan, EmbedPlan, Expression, FieldPlan, Output, RowsPlan } from "../../../db/query/plan.ts";
import { sql } from "../../../db/sql.ts";
import { sourceOf } from "../../table/plan/rows.ts";
import {
  type Key,
  type ListCondition,
  nameIn,
  type Parent,
  type Precondition,
  type Selection,
  type Style,
} from "../request.ts";
import type { Relation, Resource, ResourceField } from "../resource.ts";
import { isOneOf, isUnmodifiedSince, linksOf, matchesSearch, sameText } from "../write/expressions.ts";

/** The output of a record: fields in the spelling of the client, related records, links. */
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

/** The record that a field refers to; null if the caller may not see it. */
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

/** The relationship that a foreign key would define. The database need not have that key. */
const relationshipOf = ({ name, field }: Relation, { table, key }: Resource): Relationship => ({
  kind: "many-to-one",
  isToOne: true,
  isOwner: true,
  target: table,
  constraint: name,
  columns: [[field.column.name, key.column.name]],
});

export const planFilter = (condition: ListCondition): ConditionPlan =>
  mapFilters(condition, (each) => {
    if (each.kind === "same text") return holds(sameText(each.field, each.value));
    return { ...each, field: fieldPlan(each.field) };
  });

export const planSearch = (resource: Resource, keyword: number): ConditionPlan =>
  holds(matchesSearch(resource, keyword));

/** The record that the path names, in the collection that it names. */
export const planKey = (resource: Resource, { id, parent }: Key): readonly ConditionPlan[] => [
  isEqual(resource.key, id),
  ...(parent ? [planParent(parent)] : []),
];

/** `t."post_id" = $2`: the records of a parent. */
export const planParent = ({ field, id }: Parent): ConditionPlan => isEqual(field, id);

export function planPrecondition(resource: Resource, precondition: Precondition): ConditionPlan {
  switch (precondition.kind) {
    case "version in":
      return holds(isOneOf(resource, precondition.value, false));
    case "version not in":
      return holds(isOneOf(resource, precondition.value, true));
    case "unmodified since":
      return holds(isUnmodifiedSince(resource, precondition.value));
    case "never":
      return holds(() => sql`false`);
  }
}

const holds = (expression: Expression): ConditionPlan => ({ kind: "expression", isNegated: false, holds: expression });

const isEqual = (field: ResourceField, value: number): ConditionPlan => filterOf(fieldPlan(field), "eq", value);
