import { z } from "zod";
import { advisor } from "./advisor.ts";
import { COMMAND } from "./command.ts";
import { USER_ID_TYPES } from "./modules.ts";
import { postgresUrl, postgresUrls } from "./postgres-url.ts";
import { redisUrl } from "./redis-url.ts";
import {
  anonymousRole,
  type CamelCase,
  camelCase,
  functionName,
  host,
  httpUrl,
  instanceId,
  integer,
  lifecycle,
  list,
  moduleNames,
  networks,
  oneOf,
  onOff,
  origins,
  orUnset,
  pagesUrl,
  partNames,
  passwordRules,
  previousKey,
  proxies,
  roleClaim,
  rsaKey,
  secret,
  secretOrKeys,
  servedSchemas,
  tableExtras,
} from "./setting-types.ts";
import { trustedDocuments } from "./trusted-documents.ts";
import { issuersFile } from "./trusted-issuers.ts";

/** One setting. `fallback` is the default, written as in the environment; "" means unset. */
export type Setting<T> = {
  readonly about: string;
  readonly fallback: string;
  readonly type: z.ZodType<T, any>;
};

/** Settings by the names of their environment variables. */
export type Settings = Readonly<Record<string, Setting<any>>>;

/** Their values, under their names in camelCase: `GRAPHQL_MAX_DEPTH` is `graphqlMaxDepth`. */
export type ValuesOf<S extends Settings> = {
  readonly [Name in keyof S & string as CamelCase<Name>]: S[Name] extends Setting<infer T> ? T : never;
};

/** The field of a setting in `Config`: `fieldOf("MAX_CONNECTIONS")` is `"maxConnections"`. */
export const fieldOf = (name: string): string => camelCase(name.toLowerCase());

export const setting = <T>(type: z.ZodType<T, any>, fallback: string, about: string): Setting<T> => ({
  about,
  fallback,
  type,
});

/** Maximum of ACCESS_TOKEN_TTL: a day. Revoked sign-ins are remembered for twice as long. */
export const MAX_ACCESS_TOKEN_TTL = 86_400;

/** Settings that others have replaced, and what to write instead. */
export const REPLACED: Readonly<Record<string, string>> = {
  CONSOLE: "PARTS=+console opens the console, and PARTS=-console leaves it out",
  GRAPHIQL: "PARTS=+explorer opens GraphiQL, and PARTS=-explorer leaves it out",
  AUTH_PAGES: "PARTS=-account-pages leaves the pages out, and AUTH_PAGES_URL names those of the application",
  DOCS: "PARTS=+site,+reference opens the documentation and the API reference, and PARTS=-site,-reference leaves them out",
};

/** The settings of the core. */
export const SETTINGS = {
  SETTINGS_FILE: setting(
    z.string(),
    "",
    "File with further settings, one NAME=value per line. The environment takes precedence. It is read again on SIGUSR2.",
  ),
  APPLICATION: setting(
    z.string(),
    "",
    "Folder of the application, which has a content-service.config.ts. When unset, the current folder or the nearest one above it with that file; without one, there is no application.",
  ),
  PARTS: setting(
    partNames,
    "",
    "Parts of the service beside its core: npx content-service parts lists them. +console opens one more, -site leaves one out with those that need it, a list opens these alone, and none opens none. When unset, all with the embedded database, otherwise those that are not for development.",
  ),
  HOST: setting(host, "127.0.0.1", "Host name or IP address to listen on."),
  PORT: setting(integer(0, 65535), "3000", "Port to listen on. 0 picks a free port."),
  WORKERS: setting(
    integer(1, 256),
    "1",
    "Number of processes that serve requests. Each has its own pools, limits and WebSockets.",
  ),
  BASE_URL: setting(
    orUnset(httpUrl),
    "",
    "Public URL of the service, if it is behind a proxy. When unset, it is derived from HOST and PORT.",
  ),
  DATABASE_URL: setting(
    orUnset(postgresUrl),
    "",
    "Connection URL of your own PostgreSQL server (15 or later), as the owner of the database. It may name several servers, a:5432,b:5432. When unset, an embedded server is started.",
  ),
  DATABASE_DIRECT_URL: setting(
    orUnset(postgresUrl),
    "",
    "Connection URL that bypasses the pooler, for LISTEN, migrations and tasks. When unset, DATABASE_URL is used.",
  ),
  DATABASE_REPLICA_URLS: setting(
    postgresUrls,
    "",
    "Connection URLs of streaming replicas, separated by commas, such as postgres://replica-1:5432. Reads go to them, with the users and passwords of DATABASE_URL.",
  ),
  DATA_DIR: setting(z.string().min(1), ".data", "Directory of the embedded database and of the generated secret."),
  MIGRATE: setting(
    oneOf("on", "modules", "check", "off"),
    "on",
    "What a start changes in the database. on: the modules of the service and the migrations of the application. modules: only the modules; your own tool migrates your tables. check: nothing; the start ends with exit code 1 if something is missing. off: nothing; any database is served unchanged.",
  ),
  MODULES: setting(
    orUnset(moduleNames),
    "",
    "Modules of the service in the database, separated by commas: auth (sign-in), tasks, feed (changes of tables) and channels (private channels). When unset, all with MIGRATE=on and MIGRATE=check, all but feed with MIGRATE=modules, and none with MIGRATE=off.",
  ),
  AUTH_USER_ID: setting(
    orUnset(oneOf(...USER_ID_TYPES)),
    "",
    "Type of the ids of users: uuid, bigint, integer or text. It is chosen when the modules are installed, and stays. When unset, uuid, or that of the database.",
  ),
  SEED: setting(
    orUnset(oneOf("demo", "none")),
    "",
    "demo: run db/seed.sql of the application at each start. none: do not. When unset, demo on the embedded database, otherwise none.",
  ),
  JWT_SECRET: setting(
    secretOrKeys,
    "",
    "Secret that signs access tokens (HS256). For the embedded database it is generated and kept in DATA_DIR; with DATABASE_URL it is required. With MIGRATE=off it may also be a JSON Web Key or a key set.",
  ),
  JWT_PRIVATE_KEY: setting(
    rsaKey,
    "",
    "RSA private key in PEM format that signs access tokens (RS256) instead of JWT_SECRET.",
  ),
  JWT_PREVIOUS_KEY: setting(
    previousKey,
    "",
    "The previous JWT_SECRET, or the previous RSA key in PEM format, public or private. Tokens and keys signed with it stay valid until they expire.",
  ),
  JWT_AUD: setting(
    z.string(),
    "",
    "Audience (aud) of the tokens that the service issues and accepts. When unset, the audience is not checked.",
  ),
  JWT_ROLE_CLAIM: setting(
    roleClaim,
    "role",
    "With MIGRATE=off, the path of the claim that holds the Postgres role, for example role, app.role, .roles[0] or the JSONPath $.roles[?(@ == 'editor')].",
  ),
  JWT_ISSUERS: setting(
    orUnset(issuersFile),
    "",
    "JSON file that lists other issuers whose access tokens are accepted.",
  ),
  DB_SCHEMAS: setting(servedSchemas, "public", "Schemas to serve, separated by commas."),
  DB_ANON_ROLE: setting(
    anonymousRole,
    "anon",
    "Postgres role of callers who are not signed in. With MIGRATE=off, the value none rejects such callers.",
  ),
  DB_POOL: setting(integer(1, 1000), "10", "Database connections for requests, per process."),
  DB_STATEMENT_TIMEOUT: setting(
    integer(0, 3_600_000),
    "10000",
    "Milliseconds after which Postgres cancels a statement. 0 means no limit.",
  ),
  DB_PREPARED_STATEMENTS: setting(
    integer(0, 10_000),
    "250",
    "Maximum prepared statements per connection. Callers without credentials share a fifth of this number, besides. Set it to 0 for a pooler that does not support them.",
  ),
  API_KEY_REQUIRED: setting(onOff, "on", "Require an API key on every request to the table interface."),
  DB_EXTRA_SEARCH_PATH: setting(
    list,
    "public, extensions",
    "Further schemas in which SQL without schemas finds functions, tables, types and operators, after the first of DB_SCHEMAS, or the one that a request at /rest/v1 chooses.",
  ),
  DB_PRE_REQUEST: setting(
    functionName,
    "",
    "Function that every transaction of a caller calls first, on every interface, to refuse it or to set what policies read. Sign-in itself does not call it.",
  ),
  DB_REQUEST_CREDENTIALS: setting(
    orUnset(onOff),
    "",
    "Pass Authorization, Cookie and keys to functions and policies in request.headers and request.cookies. Any function can then store them. When unset, on with MIGRATE=off, otherwise off.",
  ),
  DB_TX_END: setting(
    oneOf("commit", "commit-allow-override", "rollback", "rollback-allow-override"),
    "commit",
    "How transactions of the table interface end: commit or rollback. With commit-allow-override or rollback-allow-override, the client may choose in Prefer: tx.",
  ),
  DB_MAX_ROWS: setting(
    integer(0, 1_000_000_000),
    "1000",
    "Maximum rows in each list that the table interface returns. 0 means no limit.",
  ),
  SAFE_UPDATE: setting(onOff, "on", "Require a filter on PATCH and DELETE of the table interface."),
  DB_AGGREGATES: setting(onOff, "on", "Allow aggregates (sum, count, avg, …) in the table interface."),
  DB_PLAN: setting(onOff, "off", "Allow clients of the table interface to request the query plan."),
  OPENAPI: setting(
    oneOf("follow-privileges", "ignore-privileges", "off", "disabled").transform((mode) =>
      mode === "disabled" ? "off" : mode,
    ),
    "follow-privileges",
    "OpenAPI description of the table interface. follow-privileges: what the caller may use. ignore-privileges: everything. off: no description of the tables or the resources.",
  ),
  CONSOLE_ROLES: setting(
    list,
    "",
    "Roles of operators with MIGRATE=off, separated by commas: callers with such a role may use the console and read /config, /schema_cache and the details of /health. When empty, only those with the service key.",
  ),
  API_V1_STATUS: setting(
    lifecycle,
    "supported",
    "Lifecycle of version 1 of the resources: supported, deprecated (announced in every response) or retired (rejected). An end date and the URL of a guide may follow deprecated: deprecated 2027-06-30 https://example.com/v2.",
  ),
  TASK_CONCURRENCY: setting(
    integer(0, 100),
    "2",
    "Tasks that each process runs at the same time. 0: the process accepts tasks, but only other instances run them.",
  ),
  GRAPHQL_MAX_DEPTH: setting(integer(1, 1000), "15", "Maximum nesting of fields in an operation."),
  GRAPHQL_MAX_COMPLEXITY: setting(
    integer(1, 1_000_000),
    "1000",
    "Maximum number of fields in an operation, those of filters included, with fragments expanded.",
  ),
  GRAPHQL_UNINDEXED_FILTERS: setting(
    orUnset(onOff),
    "",
    "on: GraphQL can filter and order by every column. off: only by columns in an index, and those with the smart tag @behavior +filterBy +orderBy. When unset, off, and with MIGRATE=off on for tables of at most 10,000 rows.",
  ),
  GRAPHQL_EXTRAS: setting(
    tableExtras,
    "",
    "What GraphQL has for every table, separated by commas: aggregates, bulk (mutations of many rows, upserts), changes (on…Changed, filters of subscriptions) and node (nodeId, and node(id:), for Relay). Single tables have the first three, which need the part graphql-extras, with @behavior +aggregates +bulk +changes.",
  ),
  GRAPHQL_INTROSPECTION: setting(
    oneOf("on", "authenticated", "off"),
    "on",
    "Who can read the GraphQL schema by introspection (__schema and __type). on: every caller. authenticated: callers who are signed in. off: no one.",
  ),
  GRAPHQL_DOCUMENTS: setting(
    trustedDocuments,
    "any",
    "any: each request contains its GraphQL document. none: GraphQL is not served. only and files, such as only app.json: only the trusted documents in these manifests of graphql-codegen, Relay or Apollo. allow, with or without files: a request may name a trusted document by its id, register a document by its hash (automatic persisted queries), or contain one.",
  ),
  BODY_LIMIT: setting(
    integer(1, 1_073_741_824),
    "1048576",
    "Maximum size in bytes of a request body, except at the table interface.",
  ),
  LOGIN_ATTEMPTS: setting(
    integer(1, 1000),
    "5",
    "Failed logins allowed per user and IP address within 15 minutes. After that, every login of this user from this address is rejected.",
  ),
  AUDIT_RETENTION: setting(integer(0, 3_153_600_000), "7776000", "Seconds that security events are kept."),
  MFA_KEY: setting(
    secret,
    "",
    "Key that encrypts two-factor secrets. When unset, it is derived from JWT_SECRET or JWT_PRIVATE_KEY. If the key is lost, so are all second factors.",
  ),
  MFA_PREVIOUS_KEY: setting(
    secret,
    "",
    "The previous MFA_KEY. At start all two-factor secrets are re-encrypted with MFA_KEY. While this is set, backup codes that were created with it stay valid.",
  ),
  SIGNUP: setting(
    oneOf("open", "anonymous", "invite", "off"),
    "open",
    "Who may create users. open: everyone. anonymous: everyone, and clients of /auth/v1 also without an e-mail (signInAnonymously). invite: administrators, the service key, npx content-service user, and users with an invitation (POST /auth/invitations). off: the same without invitations.",
  ),
  PASSWORD_RULES: setting(
    passwordRules,
    "12,upper,lower,digit,special",
    "What a new password must have: a number of characters, and the classes of which it needs one each (upper, lower, digit and special). 15 alone requires no classes.",
  ),
  EMAIL_CONFIRM: setting(
    oneOf("off", "claim", "required"),
    "off",
    "Whether users confirm their e-mail with a link. required: they sign in after that. claim: they sign in before, and their tokens have the claim email_confirmed. With both, a changed e-mail is confirmed too. They need MAIL_URL.",
  ),
  USERS_EMAIL: setting(
    oneOf("private", "public"),
    "private",
    "Who may read the e-mails of users. private: the user and administrators. public: everyone who may read the user; this is the value of the demo.",
  ),
  AUTH_PAGES_URL: setting(
    orUnset(pagesUrl),
    "",
    "URL of the application's pages for sign-in and accounts. Links in e-mails lead to pages below it, such as https://app.example.com/account/reset?token=…, and the part account-pages is not served. When unset, they lead to /auth/link.",
  ),
  SESSION_MAX_AGE: setting(
    integer(60, 31_536_000),
    "43200",
    "Seconds after which a session ends, even if it is in use.",
  ),
  ACCESS_TOKEN_TTL: setting(
    integer(60, MAX_ACCESS_TOKEN_TTL),
    "3600",
    "Seconds for which an access token is valid, at least 60. Signing in and refreshing return it as expiresIn. With supabase-js at least 120, and better 600 or more: the library refreshes a token about 90 seconds before it expires, so it refreshes one of 120 every 30 seconds.",
  ),
  JWT_REFRESH_GRACE: setting(
    integer(0, 600),
    "0",
    "Seconds for which POST /auth/refresh accepts a refresh token again after its first use, for clients that refresh twice at once. A later use revokes all tokens of the sign-in. /auth/v1 accepts it for 10 seconds.",
  ),
  AUTH_PROVIDERS: setting(z.string(), "", "JSON file that lists the identity providers with which users may sign in."),
  AUTH_RETURN_ORIGINS: setting(
    origins,
    "",
    "Origins, besides that of BASE_URL, to which a browser may return after a sign-in, separated by commas.",
  ),
  AUTH_PROVIDERS_NETWORKS: setting(
    networks,
    "",
    "Private networks that may contain issuers and identity providers, separated by commas, such as 10.0.0.0/8; no other private addresses are requested. For tests, loopback accepts loopback addresses without TLS; it requires BASE_URL on one.",
  ),
  MAX_CONNECTIONS: setting(
    integer(1, 1_000_000),
    "10000",
    "Maximum open connections per process, WebSockets included.",
  ),
  CHANGES_URL: setting(
    orUnset(postgresUrl),
    "",
    "Connection URL of a login that only reads committed changes (attribute replication), with MIGRATE=off, past any pooler. When unset, the login of DATABASE_URL needs this attribute. It may name a standby (PostgreSQL 16 or later), which then decodes the write-ahead log, also with MIGRATE=on.",
  ),
  INSTANCE_ID: setting(
    orUnset(instanceId),
    "",
    "Name of this instance, unique on the database and the same after a restart. Its replication slot stays under this name, so that subscribers miss nothing across restarts. When unset, embedded with the embedded database, otherwise no name.",
  ),
  CLIENT_MEMORY: setting(
    orUnset(integer(0, 1_099_511_627_776)),
    "",
    "Bytes that all clients together may make a process hold: unread responses and messages, bodies, streams, subscriptions. When unset, a sixteenth of the heap, but up to 64 MiB a quarter of it. 0 means no limit.",
  ),
  RATE_LIMIT: setting(
    integer(0, 1_000_000),
    "600",
    "Requests per minute, and operations on WebSockets, for each user or key, otherwise for each IP address; in each process, or in all with REDIS_URL. 0 means no limit.",
  ),
  REDIS_URL: setting(
    orUnset(redisUrl),
    "",
    "Valkey or Redis (6.2 or later) that all instances share, one server, Sentinels or a cluster: for RATE_LIMIT, broadcasts, presences, reads after writes on replicas, and one reader of the write-ahead log for all.",
  ),
  CORS_ORIGINS: setting(
    origins,
    "*",
    "Origins whose pages may call the service, separated by commas. * allows all origins, without cookies.",
  ),
  TRUST_PROXY: setting(
    proxies,
    "",
    "IP addresses or networks of proxies whose X-Forwarded-For is trusted, separated by commas.",
  ),
  ADVISOR: setting(
    advisor,
    "on",
    `on: check the database for mistakes at start and after each change of the schema. The log, /health and ${COMMAND} advise report them. A file, such as ./accepted.txt: the same without the findings that you accept in it, one per line: rule object # reason. It is read at each check. off: only the command checks.`,
  ),
  METRICS: setting(
    orUnset(onOff),
    "",
    "Serve metrics at /metrics on PORT. When unset, on with the embedded database, otherwise off. With ADMIN_PORT, metrics are always served on that port, and only there.",
  ),
  ADMIN_PORT: setting(
    integer(0, 65535),
    "0",
    "Second port, for operators. It serves probes, metrics, the console, the settings and the schema, which are then not on PORT. 0 means no such port.",
  ),
  ADMIN_HOST: setting(host, "127.0.0.1", "Host name or IP address to listen on for ADMIN_PORT."),
  LOG_LEVEL: setting(
    oneOf("fatal", "error", "warn", "info", "debug", "trace", "silent"),
    "info",
    "Lowest level that is logged: fatal, error, warn, info, debug, trace or silent. trace prints the SQL of requests, without values.",
  ),
  DRAIN_TIMEOUT: setting(
    integer(0, 600_000),
    "10000",
    "Milliseconds for which a stopping service waits for running requests.",
  ),
  DRAIN_DELAY: setting(
    integer(0, 600_000),
    "0",
    "Milliseconds for which a stopping service still serves requests while /ready is 503, so that load balancers notice.",
  ),
  TAKEOVER: setting(
    z.string(),
    "",
    "Path of a Unix socket. A new service takes over PORT from the running one with the same path, and no request is lost. Linux only.",
  ),
} as const;

/** Whether the standard variables of OpenTelemetry name a collector, and do not turn traces off. */
export const hasCollector = (environment: Readonly<Record<string, string | undefined>>): boolean =>
  Boolean(environment.OTEL_EXPORTER_OTLP_ENDPOINT || environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) &&
  environment.OTEL_TRACES_EXPORTER !== "none" &&
  environment.OTEL_SDK_DISABLED?.toLowerCase() !== "true";

/** Settings for documentation, in order: name, default ("" is unset) and meaning. */
export const describeSettings = (settings: Settings): { name: string; fallback: string; about: string }[] =>
  Object.entries(settings).map(([name, { fallback, about }]) => ({ name, fallback, about }));

/** The settings of the core as they are given. */
export type Parsed = ValuesOf<typeof SETTINGS>;
