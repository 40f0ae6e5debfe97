import { availableParallelism } from "node:os";
import type { Config } from "../config/config.ts";
import { isLoopbackHost } from "../config/json-file.ts";

type Settings = Pick<
  Config,
  "databaseUrl" | "databaseDirectUrl" | "dbPool" | "dbStatementTimeout" | "dbPreparedStatements"
>;

export type DatabaseLimits = Readonly<ReturnType<typeof databaseLimits>>;

/** Numbers of the database that no operator has a reason to change. */
export const databaseLimits = (settings: Settings) => ({
  /** Connections of DB_POOL that short transactions may use at the same time. One that has run for 16 ms no longer counts. */
  dbPoolShort: shortTransactions(settings),
  /** Requests that may wait for each connection of DB_POOL. */
  dbPoolQueue: 10,
  /** Milliseconds that a request waits for a connection. */
  dbPoolTimeout: 10_000,
  /** Percent of DB_POOL that one user or key, or one IP address of anonymous callers, may use at the same time. */
  dbPoolShare: 80,
  /** Milliseconds: reads that usually take less share one connection. A pooler, and unprepared statements, do not allow it. */
  dbSharedReads: settings.databaseDirectUrl === "" && settings.dbPreparedStatements > 0 ? 4 : 0,
  /** Bytes of the result of one transaction. */
  dbMaxResultBytes: 16_777_216,
  /** Connections of DB_POOL that may be used at the same time to stream results larger than memory. */
  streamConnections: Math.floor(settings.dbPool / 2),
  /** Milliseconds of a statement of a caller without credentials. The statement_timeout of the role takes precedence. */
  dbAnonStatementTimeout: Math.ceil(settings.dbStatementTimeout / 2),
  /** Milliseconds of a statement of a task of other callers. */
  taskTimeout: 600_000,
  /** Milliseconds that a read waits for a replica to have what the read must see, before DATABASE_URL answers it. */
  replicaMaxWait: 50,
  /** Milliseconds. A replica that is further behind answers nothing. */
  replicaMaxLag: 2000,
  /** Milliseconds after a write in which the reads of its client see it. Longer than `replicaMaxLag`. */
  replicaSticky: 5000,
  /** Bytes of the committed changes that each process keeps for subscribers that read slowly or resume. */
  changesMaxBytes: 67_108_864,
  /** Milliseconds that a subscription waits for changes to be read, before it is refused with Retry-After. */
  changesOpenTimeout: 8000,
  /** Milliseconds of a query that decides which subscribers see changes. */
  changesPolicyTimeout: 2000,
  /** Bytes that the clients of one IP address may make the process hold; undefined is a quarter of what all clients may. */
  clientMemoryPerAddress: undefined as number | undefined,
  /** Seconds after a sign-in in which the user need not send the password again. */
  recentSignIn: 600,
  /** Filters of a request to the table interface, those within and(…) and or(…) included. */
  restMaxConditions: 1000,
  /** Patterns of a request, a GraphQL operation or the filter of a subscription. */
  restMaxPatterns: 20,
  /** Characters of a pattern. A repeated part counts as often as it may occur: (ab){2,5} counts as 10 characters. */
  restMaxPatternLength: 200,
});

/**
 * On this machine, more short transactions would only compete for its cores. On another one they also wait for the network, and its
 * number of cores is unknown.
 */
function shortTransactions({ databaseUrl, databaseDirectUrl, dbPool }: Settings): number {
  // If there is a direct URL, the other one names a pooler.
  const url = databaseDirectUrl || databaseUrl;
  const isHere = url === "" || isThisMachine(new URL(url).hostname);
  return isHere ? 2 * availableParallelism() + 1 : dbPool;
}

/** A loopback address, or a directory of sockets. */
const isThisMachine = (host: string) => isLoopbackHost(host) || host.toUpperCase().startsWith("%2F");
