import cluster from "node:cluster";
import { createServer, type IncomingMessage, type Server, type ServerOptions } from "node:http";
import type { Logger } from "pino";
import { type Config, ConfigError, helpText, readConfig } from "./config/config.ts";
import { lossOf, type OpenedDatabase } from "./db/cluster/open.ts";
import { type App, createApp } from "./http/app.ts";
import { printBanner } from "./http/banner.ts";
import { allowsOrigin } from "./http/cors.ts";
import { Drain } from "./http/drain.ts";
import type { ServiceState } from "./http/health.ts";
import { findSharedPort, listen, portOf, urlOf } from "./http/listen.ts";
import { createLog } from "./http/log.ts";
import { answerUnreadable } from "./http/unreadable.ts";
import { UpgradeGate } from "./http/upgrade-gate.ts";
import { serveAsWorker, startWorkers } from "./http/workers.ts";
import { issuerOf } from "./identity/issuer.ts";
import type { Tokens } from "./identity/tokens.ts";
import { assemble, openConfigured, type Parts } from "./parts.ts";

/** What was started, in this process or in others. */
export type Started = {
  readonly url: string;
  readonly tokens: Tokens;
  /** Lets running requests end, then ends everything. Calling it again waits for the same end. */
  stop(): Promise<void>;
  /** Resolves when the embedded database has ended although nobody stopped it. */
  readonly databaseLost: Promise<void>;
};

export type Service = Started & {
  /** Rounds of waiting for the database so far. */
  databaseWaits(): number;
  /** What clients hold open over WebSockets. */
  open(): { readonly sockets: number; readonly addresses: number; readonly subscriptions: number };
};

/** Milliseconds between two pings of a WebSocket. */
const HEARTBEAT = 30_000;

const SERVER_OPTIONS: ServerOptions = {
  requestTimeout: 30_000,
  headersTimeout: 10_000,
  // How often these two are looked at.
  connectionsCheckingInterval: 2000,
  keepAliveTimeout: 65_000,
};

export type StartOptions = {
  /** Gives the database, when it isn't to be opened. */
  readonly open?: () => Promise<OpenedDatabase>;
  /** Whether to listen only when everything else is ready, for others answer in the meantime. */
  readonly listensLast?: boolean;
  /** Milliseconds since 1970, for sessions, tokens and attempts; that of the machine unless a test says otherwise. */
  readonly clock?: () => number;
};

/** Starts the service; rejects, with nothing left running, when it can't. */
export async function startService(config: Config, log: Logger, options: StartOptions = {}): Promise<Service> {
  const { open = () => openConfigured(config, log), listensLast = false } = options;
  let state: ServiceState = "starting";
  let parts: Parts | null = null;
  const app = createApp({
    log,
    health: {
      state: () => state,
      ping: () => parts!.database.ping(),
      details: () => ({ details: { graphql: parts!.graphql?.reload.health ?? { schema: "not served" } } }),
    },
    corsOrigins: config.corsOrigins,
    trustProxy: config.trustProxy,
    rateLimit: config.rateLimit,
    knownAs: (request) => parts?.knownAs(request) ?? null,
    routes: () => parts?.routes ?? null,
  });
  let gate: UpgradeGate | undefined;
  // What else a client would like to speak, such as HTTP/2, it may also say in HTTP/1.1.
  const shouldUpgradeCallback = ({ headers }: IncomingMessage) =>
    gate !== undefined && headers.upgrade?.toLowerCase() === "websocket";
  const server = createServer({ ...SERVER_OPTIONS, shouldUpgradeCallback }, app.listener);
  answerUnreadable(server);
  const connections = new Drain(server);
  if (!listensLast) await listen(server, config);
  const url = config.baseUrl || urlOf({ host: config.host, port: config.port || portOf(server) });

  try {
    parts = await assemble(config, log, open, { url, addressOf: app.addressOf, clock: options.clock ?? Date.now });
    if (listensLast) await listen(server, config);
  } catch (error) {
    await parts?.close();
    server.closeAllConnections();
    server.close();
    throw error;
  }
  const { opened, database, changes, tokens } = parts;
  const sockets = openGate(app, server, config, parts, log);
  gate = sockets;
  state = "ready";

  let stopped: Promise<void> | undefined;
  const stop = async () => {
    state = "draining";
    sockets.close();
    await Promise.all([connections.drain(config.drainTimeout), parts?.tasks?.close()]);
    sockets.terminate();
    await parts?.close();
  };
  return {
    url,
    tokens,
    databaseWaits: () => database.waits,
    open: () => ({ ...sockets.open, subscriptions: changes.subscriptions }),
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
    databaseLost: lossOf(opened, () => stopped !== undefined),
  };
}

function openGate(app: App, server: Server, config: Config, { graphql }: Parts, log: Logger): UpgradeGate {
  return new UpgradeGate(server, {
    routes: graphql ? [graphql.socket] : [],
    limits: {
      connections: config.wsMaxConnections,
      connectionsPerAddress: config.wsMaxPerAddress,
      messageBytes: config.wsMaxMessageBytes,
      messageRate: config.wsMessageRate,
      heartbeat: HEARTBEAT,
    },
    isAllowedOrigin: allowsOrigin(config.corsOrigins),
    addressOf: app.addressOf,
    rateLimit: app.rateLimit,
    onSocketError: (error) => log.debug({ err: error }, "a WebSocket was closed by an error"),
  });
}

async function main(): Promise<void> {
  const [argument] = process.argv.slice(2);
  if (argument === "--help" || argument === "-h") return void process.stdout.write(helpText());
  if (argument !== undefined)
    return refuse(`${argument} is no option of this service; npm start -- --help lists the settings`);

  let config: Config;
  try {
    config = readConfig();
  } catch (error) {
    if (error instanceof ConfigError) return refuse(error.message);
    throw error;
  }
  const log = createLog(config.logLevel, cluster.isWorker ? { worker: cluster.worker!.id, pid: process.pid } : null);
  if (cluster.isWorker) {
    const listensLast = cluster.worker!.id > config.workers;
    return serveAsWorker((open) => startService(config, log, { open, listensLast }), log);
  }

  if (config.ignored.length > 0) log.warn({ settings: config.ignored }, "settings of PostgREST without a meaning here");
  const starting = config.workers > 1 ? startInProcesses(config, log) : startService(config, log);
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      log.info({ signal }, "stopping");
      starting
        .then((service) => service.stop())
        .then(() => process.exit(0))
        .catch((error) => {
          log.fatal({ err: error }, "the service did not stop cleanly");
          process.exit(1);
        });
    });
  }
  try {
    const service = await starting;
    printBanner(config, service);
    service.databaseLost.then(() => {
      log.fatal("the embedded database has ended");
      process.exit(1);
    });
  } catch (error) {
    log.fatal(`the service can not start: ${(error as Error).message}`);
    log.debug({ err: error }, "why");
    process.exitCode = 1;
  }
}

/** What `startService` starts, in processes of its own. */
async function startInProcesses(config: Config, log: Logger): Promise<Started> {
  const { workers: count, drainTimeout } = config;
  const tokens = await issuerOf(config);
  const environment = { PORT: String(await findSharedPort(config)), PGRST_SERVER_PORT: "" };
  const open = () => openConfigured(config, log);
  return { tokens, ...(await startWorkers({ count, environment, drainTimeout, open, log })) };
}

function refuse(message: string): void {
  process.stderr.write(`${message}\n`);
  process.exitCode = 2;
}

if (import.meta.main) await main();
