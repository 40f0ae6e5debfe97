import { availableParallelism } from "node:os";
import { isLoopbackHost } from "./json-file.ts";
import { type CamelCase, camelCase } from "./setting-types.ts";

/** The settings that a limit may follow. */
type Followed = {
  readonly bodyLimit: number;
  readonly databaseUrl: string;
  readonly databaseDirectUrl: string;
  readonly dbPool: number;
  readonly dbPreparedStatements: number;
  readonly dbMaxRows: number;
  readonly isDbMaxRowsSet: boolean;
};

/** A number that no operator has a reason to change. `value` is a number, or text that says which settings it follows. */
type Limit = {
  readonly value: string;
  readonly about: string;
  of(settings: Followed): number;
};

const limit = (value: number, about: string): Limit => ({ value: String(value), about, of: () => value });
const follows = (value: string, of: Limit["of"], about: string): Limit => ({ value, about, of });

/** Every limit by its name in logs, metrics and the documentation. Its field in `Config` has the same name in camelCase. */
export const LIMITS = {
  REST_MAX_EMBED_DEPTH: limit(10, "Maximum nesting of embedded relationships in a request to the table interface."),
  REST_MAX_CONDITION_DEPTH: limit(20, "Maximum nesting of and(…) and or(…) in a filter of the table interface."),
  REST_MAX_EMBEDS: limit(500, "Maximum embedded relationships in a request to the table interface."),
  REST_MAX_EMBED_FILTERS: limit(
    20,
    "Maximum !inner and null filters on embedded relationships in a request to the table interface.",
  ),
  REST_MAX_CONDITIONS: limit(
    1000,
    "Maximum filters in a request to the table interface, those within and(…) and or(…) included.",
  ),
  REST_MAX_PATTERNS: limit(
    20,
    "Maximum patterns in a request to the table interface (like, ilike, match, imatch, fts, plfts, phfts and wfts), a GraphQL operation, or a filter of a subscription.",
  ),
  REST_MAX_PATTERN_LENGTH: limit(
    200,
    "Maximum characters of a pattern. A repeated part counts as often as it may occur: (ab){2,5} counts as 10 characters.",
  ),
  REST_BODY_LIMIT: follows(
    "16 × BODY_LIMIT",
    ({ bodyLimit }) => 16 * bodyLimit,
    "Maximum size in bytes of a request body of the table interface.",
  ),
  JSON_MAX_DEPTH: limit(64, "Maximum nesting of brackets in JSON bodies and GraphQL documents."),
  API_MAX_RECORDS: limit(10_000, "Maximum records that one POST to a resource may create."),
  DB_POOL_SHORT: follows(
    "DB_POOL, or 2 × cores + 1",
    shortTransactions,
    "Connections of DB_POOL that short transactions may use at the same time: twice the number of cores plus one if the database runs on the same machine as the service, otherwise all. A transaction that has run for 16 milliseconds no longer counts.",
  ),
  DB_POOL_QUEUE: limit(
    10,
    "Requests that may wait for each connection of DB_POOL. More may wait during the first second of a burst, and as long as they wait less than 200 milliseconds. Requests beyond that are refused immediately with 503.",
  ),
  DB_POOL_SHARE: limit(
    80,
    "Maximum percentage of DB_POOL that one user or key, or one IP address of anonymous callers, may use at the same time. One connection is always allowed.",
  ),
  DB_SHARED_READS: follows(
    "4, or 0",
    ({ databaseDirectUrl, dbPreparedStatements }) => (databaseDirectUrl === "" && dbPreparedStatements > 0 ? 4 : 0),
    "Reads that arrive together and usually take less than this many milliseconds share one connection and one round trip. Not with DATABASE_DIRECT_URL, because DATABASE_URL then names a pooler, and not with DB_PREPARED_STATEMENTS=0.",
  ),
  DB_MAX_RESULT_BYTES: limit(16_777_216, "Maximum size in bytes of the result of one transaction."),
  STREAM_CONNECTIONS: follows(
    "DB_POOL / 2",
    ({ dbPool }) => Math.floor(dbPool / 2),
    "Connections of DB_POOL that may be used at the same time to stream results larger than memory (application/x-ndjson, text/csv).",
  ),
  STREAM_MAX_ROWS: follows(
    "DB_MAX_ROWS, if it is set",
    ({ dbMaxRows, isDbMaxRowsSet }) => (isDbMaxRowsSet ? dbMaxRows : 0),
    "Maximum rows of a streamed result. Without DB_MAX_ROWS, or with its default, there is no limit.",
  ),
  STREAM_TIMEOUT: limit(3_600_000, "Milliseconds after which a streamed response is cut off."),
} as const;

/**
 * On this machine, more short transactions would only compete for its cores. On another one they also wait for the network, and its
 * number of cores is unknown.
 */
function shortTransactions({ databaseUrl, databaseDirectUrl, dbPool }: Followed): number {
  // If there is a direct URL, the other one names a pooler.
  const url = databaseDirectUrl || databaseUrl;
  const isHere = url === "" || isThisMachine(new URL(url).hostname);
  return isHere ? 2 * availableParallelism() + 1 : dbPool;
}

/** A loopback address, or a directory of sockets. */
const isThisMachine = (host: string) => isLoopbackHost(host) || host.toUpperCase().startsWith("%2F");

/** Other values, by which tests reach a limit with few requests: `{ REST_MAX_EMBEDS: 3 }`. */
export type Limits = Partial<Readonly<Record<keyof typeof LIMITS, number>>>;

export type LimitFields = { readonly [Name in keyof typeof LIMITS as CamelCase<Name>]: number };

/** The limits for these settings, under their names in camelCase. */
export const limitsOf = (settings: Followed, given: Limits): LimitFields =>
  Object.fromEntries(
    Object.entries<Limit>(LIMITS).map(([name, { of }]) => [
      camelCase(name),
      given[name as keyof Limits] ?? of(settings),
    ]),
  ) as LimitFields;

/** Every limit for documentation, in order. */
export const describeLimits = (): { name: string; value: string; about: string }[] =>
  Object.entries<Limit>(LIMITS).map(([name, { value, about }]) => ({ name, value, about }));
