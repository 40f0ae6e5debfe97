import { pino } from "pino";
import { LiveCatalog } from "../db/catalog/live.ts";
import { Database, type DatabaseOptions } from "../db/database.ts";
import { Rights } from "../db/rights/rights.ts";
import type { LimitedConfig } from "./limits.ts";

/** What is open of a database that is ready to be served. */
export type OpenCore = {
  readonly database: Database;
  /** The catalog of the served schemas. */
  readonly catalog: LiveCatalog;
  /** Who sees which changes of tables. */
  readonly rights: Rights;
  close(): Promise<void>;
};

/** Each level has what those before it have. */
export type Levels = {
  readonly database: Pick<OpenCore, "database" | "close">;
  readonly catalog: Omit<OpenCore, "rights">;
  readonly rights: OpenCore;
};

type CoreOptions = Partial<Pick<DatabaseOptions, "log" | "anonymousRoles" | "onConnectionError">> &
  (Pick<DatabaseOptions, "logins" | "listenUrl" | "metrics" | "onLimit"> | { readonly database: Database });

/**
 * Opens the core up to a level, for the service, a command or a test. Rejects, with nothing left open, if the catalog cannot be read.
 * A `database` that is open already is left open.
 */
export async function openCore<Level extends keyof Levels>(
  config: LimitedConfig,
  level: Level,
  { log = pino({ enabled: false }), anonymousRoles = [config.dbAnonRole], ...options }: CoreOptions,
): Promise<Levels[Level]> {
  const { onConnectionError = () => {} } = options;
  const database =
    "database" in options
      ? options.database
      : new Database({ ...options, settings: config, anonymousRoles, onConnectionError, log });
  if (level === "database") return { database, close: () => database.close() } as OpenCore;
  const catalog = new LiveCatalog({
    pool: database.catalog,
    ...scopeOf(config),
    log: {
      onRead: (milliseconds) => log.debug({ milliseconds }, "the changed tables are served"),
      onFailed: (error) =>
        log.error({ err: error }, "the changed tables cannot be read: the previous ones stay in use"),
    },
  });
  catalog.onChange((changed) => database.follow(changed));
  const rights =
    level === "rights" &&
    new Rights({
      ...{ database, catalog, filterLimits: config },
      timeout: config.changesPolicyTimeout,
      hasPreRequest: config.dbPreRequest !== null,
      onInternalError: (error) => log.error({ err: error }, "a batch of changes could not be delivered"),
    });
  const close = async () => {
    if (rights) rights.close();
    await catalog.close();
    if (!("database" in options)) await database.close();
  };
  await catalog.start().catch(async (error) => {
    await close();
    throw error;
  });
  return { database, catalog, ...(rights && { rights }), close } as OpenCore;
}

/** Applies changed settings. */
export function followSettings({ database, catalog, rights }: OpenCore, changed: LimitedConfig): void {
  database.follow(catalog.current, changed);
  catalog.rescope(scopeOf(changed));
  rights.filterLimits = changed;
  rights.checker.decidesAlone = changed.dbPreRequest !== null;
}

const scopeOf = ({ dbSchemas: schemas, dbExtraSearchPath: extraSearchPath }: LimitedConfig) => ({
  schemas,
  extraSearchPath,
});
