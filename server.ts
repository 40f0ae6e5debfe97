import { createServer, type IncomingMessage, type Server, type ServerOptions } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";
import { join } from "node:path";
import type { Logger } from "pino";
import { type App, createApp, type Routes } from "./app.ts";
import { printBanner } from "./banner.ts";
import { type Config, ConfigError, helpText, readConfig } from "./config.ts";
import { NotificationFeed } from "./db/changes/notifications.ts";
import { type OpenedDatabase, openDatabase } from "./db/cluster/open.ts";
import { keepSecret } from "./db/cluster/secrets.ts";
import { Database } from "./db/database.ts";
import { explorerRouter } from "./graphql/explorer.ts";
import { createGraphQL, type GraphQLInterface } from "./graphql/index.ts";
import { allowsOrigin } from "./http/cors.ts";
import { Drain } from "./http/drain.ts";
import type { ServiceState } from "./http/health.ts";
import { requestIdOf } from "./http/request-id.ts";
import { UpgradeGate } from "./http/upgrade-gate.ts";
import { createLog } from "./log.ts";
import { authRouter } from "./rest-gateway/auth/router.ts";
import { BearerResolver } from "./rest-gateway/principal/bearer.ts";
import { Tokens } from "./rest-gateway/principal/tokens.ts";

export type Service = {
  readonly url: string;
  readonly tokens: Tokens;
  /** Rounds of waiting for the database so far. */
  databaseWaits(): number;
  /** What clients hold open over WebSockets. */
  open(): { readonly sockets: number; readonly addresses: number; readonly subscriptions: number };
  /** Lets running requests end, then ends everything. Calling it again waits for the same end. */
  stop(): Promise<void>;
  /** Resolves when the embedded database has ended although nobody stopped it. */
  readonly databaseLost: Promise<void>;
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

/** Starts the service; rejects, with nothing left running, when it can't. */
export async function startService(config: Config, log: Logger): Promise<Service> {
  let state: ServiceState = "starting";
  let parts: Parts | null = null;
  const app = createApp({
    log,
    health: {
      state: () => state,
      ping: () => parts!.database.ping(),
      details: () => ({ details: { graphql: parts!.graphql.reload.health } }),
    },
    corsOrigins: config.corsOrigins,
    trustProxy: config.trustProxy,
    routes: () => parts?.routes ?? null,
  });
  let gate: UpgradeGate | undefined;
  // What else a client would like to speak, such as HTTP/2, it may also say in HTTP/1.1.
  const shouldUpgradeCallback = ({ headers }: IncomingMessage) =>
    gate !== undefined && headers.upgrade?.toLowerCase() === "websocket";
  const server = createServer({ ...SERVER_OPTIONS, shouldUpgradeCallback }, app.listener);
  const connections = new Drain(server);
  await listen(server, config);
  const url = config.baseUrl || urlOf(server.address() as AddressInfo, config.host);

  try {
    parts = await assemble(config, log);
  } catch (error) {
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
    await connections.drain(config.drainTimeout);
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
    databaseLost: opened.cluster
      ? opened.cluster.ended.then(() => (stopped ? new Promise(() => {}) : undefined))
      : new Promise(() => {}),
  };
}

/** Everything behind the server. */
type Parts = {
  readonly opened: OpenedDatabase;
  readonly database: Database;
  readonly changes: NotificationFeed;
  readonly graphql: GraphQLInterface;
  readonly tokens: Tokens;
  readonly routes: Routes;
  close(): Promise<void>;
};

async function assemble(config: Config, log: Logger): Promise<Parts> {
  const secret = config.jwtSecret || config.jwtPrivateKey || (await keepSecret(join(config.dataDir, "secret")));
  const tokens = new Tokens({ secret, privateKey: config.jwtPrivateKey, audience: config.jwtAudience });
  const opened = await openDatabase({ ...config, secret, log: (level, message) => logLine(log, level, message) });
  let closing = false;
  const onConnectionError = (error: Error) => {
    // At the end both sides hang up, in either order.
    log[closing ? "debug" : "warn"]({ err: error }, "a connection to the database was lost");
  };
  const database = new Database({ ...config, logins: opened.logins, onConnectionError });
  const changes = new NotificationFeed({ connectionString: opened.listenUrl, onError: onConnectionError });
  const close = async () => {
    closing = true;
    await changes.close();
    await database.close();
    await opened.cluster?.stop();
  };
  try {
    await changes.start();
    const bearer = new BearerResolver(tokens, config.anonymousRole);
    const graphql = await createGraphQL({
      database,
      changes,
      anonymousRole: config.anonymousRole,
      schema: config,
      documents: {
        depth: config.maxDepth,
        complexity: config.maxComplexity,
        tokens: config.maxTokens,
        brackets: config.jsonDepth,
        suggestions: config.embedded,
      },
      maxRows: config.maxRows,
      bodySize: config.bodyLimit,
      jsonDepth: config.jsonDepth,
      internalStatus: config.internalStatus,
      maxSubscriptions: config.wsMaxSubscriptions,
      maxBufferedBytes: config.wsMaxBufferedBytes,
      callerOf: (authorization) => bearer.resolve(authorization),
      requestIdOf,
      onInternalError: (error, requestId) => log.error({ requestId, err: error }, "unhandled error"),
      reloadLog: {
        onRebuilt: (milliseconds) => log.info({ milliseconds }, "the schema has changed and is served anew"),
        onFailed: (error, isServing) =>
          log.error(
            { err: error },
            isServing
              ? "the changed schema can not be served: the old one stays"
              : "the schema can not be built: GraphQL is not served until it is mended",
          ),
        onOmission: (omission) => log.warn({ omission }, "a part of the schema is left out because of its name"),
      },
    });
    const limits = { size: config.bodyLimit, depth: config.jsonDepth };
    const routes: Routes = {
      graphql: graphql.handler,
      explorer: config.graphiql ? explorerRouter() : null,
      auth: config.migrate ? authRouter({ database: database.auth, tokens, limits }) : null,
    };
    return {
      opened,
      database,
      changes,
      graphql,
      tokens,
      routes,
      close: async () => {
        await graphql.reload.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function openGate(app: App, server: Server, config: Config, { graphql }: Parts, log: Logger): UpgradeGate {
  return new UpgradeGate(server, {
    routes: [graphql.socket],
    limits: {
      connections: config.wsMaxConnections,
      connectionsPerAddress: config.wsMaxPerAddress,
      messageBytes: config.wsMaxMessageBytes,
      messageRate: config.wsMessageRate,
      heartbeat: HEARTBEAT,
    },
    isAllowedOrigin: allowsOrigin(config.corsOrigins),
    // Express works out the address behind trusted proxies; it lends its request to do so.
    addressOf: (request: IncomingMessage) => Object.setPrototypeOf(request, app.express.request).ip ?? "",
    onSocketError: (error) => log.debug({ err: error }, "a WebSocket was closed by an error"),
  });
}

function listen(server: Server, { host, port }: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** Every address of the machine is none that a client could use: this machine's own stands for them. */
function urlOf({ port }: AddressInfo, host: string): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${isIPv6(name) ? `[${name}]` : name}:${port}`;
}

function logLine(log: Logger, level: string, message: string): void {
  if (level === "error") log.error(message);
  else if (level === "warning") log.warn(message);
  else log.debug(message);
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
  const log = createLog(config.logLevel);
  const starting = startService(config, log);
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

function refuse(message: string): void {
  process.stderr.write(`${message}\n`);
  process.exitCode = 2;
}

if (import.meta.main) await main();
