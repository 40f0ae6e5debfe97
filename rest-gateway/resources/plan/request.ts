import type {
  Assignment,
  BodyColumns,
  Format,
  InsertCommand,
  InsertPlan,
  OrderPlan,
  ReadPlan,
  RowsPlan,
  UpdateCommand,
} from "../../../db/query/plan.ts";
import { sql } from "../../../db/sql.ts";
import type { OperationOf, OrderTerm, Parent, ResourceRequest } from "../request.ts";
import type { Resource, ResourceField } from "../resource.ts";
import { columnOf } from "../write/expressions.ts";
import { type TargetPlan, writeExists } from "../write/record.ts";
import { fieldPlan, planFilter, planKey, planParent, planPrecondition, planRows, planSearch } from "./rows.ts";

// A request for a resource, as plans for its table.

export function planList({ resource, selection, style }: ResourceRequest, list: OperationOf<"list">): ReadPlan {
  const { parent, conditions, keyword, order, paging } = list;
  const rows = {
    ...planRows(resource, selection, style),
    conditions: [
      ...(parent ? [planParent(parent)] : []),
      ...conditions.map(planFilter),
      ...(keyword === null ? [] : [planSearch(resource, keyword)]),
    ],
    order: order.map(planOrder),
    limit: paging.limit,
    offset: paging.offset,
  };
  return { ...asArray(resource), kind: "read", rows, count: { kind: "exact" }, isBodiless: false };
}

/** Null comes last in both directions. */
const planOrder = ({ field, direction }: OrderTerm): OrderPlan => ({
  key: { kind: "field", field: fieldPlan(field) },
  direction,
  nulls: field.column.isNullable ? "last" : null,
});

/** The record that a path names, if the preconditions hold. */
export const planTarget = (
  { resource }: Pick<ResourceRequest, "resource">,
  { key, preconditions }: Pick<OperationOf<"delete">, "key" | "preconditions">,
): TargetPlan => ({
  table: resource.table,
  conditions: [...planKey(resource, key), ...preconditions.map((each) => planPrecondition(resource, each))],
});

export const planParentRow = (parent: Parent): TargetPlan =>
  planTarget(parent, { key: { id: parent.id, parent: null }, preconditions: [] });

/** The record that the path names, or a new one. */
export const planRecord = ({ resource, selection, style, operation }: ResourceRequest): RowsPlan => ({
  ...planRows(resource, selection, style),
  conditions: "key" in operation ? planKey(resource, operation.key) : [],
});

/** With `looksForParent`, nothing is inserted if the parent is missing. Otherwise the foreign key raises an error. */
export function planInsert(
  { resource }: ResourceRequest,
  { parent, fields, isMany, fillsDefaults }: OperationOf<"create">,
  looksForParent = true,
): InsertCommand {
  const written = parent ? [...fields, parent.field] : fields;
  return {
    kind: "insert",
    table: resource.table,
    body: planBody(written, isMany, fillsDefaults),
    conflict: null,
    key: null,
    conditions: parent && looksForParent ? [writeExists(planParentRow(parent))] : [],
  };
}

export function planInsertMany(request: ResourceRequest, create: OperationOf<"create">): InsertPlan {
  const { resource, selection, style } = request;
  const representation = planRows(resource, selection, style);
  return { ...asArray(resource), ...planInsert(request, create), representation, locationKey: [] };
}

const planBody = (fields: readonly ResourceField[], isArray: boolean, fillsDefaults: boolean): BodyColumns => ({
  columns: fields.map(({ column }) => column),
  isArray,
  defaultsFrom: fillsDefaults ? "json" : null,
});

export function planUpdate(request: ResourceRequest, update: OperationOf<"update">): UpdateCommand {
  const { fields, reset } = update;
  const assignments = reset.map(({ column }): Assignment => ({ column, value: () => sql`default` }));
  // An empty PATCH still updates the row, and with it updated_at.
  if (fields.length + reset.length === 0) assignments.push(unchanged(request.resource));
  const body = planBody(fields, false, false);
  return { kind: "update", ...planTarget(request, update), body, assignments };
}

function unchanged({ fields }: Resource): Assignment {
  const field = fields.find(({ write }) => write === "always")!;
  return { column: field.column, value: columnOf(field) };
}

/** Rows as a JSON array. */
const asArray = ({ table }: Resource) => ({
  table,
  format: JSON_ARRAY,
  maxAffected: null,
  maxBytes: null,
});

const JSON_ARRAY: Format = {
  kind: "array",
  isSingular: false,
  stripsNulls: false,
  contentType: "application/json; charset=utf-8",
  handler: null,
  explain: null,
};
