import inspector from "node:inspector";
import type { Logger } from "pino";
import type { Config } from "../config/config.ts";

/** What signals do with a service, in this process or in worker processes. */
export type Operated = {
  /** Waits for running requests, then stops everything. May be called more than once. */
  stop(): Promise<void>;
  /** Reads the tables, functions and grants of the database again. */
  reloadSchema(): void;
  /** Reads the settings again and applies those that can change while the service runs. */
  reloadSettings(): Promise<void>;
};

/** Milliseconds beyond the settings that a start or a stop may take before the process ends anyway. */
const GRACE = 10_000;

/** Milliseconds that a start or a stop may take. */
export const stopTimeoutOf = ({ drainDelay, drainTimeout }: Pick<Config, "drainDelay" | "drainTimeout">): number =>
  drainDelay + drainTimeout + GRACE;

export type SignalOptions = {
  /** Milliseconds. */
  readonly stopTimeout: number;
  /** Whether the process may exit at once: there is nothing to stop yet, and the database rolls back what the exit interrupts. */
  mayExit(): boolean;
  readonly log: Logger;
};

/**
 * SIGTERM, SIGINT and SIGHUP (the terminal was closed) stop the service and then this process, also during the start.
 * SIGUSR1 reloads the schema, as with PostgREST, and SIGUSR2 the settings.
 */
export function handleSignals(starting: Promise<Operated>, { stopTimeout, mayExit, log }: SignalOptions): void {
  const stop = (signal: string) => {
    log.info({ signal }, "stopping");
    if (mayExit()) process.exit(0);
    // An embedded database is stopped when this process exits.
    setTimeout(() => end("the service did not stop in time"), stopTimeout).unref();
    starting.then((service) => service.stop()).then(() => process.exit(0), end);
  };
  const end = (reason: unknown) => {
    log.fatal({ err: reason }, "the service did not stop cleanly");
    process.exit(1);
  };
  const reload = (what: "schema" | "settings", act: (service: Operated) => void) => (signal: string) => {
    log.info({ signal }, `reloading the ${what}`);
    // A start that fails is reported where it is awaited.
    starting.then(act, () => {});
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, stop);
  process.on(
    "SIGUSR1",
    reload("schema", (service) => service.reloadSchema()),
  );
  process.on(
    "SIGUSR2",
    reload("settings", (service) => service.reloadSettings()),
  );
  // Writing to a terminal that was closed is an error, which would end the process before it has stopped the database.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}

/** Node opens it if SIGUSR1 arrives before `early-signals.ts` is loaded. It lets every local user run code in this process. */
export function closeInspector(): void {
  if (!process.execArgv.some((flag) => flag.startsWith("--inspect"))) inspector.close();
}
