import cluster, { type Worker } from "node:cluster";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { lossOf, type OpenedDatabase } from "../db/cluster/open.ts";

export type WorkersOptions = {
  readonly count: number;
  /** Environment of the workers, besides that of this process. */
  readonly environment: Readonly<Record<string, string>>;
  /** Milliseconds that running requests get to end when the service stops. */
  readonly drainTimeout: number;
  open(): Promise<OpenedDatabase>;
  readonly log: Logger;
};

/** A running service, in this process or in worker processes. */
export type Running = {
  readonly url: string;
  /** Waits for running requests, then stops everything. Further calls wait for the same end. */
  stop(): Promise<void>;
  /** Resolves when the embedded database ends although the service was not stopped. */
  readonly databaseLost: Promise<void>;
};

/** What a worker tells the primary process. */
type Report =
  | { readonly kind: "waiting" }
  | { readonly kind: "ready"; readonly url: string }
  | { readonly kind: "failed"; readonly message: string };

/** What the primary process tells a worker. */
type Order = { readonly kind: "serve"; readonly database: OpenedDatabase } | { readonly kind: "stop" };

/** Milliseconds that a worker lives at least when nothing is wrong with it. */
const STABLE = 10_000;
const FIRST_DELAY = 100;
const LAST_DELAY = 30_000;
/** Milliseconds that a worker gets, after its requests have ended, for all else. */
const GRACE = 10_000;

/**
 * Opens the database and starts processes that serve it on one address, this program again each. They listen at once
 * and are told of the database when it is open. One that ends is replaced, by one that listens when it is ready. Rejects,
 * with nothing left running, when the database can't be opened or one of the first can't start.
 */
export async function startWorkers(options: WorkersOptions): Promise<Running> {
  const opening = options.open();
  const workers = new Workers(options, opening);
  try {
    const [opened, url] = await Promise.all([opening, workers.start()]);
    return {
      url,
      stop: () => workers.stop().then(() => opened.cluster?.stop()),
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

/** One life of a worker. */
type Run = {
  readonly worker: Worker;
  /** Its address; rejects when it ends before it serves. */
  readonly ready: Promise<string>;
  readonly ended: Promise<{ readonly code: number; readonly signal: string | null }>;
};

class Workers {
  isStopping = false;
  readonly #options: WorkersOptions;
  readonly #opening: Promise<OpenedDatabase>;
  readonly #running = new Set<Run>();

  constructor(options: WorkersOptions, opening: Promise<OpenedDatabase>) {
    this.#options = options;
    this.#opening = opening;
  }

  /** Resolves to the address of all when all are ready. */
  async start(): Promise<string> {
    const runs = Array.from({ length: this.#options.count }, () => this.#fork());
    const urls = await Promise.all(runs.map(({ ready }) => ready));
    for (const run of runs) this.#keep(run);
    return urls[0]!;
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    for (const { worker } of this.#running) tell(worker, { kind: "stop" });
    const late = setTimeout(() => this.kill(), this.#options.drainTimeout + GRACE);
    await this.#ended();
    clearTimeout(late);
  }

  async kill(): Promise<void> {
    this.isStopping = true;
    for (const { worker } of this.#running) worker.process.kill("SIGKILL");
    await this.#ended();
  }

  /** Replaces a worker that ends, again and again; later when it ended soon. */
  async #keep(first: Run): Promise<void> {
    let delay = 0;
    for (let run = first; ; run = this.#fork()) {
      const since = performance.now();
      run.ready.catch((error) => this.#options.log.error(`a worker can not start: ${error.message}`));
      const { code, signal } = await run.ended;
      if (this.isStopping) return;
      this.#options.log.error({ worker: run.worker.id, code, signal }, "a worker has ended: another takes its place");
      delay = performance.now() - since > STABLE ? 0 : Math.min(Math.max(FIRST_DELAY, 2 * delay), LAST_DELAY);
      await sleep(delay);
      if (this.isStopping) return;
    }
  }

  #fork(): Run {
    const worker = cluster.fork(this.#options.environment);
    const ended: Run["ended"] = new Promise((resolve) =>
      worker.once("exit", (code, signal) => resolve({ code, signal })),
    );
    const run: Run = { worker, ready: this.#readiness(worker, ended), ended };
    this.#running.add(run);
    ended.then(() => this.#running.delete(run));
    // What it could not be told matters to nobody when it has ended.
    worker.on("error", () => {});
    return run;
  }

  #readiness(worker: Worker, ended: Run["ended"]): Promise<string> {
    return new Promise((resolve, reject) => {
      worker.on("message", (report: Report) => {
        if (report.kind === "ready") resolve(report.url);
        else if (report.kind === "failed") reject(new Error(report.message));
        else this.#opening.then((opened) => tell(worker, { kind: "serve", database: shared(opened) }), reject);
      });
      ended.then(({ code, signal }) => reject(new Error(`it ended with ${signal ?? code}`)));
    });
  }

  async #ended(): Promise<void> {
    await Promise.all([...this.#running].map(({ ended }) => ended));
  }
}

/** The server belongs to the primary process. */
const shared = (opened: OpenedDatabase): OpenedDatabase => ({ ...opened, cluster: null });

function tell(worker: Worker, order: Order): void {
  if (worker.isConnected()) worker.send(order, () => {});
}

type Servant = { readonly url: string; stop(): Promise<void> };

/**
 * What this program does as a worker: serves, and stops when it is told to. `start` is given the database of the primary
 * process. When that process ends, however it ends, so does this one: node:cluster sees to it.
 */
export async function serveAsWorker(
  start: (open: () => Promise<OpenedDatabase>) => Promise<Servant>,
  log: Logger,
): Promise<void> {
  // A terminal sends them to all processes, but when to stop is for the primary to say.
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
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
  await starting.then(
    ({ url }) => report({ kind: "ready", url }),
    (error) => report({ kind: "failed", message: error.message }, () => process.exit(1)),
  );
}

function orderOf<K extends Order["kind"]>(kind: K): Promise<Extract<Order, { kind: K }>> {
  return new Promise((resolve) => {
    process.on("message", (order: Order) => {
      if (order.kind === kind) resolve(order as Extract<Order, { kind: K }>);
    });
  });
}

function report(message: Report, sent: () => void = () => {}): void {
  process.send!(message, sent);
}

/** Stops the service on SIGINT and SIGTERM, and then this process. */
export function stopOnSignals(starting: Promise<{ stop(): Promise<void> }>, log: Logger): void {
  const stop = (signal: string) => {
    log.info({ signal }, "stopping");
    starting
      .then((service) => service.stop())
      .then(() => process.exit(0))
      .catch((error) => {
        log.fatal({ err: error }, "the service did not stop cleanly");
        process.exit(1);
      });
  };
  process.on("SIGINT", stop).on("SIGTERM", stop);
}
