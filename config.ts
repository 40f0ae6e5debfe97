import { z } from "zod";
import {
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
  rsaKey,
} from "./config-values.ts";

/** A setting: what it means, what it may be, what it is when nobody says. The only reader of the environment. */
type Setting<T> = {
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
const SETTINGS = {
  host: setting("HOST", host, "127.0.0.1", "Address to listen on."),
  port: setting("PORT", integer(0, 65535), "3000", "Port to listen on; 0 takes a free one."),
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
    "Signs access tokens (HS256); made and kept in DATA_DIR for the embedded database, required with DATABASE_URL.",
  ),
  jwtPrivateKey: setting(
    "JWT_PRIVATE_KEY",
    rsaKey,
    "",
    "PEM of an RSA key: signs access tokens (RS256) in place of JWT_SECRET.",
  ),
  jwtAudience: setting("JWT_AUD", z.string(), "", "Audience that tokens are given and must have; unset asks for none."),
  schemas: setting(
    "DB_SCHEMAS",
    list.pipe(z.array(z.string()).min(1, "must name a schema")),
    "public",
    "Schemas that are served, with commas in between.",
  ),
  anonymousRole: setting("DB_ANON_ROLE", z.string().min(1), "anon", "Postgres role of callers who are not signed in."),
  poolSize: setting("DB_POOL", integer(1, 1000), "10", "Connections to the database for callers."),
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
    orUnset(oneOf("on", "off")),
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

type Parsed = { readonly [K in keyof typeof SETTINGS]: (typeof SETTINGS)[K] extends Setting<infer T> ? T : never };

/** The settings of one run; what depends on whether the database is embedded is settled here. */
export type Config = Omit<Parsed, "seed" | "graphiql"> & {
  readonly embedded: boolean;
  readonly seed: "demo" | "none";
  readonly graphiql: boolean;
};

/** A wrong setting; the message is one line that says which and what it may be. */
export class ConfigError extends Error {}

/** Settings are read from names with these beginnings alone by this service: one that is unknown is a slip of the pen. */
const FAMILIES = /^(DB|GRAPHQL|JWT|WS)_/;

/**
 * Reads and checks the settings; throws ConfigError.
 *
 *   readConfig({ PORT: "8080" }).port   // 8080
 *   readConfig({ PORT: "http" })        // throws: PORT must be a whole number (is "http")
 */
export function readConfig(environment: Readonly<Record<string, string | undefined>> = process.env): Config {
  refuseUnknown(Object.keys(environment));
  const parsed = Object.fromEntries(
    Object.entries(SETTINGS).map(([key, setting]) => [key, parse(setting, environment[setting.name])]),
  ) as Parsed;

  const embedded = parsed.databaseUrl === "";
  if (!embedded && parsed.jwtSecret === "" && parsed.jwtPrivateKey === "") {
    throw new ConfigError("JWT_SECRET (or JWT_PRIVATE_KEY) is required with DATABASE_URL");
  }
  if (embedded && parsed.databaseDirectUrl !== "") throw new ConfigError("DATABASE_DIRECT_URL needs a DATABASE_URL");
  if (embedded && !parsed.migrate) throw new ConfigError("MIGRATE=off needs a DATABASE_URL");
  if (parsed.seed === "demo" && !parsed.migrate) throw new ConfigError("SEED=demo needs MIGRATE=on");
  return {
    ...parsed,
    embedded,
    seed: parsed.seed || (embedded ? "demo" : "none"),
    graphiql: parsed.graphiql === "" ? embedded : parsed.graphiql === "on",
  };
}

function parse(setting: Setting<unknown>, text: string | undefined): unknown {
  const value = text === undefined || text === "" ? setting.fallback : text;
  const result = setting.type.safeParse(value);
  if (result.success) return result.data;
  const shown = /SECRET|KEY|URL/.test(setting.name) ? "" : ` (is ${JSON.stringify(value)})`;
  throw new ConfigError(`${setting.name} ${result.error.issues[0]!.message}${shown}`);
}

function refuseUnknown(names: readonly string[]): void {
  const known = new Set(Object.values(SETTINGS).map((setting) => setting.name));
  for (const name of names) {
    if (FAMILIES.test(name) && !known.has(name)) {
      throw new ConfigError(`${name} is no setting of this service; npm start -- --help lists them`);
    }
  }
}

/** Every setting as documentation: name, default ("" is unset) and meaning, in order. */
export const describeSettings = (): { name: string; fallback: string; about: string }[] =>
  Object.values(SETTINGS).map(({ name, fallback, about }) => ({ name, fallback, about }));

/** What `npm start -- --help` prints. */
export function helpText(): string {
  const width = Math.max(...describeSettings().map(({ name }) => name.length)) + 2;
  const lines = describeSettings().map(({ name, fallback, about }) => {
    const shown = fallback === "" ? "" : ` Default: ${fallback}.`;
    return `  ${name.padEnd(width)}${about}${shown}`;
  });
  return [
    "Content Service turns a PostgreSQL database into an API.",
    "",
    "  npm start              start the service; settings are environment variables",
    "  npm start -- --help    this text",
    "",
    "Settings:",
    ...lines,
    "",
  ].join("\n");
}
