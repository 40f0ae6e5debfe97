import type { Config } from "../../../config/config.ts";
import type { Catalog, Schema, Table } from "../../../db/catalog/catalog.ts";
import { readsTable } from "../../../db/catalog/exposure.ts";
import { similarTo } from "../../../db/catalog/similar.ts";
import { type Count, type Format, mayHideRows, type Plan, type ReadPlan } from "../../../db/query/plan.ts";
import type { RestLimits } from "../../limits.ts";
import { invalidRange, noSuchFunction, noSuchSchema, noSuchTable } from "../problem.ts";
import type { QueryPart, Range, TableRequest } from "../request.ts";
import { findCall, planCall } from "./call.ts";
import { methodsOf, planDelete, planInsert, planPut, planUpdate } from "./changes.ts";
import { planFormat } from "./format.ts";
import { type RowOptions, RowPlanner, sourceOf } from "./rows.ts";

export type PlanOptions = Pick<Config, "dbAggregates" | "dbPlan" | "safeUpdate"> &
  Pick<RestLimits, "restMaxEmbeds" | "restMaxEmbedFilters"> & {
    /** The maximum number of rows in a list; null without a limit. */
    readonly maxRows: number | null;
    /** The maximum number of rows in a result that is streamed; null without a limit. Undefined without streams. */
    readonly maxStreamedRows?: number | null | undefined;
    /** The maximum response body of a write in bytes; null without a limit. */
    readonly maxBytes: number | null;
  };

/** Resolves the names of a request in the catalog. Throws Problem for unknown names and invalid combinations. */
export function planRequest(given: TableRequest, catalog: Catalog, options: PlanOptions): Plan {
  const request = withRange(given);
  const schema = schemaOf(request, catalog);
  const { dbPlan: allowsPlans } = options;
  const isWhole = request.query.select.every(({ kind }) => kind === "all");
  if (request.target.kind === "function") {
    const call = findCall(request, catalog, schema.name);
    const { returns } = call.function;
    const ofTable = returns.kind === "table" ? returns.table : null;
    const format = planFormat(request.accept, { catalog, allowsPlans, isWhole, result: returns, table: ofTable });
    return planCall(request, catalog, call, countOf(request, options), format, rowOptions(options, format));
  }
  const table = findTable(schema, request.target.name);
  const format = planFormat(request.accept, { catalog, allowsPlans, isWhole, result: null, table });
  const change = { ...options, catalog, table, format, isSafe: options.safeUpdate };
  switch (request.method) {
    case "POST":
      return planInsert(request, change);
    case "PUT":
      return planPut(request, change);
    case "PATCH":
      return planUpdate(request, change);
    case "DELETE":
      return planDelete(request, change);
    default:
      return planRead(request, catalog, table, format, options);
  }
}

function planRead(
  request: TableRequest,
  catalog: Catalog,
  table: Table,
  format: ReadPlan["format"],
  options: PlanOptions,
): ReadPlan {
  const plan: ReadPlan = {
    kind: "read",
    format,
    maxAffected: null,
    maxBytes: null,
    table,
    rows: new RowPlanner(catalog, request.query, rowOptions(options, format)).plan(sourceOf(table), table.name),
    count: countOf(request, options),
    isBodiless: request.method === "HEAD",
    isAlone: request.isSnapshot === true && table.isInherited,
  };
  return mayHideRows(plan) ? { ...plan, count: countOfVisible(plan.count, options) } : plan;
}

function rowOptions(options: PlanOptions, { kind }: Format): PlanOptions & RowOptions {
  const { maxStreamedRows } = options;
  const isStreamed = maxStreamedRows !== undefined && (kind === "csv" || kind === "lines");
  return isStreamed ? { ...options, maxOuterRows: maxStreamedRows } : options;
}

/** The schema that the profile header names, or the default schema. */
function schemaOf({ schema }: TableRequest, { schemas }: Catalog): Schema {
  const found = schema === null ? schemas.values().next().value : schemas.get(schema);
  if (!found) throw noSuchSchema(schema ?? "", [...schemas.keys()]);
  return found;
}

function findTable(schema: Schema, name: string): Table {
  const table = schema.tables.get(name);
  if (table) return table;
  throw noSuchTable(schema.name, name, (reader) => {
    const readable = [...schema.tables.values()].filter((each) => readsTable(reader.catalog, reader.role, each));
    const similar = similarTo(
      name,
      readable.map((each) => each.name),
    );
    return similar && `Perhaps you meant the table '${schema.name}.${similar}'`;
  });
}

function countOf({ preferences }: TableRequest, { maxRows }: PlanOptions): Count | null {
  const { count } = preferences;
  if (count !== "estimated") return count === null ? null : { kind: count };
  return { kind: "estimated", exactUpTo: maxRows };
}

/** Rows that a caller must see of a filter before an estimate is sent, which also depends on rows that the caller does not see. */
const LEAST_VISIBLE = 1000;

function countOfVisible(count: Count | null, { maxRows }: PlanOptions): Count | null {
  if (count === null || count.kind === "exact") return count;
  return maxRows === null ? { kind: "exact" } : { kind: "estimated", exactUpTo: Math.max(maxRows, LEAST_VISIBLE) };
}

/** Limits the rows to those that are both in the header Range and within limit and offset. */
function withRange(request: TableRequest): TableRequest {
  if (!request.range) return request;
  const own: QueryPart = request.query.parts.get("") ?? { conditions: [], order: [], limit: null, offset: 0 };
  const parts = new Map(request.query.parts).set("", { ...own, ...intersection(own, request.range) });
  return { ...request, query: { ...request.query, parts } };
}

function intersection({ limit, offset }: QueryPart, { first, last }: Range): Pick<QueryPart, "limit" | "offset"> {
  const start = Math.max(offset, first);
  const ends = [limit === null ? null : offset + limit, last === null ? null : last + 1].filter((end) => end !== null);
  if (ends.length === 0) return { limit: null, offset: start };
  const end = Math.min(...ends);
  if (end < start || (end === start && limit !== 0))
    throw invalidRange("The Range header and limit and offset have no rows in common.");
  return { limit: end - start, offset: start };
}

/** The methods of a table or function, for OPTIONS. */
export function allowedMethods(request: TableRequest, catalog: Catalog): string[] {
  const { kind, name } = request.target;
  const schema = schemaOf(request, catalog);
  if (kind === "table") return methodsOf(findTable(schema, name));
  const overloads = schema.functions.get(name);
  if (!overloads) throw noSuchFunction(`${schema.name}.${name}`, "There is no function with this name.", null);
  const isOnlyVolatile = overloads.every(({ volatility }) => volatility === "volatile");
  return isOnlyVolatile ? ["OPTIONS", "POST"] : ["OPTIONS", "GET", "HEAD", "QUERY", "POST"];
}
