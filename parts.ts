import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { RequestHandler } from "express";
import type pg from "pg";
import type { Logger } from "pino";
import type { Config } from "./config/config.ts";
import type { NotificationFeed } from "./db/changes/notifications.ts";
import { type OpenedDatabase, openDatabase } from "./db/cluster/open.ts";
import type { Database } from "./db/database.ts";
import type { GraphQLInterface } from "./graphql/index.ts";
import { type Ground, type GroundOptions, layGround } from "./ground.ts";
import type { Routes } from "./http/app.ts";
import { requestIdOf } from "./http/request-id.ts";
import { apiKeyIn, readCredentials } from "./identity/credentials.ts";
import { secretOf } from "./identity/issuer.ts";
import { LenientCallers } from "./identity/lenient-callers.ts";
import type { Tokens } from "./identity/tokens.ts";
import { resealFactors } from "./rest-gateway/auth/reseal-factors.ts";
import { factorKeys } from "./rest-gateway/auth/second-factor.ts";
import { restRefusal } from "./rest-gateway/conventions/refused.ts";
import { createRest, type RestInterface } from "./rest-gateway/index.ts";
import type { Tasks } from "./rest-gateway/tasks/index.ts";

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

/** Puts the service together on the database that `open` gives; rejects, with nothing left running, when it can't. */
export async function assemble(
  config: Config,
  log: Logger,
  open: () => Promise<OpenedDatabase>,
  options: GroundOptions,
): Promise<Parts> {
  const ground = await layGround(config, log, open, options);
  const { opened, database, changes, tokens, tasks, auth, principals } = ground;
  try {
    await changes.start();
    auth?.start();
    const rest = await openRest(ground);
    await tasks?.start();
    const graphql = config.maxTables === 0 ? null : await openGraphQL(ground, rest);
    const explorer = graphql && config.graphiql ? await openExplorer() : null;
    const { catalog, tables, resources, docs } = rest;
    return {
      opened,
      database,
      changes,
      graphql,
      tokens,
      tasks,
      routes: { graphql: graphql?.handler ?? null, tables, resources, explorer, docs, auth: rest.auth },
      knownAs: (request) =>
        principals.known.nameOf(readCredentials(request.headers, apiKeyIn(request.url)), options.addressOf(request)),
      close: async () => {
        await Promise.all([graphql?.reload.close(), catalog.close()]);
        await ground.close();
      },
    };
  } catch (error) {
    await ground.close();
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
  const callers = new LenientCallers({
    ...ground,
    anonymousRole: config.anonymousRole,
    sentByOwnPage,
    tellingOf: (error) => restRefusal(error).problem,
  });
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
  const tend = config.mfaPreviousKey === "" ? null : (owner: pg.Client) => tendFactors(owner, config, secret, log);
  return openDatabase({ ...config, secret, tend, log: (level, message) => logLine(log, level, message) });
}

/** Nothing is to be left that only a key of before can read. */
async function tendFactors(owner: pg.Client, config: Config, secret: string, log: Logger): Promise<void> {
  const { resealed, unreadable } = await resealFactors(owner, factorKeys(config, secret).box);
  log.info({ factors: resealed }, "second factors were encrypted anew");
  if (unreadable > 0)
    log.warn({ factors: unreadable }, "second factors can be read with neither MFA_KEY nor MFA_PREVIOUS_KEY");
}

function logLine(log: Logger, level: string, message: string): void {
  if (level === "error") log.error(message);
  else if (level === "warning") log.warn(message);
  else log.debug(message);
}
