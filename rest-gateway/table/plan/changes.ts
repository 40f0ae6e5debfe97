import type { Catalog, Column, Table } from "../../../db/catalog/catalog.ts";
import type { Filter } from "../../../db/filters/condition.ts";
import type { Field } from "../../../db/filters/field.ts";
import type {
  BodyColumns,
  ConditionPlan,
  Conflict,
  DeletePlan,
  Format,
  InsertPlan,
  KeyValue,
  RowsPlan,
  UpdatePlan,
} from "../../../db/query/plan.ts";
import { problem } from "../../../problems/problem.ts";
import { invalidBody, JSON_IN_FORM, methodNotForTable, noSuchBodyColumns, putFilters, unfiltered } from "../problem.ts";
import type { Body, TableRequest } from "../request.ts";
import { similarColumn } from "../suggestion.ts";
import { planConditions, unknownColumn } from "./fields.ts";
import { countExists, type RowOptions, RowPlanner, refuseManyFilters, sourceOf } from "./rows.ts";

export type ChangeOptions = Omit<RowOptions, "maxRows" | "maxOuterRows"> & {
  readonly catalog: Catalog;
  readonly table: Table;
  readonly format: Format;
  /** Whether a change without a filter is refused. */
  readonly isSafe: boolean;
  /** Bytes of the response body; null without a limit. */
  readonly maxBytes: number | null;
};

export function planInsert(request: TableRequest, options: ChangeOptions): InsertPlan {
  const { table } = options;
  if (!table.isInsertable) throw methodNotForTable("POST", methodsOf(table));
  return {
    ...changeOf(request, options, rowsOf(request, options)),
    kind: "insert",
    body: planBody(request, table),
    conflict: conflictOf(request, table),
    key: null,
    conditions: [],
    locationKey: request.preferences.return === "headers-only" ? keyColumns(table) : [],
  };
}

/** Null if a duplicate is an error: the client requests no resolution, or the table has no key that defines duplicates. */
function conflictOf({ preferences: { resolution }, query }: TableRequest, table: Table): Conflict | null {
  if (resolution === null) return null;
  const columns = query.onConflict ?? table.primaryKey;
  for (const column of columns)
    if (!table.columns.has(column)) throw unknownColumn(sourceOf(table), table.name, column);
  if (columns.length === 0) return null;
  return { columns, action: resolution === "merge-duplicates" ? "update" : "nothing" };
}

/** PUT inserts or replaces one row, whose primary key is in the URL and in the body. */
export function planPut(request: TableRequest, options: ChangeOptions): InsertPlan {
  const { table } = options;
  if (!table.isInsertable || !table.isUpdatable) throw methodNotForTable("PUT", methodsOf(table));
  const part = request.query.parts.get("");
  if (part && (part.limit !== null || part.offset > 0)) throw problem("put limits");
  const key = keyOf(request, table);
  const body = planBody(request, table);
  for (const { column } of key)
    if (!body.columns.includes(column)) throw invalidBody(`the body must contain the key column '${column.name}'`);
  const conflict: Conflict = { columns: table.primaryKey, action: "update" };
  const change = changeOf(request, options, rowsOf(request, options));
  return { ...change, kind: "insert", body, conflict, key, conditions: [], locationKey: [] };
}

export function planUpdate(request: TableRequest, options: ChangeOptions): UpdatePlan {
  const { table } = options;
  if (!table.isUpdatable) throw methodNotForTable("PATCH", methodsOf(table));
  const rows = rowsOf(request, options);
  const body = planBody(request, table);
  const conditions = conditionsOf(request, options, rows, "UPDATE");
  const change = { ...changeOf(request, options, rows), maxAffected: maxAffectedOf(request) };
  return { ...change, kind: "update", body, assignments: [], conditions };
}

export function planDelete(request: TableRequest, options: ChangeOptions): DeletePlan {
  if (!options.table.isDeletable) throw methodNotForTable("DELETE", methodsOf(options.table));
  const rows = rowsOf(request, options);
  const conditions = conditionsOf(request, options, rows, "DELETE");
  return { ...changeOf(request, options, rows), kind: "delete", maxAffected: maxAffectedOf(request), conditions };
}

/** The methods that a table allows, for the header Allow. */
export function methodsOf(table: Table): string[] {
  const { isInsertable, isUpdatable, isDeletable, primaryKey } = table;
  return [
    "OPTIONS",
    "GET",
    "HEAD",
    "QUERY",
    ...(isInsertable ? ["POST"] : []),
    ...(isInsertable && isUpdatable && primaryKey.length > 0 ? ["PUT"] : []),
    ...(isUpdatable ? ["PATCH"] : []),
    ...(isDeletable ? ["DELETE"] : []),
  ];
}

function changeOf({ preferences }: TableRequest, { table, format, maxBytes }: ChangeOptions, rows: RowsPlan) {
  const representation = preferences.return === "representation" ? rows : null;
  return { table, format, maxAffected: null, maxBytes, representation };
}

/** More rows than `limit` are refused, because it says how many the client expects and not which. */
function maxAffectedOf({ preferences, query }: TableRequest): number | null {
  const preferred = preferences.handling === "strict" ? preferences.maxAffected : null;
  const limit = query.parts.get("")?.limit ?? null;
  return preferred !== null && limit !== null ? Math.min(preferred, limit) : (preferred ?? limit);
}

/**
 * All changed rows: the filters of the request choose the rows to change, not the rows to return. If no rows are returned,
 * the columns in `select` are ignored. Its relations are not, because filters may refer to them.
 */
function rowsOf({ query, preferences }: TableRequest, options: ChangeOptions): RowsPlan {
  const { table, catalog } = options;
  const isShown = preferences.return === "representation";
  const order = isShown ? (query.parts.get("")?.order ?? []) : [];
  const parts = new Map(query.parts).set("", { conditions: [], order, limit: null, offset: 0 });
  const select = isShown ? query.select : query.select.filter(({ kind }) => kind === "embed");
  const limits = { ...options, maxRows: null };
  const planner = new RowPlanner(catalog, { ...query, parts, select }, limits);
  return planner.plan(sourceOf(table), table.name);
}

function conditionsOf(
  request: TableRequest,
  { table, catalog, isSafe, restMaxEmbedFilters }: ChangeOptions,
  { embeds }: RowsPlan,
  command: "UPDATE" | "DELETE",
): ConditionPlan[] {
  const conditions = request.query.parts.get("")?.conditions ?? [];
  if (conditions.length === 0 && isSafe) throw unfiltered(command);
  const planned = planConditions(conditions, { catalog, source: sourceOf(table), name: table.name, embeds });
  refuseManyFilters(countExists(planned), { restMaxEmbedFilters });
  return planned;
}

function planBody(request: TableRequest, table: Table): BodyColumns {
  const { body, query, preferences } = request;
  const { keys, isArray } = jsonOf(body);
  const names = query.columns ?? keys;
  if (names === null) throw invalidBody("All object keys must match");
  const unknown = names.filter((name) => !table.columns.has(name));
  if (unknown.length > 0) throw unknownBodyColumns(unknown, request, table);
  const columns = names.map((name) => table.columns.get(name)!);
  return { columns, isArray, defaultsFrom: preferences.missing === "default" ? "jsonb" : null };
}

/** The hint names columns that the caller may write. */
const unknownBodyColumns = (names: readonly string[], { method, body }: TableRequest, table: Table) =>
  noSuchBodyColumns(table.name, names, (reader) => {
    if (isJsonInForm(body)) return JSON_IN_FORM;
    const privilege = method === "PATCH" ? "update" : "insert";
    const meant = names.flatMap((name) => {
      const similar = similarColumn(name, sourceOf(table), reader, privilege);
      return similar === null
        ? []
        : [names.length > 1 ? `'${similar}' instead of '${name}'` : `the column '${similar}'`];
    });
    return meant.length > 0 ? `Perhaps you meant ${meant.join(", ")}.` : null;
  });

/** Whether a body that was sent as a form is JSON, which the form parser has read as the name of a field. */
export const isJsonInForm = (body: Body | null): boolean =>
  body?.kind === "json" && body.source === "form" && body.keys!.some((key) => /^\s*[[{]/.test(key));

function jsonOf(body: Body | null): Extract<Body, { kind: "json" }> {
  if (body?.kind !== "json") throw invalidBody("Empty or invalid json");
  // The messages of PostgREST: an element that is no object has no keys.
  if (body.isOther) throw invalidBody(body.isArray ? "All object keys must match" : "Empty or invalid json");
  return body;
}

function keyOf(request: TableRequest, table: Table): KeyValue[] {
  const conditions = request.query.parts.get("")?.conditions ?? [];
  const filters = conditions.filter((condition): condition is Filter<Field> => condition.kind === "filter");
  const isPlain = ({ operator, isNegated, quantifier, field }: Filter<Field>) =>
    operator === "eq" && !isNegated && quantifier === null && field.path.length === 0;
  const names = new Set(filters.map(({ field }) => field.name));
  const isWhole = table.primaryKey.every((name) => names.has(name)) && filters.length === table.primaryKey.length;
  const isKey = names.size > 0 && isWhole && filters.length === conditions.length && filters.every(isPlain);
  if (!isKey) throw putFilters(methodsOf(table));
  return filters.map(({ field, value }) => ({ column: table.columns.get(field.name)!, value }));
}

const keyColumns = (table: Table): Column[] => table.primaryKey.map((name) => table.columns.get(name)!);
