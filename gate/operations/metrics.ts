import type { Worker } from "node:cluster";
import cluster from "node:cluster";
import { randomUUID } from "node:crypto";
import { AggregatorRegistry } from "prom-client";
import { within } from "../../db/repeat.ts";
import { REQUEST_SECONDS, type Times } from "../../telemetry/histogram.ts";
import { type Metrics, type MetricsJson, OTHER, type Sample, Tally } from "../../telemetry/metrics.ts";
import type { RequestNotes } from "../pipeline/exchange.ts";

/** Node accepts more methods; those count as one. */
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
/** A limit, because functions of the database may raise any number of codes. */
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

/** A worker asks the primary process for the metrics of all, and the primary asks each worker for its own. */
type Question = { readonly kind: "metrics?"; readonly id: string };
type Answer = { readonly kind: "metrics"; readonly id: string; readonly metrics: MetricsJson | string };
type Message = Question | Answer | { readonly kind: string };

/** Milliseconds that a busy process may take to answer. */
const TIMEOUT = 3000;

type Peer = NodeJS.Process | Worker;

/** With a callback, sending to a process that has ended does not emit an error event. */
const send = (peer: Peer, message: Question | Answer) => (peer as Worker).send(message, () => {});

/** Sends a question and resolves to the answer; null if there is none in time. */
async function ask<Result>(peer: Peer): Promise<Result | null> {
  const id = randomUUID();
  const { promise, resolve } = Promise.withResolvers<Result>();
  const listener = (message: Message) => {
    if (message.kind === "metrics" && (message as Answer).id === id) resolve((message as Answer).metrics as Result);
  };
  peer.on("message", listener);
  send(peer, { kind: "metrics?", id });
  const answer = await within(TIMEOUT, promise);
  peer.off("message", listener);
  return answer;
}

function onQuestion(peer: Peer, answer: () => Promise<Answer["metrics"]>): void {
  peer.on("message", async (message: Message) => {
    if (message.kind !== "metrics?") return;
    const metrics = await answer();
    send(peer, { kind: "metrics", id: (message as Question).id, metrics });
  });
}

/** In the primary process: answers each worker that asks with the sum of the metrics of all workers. */
export function collectFromWorkers(): void {
  cluster.on("fork", (worker) => onQuestion(worker, textOfAll));
}

async function textOfAll(): Promise<string> {
  const connected = Object.values(cluster.workers ?? {}).filter((worker) => worker!.isConnected());
  const answers = await Promise.all(connected.map((worker) => ask<MetricsJson>(worker!)));
  return AggregatorRegistry.aggregate(answers.filter((answer) => answer !== null)).metrics();
}

/** The metrics of the service as text: in a worker, those of all workers. */
export function metricsText(metrics: Metrics): () => Promise<string> {
  if (!cluster.isWorker) return () => metrics.text();
  onQuestion(process, () => metrics.json());
  return async () => (await ask<string>(process)) ?? metrics.text();
}
