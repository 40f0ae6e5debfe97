import { sql } from "../../sql.ts";
import { NO_PREFERENCES } from "../../table/parse/headers.ts";
import type { Assignment, BodyColumns, Format, InsertCommand, OrderPlan, ReadPlan } from "../../table/plan.ts";
import { conditionsOf, type ListPlan, type RecordPlan, type ResourcePlan, type TargetPlan } from "../plan.ts";
import {
  type Key,
  NO_PRECONDITIONS,
  type OperationOf,
  type OrderTerm,
  type Parent,
  type ResourceRequest,
} from "../request.ts";
import { type Resource, type ResourceField, tableName } from "../resource.ts";
import { modifiedOf, versionOf } from "../write/expressions.ts";
import { writeExists } from "../write/plan.ts";
import { fieldPlan, planFilter, planKey, planParent, planPreconditions, planRows, planSearch } from "./rows.ts";

/** Expresses a request for a resource as plans for its table. */
export function planRequest(request: ResourceRequest): ResourcePlan {
  const { resource, operation } = request;
  switch (operation.kind) {
    case "list":
      return planList(request, operation);
    case "read":
      return { kind: "read", record: planRecord(request, operation.key) };
    case "create":
      return planCreate(request, operation);
    case "update":
      return planUpdate(request, operation);
    case "delete":
      return planDelete(request, operation);
    case "act": {
      const { key, action, preconditions } = operation;
      const called = tableName(resource.description.actions[action]!.function);
      return { kind: "act", function: called, record: planRecord(request, key, preconditions) };
    }
  }
}

export function planList({ resource, selection, style }: ResourceRequest, list: OperationOf<"list">): ListPlan {
  const { parent, conditions, keyword, order, paging } = list;
  const rows = {
    ...planRows(resource, selection, style),
    conditions: [
      ...(parent ? [planParent(resource, parent)] : []),
      ...conditions.map(planFilter),
      ...(keyword === null ? [] : [planSearch(resource, keyword)]),
    ],
    order: order.map(planOrder),
    limit: paging.limit,
    offset: paging.offset,
  };
  const read: ReadPlan = { ...asArray(resource), kind: "read", rows, count: { kind: "exact" }, isBodiless: false };
  return { kind: "list", read, parent: parent && planTarget(parent) };
}

/** Null comes last in both directions. */
const planOrder = ({ field, direction }: OrderTerm): OrderPlan => ({
  key: { kind: "field", field: fieldPlan(field) },
  direction,
  nulls: field.column.isNullable ? "last" : null,
});

const planTarget = ({ resource, id }: Parent): TargetPlan => ({
  table: resource.table,
  conditions: planKey(resource, { id, parent: null }),
});

/** A new row if `key` is null. */
function planRecord(
  { resource, selection, style }: ResourceRequest,
  key: Key | null,
  preconditions = NO_PRECONDITIONS,
): RecordPlan {
  return {
    table: resource.table,
    rows: { ...planRows(resource, selection, style), conditions: key ? planKey(resource, key) : [] },
    preconditions: planPreconditions(resource, preconditions),
    key: resource.key.column,
    version: versionOf(resource),
    modified: modifiedOf(resource),
  };
}

function planCreate(request: ResourceRequest, create: OperationOf<"create">): ResourcePlan {
  const command = planInsert(request, create, true);
  if (!create.isMany) return { kind: "create", command, record: planRecord(request, null) };
  const { resource, selection, style } = request;
  const representation = planRows(resource, selection, style);
  return { kind: "create many", insert: { ...asArray(resource), ...command, representation, locationKey: [] } };
}

/** With `looksForParent`, nothing is inserted if the parent is missing. Otherwise the foreign key raises an error. */
export function planInsert(
  { resource }: ResourceRequest,
  { parent, fields, isMany, fillsDefaults }: OperationOf<"create">,
  looksForParent: boolean,
): InsertCommand {
  const given = parent ? [resource.fieldNamed.get(parent.collection.field)!] : [];
  return {
    kind: "insert",
    table: resource.table,
    body: planBody([...fields, ...given], isMany, fillsDefaults),
    conflict: null,
    key: null,
    conditions: parent && looksForParent ? [writeExists(planTarget(parent))] : [],
  };
}

export const planBody = (fields: readonly ResourceField[], isArray: boolean, fillsDefaults: boolean): BodyColumns => ({
  columns: fields.map(({ column }) => column),
  isArray,
  defaultsFrom: fillsDefaults ? "json" : null,
});

function planUpdate(request: ResourceRequest, update: OperationOf<"update">): ResourcePlan {
  const { resource } = request;
  const { key, fields, reset, preconditions } = update;
  const record = planRecord(request, key, preconditions);
  const assignments = reset.map(({ column }): Assignment => ({ column, value: () => sql`default` }));
  // An empty PATCH still updates the row, and with it updated_at.
  if (fields.length + reset.length === 0) assignments.push(unchanged(resource));
  const body = planBody(fields, false, false);
  const conditions = conditionsOf(record);
  return { kind: "update", command: { kind: "update", table: resource.table, body, assignments, conditions }, record };
}

function unchanged({ fields }: Resource): Assignment {
  const { column } = fields.find(({ write }) => write === "always")!;
  return { column, value: ({ alias }) => sql`${alias}.${sql.identifier(column.name)}` };
}

function planDelete(
  request: ResourceRequest,
  { key, isCascading, preconditions }: OperationOf<"delete">,
): ResourcePlan {
  const { table, description } = request.resource;
  const record = planRecord(request, key, preconditions);
  const others = isCascading ? description.cascade : [];
  return {
    kind: "delete",
    command: { kind: "delete", table, conditions: conditionsOf(record) },
    record,
    cascade: others.map((other) => ({ table: tableName(other.table), column: other.column })),
  };
}

/** Rows as a JSON array, without the preferences of table requests. */
const asArray = ({ table }: Resource) => ({
  schema: table.schema,
  table,
  format: JSON_ARRAY,
  preferences: NO_PREFERENCES,
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
