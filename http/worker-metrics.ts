import cluster, { type Worker } from "node:cluster";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { AggregatorRegistry } from "prom-client";
import type { Metrics, MetricsJson } from "../telemetry/metrics.ts";

/** A worker asks the primary process for the metrics of all, and the primary asks each worker for its own. */
type Question = { readonly kind: "metrics?"; readonly id: string };
type Answer = { readonly kind: "metrics"; readonly id: string; readonly metrics: MetricsJson | string };
type Message = Question | Answer | { readonly kind: string };

/** Milliseconds that a busy process may take to answer. */
const TIMEOUT = 3000;

type Peer = NodeJS.Process | Worker;

/** The callback replaces an error event when the other process has ended. */
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
  const answer = await Promise.race([promise, sleep(TIMEOUT, null, { ref: false })]);
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

/** In the primary process: sums the metrics of all workers up for any of them. */
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
