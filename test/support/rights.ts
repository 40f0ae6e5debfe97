import { onTestFinished } from "vitest";
import type { Caller } from "../../db/caller.ts";
import { loginsAt } from "../../db/cluster/provision.ts";
import { type OpenCore, openCore } from "../../service/core.ts";
import { withLimits } from "../../service/limits.ts";
import { readConfig } from "./config.ts";
import type { TestDatabase } from "./database.ts";

/** The settings of a database without limits that a test would meet. */
export const FEW_CONNECTIONS = {
  ...withLimits(readConfig({})),
  dbPool: 5,
  dbPoolShort: 5,
  dbPoolShare: 100,
  clientMemory: 0,
  streamConnections: 0,
  dbMaxResultBytes: 0,
};

/** Rights on the changes of `database`, whose queries run as the owner's login in the role of each caller. */
export const openRights = ({ url }: TestDatabase, { timeout = 5000 } = {}): Promise<OpenCore> =>
  openCore(
    { ...FEW_CONNECTIONS, dbSchemas: ["public"], dbExtraSearchPath: [], changesPolicyTimeout: timeout },
    "rights",
    {
      logins: loginsAt(url),
      anonymousRoles: [],
    },
  );

/** The same for one test. */
export async function startRights(database: TestDatabase, options = {}): Promise<OpenCore> {
  const opened = await openRights(database, options);
  onTestFinished(() => opened.close());
  return opened;
}

/** A caller with these claims. */
export const callerOf = (role: string, claims: Caller["claims"] = {}): Caller => ({
  role,
  claims,
  expiresAt: null,
  refused: null,
});
