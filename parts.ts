import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { join } from "node:path";
import type { RequestHandler } from "express";
import type { Logger } from "pino";
import type { Routes } from "./app.ts";
import type { Config } from "./config.ts";
import { NotificationFeed } from "./db/changes/notifications.ts";
import { type OpenedDatabase, openDatabase } from "./db/cluster/open.ts";
import { keepSecret } from "./db/cluster/secrets.ts";
import { Database } from "./db/database.ts";
import type { GraphQLInterface } from "./graphql/index.ts";
import type { AddressReader } from "./http/address.ts";
import { requestIdOf } from "./http/request-id.ts";
import { type Auth, createAuth } from "./rest-gateway/auth/auth.ts";
import { createRest, type RestInterface } from "./rest-gateway/index.ts";
import { apiKeyIn, readCredentials } from "./rest-gateway/principal/credentials.ts";
import { ForeignTokens } from "./rest-gateway/principal/foreign-tokens.ts";
import { foreignKeys, previousKeys } from "./rest-gateway/principal/keys.ts";
import { LenientCallers } from "./rest-gateway/principal/lenient-callers.ts";
import { Principals } from "./rest-gateway/principal/principals.ts";
import { Tokens } from "./rest-gateway/principal/tokens.ts";
import type { Verifier } from "./rest-gateway/principal/verified-tokens.ts";
import { createTasks, type Tasks } from "./rest-gateway/tasks/index.ts";

/** Everything behind the server. */
export type Parts = {
  readonly opened: OpenedDatabase;
  readonly database: Database;
  readonly changes: NotificationFeed;
  /** Null where GRAPHQL_MAX_TABLES leaves it out. */
  readonly graphql: GraphQLInterface | null;
  readonly tokens: Tokens;
  /** Null where there are none. */
  readonly tasks: Tasks | null;
  readonly routes: Routes;
  /** Who sends a request, when that is known already. */
  knownAs(request: IncomingMessage): string | null;
  close(): Promise<void>;
};

/** What the interfaces are made of. */
type Ground = {
  readonly config: Config;
  readonly log: Logger;
  readonly database: Database;
  readonly changes: NotificationFeed;
  readonly tasks: Tasks | null;
  readonly tokens: Tokens;
  readonly verifier: Verifier;
  /** Null where nobody signs in. */
  readonly auth: Auth | null;
  readonly principals: Principals;
  readonly addressOf: AddressReader;
  /** The address of the service. */
  readonly url: string;
  onInternalError(error: unknown, requestId: string): void;
};

export type AssembleOptions = {
  /** The address of the service. */
  readonly url: string;
  readonly addressOf: AddressReader;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
};

/** Puts the service together on the database that `open` gives; rejects, with nothing left running, when it can't. */
export async function assemble(
  config: Config,
  log: Logger,
  open: () => Promise<OpenedDatabase>,
  { url, addressOf, clock }: AssembleOptions,
): Promise<Parts> {
  const tokens = await issuerOf(config);
  const verifier = verifierOf(config, tokens);
  const opened = await open();
  let closing = false;
  const onConnectionError = (error: Error & { client?: unknown }) => {
    // pg-pool hangs the whole client on it, with the key that cancels its queries.
    delete error.client;
    // At the end both sides hang up, in either order.
    log[closing ? "debug" : "warn"]({ err: error }, "a connection to the database was lost");
  };
  const database = new Database({ ...config, logins: opened.logins, onConnectionError });
  const changes = new NotificationFeed({ connectionString: opened.listenUrl, onError: onConnectionError });
  const onInternalError = (error: unknown, requestId: string) =>
    log.error({ requestId, err: error }, "unhandled error");
  const secret = await secretOf(config);
  const auth = config.migrate
    ? createAuth({
        settings: config,
        database: database.auth,
        tokens,
        secret,
        changes,
        addressOf,
        clock,
        onError: (error) => log.warn({ err: error }, "something of authentication could not be noted or tidied up"),
      })
    : null;
  const tasks =
    opened.tasksUrl === null
      ? null
      : createTasks({
          settings: config,
          database,
          logins: opened.logins,
          url: opened.tasksUrl,
          isStillCaller: async (caller) => auth === null || auth.principals.isStill(caller),
          log,
          onConnectionError,
        });
  const close = async () => {
    await tasks?.close();
    await auth?.close();
    closing = true;
    await changes.close();
    await database.close();
    await opened.cluster?.stop();
  };
  const { anonymousRole } = config;
  const principals = auth?.principals ?? new Principals({ tokens: verifier, anonymousRole, signedIn: null });
  const identity = { tokens, verifier, auth, principals, addressOf };
  const ground: Ground = { ...identity, config, log, database, changes, tasks, url, onInternalError };
  try {
    await changes.start();
    auth?.start();
    const rest = await openRest(ground);
    await tasks?.start();
    auth?.start();
    const graphql = config.maxTables === 0 ? null : await openGraphQL(ground, rest);
    const explorer = graphql && config.graphiql ? await openExplorer() : null;
    return {
      opened,
      database,
      changes,
      graphql,
      tokens,
      tasks,
      routes: {
        graphql: graphql?.handler ?? null,
        tables: rest.tables,
        resources: rest.resources,
        explorer,
        docs: rest.docs,
        auth: rest.auth,
      },
      knownAs: (request) =>
        principals.known.nameOf(readCredentials(request.headers, apiKeyIn(request.url)), addressOf(request)),
      close: async () => {
        await Promise.all([graphql?.reload.close(), rest.catalog.close()]);
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openRest({ config, log, changes, url, ...ground }: Ground): Promise<RestInterface> {
  const rest = await createRest({
    ...ground,
    settings: config,
    hasDocs: config.docs,
    baseUrl: url,
    catalogLog: {
      onRead: (milliseconds) => log.debug({ milliseconds }, "the tables are served as they are now"),
      onFailed: (error) => log.error({ err: error }, "the changed tables can not be read: the old ones stay"),
    },
    onMisfit: (reason) => log.error({ reason }, "a resource is not served: its description does not fit the database"),
  });
  changes.onSchemaChange(() => rest.catalog.soon());
  return rest;
}

/** Loads GraphQL only where it is served: it takes as much memory as all else. */
async function openGraphQL(ground: Ground, { catalog }: RestInterface): Promise<GraphQLInterface> {
  const { config, log, auth } = ground;
  const { createGraphQL } = await import("./graphql/index.ts");
  const sentByOwnPage = (headers: IncomingHttpHeaders) => auth?.ownPages.sends(headers) === true;
  const callers = new LenientCallers({ ...ground, anonymousRole: config.anonymousRole, sentByOwnPage });
  return createGraphQL({
    ...ground,
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
    maxTables: config.maxTables,
    constraintMessages: () => catalog.current.constraintMessages,
    countTables: () => [...catalog.current.schemas.values()].reduce((sum, { tables }) => sum + tables.size, 0),
    bodySize: config.bodyLimit,
    jsonDepth: config.jsonDepth,
    internalStatus: config.internalStatus,
    maxSubscriptions: config.wsMaxSubscriptions,
    maxBufferedBytes: config.wsMaxBufferedBytes,
    callerOf: (request) => callers.of(request),
    callerOfSocket: (request, said) => callers.ofSocket(request, said),
    requestIdOf,
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
}

async function openExplorer(): Promise<RequestHandler> {
  const { explorerRouter } = await import("./graphql/explorer.ts");
  return explorerRouter();
}

/** Starts the embedded database, or looks at that of the settings. */
export async function openConfigured(config: Config, log: Logger): Promise<OpenedDatabase> {
  const secret = await secretOf(config);
  return openDatabase({ ...config, secret, log: (level, message) => logLine(log, level, message) });
}

/** That of the settings, or the one that is kept beside the embedded database. */
async function secretOf({ jwtSecret, jwtPrivateKey, embedded, dataDir }: Config): Promise<string> {
  return jwtSecret || jwtPrivateKey || (embedded ? keepSecret(join(dataDir, "secret")) : "");
}

export async function issuerOf(config: Config): Promise<Tokens> {
  const { jwtPrivateKey: privateKey, jwtAudience: audience, anonymousRole } = config;
  return new Tokens({
    secret: await secretOf(config),
    privateKey,
    previousKeys: previousKeys(config.jwtPreviousSecret, config.jwtPreviousKey),
    audience,
    anonymousRole,
  });
}

/** With MIGRATE=off tokens come from somebody else. */
function verifierOf(config: Config, tokens: Tokens): Verifier {
  const { jwtSecret, jwtPrivateKey, jwtAudience: audience, jwtRoleClaim: roleClaim, anonymousRole } = config;
  if (config.migrate) return tokens;
  return new ForeignTokens({ keys: foreignKeys(jwtSecret, jwtPrivateKey), audience, roleClaim, anonymousRole });
}

function logLine(log: Logger, level: string, message: string): void {
  if (level === "error") log.error(message);
  else if (level === "warning") log.warn(message);
  else log.debug(message);
}
