import type { z } from "zod";
import { csvLine } from "../../db/query/result.ts";
import type { EventAnswer } from "../../rest-gateway/auth/admin-schemas.ts";
import { EVENT_FILTERS, type EventFilters } from "../../rest-gateway/auth/admin-users.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { badParameter } from "../../rest-gateway/conventions/problem.ts";
import { parametersOf } from "./users.ts";

type Event = z.infer<typeof EventAnswer>;

const PAGE_SIZE = 100;
const MAX_EVENTS = 10_000;

/** `GET /auth/admin/events?event=login_failed&from=2026-01-01T00:00:00Z`, as JSON, CSV or NDJSON. */
export async function listEvents(call: Call<"operator">) {
  const { auth, request, response } = call;
  const parameters = parametersOf(call, [...EVENT_FILTERS, "limit"]);
  const limit = Number(parameters.get("limit") ?? PAGE_SIZE);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_EVENTS)
    throw badParameter("limit", `limit must be an integer from 1 to ${MAX_EVENTS}`);
  for (const name of ["from", "to"]) {
    const text = parameters.get(name);
    if (text !== null && (!TIME.test(text) || Number.isNaN(Date.parse(text))))
      throw badParameter(name, `${name} must be a time such as 2026-01-31T12:00:00Z`);
  }
  const before = parameters.get("before");
  if (before !== null && !/^\d{1,18}$/.test(before)) throw badParameter("before", "before must be the id of an event");
  const filters = Object.fromEntries(EVENT_FILTERS.map((name) => [name, parameters.get(name) || null])) as EventFilters;

  const data = await auth.adminUsers.events(filters, limit);
  const next = data.length < limit ? null : data.at(-1)!.id;
  const format = request.accepts(["application/json", "text/csv", "application/x-ndjson"]);
  if (format === "text/csv") response.type("csv").send(csvOf(data));
  else if (format === "application/x-ndjson")
    response.type(format).send(data.map((each) => `${JSON.stringify(each)}\n`).join(""));
  response.set("Vary", "Accept");
  return { data, next };
}

const TIME = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:?\d{2}))?$/;

const COLUMNS = ["id", "at", "event", "userId", "operator", "address", "detail"] as const;

const csvOf = (events: readonly Event[]): string =>
  [COLUMNS, ...events.map((event) => COLUMNS.map((name) => textOf(event[name])))]
    .map((values) => `${csvLine(values)}\n`)
    .join("");

const textOf = (value: unknown): string | null =>
  value === null ? null : typeof value === "object" ? JSON.stringify(value) : String(value);
