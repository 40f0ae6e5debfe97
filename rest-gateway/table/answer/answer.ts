import type { Header } from "../../conventions/endpoint.ts";
import { type CallPlan, isChange, isPut, type Plan, type ReadPlan } from "../plan.ts";
import { notSingular } from "../problem.ts";
import { type PlannedRequest, type QueryResult, RESULT } from "../query.ts";
import type { RequestUrl } from "../request.ts";
import {
  type ContentRange,
  changedRange,
  contentLocation,
  locationOf,
  readRange,
  responseHeaders,
  responseStatus,
} from "./headers.ts";

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

  const range = isChange(plan) ? changedRange(plan, affected) : rangeOf(plan, rows, result, total);
  const body = bodyKind(plan);
  const location = plan.kind === "insert" ? text(RESULT.location) : null;
  const contentUrl = plan.kind === "read" ? contentLocation(url) : null;
  const headers: Header[] = [
    ...(body === "none" ? [] : ([["Content-Type", plan.format.contentType]] as const)),
    ...(isPut(plan) ? [] : ([["Content-Range", range.header]] as const)),
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
