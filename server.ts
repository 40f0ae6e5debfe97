import cluster from "node:cluster";
import type pg from "pg";
import type { Logger } from "pino";
import { printBanner } from "./cli/banner.ts";
import { type Config, ConfigError, helpText, readConfig } from "./config/config.ts";
import type { Caller } from "./db/caller.ts";
import { ChangeFeed } from "./db/changes/feed.ts";
import { createSource } from "./db/changes/mode.ts";
import { Notifications } from "./db/changes/notifications.ts";
import { lossOf, type OpenedDatabase, openDatabase } from "./db/cluster/open.ts";
import { Database } from "./db/database.ts";
import { StatementTimeouts } from "./db/statement-timeouts.ts";
import { DeferredGraphQL } from "./graphql/deferred.ts";
import { GRAPHQL } from "./graphql/envelope.ts";
import { ConnectionLimit } from "./http/connection-limit.ts";
import { allowsOrigin } from "./http/cors.ts";
import { healthInterface } from "./http/health.ts";
import { createLog, migrationLog } from "./http/log.ts";
import { Pipeline } from "./http/pipeline.ts";
import { createRateLimit } from "./http/rate-limit.ts";
import { addressReader, trustOf } from "./http/request.ts";
import { SendTimeout } from "./http/send-timeout.ts";
import { findSharedPort, HttpServer, urlOf } from "./http/server.ts";
import { UpgradeGate } from "./http/upgrade-gate.ts";
import { type Running, serveAsWorker, startWorkers, stopOnSignals } from "./http/workers.ts";
import { CallerResolver } from "./identity/caller-resolver.ts";
import { createVerifier } from "./identity/foreign-tokens.ts";
import { secretOf } from "./identity/keys.ts";
import { createTokens, type Tokens } from "./identity/tokens.ts";
import { createAuth, updateAccounts } from "./rest-gateway/auth/auth.ts";
import { deriveKey } from "./rest-gateway/auth/secret-box.ts";
import { ExpressInterface, REST } from "./rest-gateway/express-interface.ts";
import { createRest } from "./rest-gateway/index.ts";
import { errorReference, isErrorReference } from "./rest-gateway/openapi/reference/page.ts";
import { EDITORS } from "./rest-gateway/resources/descriptions/index.ts";
import { TABLES } from "./rest-gateway/table/send.ts";
import { createTasks } from "./rest-gateway/tasks/index.ts";

/** The service, in this process or in worker processes. */
export type Started = Running & { readonly tokens: Tokens };

export type Service = Started & {
  /** Round trips to the database so far. */
  databaseWaits(): number;
  /** Bytes of results that clients have not taken yet. */
  unsentBytes(): number;
  /** Open WebSockets, their IP addresses, and subscriptions. */
  open(): { readonly sockets: number; readonly addresses: number; readonly subscriptions: number };
};

export type StartOptions = {
  /** Opens a database other than the one in the settings. */
  readonly open?: () => Promise<OpenedDatabase>;
  /** Whether to listen only when the service is ready, because other processes already serve the port. */
  readonly listensLast?: boolean;
  /** Returns milliseconds since 1970, for sessions, tokens and attempts. Tests replace it. */
  readonly clock?: () => number;
};

/** Starts the service: HTTP server, database, identity, interfaces. Rejects, with nothing left running, if that fails. */
export async function startService(config: Config, log: Logger, options: StartOptions = {}): Promise<Service> {
  const { open = () => openConfigured(config, log), listensLast = false, clock = Date.now } = options;
  let app: Awaited<ReturnType<typeof createApp>> | null = null;
  const addressOf = addressReader(config.trustProxy);
  const rateLimit = createRateLimit(config.rateLimit, addressOf);
  const onInternalError = (err: unknown, requestId: string) => log.error({ requestId, err }, "unhandled error");
  const health = healthInterface(
    {
      state: () => pipeline.state,
      ping: () => app!.database.ping(),
      details: () => ({ details: { graphql: app!.graphql?.health ?? { schema: "not served" } } }),
    },
    REST.reject,
  );
  const errors = new ExpressInterface({ serves: isErrorReference, routers: [errorReference()], onInternalError });
  const pipeline = new Pipeline({
    log,
    corsOrigins: config.corsOrigins,
    rateLimit,
    alwaysOn: [health, errors],
    envelopes: [TABLES, GRAPHQL, REST],
  });
  const sendTimeout = new SendTimeout({ timeout: config.sendTimeout, log });
  const isProxy = trustOf(config.trustProxy);
  const connections = new ConnectionLimit({ ...config, isProxy: (address) => isProxy(address, 0), log });
  const server = new HttpServer(pipeline.listener, (socket) => {
    const isAdmitted = connections.admits(socket);
    if (isAdmitted) sendTimeout.watch(socket);
    return isAdmitted;
  });
  if (!listensLast) await server.listen(config);
  const url = config.baseUrl || urlOf({ host: config.host, port: config.port || server.port });

  try {
    app = await createApp({ config, log, open, url, addressOf, clock, onInternalError });
    if (listensLast) await server.listen(config);
  } catch (error) {
    await app?.close();
    server.close();
    throw error;
  }
  const { opened, database, changes, tokens, tasks, callers, graphql, rest, pages } = app;
  const sockets = new UpgradeGate(server.node, {
    routes: graphql ? [graphql.socket] : [],
    limits: config,
    callers,
    isAllowedOrigin: allowsOrigin(config.corsOrigins),
    addressOf,
    rateLimit,
    onSocketError: (error) => log.debug({ err: error }, "a WebSocket was closed by an error"),
  });
  pipeline.open([rest.tables, ...(graphql ? [graphql.http] : []), rest.resources, health, errors, pages], callers);
  if (config.graphqlBuild === "ready") graphql?.loadInBackground();

  let stopped: Promise<void> | undefined;
  const stop = async () => {
    pipeline.state = "draining";
    sockets.close();
    await Promise.all([server.drain(config.drainTimeout), tasks?.close()]);
    sockets.terminate();
    await app?.close();
  };
  return {
    url,
    tokens,
    databaseWaits: () => database.waits,
    unsentBytes: () => database.unsent.total,
    open: () => ({ ...sockets.open, subscriptions: changes.subscriptions }),
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
    databaseLost: lossOf(opened, () => stopped !== undefined),
  };
}

type AppOptions = {
  readonly config: Config;
  readonly log: Logger;
  open(): Promise<OpenedDatabase>;
  readonly url: string;
  readonly addressOf: ReturnType<typeof addressReader>;
  readonly clock: () => number;
  onInternalError(error: unknown, requestId: string): void;
};

/** Opens the database and creates the interfaces on it. Rejects, with nothing left running, if that fails. */
async function createApp(options: AppOptions) {
  const { config, log, url, onInternalError } = options;
  const secret = await secretOf(config);
  const tokens = createTokens(config, secret);
  const opened = await options.open();
  let close = async () => opened.cluster?.stop();
  try {
    const context = createContext(opened, { ...options, secret, tokens });
    const { notifications, auth, tasks } = context;
    close = context.close;
    await notifications.start();
    auth?.start();
    const rest = await createRest({ ...context, settings: config, baseUrl: url, log, onInternalError });
    notifications.onSchemaChange(() => rest.catalog.soon());
    await tasks?.start();
    const shared = { ...context, settings: config, catalog: rest.catalog, log, onInternalError };
    const graphql = config.graphqlMaxTables === 0 ? null : new DeferredGraphQL(shared);
    const explorer = graphql && config.graphiql ? (await import("./graphql/explorer.ts")).explorerRouter() : null;
    const routers = [explorer, ...rest.routers].filter((router) => router !== null);
    close = async () => {
      await Promise.all([graphql?.close(), rest.catalog.close()]);
      await context.close();
    };
    return { ...context, graphql, rest, pages: new ExpressInterface({ routers, onInternalError }), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Database, identity and tasks. Nothing is started yet. */
function createContext(
  opened: OpenedDatabase,
  { config, log, secret, tokens, addressOf, clock }: AppOptions & { readonly secret: string; readonly tokens: Tokens },
) {
  const anonymousRole = config.dbAnonRole;
  let isClosing = false;
  const onConnectionError = (error: Error & { client?: unknown }) => {
    // pg-pool adds the client to the error, with the secret that cancels its queries.
    delete error.client;
    // While the service stops, either side may close its connections first.
    log[isClosing ? "debug" : "warn"]({ err: error }, "a connection to the database was lost");
  };
  const database = new Database({
    logins: opened.logins,
    poolSize: config.dbPool,
    poolTimeout: config.dbPoolTimeout,
    statementTimeouts: new StatementTimeouts({
      everyone: config.dbStatementTimeout,
      anonymous: config.dbAnonStatementTimeout,
      anonymousRoles: [config.dbAnonRole, ...EDITORS],
    }),
    poolShare: config.dbPoolShare,
    unsent: { total: config.maxUnsentBytes, perAddress: config.maxUnsentBytesPerAddress },
    maxPrepared: config.dbPreparedStatements,
    maxResultBytes: config.dbMaxResultBytes,
    onConnectionError,
  });
  const notifications = new Notifications({ connectionString: opened.listenUrl, onError: onConnectionError });
  const changes = new ChangeFeed({
    source: opened.changes && createSource(opened.changes, onConnectionError),
    maxBytes: config.changesMaxBytes,
  });
  const onError = (error: unknown) => log.warn({ err: error }, "a background write of authentication has failed");
  const auth = config.migrate
    ? createAuth({
        settings: config,
        database: database.auth,
        tokens,
        secret,
        notifications,
        addressOf,
        clock,
        onError,
      })
    : null;
  const verifier = createVerifier(config, tokens);
  const callers = auth?.callers ?? new CallerResolver({ tokens: verifier, anonymousRole, store: null, addressOf });
  const { logins, tasksUrl } = opened;
  const isStillCaller = (caller: Caller) => callers.isCurrent(caller);
  const addressKey = deriveKey(secret, "addresses of tasks");
  const shared = { database, logins, addressOf, isStillCaller, log, onConnectionError };
  const tasks = tasksUrl === null ? null : createTasks({ settings: config, url: tasksUrl, addressKey, ...shared });
  const close = async () => {
    await tasks?.close();
    await auth?.close();
    isClosing = true;
    await Promise.all([changes.close(), notifications.close()]);
    await database.close();
    await opened.cluster?.stop();
  };
  return { opened, database, changes, notifications, tokens, verifier, auth, callers, tasks, addressOf, close };
}

/** Starts the embedded database, or opens DATABASE_URL. */
async function openConfigured(config: Config, log: Logger): Promise<OpenedDatabase> {
  const secret = await secretOf(config);
  const afterMigrations = (owner: pg.Client) => updateAccounts(owner, config, secret, log);
  const { dbAnonRole: anonymousRole, dbSchemas: schemas } = config;
  return openDatabase({ ...config, anonymousRole, schemas, secret, afterMigrations, log: migrationLog(log) });
}

async function main(): Promise<void> {
  const [argument] = process.argv.slice(2);
  if (argument === "--help" || argument === "-h") return void process.stdout.write(helpText());
  if (argument !== undefined)
    return refuse(`${argument} is not an option of this service: npm start -- --help lists the settings`);

  let config: Config;
  try {
    config = readConfig();
  } catch (error) {
    if (error instanceof ConfigError) return refuse(error.message);
    throw error;
  }
  const log = createLog(config.logLevel, cluster.isWorker ? { worker: cluster.worker!.id, pid: process.pid } : null);
  const listensLast = cluster.isWorker && cluster.worker!.id > config.workers;
  if (cluster.isWorker) return serveAsWorker((open) => startService(config, log, { open, listensLast }), log);
  if (config.ignored.length > 0) log.warn({ settings: config.ignored }, "these settings of PostgREST have no effect");
  const starting = config.workers > 1 ? startInProcesses(config, log) : startService(config, log);
  stopOnSignals(starting, log);
  try {
    const service = await starting;
    printBanner(config, service);
    service.databaseLost.then(() => {
      log.fatal("the embedded database has ended");
      process.exit(1);
    });
  } catch (error) {
    log.fatal(`the service cannot start: ${(error as Error).message}`);
    log.debug({ err: error }, "the cause");
    process.exitCode = 1;
  }
}

/** Starts the service in worker processes. */
async function startInProcesses(config: Config, log: Logger): Promise<Started> {
  const { workers: count, drainTimeout } = config;
  const tokens = createTokens(config, await secretOf(config));
  const environment = { PORT: String(await findSharedPort(config)), PGRST_SERVER_PORT: "" };
  const options = { count, environment, drainTimeout, open: () => openConfigured(config, log), log };
  return { tokens, ...(await startWorkers(options)) };
}

const refuse = (message: string): void => {
  process.stderr.write(`${message}\n`);
  process.exitCode = 2;
};

if (import.meta.main) await main();
