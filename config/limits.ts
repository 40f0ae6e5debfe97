import { availableParallelism } from "node:os";
import { getHeapStatistics } from "node:v8";
import { isLoopbackHost } from "./json-file.ts";
import { type CamelCase, camelCase } from "./setting-types.ts";

/** Bytes. */
const LEAST_CACHES = 67_108_864;

/** The settings that a limit may follow. */
type Followed = {
  readonly bodyLimit: number;
  readonly databaseUrl: string;
  readonly databaseDirectUrl: string;
  readonly clientMemory: number | "";
  readonly loginAttempts: number;
  readonly taskConcurrency: number;
  readonly workers: number;
  readonly maxConnections: number;
  readonly dbPool: number;
  readonly dbStatementTimeout: number;
  readonly dbPreparedStatements: number;
  readonly dbMaxRows: number;
  readonly isDbMaxRowsSet: boolean;
};

/** A number that no operator has a reason to change. `value` is a number, or text that says which settings it follows. */
type Limit<T extends number | ""> = {
  readonly value: string;
  readonly about: string;
  readonly of: (settings: Followed) => T;
};

const limit = (value: number, about: string): Limit<number> => ({ value: String(value), about, of: () => value });
const follows = <T extends number | "">(value: string, of: Limit<T>["of"], about: string): Limit<T> => ({
  value,
  about,
  of,
});

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
  WS_MAX_CONNECTIONS_PER_ADDRESS: follows(
    "MAX_CONNECTIONS / 100",
    ({ maxConnections }) => Math.ceil(maxConnections / 100),
    "Maximum open WebSockets per IP address.",
  ),
  WS_MAX_MESSAGE_BYTES: follows(
    "BODY_LIMIT / 16",
    ({ bodyLimit }) => Math.ceil(bodyLimit / 16),
    "Maximum size in bytes of a WebSocket message.",
  ),
  WS_MESSAGE_RATE: limit(100, "Maximum messages per second on a WebSocket."),
  WS_MESSAGE_RATE_PER_ADDRESS: follows(
    "MAX_CONNECTIONS / 5",
    ({ maxConnections }) => Math.ceil(maxConnections / 5),
    "Maximum messages per second on all WebSockets from one IP address.",
  ),
  WS_MAX_SUBSCRIPTIONS: limit(100, "Maximum concurrent operations on a WebSocket."),
  WS_MAX_BUFFERED_BYTES: limit(
    1_048_576,
    "Maximum bytes buffered for a slow WebSocket client before the socket is closed. Results of GraphQL queries and mutations do not count: CLIENT_MEMORY limits them. At that limit, results that need no database count too. On realtime channels, changes wait instead; broadcasts do not wait, and close the socket at 16 times this size.",
  ),
  CHANGES_MAX_BYTES: limit(
    67_108_864,
    "Maximum size in bytes of the committed changes that each process keeps for subscribers that read slowly or resume.",
  ),
  REPLICA_MAX_WAIT: limit(
    50,
    "Maximum duration in milliseconds that a read waits for a replica to have what the read must see, before DATABASE_URL answers it.",
  ),
  CHANGES_OPEN_TIMEOUT: limit(
    8000,
    "Maximum duration in milliseconds that a subscription waits for changes to be read, before it is refused with Retry-After. A new replication slot begins only when the transactions that run on the server have ended.",
  ),
  CHANGES_POLICY_TIMEOUT: limit(
    2000,
    "Maximum duration in milliseconds of a query that decides which subscribers see changes. If a policy or filter takes longer for a subscriber, the subscription ends with this reason; others are not affected.",
  ),
  SSE_HEARTBEAT: limit(
    15,
    "Seconds between heartbeats on streams of events (text/event-stream), so that proxies keep them open.",
  ),
  REALTIME_MAX_CHANNELS: limit(100, "Maximum channels on a realtime WebSocket."),
  REALTIME_JOIN_RATE: limit(100, "Maximum joins of channels per second on a realtime WebSocket."),
  REALTIME_MAX_CHANNELS_PER_ADDRESS: follows(
    "MAX_CONNECTIONS / 2",
    ({ maxConnections }) => Math.ceil(maxConnections / 2),
    "Maximum channels on all realtime WebSockets from one IP address. A channel counts once for each of its different bindings.",
  ),
  REALTIME_JOIN_RATE_PER_ADDRESS: follows(
    "MAX_CONNECTIONS / 50",
    ({ maxConnections }) => Math.ceil(maxConnections / 50),
    "Maximum joins of channels per second on all realtime WebSockets from one IP address.",
  ),
  REALTIME_MAX_CHANGE_BYTES: limit(
    1_048_576,
    "Maximum size in bytes of a change in a realtime message. Of a larger row, only the primary key is sent, with an error.",
  ),
  GRAPHQL_MAX_SEARCHES: limit(
    20,
    "Maximum number of fields in an operation that search by a keyword, with fragments expanded.",
  ),
  GRAPHQL_MAX_TOKENS: limit(20_000, "Maximum number of lexical tokens in a document."),
  GRAPHQL_MAX_PAGE_SIZE: limit(1000, "Maximum value of first, last and limit."),
  GRAPHQL_MAX_ROWS: limit(100_000, "Maximum rows in one response, including nested lists."),
  LOGIN_ATTEMPTS_PER_ADDRESS: follows(
    "20 × LOGIN_ATTEMPTS",
    ({ loginAttempts }) => 20 * loginAttempts,
    "Failed logins allowed per IP address within LOGIN_WINDOW, for all users together.",
  ),
  MAILS_PER_RECIPIENT: limit(
    5,
    "E-mails to one address per hour that requests without a sign-in cause, and notices of one kind.",
  ),
  MAILS_PER_ADDRESS: limit(30, "E-mails per hour that requests without a sign-in from one IP address cause."),
  MAILS_PER_HOUR: limit(1000, "E-mails per hour that all requests without a sign-in cause."),
  REGISTRATIONS_PER_ADDRESS: limit(60, "Accounts that may be created per IP address within LOGIN_WINDOW."),
  EMAIL_RESERVATION: limit(
    2_592_000,
    "Seconds for which, after a change of e-mail, the previous e-mail stays reserved for the account, if it was confirmed. Reservations that have expired are removed every hour.",
  ),
  MFA_ATTEMPTS: limit(
    5,
    "Wrong two-factor codes allowed per user within LOGIN_WINDOW, from all IP addresses together. After that, every code is rejected.",
  ),
  RECENT_SIGN_IN: limit(
    600,
    "Seconds after a sign-in in which a user may enable a second factor, create API keys, change the login e-mail and delete their own user without sending the password again.",
  ),
  API_KEYS_MAX: limit(50, "Maximum active API keys per user."),
  SESSIONS_MAX: limit(100, "Maximum sessions per user. A further sign-in ends the session that was used longest ago."),
  USER_METADATA_BYTES: limit(
    4096,
    "Maximum size in bytes of the metadata that a user writes at /auth/v1. Each access token contains it.",
  ),
  TASK_TIMEOUT: limit(
    600_000,
    "Milliseconds after which Postgres cancels a statement of a task. For tasks of anonymous callers, DB_ANON_STATEMENT_TIMEOUT applies instead. A statement_timeout of the function or the role takes precedence.",
  ),
  TASK_CONCURRENCY_PER_OWNER: follows(
    "TASK_CONCURRENCY × WORKERS / 2",
    ({ taskConcurrency, workers }) => Math.max(1, Math.floor((taskConcurrency * workers) / 2)),
    "Tasks of one caller that run at the same time, in all processes, at least 1. All anonymous callers count as one.",
  ),
  TASK_MAX_PENDING: limit(100, "Maximum unfinished tasks per user, or per IP address of anonymous callers."),
  TASK_MAX_RESULT_BYTES: limit(67_108_864, "Maximum size in bytes of the result of a task."),
  TASK_MAX_STORED_BYTES_PER_OWNER: limit(
    268_435_456,
    "Maximum bytes of stored tasks per user, or per IP address of anonymous callers: requests, results and 4 KiB per task.",
  ),
  TASK_MAX_STORED_BYTES: limit(
    2_147_483_648,
    "Maximum bytes of all stored tasks. Tasks of anonymous callers may use at most half of them.",
  ),
  TASK_RETENTION: limit(604_800, "Seconds that finished tasks and their results are kept."),
  TASK_ANONYMOUS_RETENTION: limit(3600, "Seconds that finished tasks of anonymous callers are kept."),
  DB_ANON_STATEMENT_TIMEOUT: follows(
    "DB_STATEMENT_TIMEOUT / 2",
    ({ dbStatementTimeout }) => Math.ceil(dbStatementTimeout / 2),
    "Statement timeout of callers without credentials, in milliseconds. The statement_timeout of their role takes precedence.",
  ),
  SEND_TIMEOUT: limit(
    30_000,
    "Milliseconds after which a connection is closed if its client reads nothing of what is sent.",
  ),
  MAX_CONNECTIONS_PER_ADDRESS: follows(
    "MAX_CONNECTIONS / 10",
    ({ maxConnections }) => Math.ceil(maxConnections / 10),
    "Maximum open connections per IP address and process. Proxies named in TRUST_PROXY are exempt.",
  ),
  CACHE_MEMORY: follows(
    "1/32 of the heap",
    () => Math.max(LEAST_CACHES, Math.floor(getHeapStatistics().heap_size_limit / 32)),
    "Bytes of all caches together, at least 64 MiB: GraphQL documents with their plans, SQL, tokens, keys and sessions. Counted per process.",
  ),
  CLIENT_MEMORY_PER_ADDRESS: follows(
    "CLIENT_MEMORY / 4",
    ({ clientMemory }) => (clientMemory === "" ? "" : Math.floor(clientMemory / 4)),
    "The same as CLIENT_MEMORY for the clients of one IP address. Beyond it, their further bodies, subscriptions and messages are refused, and their requests wait.",
  ),
  MAX_QUEUE_TIME: limit(
    200,
    "Milliseconds that requests may wait for the process to handle them. They may wait longer during the first second of a burst, or if at most 200 are waiting. Otherwise the newest are refused immediately with 503.",
  ),
  METRICS_MAX_OPERATIONS: limit(
    100,
    "Maximum number of GraphQL operation names that are measured by name. Further ones count as other.",
  ),
  DRAIN_SPREAD: limit(
    5000,
    "Milliseconds over which a stopping service asks the clients of WebSockets and event streams to connect again.",
  ),
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

export type LimitFields = {
  readonly [Name in keyof typeof LIMITS as CamelCase<Name>]: ReturnType<(typeof LIMITS)[Name]["of"]>;
};

/** The limits for these settings, under their names in camelCase. */
export const limitsOf = (settings: Followed, given: Limits): LimitFields =>
  Object.fromEntries(
    Object.entries<Limit<number | "">>(LIMITS).map(([name, { of }]) => [
      camelCase(name.toLowerCase()),
      given[name as keyof Limits] ?? of(settings),
    ]),
  ) as LimitFields;

/** Every limit for documentation, in order. */
export const describeLimits = (): { name: string; value: string; about: string }[] =>
  Object.entries<Limit<number | "">>(LIMITS).map(([name, { value, about }]) => ({ name, value, about }));
