import { pino } from "pino";
import { onTestFinished } from "vitest";
import { readConfig } from "../../config/config.ts";
import type { Caller } from "../../db/caller.ts";
import { LiveCatalog } from "../../db/catalog/live.ts";
import { Database } from "../../db/database.ts";
import { Rights } from "../../db/rights/rights.ts";
import { withLimits } from "../../service/limits.ts";
import type { TestDatabase } from "./database.ts";

/** Rights on the changes of `database`, whose queries run as the owner's login in the role of each caller. */
export async function openRights(
  { url }: TestDatabase,
  { timeout = 5000, onInternalError = (_: unknown) => {} } = {},
): Promise<OpenRights> {
  const database = new Database({
    settings: {
      ...withLimits(readConfig({})),
      dbPool: 5,
      dbPoolShort: 5,
      dbPoolShare: 100,
      clientMemory: 0,
      streamConnections: 0,
      dbMaxResultBytes: 0,
    },
    anonymousRoles: [],
    logins: { data: url, admin: url, service: url, auth: url, tasks: url, changes: url },
    log: pino({ level: "silent" }),
    onConnectionError: () => {},
  });
  const log = { onRead: () => {}, onFailed: () => {} };
  const catalog = new LiveCatalog({ pool: database.catalog, schemas: ["public"], extraSearchPath: [], log });
  catalog.onChange((changed) => database.follow(changed));
  await catalog.start();
  const rights = new Rights({
    database,
    catalog,
    timeout,
    onInternalError,
    filterLimits: { restMaxConditions: 1000, restMaxPatterns: 20, restMaxPatternLength: 200 },
  });
  const close = async () => {
    rights.close();
    await catalog.close();
    await database.close();
  };
  return { rights, catalog, database, close };
}

/** The same for one test. */
export async function startRights(database: TestDatabase, options = {}): Promise<OpenRights> {
  const opened = await openRights(database, options);
  onTestFinished(() => opened.close());
  return opened;
}

export type OpenRights = {
  readonly rights: Rights;
  readonly catalog: LiveCatalog;
  readonly database: Database;
  close(): Promise<void>;
};

/** A caller with these claims. */
export const callerOf = (role: string, claims: Caller["claims"] = {}): Caller => ({
  role,
  claims,
  expiresAt: null,
  refused: null,
});
