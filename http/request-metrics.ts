import { REQUEST_SECONDS, type Times } from "../telemetry/histogram.ts";
import type { Metrics, Sample } from "../telemetry/metrics.ts";
import { OTHER, Tally } from "../telemetry/tally.ts";
import type { RequestNotes } from "./exchange.ts";

/** Node accepts more methods; those count as one. */
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
/** The functions of a database may raise codes of their own. */
const MAX_CODES = 200;

/** The requests of one method and route. */
type Series = { readonly method: string; readonly route: string; readonly times: Times; readonly statuses: number[] };

/** Counts requests by route, method and status, and errors by code. */
export class RequestMetrics {
  readonly #series = new Map<string, Map<string, Series>>();
  readonly #codes = new Tally("code", MAX_CODES);
  readonly #timesOf: (method: string, route: string) => Times;

  constructor(metrics: Metrics) {
    const histogram = metrics.histogram({
      name: "http_request_duration_seconds",
      about: "Time from the head of a request until its response is sent.",
      labels: ["method", "route"],
      buckets: REQUEST_SECONDS,
    });
    this.#timesOf = (method, route) => histogram.of(method, route);
    metrics.counter({
      name: "http_requests_total",
      about: "Requests by the template of their path and the status of the response; 499 if the client disconnected.",
      labels: ["method", "route", "status"],
      read: () => this.#samples(),
    });
    metrics.counter({
      name: "errors_total",
      about: "Error responses by code.",
      labels: ["code"],
      read: () => this.#codes.samples,
    });
  }

  observe(method: string, { route, code }: RequestNotes, status: number, seconds: number): void {
    const { times, statuses } = this.#seriesOf(METHODS.has(method) ? method : OTHER, route);
    times.observe(seconds);
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (code !== null) this.#codes.add(code);
  }

  #seriesOf(method: string, route: string): Series {
    const known = this.#series.get(route)?.get(method);
    if (known !== undefined) return known;
    const series = { method, route, times: this.#timesOf(method, route), statuses: [] };
    this.#series.set(route, (this.#series.get(route) ?? new Map()).set(method, series));
    return series;
  }

  #samples(): readonly Sample[] {
    const all = [...this.#series.values()].flatMap((ofRoute) => [...ofRoute.values()]);
    return all.flatMap(({ method, route, statuses }) =>
      Object.entries(statuses).map(([status, value]) => ({ labels: { method, route, status }, value })),
    );
  }
}
