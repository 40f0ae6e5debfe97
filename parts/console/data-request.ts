import { createHash } from "node:crypto";
import type { Catalog, Table } from "../../db/catalog/catalog.ts";
import { isOperator, OPERATORS } from "../../db/filters/operators.ts";
import type { InProcessRequest, InProcessResponse } from "./in-process.ts";

/** `["status", "eq", "DRAFT"]` */
export type RowFilter = readonly [column: string, operator: string, value: string];

/** The operators with one value, and the two that need none, as they are shown. */
export const FILTER_TEXTS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.entries(OPERATORS)
      .filter(([, { syntax }]) => syntax === "quantified" || syntax === "plain")
      .map(([name, { sql, pattern }]) => [name, pattern === "wildcards" ? `contains (${sql})` : sql]),
  ),
  "is.null": "is null",
  "not.is.null": "is not null",
};

/** Which rows of a table are read, and in which order. */
export type Selection = {
  readonly table: Table;
  /** The columns that the caller may read. */
  readonly columns: readonly string[];
  readonly conditions: readonly RowFilter[];
  readonly order: { readonly column: string; readonly direction: string } | null;
};

export type Row = Readonly<Record<string, string | null>>;

const quoted = (text: string) => `"${text.replace(/[\\"]/g, "\\$&")}"`;

/** Reads the rows as text, as Postgres writes each value. */
export function readRequest(
  selection: Selection,
  page: { limit: number; offset: number },
  type = "application/json",
): InProcessRequest {
  const { table, columns, conditions, order } = selection;
  const key = table.primaryKey.filter((name) => columns.includes(name) && name !== order?.column);
  const terms = [
    ...(order ? [`${quoted(order.column)}.${order.direction}`] : []),
    ...key.map((name) => `${quoted(name)}.asc`),
  ];
  const query = new URLSearchParams({
    select: asText(columns),
    ...(conditions.length > 0 && { and: `(${conditions.map(filterText).join()})` }),
    ...(terms.length > 0 && { order: terms.join() }),
    limit: String(page.limit),
    offset: String(page.offset),
  });
  return {
    method: "GET",
    path: `${pathOf(table)}?${query}`,
    headers: { accept: type, "accept-profile": table.schema },
    body: "",
  };
}

/** Changes the row with this key. `body` is a JSON object. The response has the changed row. */
export function changeRequest({ table, columns }: Selection, key: readonly string[], body: string): InProcessRequest {
  const query = new URLSearchParams({
    select: asText(columns),
    and: `(${keyFilters(table, key).map(filterText).join()})`,
  });
  const headers = {
    accept: "application/json",
    "content-type": "application/json",
    "content-profile": table.schema,
    prefer: "return=representation",
  };
  return { method: "PATCH", path: `${pathOf(table)}?${query}`, headers, body };
}

export const keyFilters = ({ primaryKey }: Table, key: readonly string[]): readonly RowFilter[] =>
  primaryKey.map((column, i) => [column, "eq", key[i] ?? ""] as const);

const pathOf = ({ name }: Table) => `/rest/v1/${encodeURIComponent(name)}`;

const asText = (columns: readonly string[]) => columns.map((name) => `${quoted(name)}::text`).join();

function filterText([column, operator, value]: RowFilter): string {
  if (operator.endsWith(".null")) return `${quoted(column)}.${operator}`;
  return `${quoted(column)}.${operator}.${quoted(isPattern(operator) && !value.includes("*") ? `*${value}*` : value)}`;
}

const isPattern = (operator: string): boolean => isOperator(operator) && OPERATORS[operator].pattern === "wildcards";

/** The conditions and the order that a page of the console names; unknown columns and operators are left out. */
export function selectionIn(query: URLSearchParams, table: Table, columns: readonly string[]): Selection {
  const conditions = query.getAll("where").flatMap((text) => {
    const given = stringsIn(text);
    return given?.length === 3 && isFilter(given as unknown as RowFilter, columns)
      ? [given as unknown as RowFilter]
      : [];
  });
  const column = query.get("order") ?? "";
  const direction = query.get("direction") === "desc" ? "desc" : "asc";
  return { table, columns, conditions, order: columns.includes(column) ? { column, direction } : null };
}

export const isFilter = ([column, operator]: RowFilter, columns: readonly string[]): boolean =>
  columns.includes(column) && Object.hasOwn(FILTER_TEXTS, operator);

/** A JSON array of strings; null if the text is something else. */
export function stringsIn(text: string): readonly string[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((each) => typeof each === "string") ? value : null;
  } catch {
    return null;
  }
}

/** The rows of a response; null if it is an error. */
export const rowsIn = ({ status, body }: InProcessResponse): readonly Row[] | null =>
  status < 300 ? (JSON.parse(body.toString()) as Row[]) : null;

/** What the interface says about a request that it refused. */
export function refusalIn({ body }: InProcessResponse): string {
  const { message, details, hint } = JSON.parse(body.toString()) as Record<string, string | null>;
  const reason = [details, hint].filter((text) => text).join(": ");
  const sentences = [message, reason].flatMap((text) =>
    text ? [text.replace(/\.?$/, ".").replace(/^./, (first) => first.toUpperCase())] : [],
  );
  return sentences.join(" ");
}

/** The column whose value was refused; null if the response names none. */
export function refusedColumnIn({ body }: InProcessResponse): string | null {
  const { fields } = JSON.parse(body.toString()) as { fields?: readonly { readonly field: string }[] };
  return fields?.[0]?.field ?? null;
}

/** Identifies the values of a row, so that an edit of an older version is noticed. */
export const versionOf = (row: Row): string => createHash("sha256").update(JSON.stringify(row)).digest("base64url");

export const allTables = ({ schemas }: Catalog): readonly Table[] =>
  [...schemas.values()].flatMap(({ tables }) => [...tables.values()]);
