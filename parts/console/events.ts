import type { z } from "zod";
import { type Html, html, type Value } from "../../gate/pages/html.ts";
import { records, stampOf } from "../../gate/pages/table.ts";
import type { EventAnswer, EventListAnswer } from "../../rest-gateway/auth/admin-schemas.ts";
import { AdminApi, Refused, type SendRequest } from "./admin-api.ts";
import type { View } from "./console.ts";
import { CONSOLE } from "./path.ts";

type Events = z.infer<typeof EventListAnswer>;
type Event = z.infer<typeof EventAnswer>;

export const EVENTS = `${CONSOLE}/events`;

const PATH = "/auth/admin/events";
/** Events of an export: the most that the route sends. */
const MAX_EXPORTED = "10000";
const FORMATS: Readonly<Record<string, string>> = { csv: "text/csv", ndjson: "application/x-ndjson" };
const FILTERS = ["event", "user", "operator", "from", "to", "before"];

/** `/console/events?event=login_failed&user=7&export=csv`: security events, to read and to export. */
export const eventsView = (send: SendRequest): View => ({
  path: EVENTS,
  name: "Events",
  icon: "events",
  async render(input) {
    const { query } = input;
    const api = new AdminApi(send, input, EVENTS);
    const filters = filtersIn(query);
    try {
      const format = query.get("export") ?? "";
      if (Object.hasOwn(FORMATS, format)) {
        const all = new URLSearchParams({ ...filters, limit: MAX_EXPORTED });
        return await api.download(`${PATH}?${all}`, FORMATS[format]!, `security-events.${format}`);
      }
      const found = await api.call<Events>("GET", `${PATH}?${new URLSearchParams(filters)}`);
      return html`${headOf(query)}${foundEvents(found, query)}`;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return html`${headOf(query)}<p class="alert" role="alert">${error.message}</p>`;
    }
  },
});

/** The newest events as a table. Rejects with Refused. */
export async function latestEvents(api: AdminApi, limit: number): Promise<Html> {
  const { data } = await api.call<Events>("GET", `${PATH}?${new URLSearchParams({ limit: String(limit) })}`);
  return data.length === 0 ? html`<p>No event.</p>` : eventsTable(data, new URLSearchParams());
}

/** What the route filters by. A date begins at midnight in UTC. */
function filtersIn(query: URLSearchParams): Record<string, string> {
  const given = FILTERS.map((name) => [name, query.get(name)?.trim() ?? ""] as const);
  const midnight = (name: string, value: string) =>
    (name === "from" || name === "to") && /^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00:00Z` : value;
  return Object.fromEntries(given.flatMap(([name, value]) => (value === "" ? [] : [[name, midnight(name, value)]])));
}

function headOf(query: URLSearchParams): Html {
  const field = (name: string, label: string, type: string, placeholder = "") =>
    html`<div><label for="${name}">${label}</label><input id="${name}" name="${name}" type="${type}" value="${query.get(name) ?? ""}" placeholder="${placeholder}" maxlength="200"></div>`;
  return html`
<h1>Security events</h1>
<form method="get" action="${EVENTS}" class="filters" role="search">
${field("event", "Event", "text", "login_failed")}${field("user", "User id", "text")}${field("operator", "Operator", "text", "user 3")}
${field("from", "From (UTC)", "date")}${field("to", "Before (UTC)", "date")}
<button>Show</button>
</form>`;
}

function foundEvents({ data, next }: Events, query: URLSearchParams): Html {
  if (data.length === 0)
    return html`<p class="empty">No event. ${isFiltered(query) ? html`<a href="${EVENTS}">Show all</a>` : null}</p>`;
  return html`
<p class="row">${isFiltered(query) ? html`<a href="${EVENTS}">Show all</a>` : null}
<a href="${linkTo(query, { export: "csv" })}" download>Export as CSV</a>
<a href="${linkTo(query, { export: "ndjson" })}" download>Export as NDJSON</a></p>
${eventsTable(data, query)}
${next === null ? null : html`<p><a href="${linkTo(query, { before: String(next) })}">Older events</a></p>`}`;
}

const eventsTable = (events: readonly Event[], query: URLSearchParams): Html =>
  records(
    ["Event", "Time (UTC)", "User", "By", "Address", "Details"],
    events.map((each) => rowOf(each, query)),
  );

const isFiltered = (query: URLSearchParams) => FILTERS.some((name) => query.get(name));

/** The same page with another filter. */
function linkTo(query: URLSearchParams, changes: Readonly<Record<string, string>>): string {
  const kept = FILTERS.flatMap((name) => (query.get(name) ? [[name, query.get(name)!]] : []));
  return `${EVENTS}?${new URLSearchParams({ ...Object.fromEntries(kept), ...changes })}`;
}

const rowOf = ({ at, event, userId, operator, address, detail }: Event, query: URLSearchParams): Value[] => {
  const { before: _, ...newest } = Object.fromEntries(query);
  const filter = (name: string, value: string) =>
    html`<a href="${linkTo(new URLSearchParams(newest), { [name]: value })}">${value}</a>`;
  const details = Object.keys(detail).length === 0 ? null : html`<code>${JSON.stringify(detail)}</code>`;
  return [
    filter("event", event),
    stampOf(at),
    userId === null ? null : filter("user", String(userId)),
    operator && filter("operator", operator),
    address,
    details,
  ];
};
