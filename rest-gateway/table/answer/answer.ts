import type { Catalog } from "../../../db/catalog/catalog.ts";
import {
  type CallPlan,
  type ChangePlan,
  type EmbedPlan,
  isChange,
  type Plan,
  type ReadPlan,
  type RowsPlan,
} from "../../../db/query/plan.ts";
import type { QueryResult } from "../../../db/query/query.ts";
import { RESULT } from "../../../db/query/result.ts";
import { type StreamedResult, withRows } from "../../../db/query/run.ts";
import { problem } from "../../../problems/problem.ts";
import type { Header } from "../../conventions/headers.ts";
import { invalidRange, notSingular } from "../problem.ts";
import { type PlannedRequest, type Preferences, RESERVED_NAMES, type RequestUrl } from "../request.ts";

const { validateHeaderName, validateHeaderValue } = process.getBuiltinModule("node:http");

/** A response. The body is the bytes that Postgres produced. */
export type Answer = {
  readonly status: number;
  readonly headers: readonly Header[];
  /** Headers that a database function has set. They replace the service's headers of the same name. */
  readonly given?: readonly Header[];
  readonly body: Buffer | null;
  /** Whether nothing else uses the body, so that its memory may be freed when it is sent. */
  readonly isDisposable?: boolean;
};

/** Turns the row of the main statement into a response. Throws Problem if the request does not allow the result. */
export function answer(planned: PlannedRequest, result: QueryResult, url: RequestUrl): Answer {
  const { plan, profile, appliedPreferences, warning } = planned;
  if (plan.format.explain) return explanation(plan, result);
  const row = result.main.rows[0]!;
  const text = (column: number) => row[column]?.toString() ?? null;
  const rows = Number(text(RESULT.rows));
  const total = text(RESULT.total);
  const affected = total === null ? rows : Number(total);
  if (plan.format.isSingular && rows !== 1) throw notSingular(rows);

  const isRead = plan.kind === "read" || plan.kind === "call";
  const range = isRead ? rangeOf(plan, rows, result, total) : changedRange(plan, planned.preferences, affected);
  const body = bodyKind(plan);
  const location = plan.kind === "insert" ? text(RESULT.location) : null;
  const contentUrl = plan.kind === "read" ? contentLocation(url) : null;
  const headers: Header[] = [
    ...(body === "none" ? [] : ([["Content-Type", plan.format.contentType]] as const)),
    ...(plan.kind === "insert" && plan.key ? [] : ([["Content-Range", range.header]] as const)),
    ...(contentUrl === null ? [] : ([["Content-Location", contentUrl]] as const)),
    ...(profile === null || body === "none" ? [] : ([["Content-Profile", profile]] as const)),
    ...(location === null ? [] : ([["Location", locationOf(plan, url.path, JSON.parse(location))]] as const)),
    ...(appliedPreferences === "" ? [] : ([["Preference-Applied", appliedPreferences]] as const)),
    ...(warning === null ? [] : ([["Warning", warning]] as const)),
  ];
  const given = text(RESULT.headers);
  return {
    status: responseStatus(text(RESULT.status)) ?? statusOf(plan, range, affected, text(RESULT.updated)),
    headers,
    ...(given !== null && { given: responseHeaders(given) }),
    body: body === "sent" ? (row[RESULT.body] ?? EMPTY) : null,
    isDisposable: true,
  };
}

const EMPTY = Buffer.alloc(0);

/** A response whose body is read from the database while it is sent. `close` must follow. */
export type StreamedAnswer = Omit<StreamedResult, "head"> & { readonly answer: Answer };

/** The range is known if the client asked for an exact total: the rows are read from the same snapshot. */
export function answerStreamed(
  planned: PlannedRequest,
  { head, ...stream }: StreamedResult,
  url: RequestUrl,
): StreamedAnswer {
  const { plan } = planned;
  if (plan.kind === "read" && plan.count?.kind === "exact") {
    const { limit, offset } = plan.rows;
    const total = Number(head.main.rows[0]![RESULT.total]!.toString());
    const rows = Math.min(limit ?? total, total - offset);
    return { ...stream, answer: answer(planned, withRows(head, null, rows), url) };
  }
  const uncounted = { ...planned, plan: { ...plan, count: null } } as PlannedRequest;
  const { headers, ...rest } = answer(uncounted, withRows(head, null, 1), url);
  return { ...stream, answer: { ...rest, headers: headers.filter(([name]) => name !== "Content-Range") } };
}

/** "headers only" is for HEAD: the headers describe a body that is not sent. */
function bodyKind(plan: Plan): "sent" | "headers only" | "none" {
  if (plan.kind === "read") return plan.isBodiless ? "headers only" : "sent";
  if (plan.kind === "call") {
    if (plan.function.returns.kind === "void") return "none";
    return plan.isBodiless ? "headers only" : "sent";
  }
  return plan.representation ? "sent" : "none";
}

function rangeOf(plan: ReadPlan | CallPlan, rows: number, result: QueryResult, counted: string | null): ContentRange {
  if (plan.kind === "read") return readRange(plan.rows.offset, rows, totalOf(plan.count, counted, result));
  const total = counted === null ? null : Number(counted);
  const offset = plan.rows?.offset ?? 0;
  // A function that may write has already run: an error for an offset beyond the total would hide that.
  return readRange(plan.isReadOnly ? offset : Math.min(offset, total ?? offset), rows, total);
}

/** An estimated count is exact up to its limit. Beyond it, the planner's estimate is returned. */
function totalOf(
  count: Extract<Plan, { kind: "read" }>["count"],
  counted: string | null,
  { estimate }: QueryResult,
): number | null {
  if (count === null) return null;
  const exact = counted === null ? null : Number(counted);
  if (count.kind === "exact") return exact;
  if (count.kind === "estimated" && count.exactUpTo !== null && exact! <= count.exactUpTo) return exact;
  const planned = plannedRows(estimate!.rows[0]![0]!);
  return exact === null ? planned : Math.max(planned, exact);
}

/** `[{"Plan": {"Plan Rows": 42, …}}]` → 42 */
const plannedRows = (explained: Buffer): number => JSON.parse(explained.toString())[0].Plan["Plan Rows"];

function statusOf(plan: Plan, range: ContentRange, affected: number, updated: string | null): number {
  switch (plan.kind) {
    case "read":
      return range.isPartial ? 206 : 200;
    case "call":
      if (plan.function.returns.kind === "void") return 204;
      return range.isPartial ? 206 : 200;
    case "insert": {
      const inserted = affected - Number(updated ?? 0);
      if (plan.key) return plan.representation ? (inserted > 0 ? 201 : 200) : 204;
      return plan.conflict?.action === "update" && inserted <= 0 ? 200 : 201;
    }
    default:
      return plan.representation ? 200 : 204;
  }
}

/** The output of EXPLAIN: lines of text, or one JSON document. */
function explanation({ format }: Plan, { main }: QueryResult): Answer {
  const lines = main.rows.map(([line]) => line!.toString());
  return { status: 200, headers: [["Content-Type", format.contentType]], body: Buffer.from(lines.join("\n")) };
}

/** The header Preference-Applied: the preferences of the request that had an effect; "" for none. */
export function appliedPreferences(plan: Plan, preferences: Preferences, isEndChosen: boolean): string {
  const { resolution, missing, return: returned, count, tx, handling, timezone, maxAffected, read } = preferences;
  const pairs: [string, string | number | null][] = [
    ["resolution", plan.kind === "insert" && !plan.key && plan.conflict ? resolution : null],
    ["missing", plan.kind === "insert" || plan.kind === "update" ? missing : null],
    ["return", isChange(plan) ? returned : null],
    ["count", count],
    ["tx", isEndChosen ? tx : null],
    ["handling", handling],
    ["timezone", timezone],
    ["read", isChange(plan) ? null : read],
    ["max-affected", plan.maxAffected === null || handling !== "strict" ? null : maxAffected],
  ];
  return pairs
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}

/**
 * The header Warning, for parameters that use the name of a relation that has an alias; null when none does.
 * Source: PostgREST docs, "url-use-legacy-target-names".
 */
export function warningOf(plan: Plan): string | null {
  const rows = plan.kind === "read" || plan.kind === "call" ? plan.rows : plan.representation;
  const older = rows ? olderNames(rows) : [];
  if (older.length === 0) return null;
  const updates = older.map(({ olderName, name }) => `\`${asciiOf(olderName!)}\` to \`${asciiOf(name)}\``);
  return (
    '299 content-service "Embedded resource was referenced by relation name even though it has an alias. ' +
    "This is deprecated and will stop working in a future release. " +
    `Update ${updates.join(", ")} in query string filters, orders or limits."`
  );
}

const olderNames = ({ embeds }: RowsPlan): EmbedPlan[] =>
  embeds.flatMap((embed) => [...(embed.olderName === null ? [] : [embed]), ...olderNames(embed.rows)]);

/** A quoted string in a header must be ASCII without quotes. */
const asciiOf = (name: string) => name.replace(/[^ !#-[\]-~]/gu, encodeURIComponent);

/** The header Content-Profile; null if only one schema is served. Node writes each character of a header as one byte. */
export const profileHeader = ({ schemas }: Pick<Catalog, "schemas">, schema: string): string | null =>
  schemas.size > 1 ? Buffer.from(schema).toString("latin1") : null;

/** `0-19/100`; partial when there are more rows than these. */
export type ContentRange = { readonly header: string; readonly isPartial: boolean };

/** The range of a read. Throws 416 for an offset beyond the total, if the total is known. */
export function readRange(offset: number, rows: number, total: number | null): ContentRange {
  if (total !== null && offset > total)
    throw invalidRange(`An offset of ${offset} was requested, but there are only ${total} rows.`, total);
  return { header: rangeHeader(offset, rows, total), isPartial: total !== null && rows < total };
}

/** The range of a change. Only an update numbers its rows. The total is exact, whichever count the client prefers. */
const changedRange = ({ kind }: ChangePlan, { count }: Preferences, affected: number): ContentRange => ({
  header: rangeHeader(0, kind === "update" ? affected : 0, count === null ? null : affected),
  isPartial: false,
});

const rangeHeader = (first: number, rows: number, total: number | null) =>
  `${rows > 0 ? `${first}-${first + rows - 1}` : "*"}/${total ?? "*"}`;

/** The header Location: `/rest/v1/users?id=eq.5`. `key` holds the values of the key's columns as text. */
export function locationOf(plan: Plan, path: string, key: readonly (string | null)[]): string {
  const columns = plan.kind === "insert" ? plan.locationKey : [];
  const filters = columns.map(({ name }, i) => {
    const value = key[i] ?? null;
    const condition = value === null ? "is.null" : `eq.${encodeURIComponent(value)}`;
    return `${encodeURIComponent(parameterOf(name))}=${condition}`;
  });
  return `${path}?${filters.join("&")}`;
}

const PLAIN_NAME = /^[\p{L}_]([\p{L}\d_$ ]*[\p{L}\d_$])?$/u;

/** The parameter that filters by a column: its name, quoted if necessary: `id`, `"limit"`, `"a.b"`. */
function parameterOf(column: string): string {
  const isPlain = PLAIN_NAME.test(column) && !RESERVED_NAMES.has(column);
  return isPlain ? column : `"${column.replace(/["\\]/g, "\\$&")}"`;
}

/** Clients read at most 16 kB of headers, and some proxies only 4 kB. The URL of a request may be longer. */
const MAX_LOCATION_LENGTH = 2000;

/** The header Content-Location: the URL with sorted parameters, which is the same for equivalent requests; null for a long URL. */
export function contentLocation({ path, search }: RequestUrl): string | null {
  if (path.length + search.length > MAX_LOCATION_LENGTH) return null;
  return search === "" ? path : `${path}?${search.includes("&") ? search.split("&").sort().join("&") : search}`;
}

/** The value of `set_config('response.status', '418', true)`; null when no function has set it. */
export function responseStatus(text: string | null): number | null {
  if (text === null) return null;
  if (!/^[2-5]\d\d$/.test(text)) throw problem("bad response status");
  return Number(text);
}

/** Headers of the message framing. A function that set them would break the connection. */
const RESERVED = new Set(["content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "trailer"]);

/** The headers that a function has set: `[{"Cache-Control": "public"}, …]` */
export function responseHeaders(text: string): Header[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw problem("bad response headers");
  }
  if (!Array.isArray(list)) throw problem("bad response headers");
  return list.map(headerOf);
}

function headerOf(item: unknown): Header {
  const [entry, ...others] = typeof item === "object" && item !== null ? Object.entries(item) : [];
  const header = entry && others.length === 0 ? writeHeader(entry) : null;
  if (!header) throw problem("bad response headers");
  return header;
}

/** `é` → two characters, which Node writes as its two bytes in UTF-8. Node encodes Content-Disposition twice. */
const inBytes = (text: string) => Buffer.from(text).toString("latin1");

/** A header that a function has set, as it is sent; null when it is malformed or reserved. */
export function writeHeader([name, value]: readonly [string, unknown]): Header | null {
  if (typeof value !== "string" || RESERVED.has(name.toLowerCase())) return null;
  const bytes = name.toLowerCase() === "content-disposition" ? inBytes(inBytes(value)) : inBytes(value);
  try {
    validateHeaderName(name);
    validateHeaderValue(name, bytes);
    return [name, bytes];
  } catch {
    return null;
  }
}
