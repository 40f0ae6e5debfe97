import type { Worker } from "node:cluster";
import cluster from "node:cluster";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { lossOf, type OpenedDatabase } from "../../db/cluster/open.ts";
import { collectFromWorkers } from "../operations/metrics.ts";
import { connectPeers } from "./peers.ts";

type WorkersOptions = {
  readonly count: number;
  /** Environment variables of the workers, added to those of this process. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The name of this instance, or "". A worker adds its index, and one that replaces it has the same. */
  readonly instanceId: string;
  /** Milliseconds from the beginning of a stop to its end, at most. */
  readonly stopTimeout: number;
  open(): Promise<OpenedDatabase>;
  readonly log: Logger;
};

/** A running service, in this process or in worker processes. */
export type Running = {
  readonly url: string;
  /** Waits for running requests, then stops everything. May be called more than once. */
  stop(): Promise<void>;
  /** Lets another process on the same port take over: resolves when the clients of this one are gone, at most KEEP_ALIVE later. */
  handOver(): Promise<void>;
  reloadSchema(): void;
  /** Resolves when the settings are in use; with worker processes, possibly before the workers use them. */
  reloadSettings(): Promise<void>;
  /** Resolves when what the start has found wrong is in the log. */
  readonly checked: Promise<unknown>;
  /** Resolves when the embedded database ends unexpectedly. */
  readonly databaseLost: Promise<void>;
};

export type RunningWorkers = Running & {
  /**
   * Starts a worker, which reads the files of the application as they are now, and stops the others when it is ready. A call that
   * follows a call that is not complete ends what that has started. Rejects if the worker cannot start: the others keep serving.
   */
  replace(): Promise<void>;
};

/** A message of a worker to the primary process. */
type Report =
  | { readonly kind: "waiting" }
  | { readonly kind: "ready"; readonly url: string }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "checked" | "handed over" };

/** A message of the primary process to a worker. */
type Order =
  | { readonly kind: "serve"; readonly database: OpenedDatabase }
  | { readonly kind: "stop" }
  | { readonly kind: "hand over" }
  | { readonly kind: "reload"; readonly what: "schema" | "settings" };

/** Milliseconds after which a worker counts as stable and is replaced without a delay. */
const STABLE = 10_000;
/** Milliseconds. */
const FIRST_DELAY = 100;
const LAST_DELAY = 30_000;

/**
 * Opens the database and starts worker processes that serve it on one port. They listen immediately and receive the database
 * when it is open. A worker that ends is replaced by one that listens when it is ready. Rejects, with nothing left running,
 * when the database cannot be opened or one of the first workers cannot start.
 */
export async function startWorkers(options: WorkersOptions): Promise<RunningWorkers> {
  const opening = options.open();
  collectFromWorkers();
  connectPeers();
  const workers = new Workers(options, opening);
  try {
    const [opened, { url, checked }] = await Promise.all([opening, workers.start()]);
    return {
      ...{ url, checked },
      stop: () => workers.stop().then(() => opened.cluster?.stop()),
      handOver: () => workers.handOver(),
      replace: () => workers.replace(),
      reloadSchema: () => workers.send({ kind: "reload", what: "schema" }),
      reloadSettings: async () => workers.send({ kind: "reload", what: "settings" }),
      databaseLost: lossOf(opened, () => workers.isStopping),
    };
  } catch (error) {
    await workers.kill();
    await opening.then(
      ({ cluster }) => cluster?.stop(),
      () => {},
    );
    throw error;
  }
}

/** A worker process from its start to its end. */
type WorkerProcess = {
  readonly worker: Worker;
  /** The URL of the service; rejects when the process ends before it is ready. */
  readonly ready: Promise<string>;
  readonly checked: Promise<unknown>;
  readonly ended: Promise<{ readonly code: number; readonly signal: string | null }>;
};

type Place = { readonly index: number } & Pick<OpenedDatabase, "isReported">;

class Workers {
  isStopping = false;
  readonly #options: WorkersOptions;
  readonly #opening: Promise<OpenedDatabase>;
  readonly #running = new Set<WorkerProcess>();
  /** Those that another one has replaced. */
  readonly #retired = new Set<WorkerProcess>();
  #replacing: WorkerProcess | null = null;

  constructor(options: WorkersOptions, opening: Promise<OpenedDatabase>) {
    this.#options = options;
    this.#opening = opening;
  }

  /** Resolves when all workers are ready. */
  async start(): Promise<Pick<Running, "url" | "checked">> {
    const processes = Array.from({ length: this.#options.count }, (_, index) => this.#fork(index));
    const urls = await Promise.all(processes.map(({ ready }) => ready));
    for (const [index, process] of processes.entries()) this.#keep(process, index);
    return { url: urls[0]!, checked: Promise.all(processes.map(({ checked }) => checked)) };
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    this.send({ kind: "stop" });
    const late = setTimeout(() => this.kill(), this.#options.stopTimeout);
    await this.#ended();
    clearTimeout(late);
  }

  /** Workers that end meanwhile are not replaced. */
  async handOver(): Promise<void> {
    this.isStopping = true;
    const all = Promise.all([...this.#running].map(({ worker, ended }) => reported("handed over", worker, ended)));
    this.send({ kind: "hand over" });
    await all;
  }

  async replace(): Promise<void> {
    this.#replacing?.worker.process.kill("SIGKILL");
    const previous = [...this.#running].filter((process) => process !== this.#replacing);
    const next = this.#fork(0, true);
    this.#replacing = next;
    await next.ready.finally(() => {
      if (this.#replacing === next) this.#replacing = null;
    });
    this.#keep(next, 0);
    for (const process of previous) this.#retire(process);
  }

  #retire(retired: WorkerProcess): void {
    if (this.#retired.has(retired)) return;
    this.#retired.add(retired);
    sendTo(retired.worker, { kind: "stop" });
    const late = setTimeout(() => retired.worker.process.kill("SIGKILL"), this.#options.stopTimeout);
    retired.ended.then(() => {
      clearTimeout(late);
      this.#retired.delete(retired);
    });
  }

  send(order: Order): void {
    for (const { worker } of this.#running) sendTo(worker, order);
  }

  async kill(): Promise<void> {
    this.isStopping = true;
    for (const { worker } of this.#running) worker.process.kill("SIGKILL");
    await this.#ended();
  }

  /** Replaces a worker each time it ends, with a growing delay if it ends soon after its start. */
  async #keep(first: WorkerProcess, index: number): Promise<void> {
    let delay = 0;
    for (let current = first; ; current = this.#fork(index, true)) {
      const since = performance.now();
      current.ready.catch((error) => this.#options.log.error(`a worker cannot start: ${error.message}`));
      const { code, signal } = await current.ended;
      if (this.isStopping || this.#retired.has(current)) return;
      this.#options.log.error({ worker: current.worker.id, code, signal }, "a worker has ended and is replaced");
      delay = performance.now() - since > STABLE ? 0 : Math.min(Math.max(FIRST_DELAY, 2 * delay), LAST_DELAY);
      await sleep(delay);
      if (this.isStopping) return;
    }
  }

  #fork(index: number, isReported = false): WorkerProcess {
    const { environment, instanceId } = this.#options;
    const worker = cluster.fork({ ...environment, INSTANCE_ID: instanceId && `${instanceId}_${index}` });
    const ended: WorkerProcess["ended"] = new Promise((resolve) =>
      worker.once("exit", (code, signal) => resolve({ code, signal })),
    );
    const checked = reported("checked", worker, ended);
    const started: WorkerProcess = {
      worker,
      ready: this.#readiness(worker, { index, isReported }, ended),
      checked,
      ended,
    };
    this.#running.add(started);
    ended.then(() => this.#running.delete(started));
    // A message cannot be sent to a worker that has ended, and is no longer needed.
    worker.on("error", () => {});
    return started;
  }

  #readiness(worker: Worker, place: Place, ended: WorkerProcess["ended"]): Promise<string> {
    return new Promise((resolve, reject) => {
      worker.on("message", (report: Report) => {
        if (report.kind === "ready") resolve(report.url);
        else if (report.kind === "failed") reject(new Error(report.message));
        else if (report.kind === "waiting")
          this.#opening.then((opened) => sendTo(worker, { kind: "serve", database: shared(opened, place) }), reject);
      });
      ended.then(({ code, signal }) => reject(new Error(`it ended with ${signal ?? code}`)));
    });
  }

  async #ended(): Promise<void> {
    await Promise.all([...this.#running].map(({ ended }) => ended));
  }
}

/** Resolves when the worker has reported this, or has ended. */
const reported = (kind: Report["kind"], worker: Worker, ended: WorkerProcess["ended"]): Promise<unknown> =>
  new Promise((resolve) => {
    worker.on("message", (report: Report) => report.kind === kind && resolve(null));
    ended.then(resolve);
  });

/** The embedded server belongs to the primary process. */
const shared = (opened: OpenedDatabase, { index, isReported }: Place): OpenedDatabase =>
  Object.assign({}, opened, { cluster: null, logsAdvice: index === 0, isReported });

function sendTo(worker: Worker, order: Order): void {
  if (worker.isConnected()) worker.send(order, () => {});
}

type WorkerService = Omit<Running, "databaseLost">;

/**
 * Serves as a worker until the primary process sends `stop`. `start` receives the database of the primary process. When that
 * process ends for any reason, node:cluster ends this one.
 */
export async function serveAsWorker(
  start: (open: () => Promise<OpenedDatabase>) => Promise<WorkerService>,
  log: Logger,
): Promise<void> {
  // A terminal sends signals to all processes, but the primary process decides what they do.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]) process.on(signal, () => {});
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const database = orderOf("serve").then((order) => order.database);
  const starting = start(() => {
    report({ kind: "waiting" });
    return database;
  });
  orderOf("stop")
    .then(() => starting)
    .then((service) => service.stop())
    .then(() => process.exit(0))
    .catch((error) => {
      log.fatal({ err: error }, "a worker did not stop cleanly");
      process.exit(1);
    });
  orderOf("hand over")
    .then(() => starting)
    .then((service) => service.handOver())
    .then(() => report({ kind: "handed over" }));
  onOrder("reload", ({ what }) => {
    const reload = (service: WorkerService) => (what === "schema" ? service.reloadSchema() : service.reloadSettings());
    starting.then(reload, () => {});
  });
  await starting.then(
    ({ url, checked }) => {
      report({ kind: "ready", url });
      checked.then(() => report({ kind: "checked" }));
    },
    (error) => failAsWorker(error.message),
  );
}

/** Ends this worker, and tells the primary process why. */
export const failAsWorker = (message: string): void => report({ kind: "failed", message }, () => process.exit(1));

const orderOf = <K extends Order["kind"]>(kind: K): Promise<Extract<Order, { kind: K }>> =>
  new Promise((resolve) => onOrder(kind, resolve));

function onOrder<K extends Order["kind"]>(kind: K, act: (order: Extract<Order, { kind: K }>) => void): void {
  process.on("message", (order: Order) => {
    if (order.kind === kind) act(order as Extract<Order, { kind: K }>);
  });
}

const report = (message: Report, sent: () => void = () => {}) => void process.send!(message, sent);
