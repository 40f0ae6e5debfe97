import { z } from "zod";
import {
  anonymousRole,
  functionName,
  host,
  httpUrl,
  integer,
  list,
  oneOf,
  onOff,
  origins,
  orUnset,
  postgresUrl,
  proxies,
  roleClaim,
  rsaKey,
  servedSchemas,
} from "./config-values.ts";

/** A setting: what it means, what it may be, what it is when nobody says. */
export type Setting<T> = {
  readonly name: string;
  readonly about: string;
  readonly fallback: string;
  readonly type: z.ZodType<T, any>;
};

const setting = <T>(name: string, type: z.ZodType<T, any>, fallback: string, about: string): Setting<T> => ({
  name,
  about,
  fallback,
  type,
});

/** Every setting, by the name that the code uses. `fallback` is text as it would stand in the environment; "" is unset. */
export const SETTINGS = {
  host: setting("HOST", host, "127.0.0.1", "Address to listen on."),
  port: setting("PORT", integer(0, 65535), "3000", "Port to listen on; 0 takes a free one."),
  workers: setting(
    "WORKERS",
    integer(1, 256),
    "1",
    "Processes that serve requests, each with pools, limits and WebSockets of its own.",
  ),
  baseUrl: setting(
    "BASE_URL",
    orUnset(httpUrl),
    "",
    "Address that clients use, when a proxy stands in between; else made from HOST and PORT.",
  ),
  databaseUrl: setting(
    "DATABASE_URL",
    orUnset(postgresUrl),
    "",
    "Owner's login on a server of your own, PostgreSQL 15 or later; without it an embedded one is started.",
  ),
  databaseDirectUrl: setting(
    "DATABASE_DIRECT_URL",
    orUnset(postgresUrl),
    "",
    "The same without a pooler in between, for LISTEN and migrations; else DATABASE_URL.",
  ),
  dataDir: setting(
    "DATA_DIR",
    z.string().min(1),
    ".data",
    "Folder of the embedded database and of the generated secret.",
  ),
  migrate: setting(
    "MIGRATE",
    onOff,
    "on",
    "Whether to migrate and provision DATABASE_URL at start; off serves any database as it is.",
  ),
  seed: setting(
    "SEED",
    orUnset(oneOf("demo", "none")),
    "",
    "Demo data, put in once; demo on the embedded database, else none.",
  ),
  jwtSecret: setting(
    "JWT_SECRET",
    z.string().refine((text) => text === "" || Buffer.byteLength(text) >= 32, "must have at least 32 bytes"),
    "",
    "Signs access tokens (HS256); made and kept in DATA_DIR for the embedded database, required with DATABASE_URL. With MIGRATE=off also a JSON Web Key or a set of them.",
  ),
  jwtPrivateKey: setting(
    "JWT_PRIVATE_KEY",
    rsaKey,
    "",
    "PEM of an RSA key: signs access tokens (RS256) in place of JWT_SECRET.",
  ),
  jwtAudience: setting("JWT_AUD", z.string(), "", "Audience that tokens are given and must have; unset asks for none."),
  jwtRoleClaim: setting(
    "JWT_ROLE_CLAIM",
    roleClaim,
    "role",
    "With MIGRATE=off, where a token names its Postgres role: role, app.role or .roles[0].",
  ),
  schemas: setting("DB_SCHEMAS", servedSchemas, "public", "Schemas that are served, with commas in between."),
  anonymousRole: setting(
    "DB_ANON_ROLE",
    anonymousRole,
    "anon",
    "Postgres role of callers who are not signed in; none refuses them, with MIGRATE=off.",
  ),
  poolSize: setting("DB_POOL", integer(1, 1000), "10", "Connections to the database for callers, in each process."),
  poolTimeout: setting(
    "DB_POOL_TIMEOUT",
    integer(1, 600_000),
    "10000",
    "Milliseconds a request waits for a free connection.",
  ),
  statementTimeout: setting(
    "DB_STATEMENT_TIMEOUT",
    integer(0, 3_600_000),
    "10000",
    "Milliseconds until Postgres cancels a statement; 0 is never.",
  ),
  maxPrepared: setting(
    "DB_PREPARED_STATEMENTS",
    integer(0, 10_000),
    "250",
    "Prepared statements per connection; 0 for poolers that can't keep them.",
  ),
  maxResultBytes: setting(
    "DB_MAX_RESULT_BYTES",
    integer(0, 1_073_741_824),
    "16777216",
    "Bytes that the database may answer one transaction with; 0 is no limit.",
  ),
  apiKeyRequired: setting(
    "API_KEY_REQUIRED",
    onOff,
    "on",
    "Whether each request to the table interface must carry the header apikey.",
  ),
  extraSearchPath: setting(
    "DB_EXTRA_SEARCH_PATH",
    list,
    "public, extensions",
    "Schemas besides the served one in which the table interface finds functions, types and operators.",
  ),
  preRequest: setting(
    "DB_PRE_REQUEST",
    functionName,
    "",
    "Function that runs in each transaction of the table interface before its statement.",
  ),
  transactionEnd: setting(
    "DB_TX_END",
    oneOf("commit", "commit-allow-override", "rollback", "rollback-allow-override"),
    "commit",
    "How transactions of the table interface end, and whether Prefer: tx may say otherwise.",
  ),
  maxTableRows: setting(
    "DB_MAX_ROWS",
    integer(0, 1_000_000_000),
    "1000",
    "Rows that the table interface answers with at most, in each list; 0 is no limit.",
  ),
  safeUpdate: setting("SAFE_UPDATE", onOff, "on", "Whether PATCH and DELETE of the table interface need a filter."),
  aggregates: setting("DB_AGGREGATES", onOff, "on", "Whether the table interface sums, counts and averages."),
  showsPlans: setting("DB_PLAN", onOff, "off", "Whether the table interface shows the plan of a query to who asks."),
  maxEmbedDepth: setting(
    "REST_MAX_EMBED_DEPTH",
    integer(0, 100),
    "10",
    "Levels of related rows that a request to the table interface may ask for.",
  ),
  maxConditionDepth: setting(
    "REST_MAX_CONDITION_DEPTH",
    integer(0, 1000),
    "20",
    "Levels of and(…) and or(…) that a filter of the table interface may have.",
  ),
  tableBodyLimit: setting(
    "REST_BODY_LIMIT",
    integer(1, 1_073_741_824),
    "16777216",
    "Bytes that the body of a request to the table interface may have.",
  ),
  openApi: setting(
    "OPENAPI",
    oneOf("follow-privileges", "ignore-privileges", "off"),
    "follow-privileges",
    "What the OpenAPI description of the table interface shows: what the caller may do, everything, or nothing.",
  ),
  docs: setting("DOCS", orUnset(onOff), "", "The reference page at /docs; on for the embedded database, else off."),
  serverTiming: setting("SERVER_TIMING", onOff, "on", "Whether the table interface tells its times in Server-Timing."),
  maxDepth: setting("GRAPHQL_MAX_DEPTH", integer(1, 1000), "15", "Levels of fields that an operation may have."),
  maxComplexity: setting(
    "GRAPHQL_MAX_COMPLEXITY",
    integer(1, 1_000_000),
    "1000",
    "Fields that an operation may have, fragments expanded.",
  ),
  maxTokens: setting(
    "GRAPHQL_MAX_TOKENS",
    integer(10, 1_000_000),
    "20000",
    "Words and signs that a document may have.",
  ),
  maxPageSize: setting(
    "GRAPHQL_MAX_PAGE_SIZE",
    integer(1, 100_000),
    "1000",
    "The most that first and limit may ask for.",
  ),
  maxRows: setting(
    "GRAPHQL_MAX_ROWS",
    integer(1, 100_000_000),
    "100000",
    "Rows that one answer may be made of, those of lists in lists included.",
  ),
  maxTables: setting(
    "GRAPHQL_MAX_TABLES",
    integer(0, 100_000),
    "300",
    "Tables that GraphQL is built for; where there are more it is not served. 0 leaves GraphQL out.",
  ),
  timeScalar: setting("GRAPHQL_TIME_SCALAR", oneOf("Time", "DateTime"), "Time", "Name of the scalar for timestamps."),
  internalStatus: setting(
    "GRAPHQL_INTERNAL_STATUS",
    oneOf("200", "400").transform(Number),
    "200",
    "HTTP status of an answer with an INTERNAL_ERROR.",
  ),
  deleteAnonymous: setting(
    "GRAPHQL_DELETE_ANONYMOUS",
    oneOf("error", "false-result"),
    "error",
    "What deleteArticle answers without a login: AUTH_REQUIRED, or false.",
  ),
  graphiql: setting(
    "GRAPHIQL",
    orUnset(onOff),
    "",
    "The explorer at /graphiql; on for the embedded database, else off.",
  ),
  bodyLimit: setting("BODY_LIMIT", integer(1, 1_073_741_824), "1048576", "Bytes that the body of a request may have."),
  jsonDepth: setting(
    "JSON_MAX_DEPTH",
    integer(1, 1000),
    "64",
    "Levels of brackets that JSON and GraphQL documents may have.",
  ),
  wsMaxConnections: setting("WS_MAX_CONNECTIONS", integer(1, 1_000_000), "10000", "Open WebSockets."),
  wsMaxPerAddress: setting(
    "WS_MAX_CONNECTIONS_PER_ADDRESS",
    integer(1, 1_000_000),
    "100",
    "Open WebSockets from one address.",
  ),
  wsMaxMessageBytes: setting(
    "WS_MAX_MESSAGE_BYTES",
    integer(1, 104_857_600),
    "65536",
    "Bytes that a WebSocket message may have.",
  ),
  wsMessageRate: setting(
    "WS_MESSAGE_RATE",
    integer(1, 1_000_000),
    "100",
    "Messages a second that a WebSocket may send.",
  ),
  wsMaxSubscriptions: setting(
    "WS_MAX_SUBSCRIPTIONS",
    integer(1, 100_000),
    "100",
    "Operations that may run on one WebSocket.",
  ),
  wsMaxBufferedBytes: setting(
    "WS_MAX_BUFFERED_BYTES",
    integer(1, 1_073_741_824),
    "1048576",
    "Bytes that may wait for a WebSocket which reads too slowly, before it is closed.",
  ),
  corsOrigins: setting(
    "CORS_ORIGINS",
    origins,
    "*",
    "Browser origins that may call, with commas in between; * is all, for calls without cookies.",
  ),
  trustProxy: setting(
    "TRUST_PROXY",
    proxies,
    "",
    "Addresses of proxies whose X-Forwarded-For is believed, with commas in between.",
  ),
  logLevel: setting(
    "LOG_LEVEL",
    oneOf("fatal", "error", "warn", "info", "debug", "trace", "silent"),
    "info",
    "The least severe log lines that are written.",
  ),
  drainTimeout: setting(
    "DRAIN_TIMEOUT",
    integer(0, 600_000),
    "10000",
    "Milliseconds that running requests get to end when the service stops.",
  ),
} as const;
