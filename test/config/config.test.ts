import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { helpText } from "../../config/help.ts";
import { describeSettings, KNOWN, readConfig } from "../support/config.ts";
import { errorOf } from "../support/settings.ts";

const SECRET = "a secret of thirty-two bytes or more";
const PASSWORD = "hunter2-secret";
const DATABASE_URL = `postgres://owner:${PASSWORD}@db.example.com:5432/content`;
const OWN = { DATABASE_URL, JWT_SECRET: SECRET };

const pem = (type: "rsa" | "ec", modulusLength = 2048) =>
  (type === "rsa"
    ? generateKeyPairSync("rsa", { modulusLength })
    : generateKeyPairSync("ec", { namedCurve: "P-256" })
  ).privateKey
    .export({ type: "pkcs8", format: "pem" })
    .toString();

/** A set of one public key, as identity providers publish it. */
const jwks = (modulusLength = 2048) =>
  JSON.stringify({ keys: [generateKeyPairSync("rsa", { modulusLength }).publicKey.export({ format: "jwk" })] });

test("an error names all settings that are unknown or invalid, and then all that contradict each other", () => {
  expect(errorOf({ LOG_LEVEL: "loud", MFA_KEYS: "x", RATE_LIMIT: "abc" }).split("\n")).toEqual([
    "MFA_KEYS is not a setting of this service; npx content-service start --help lists all settings",
    expect.stringMatching(/^RATE_LIMIT must be .* \(is "abc"\)$/),
    expect.stringMatching(/^LOG_LEVEL must be .* \(is "loud"\)$/),
  ]);
  expect(
    errorOf({ DATABASE_DIRECT_URL: "postgres://localhost/app", PORT: "80", ADMIN_PORT: "80" }).split("\n"),
  ).toEqual(["DATABASE_DIRECT_URL requires DATABASE_URL", "ADMIN_PORT must differ from PORT"]);
});

/** The configuration without settings. */
const DEFAULTS = `
  accessTokenTtl=3600 adminHost="127.0.0.1" adminPort=0 advisor="on" apiKeyRequired=true
  apiV1Status={"status":"supported","sunset":null,"guide":""} appSettings=[] application="" auditRetention=7776000
  authPagesUrl="" authProviders="" authProvidersNetworks=[] authReturnOrigins=[] authUserId="" baseUrl=""
  bodyLimit=1048576 changesUrl="" clientMemory=""
  consoleRoles=[] corsOrigins=["*"] dataDir=".data" databaseDirectUrl="" databaseReplicaUrls=[] databaseUrl=""
  dbAggregates=true dbAnonRole="anon" dbConfig=false dbExtraSearchPath=["public","extensions"] dbMaxRows=1000
  dbPlan=false dbPool=10 dbPreRequest=null dbPreparedStatements=250 dbRequestCredentials=false
  dbSchemas=["public"] dbStatementTimeout=10000 dbTxEnd="commit" declared={} drainDelay=0
  drainTimeout=10000 emailConfirm="off" embedded=true
  graphqlDocuments={"mode":"any","byId":{}} graphqlExtras=[] graphqlIntrospection="on" graphqlMaxComplexity=1000
  graphqlMaxDepth=15 graphqlNode=false graphqlUnindexedFilters="" hasAuth=true hasChannels=true
  hasFeed=true hasGraphQL=true hasTasks=true host="127.0.0.1" ignored=[] instanceId="embedded" isDbMaxRowsSet=false isManaged=true
  jwtAud="" jwtIssuers=[] jwtPreviousKey="" jwtPrivateKey="" jwtRefreshGrace=0 jwtRoleClaim=["role"]
  jwtSecret="" logLevel="info" loginAttempts=5 mailFrom="" mailUrl="" maxConnections=10000 metrics=true
  mfaAal1="limited" mfaKey="" mfaPreviousKey="" migrate="on" modules=["auth","tasks","feed","channels"]
  openapi="follow-privileges" parts=[] passkeyDomain=""
  passwordRules={"length":12,"classes":["upper","lower","digit","special"]} port=3000 rateLimit=600 redisUrl=""
  safeUpdate=true seed="demo" sessionMaxAge=43200 settingsFile="" signup="open" storageUrl=""
  takeover="" taskConcurrency=2 tracing=false trustProxy=[] usersEmail="private" workers=1`;

test("without settings the service uses an embedded database with demo data and listens on 127.0.0.1", () => {
  const { known, providers, ...config } = readConfig({});
  expect([known, providers]).toEqual([KNOWN, expect.anything()]);
  const written = Object.entries(config).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  expect(written.toSorted()).toEqual(DEFAULTS.trim().split(/\s+/));
});

test("the port for operators, which needs no credentials, is on this machine only, also if HOST is not", () => {
  expect(readConfig({ HOST: "0.0.0.0", ADMIN_PORT: "3001" })).toMatchObject({
    host: "0.0.0.0",
    adminHost: "127.0.0.1",
  });
  const postgrest = { PGRST_DB_URI: DATABASE_URL, PGRST_ADMIN_SERVER_PORT: "3001" };
  expect(readConfig(postgrest)).toMatchObject({ host: "0.0.0.0", adminHost: "127.0.0.1" });
});

test.each([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }, true],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://collector:4318/v1/traces" }, true],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", OTEL_TRACES_EXPORTER: "none" }, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", OTEL_SDK_DISABLED: "true" }, false],
  [{ OTEL_SERVICE_NAME: "content" }, false],
])("requests are traced if %o names a collector: %s", (environment, tracing) =>
  expect(readConfig(environment).tracing).toBe(tracing),
);

test("with DATABASE_URL the demo data are off by default", () => {
  expect(readConfig(OWN)).toMatchObject({ embedded: false, seed: "none" });
  expect(readConfig({ ...OWN, SEED: "demo" }).seed).toBe("demo");
  expect(readConfig({ SEED: "none" }).seed).toBe("none");
});

test("PARTS is a list of names, or of changes", () => {
  expect(readConfig({ PARTS: "console, site" }).parts).toEqual(["console", "site"]);
  expect(readConfig({ PARTS: "+console,-site" }).parts).toEqual(["+console", "-site"]);
});

test.each([
  ["CONSOLE", "on", "PARTS=+console opens the console"],
  ["GRAPHIQL", "off", "PARTS=-explorer leaves it out"],
  ["DOCS", "on", "PARTS=+site,+reference opens"],
  ["AUTH_PAGES", "off", "PARTS=-account-pages leaves the pages out"],
])("the replaced setting %s is refused, with what to write instead", (name, value, cure) => {
  expect(() => readConfig({ [name]: value })).toThrow(`${name} is no longer a setting: `);
  expect(() => readConfig({ [name]: value })).toThrow(cure);
  // A file of an application may name it without a value.
  expect(() => readConfig({ [name]: "" })).not.toThrow();
});

test("OPENAPI=disabled means off", () => {
  expect(readConfig({ OPENAPI: "disabled" }).openapi).toBe("off");
});

test("functions can read the credentials of a request only with MIGRATE=off by default", () => {
  expect(readConfig(OWN).dbRequestCredentials).toBe(false);
  expect(readConfig({ ...OWN, DB_REQUEST_CREDENTIALS: "on" }).dbRequestCredentials).toBe(true);
  expect(readConfig({ ...OWN, MIGRATE: "off" }).dbRequestCredentials).toBe(true);
  expect(readConfig({ ...OWN, MIGRATE: "off", DB_REQUEST_CREDENTIALS: "off" }).dbRequestCredentials).toBe(false);
});

// A number that no operator has a reason to change belongs in the limits.ts of its room.
test("there are at most 82 settings", () => expect(describeSettings().length).toBeLessThanOrEqual(82));

test("an empty value means unset", () => {
  const empty = Object.fromEntries(describeSettings().map(({ name }) => [name, ""]));
  expect(readConfig(empty)).toEqual(readConfig({}));
});

test("setting every default explicitly changes nothing", () => {
  const written = Object.fromEntries(describeSettings().map(({ name, fallback }) => [name, fallback]));
  expect(readConfig(written)).toEqual(readConfig({}));
});

test.each([
  ["PORT", "8080", { port: 8080 }],
  ["PORT", "0", { port: 0 }],
  ["HOST", "::1", { host: "::1" }],
  ["HOST", "api.example.com", { host: "api.example.com" }],
  ["BASE_URL", "https://api.example.com/v1/", { baseUrl: "https://api.example.com/v1" }],
  ["DB_SCHEMAS", "public, api ,shop", { dbSchemas: ["public", "api", "shop"] }],
  ["DB_STATEMENT_TIMEOUT", "0", { dbStatementTimeout: 0 }],
  ["BODY_LIMIT", "1000", { bodyLimit: 1000 }],
  ["MAX_CONNECTIONS", "500", { maxConnections: 500 }],
  ["API_V1_STATUS", "deprecated", { apiV1Status: { status: "deprecated", sunset: null, guide: "" } }],
  ["API_V1_STATUS", "deprecated 2027-06-30", { apiV1Status: { sunset: new Date("2027-06-30T00:00:00Z"), guide: "" } }],
  [
    "API_V1_STATUS",
    "deprecated https://docs.example.com/v2",
    { apiV1Status: { guide: "https://docs.example.com/v2" } },
  ],
  [
    "CORS_ORIGINS",
    "https://a.example, http://localhost:5173",
    { corsOrigins: ["https://a.example", "http://localhost:5173"] },
  ],
  ["CORS_ORIGINS", ",", { corsOrigins: [] }],
  ["DB_EXTRA_SEARCH_PATH", "extensions,Back Office", { dbExtraSearchPath: ["extensions", "Back Office"] }],
  ["DB_MAX_ROWS", "0", { dbMaxRows: 0 }],
  ["DB_MAX_ROWS", "50", { dbMaxRows: 50, isDbMaxRowsSet: true }],
  ["PGRST_DB_MAX_ROWS", "50", { dbMaxRows: 50, isDbMaxRowsSet: true }],
  ["PGRST_DB_MAX_ROWS", "1000", { dbMaxRows: 1000, isDbMaxRowsSet: true }],
  ["DB_TX_END", "rollback-allow-override", { dbTxEnd: "rollback-allow-override" }],
  ["DB_PRE_REQUEST", "auth.check_request", { dbPreRequest: { schema: "auth", name: "check_request" } }],
  ["DB_PRE_REQUEST", "check_request", { dbPreRequest: { schema: null, name: "check_request" } }],
  ["DB_AGGREGATES", "off", { dbAggregates: false }],
  ["DB_AGGREGATES", "false", { dbAggregates: false }],
  ["DB_PLAN", "true", { dbPlan: true }],
  ["OPENAPI", "off", { openapi: "off" }],
  ["WORKERS", "4", { workers: 4 }],
  ["TRUST_PROXY", "10.0.0.0/8, ::1, loopback", { trustProxy: ["10.0.0.0/8", "::1", "loopback"] }],
])("%s=%s", (name, value, expected) => expect(readConfig({ [name]: value })).toMatchObject(expected));

test.each([
  "postgres://owner@db.example.com/content",
  "postgresql://owner:p%40ss@[::1]:6432/content?sslmode=verify-full",
  "postgres://owner:x@%2Fvar%2Frun%2Fpostgresql/content",
])("DATABASE_URL=%s", (url) =>
  expect(readConfig({ ...OWN, DATABASE_URL: url })).toMatchObject({ databaseUrl: url, embedded: false }),
);

test.each([
  ["postgres://owner:p%40ss@/content?host=/run/postgresql", "postgres://owner:p%40ss@%2Frun%2Fpostgresql/content"],
  ["postgresql:///content?user=owner&host=%2Ftmp&port=5433", "postgres://owner@%2Ftmp:5433/content"],
])("DATABASE_URL=%s names a socket directory", (url, databaseUrl) =>
  expect(readConfig({ ...OWN, DATABASE_URL: url })).toMatchObject({ databaseUrl }),
);

test("a PEM with \\n in place of line ends is accepted", () => {
  const key = pem("rsa");
  expect(readConfig({ DATABASE_URL, JWT_PRIVATE_KEY: key }).jwtPrivateKey).toBe(key);
  expect(readConfig({ DATABASE_URL, JWT_PRIVATE_KEY: key.replaceAll("\n", "\\n") }).jwtPrivateKey).toBe(key);
});

const NUMBERS = describeSettings().filter(({ fallback }) => /^\d+$/.test(fallback) && fallback !== "200");

test.each(NUMBERS)("$name must be a whole number in its range, written in digits", ({ name }) => {
  for (const value of [
    "many",
    "-1",
    "1.5",
    "1e3",
    "0x10",
    " 1",
    "1 ",
    "+1",
    "99999999999999999999",
    "١",
    "NaN",
    "Infinity",
    "true",
  ]) {
    expect(errorOf({ [name]: value })).toBe(`${name} must be a whole number (is ${JSON.stringify(value)})`);
  }
  const beyond = "999999999999999";
  expect(errorOf({ [name]: beyond })).toMatch(new RegExp(`^${name} must be at most \\d+ \\(is "${beyond}"\\)$`));
});

const LIFECYCLE =
  "must be supported, deprecated or retired; a date and the URL of a guide may follow: deprecated 2027-06-30 https://example.com/v2";
const WEB_ORIGINS = "CORS_ORIGINS must be * or origins such as https://app.example.com";
const NETWORKS = "TRUST_PROXY must be IP addresses such as 10.0.0.1 or networks such as 10.0.0.0/8";
const REDIS =
  "must look like redis://user:password@host:6379, redis+sentinel://user:password@host1:26379,host2:26379/primary " +
  "or redis+cluster://user:password@host1:6379,host2:6379, with rediss instead of redis for TLS";
const POSTGRES =
  "must look like postgres://user:password@host:5432/database, with %40 for @ in a password, %20 for a space, and so on";
const BEFORE_PATH =
  "must name user, password and host before the path; write a socket directory as %2Fvar%2Frun%2Fpostgresql";

test.each([
  ["PORT", "65536", 'PORT must be at most 65535 (is "65536")'],
  ["PORT", "80\n81", 'PORT must be a whole number (is "80\\n81")'],
  ["DB_POOL", "0", 'DB_POOL must be at least 1 (is "0")'],
  ["HOST", "127.0.0.1:80", 'HOST must be a host name or an IP address, without a port (is "127.0.0.1:80")'],
  ["HOST", "a b", 'HOST must be a host name or an IP address, without a port (is "a b")'],
  ["BASE_URL", "api.example.com", "BASE_URL must be an http or https URL, without ? and #"],
  ["BASE_URL", "ftp://api.example.com", "BASE_URL must be an http or https URL, without ? and #"],
  ["BASE_URL", "https://api.example.com?a=b", "BASE_URL must be an http or https URL, without ? and #"],
  ...["valkey.internal:6379", "redis://h:6379/cache", "redis://a:b:c", "redis://h:port", "redis://u:%@h"].map(
    (url): [string, string, string] => ["REDIS_URL", url, `REDIS_URL ${REDIS}`],
  ),
  [
    "REDIS_URL",
    "redis://a,b",
    "REDIS_URL names several hosts: they are redis+sentinel://…/primary, if Sentinels, or redis+cluster://…",
  ],
  [
    "REDIS_URL",
    "redis+sentinel://a,b",
    "REDIS_URL must name the primary after the Sentinels: redis+sentinel://…/mymaster",
  ],
  ["REDIS_URL", "redis+cluster://a,b/1", "REDIS_URL must not name a database of a cluster, which has only one"],
  ["REDIS_URL", "redis://a?ssl=true", "REDIS_URL must not have the parameter ssl"],
  [
    "REDIS_URL",
    "rediss://a?sslrootcert=/missing.pem",
    "REDIS_URL names a file that cannot be read: ENOENT: no such file or directory, open '/missing.pem'",
  ],
  ["REDIS_URL", "redis://a?sslrootcert=/ca.pem", "REDIS_URL names certificates, which require rediss instead of redis"],
  ["REDIS_URL", "rediss://a?sslcert=/cert.pem", "REDIS_URL must have both sslcert and sslkey, or none"],
  ["REDIS_URL", "redis://a?sentinel_password=x", "REDIS_URL has a password of Sentinels, and names none"],
  ["DATABASE_URL", "mysql://u:p@h/d", `DATABASE_URL ${POSTGRES}`],
  ["DATABASE_URL", "postgres://", `DATABASE_URL ${POSTGRES}`],
  ["DATABASE_URL", "postgres://u:p@h:port/d", `DATABASE_URL ${POSTGRES}`],
  ["DATABASE_URL", "postgres://u:p@h/d e", `DATABASE_URL ${POSTGRES}`],
  ["DATABASE_URL", "postgres:///d?host=tmp", `DATABASE_URL ${POSTGRES}`],
  ["DATABASE_URL", "postgres://h/d?user=u&password=p", `DATABASE_URL ${BEFORE_PATH}`],
  ["DATABASE_URL", "postgres://u:p@h/d?host=/tmp", `DATABASE_URL ${BEFORE_PATH}`],
  ["DATABASE_URL", "postgres://u:p@a:port,b/d", `DATABASE_URL ${POSTGRES}`],
  [
    "DATABASE_URL",
    "postgres://u:p@a,b/d?target_session_attrs=any",
    "DATABASE_URL may have target_session_attrs=read-write, and no other value: the service writes",
  ],
  ["DATABASE_DIRECT_URL", "h:5432", `DATABASE_DIRECT_URL ${POSTGRES}`],
  ["DATABASE_REPLICA_URLS", "postgres://a:5432,b", `DATABASE_REPLICA_URLS ${POSTGRES}`],
  ["MIGRATE", "no", 'MIGRATE must be on or modules or check or off (is "no")'],
  ["SEED", "yes", 'SEED must be demo or none (is "yes")'],
  ["JWT_SECRET", "thirty-one bytes are not enough", "JWT_SECRET must have at least 32 bytes"],
  ["JWT_PRIVATE_KEY", "secret", "JWT_PRIVATE_KEY must be the PEM of an RSA private key of at least 2048 bits"],
  ["DB_SCHEMAS", " , ", 'DB_SCHEMAS must name at least one schema (is " , ")'],
  [
    "DB_SCHEMAS",
    "public,pg_catalog",
    'DB_SCHEMAS must not name a system schema of PostgreSQL (is "public,pg_catalog")',
  ],
  ["DB_AGGREGATES", "1", 'DB_AGGREGATES must be on or off (is "1")'],
  ["API_KEY_REQUIRED", "no", 'API_KEY_REQUIRED must be on or off (is "no")'],
  ["DB_PRE_REQUEST", "a.b.c", 'DB_PRE_REQUEST must be the name of a function such as auth.check_request (is "a.b.c")'],
  [
    "DB_TX_END",
    "abort",
    'DB_TX_END must be commit or commit-allow-override or rollback or rollback-allow-override (is "abort")',
  ],
  [
    "JWT_ROLE_CLAIM",
    "app..role",
    `JWT_ROLE_CLAIM must be the name of a claim, a path such as app.role or .roles[0], or a JSONPath such as $.roles[?(@ == 'editor')] (is "app..role")`,
  ],
  ["WORKERS", "0", 'WORKERS must be at least 1 (is "0")'],
  ...[
    "gone",
    "deprecated 2027-02-30",
    "deprecated next year",
    "deprecated nowhere",
    "deprecated https://a.example/?b",
  ].map((text): [string, string, string] => ["API_V1_STATUS", text, `API_V1_STATUS ${LIFECYCLE} (is "${text}")`]),
  ["SAFE_UPDATE", "yes", 'SAFE_UPDATE must be on or off (is "yes")'],
  ...["console,-site", "Console", "-", "a b"].map((text): [string, string, string] => [
    ...([
      "PARTS",
      text,
      `PARTS must be a list of parts such as console,site, or of changes such as +console,-site (is "${text}")`,
    ] as const),
  ]),
  ["PARTS", "none,site", 'PARTS must not name other parts beside none (is "none,site")'],
  ["LOG_LEVEL", "loud", 'LOG_LEVEL must be fatal or error or warn or info or debug or trace or silent (is "loud")'],
  ["CORS_ORIGINS", "app.example.com", `${WEB_ORIGINS} (is "app.example.com")`],
  ["CORS_ORIGINS", "https://app.example.com/", `${WEB_ORIGINS} (is "https://app.example.com/")`],
  ["CORS_ORIGINS", "https://*.example.com", `${WEB_ORIGINS} (is "https://*.example.com")`],
  ["CORS_ORIGINS", "https://App.example.com", `${WEB_ORIGINS} (is "https://App.example.com")`],
  ["CORS_ORIGINS", "null", `${WEB_ORIGINS} (is "null")`],
  ["TRUST_PROXY", "true", `${NETWORKS} (is "true")`],
  ["TRUST_PROXY", "1", `${NETWORKS} (is "1")`],
  ["TRUST_PROXY", "proxy.example.com", `${NETWORKS} (is "proxy.example.com")`],
  ["TRUST_PROXY", "10.0.0.0/33", `${NETWORKS} (is "10.0.0.0/33")`],
  ["TRUST_PROXY", "10.0.0.0/8/8", `${NETWORKS} (is "10.0.0.0/8/8")`],
])("%s=%s is rejected with a one-line message", (name, value, message) =>
  expect(errorOf({ [name]: value })).toBe(message),
);

describe("with MIGRATE=off", () => {
  const foreign = { DATABASE_URL, MIGRATE: "off" };

  test("JWT_SECRET may be a set of public keys", () => {
    const set = jwks();
    expect(readConfig({ ...foreign, JWT_SECRET: set }).jwtSecret).toBe(set);
  });

  test.each([
    ["weak RSA keys", jwks(1024), "JWT_SECRET must have at least 2048 bits in each RSA key"],
    [
      "a short secret",
      '{"kty":"oct","k":"c2hvcnQgYXMgaXQgaXM"}',
      "JWT_SECRET must have at least 32 bytes in each secret",
    ],
    ["a malformed key", '{"kty":"EC","crv":"P-256","x":"x","y":"y"}', "JWT_SECRET has a malformed key"],
    [
      "a set without a supported key",
      '{"kty":"OKP","crv":"Ed25519","x":"x"}',
      "JWT_SECRET has no key that verifies tokens",
    ],
    [
      "a set with only an encryption key",
      '{"keys":[{"kty":"oct","use":"enc"}]}      ',
      "JWT_SECRET has no key that verifies tokens",
    ],
  ])("%s is rejected", (_what, secret, message) => expect(errorOf({ ...foreign, JWT_SECRET: secret })).toBe(message));

  test("a key for second factors may be any text, also one like a JSON Web Key", () => {
    const text = '{"kty":"oct","k":"no key that verifies tokens"}';
    expect(readConfig({ ...foreign, API_KEY_REQUIRED: "off", MFA_KEY: text }).mfaKey).toBe(text);
  });

  test("JWT_SECRET is optional when no API key is required", () => {
    expect(readConfig({ ...foreign, API_KEY_REQUIRED: "off" }).jwtSecret).toBe("");
    expect(errorOf(foreign)).toBe("JWT_SECRET (or JWT_PRIVATE_KEY) is required with DATABASE_URL");
  });

  test("anonymous callers can be rejected, and the role can be in any claim", () => {
    const settings = { ...foreign, JWT_SECRET: SECRET, DB_ANON_ROLE: "none", JWT_ROLE_CLAIM: ".app.roles[0]" };
    expect(readConfig(settings)).toMatchObject({ dbAnonRole: "", jwtRoleClaim: ["app", "roles", 0] });
  });
});

test("a private key that is not RSA or is too short is rejected", () => {
  for (const key of [pem("ec"), pem("rsa", 1024)]) {
    expect(errorOf({ JWT_PRIVATE_KEY: key })).toBe(
      "JWT_PRIVATE_KEY must be the PEM of an RSA private key of at least 2048 bits",
    );
  }
});

test.each([
  ["DATABASE_URL without a secret", { DATABASE_URL }, "JWT_SECRET (or JWT_PRIVATE_KEY) is required with DATABASE_URL"],
  ["MIGRATE=off without a database", { MIGRATE: "off" }, "MIGRATE=off requires DATABASE_URL"],
  [
    "TASK_CONCURRENCY=0 on the embedded database",
    { TASK_CONCURRENCY: "0" },
    "TASK_CONCURRENCY=0 requires DATABASE_URL: no other instance can run the tasks of the embedded database",
  ],
  [
    "DATABASE_REPLICA_URLS without DATABASE_URL",
    { DATABASE_REPLICA_URLS: DATABASE_URL },
    "DATABASE_REPLICA_URLS requires DATABASE_URL",
  ],
  [
    "DATABASE_DIRECT_URL without DATABASE_URL",
    { DATABASE_DIRECT_URL: DATABASE_URL },
    "DATABASE_DIRECT_URL requires DATABASE_URL",
  ],
  [
    "a standby of the embedded database",
    { DATABASE_URL: "", CHANGES_URL: DATABASE_URL },
    "CHANGES_URL requires DATABASE_URL",
  ],
  [
    "a webhook without its secret",
    { MAIL_URL: "https://example.com/mails" },
    "MAIL_URL must be smtp://, smtps:// or https://…#whsec_ (without a user) and 24 to 64 bytes in base64, with a host, or keep",
  ],
  [
    "a webhook with a user",
    { MAIL_URL: `https://user:password@example.com/mails#whsec_${"A".repeat(32)}` },
    "MAIL_URL must be smtp://, smtps:// or https://…#whsec_ (without a user) and 24 to 64 bytes in base64, with a host, or keep",
  ],
  [
    "EMAIL_CONFIRM without MAIL_URL",
    { ...OWN, EMAIL_CONFIRM: "required" },
    "EMAIL_CONFIRM=required requires MAIL_URL and the module tasks, which send the e-mails",
  ],
  [
    "EMAIL_CONFIRM without the module tasks",
    { EMAIL_CONFIRM: "claim", MODULES: "auth" },
    "EMAIL_CONFIRM=claim requires MAIL_URL and the module tasks, which send the e-mails",
  ],
  ["roles of operators with MIGRATE=on", { CONSOLE_ROLES: "admin" }, "CONSOLE_ROLES requires MIGRATE=off"],
  ["no anonymous role with MIGRATE=on", { DB_ANON_ROLE: "none" }, "DB_ANON_ROLE=none requires MIGRATE=off"],
  ["a pre-config with MIGRATE=on", { PGRST_DB_PRE_CONFIG: "f" }, "PGRST_DB_PRE_CONFIG requires MIGRATE=off"],
  ["another role claim with MIGRATE=on", { JWT_ROLE_CLAIM: "app.role" }, "JWT_ROLE_CLAIM requires MIGRATE=off"],
  [
    "a public key as the secret with MIGRATE=on",
    { JWT_SECRET: jwks() },
    "JWT_SECRET is a JSON Web Key, which requires MIGRATE=off",
  ],
  ["demo data with MIGRATE=off", { ...OWN, MIGRATE: "off", SEED: "demo" }, "SEED=demo requires MIGRATE=on"],
])("%s is rejected", (_what, environment, message) =>
  expect(errorOf(environment as Record<string, string>)).toBe(message),
);

test.each([
  "DB_POOL_SIZE",
  "GRAPHQL_DEPTH",
  "JWT_SECRETS",
  "LOGIN_TRIES",
  "TASK_CONCURENCY",
  "API_V1_STATE",
  "AUTH_PROVIDER",
  "CHANGES_PUBLICATION",
  "CLIENT_ERROR_VERBOSITY",
])("%s is rejected as an unknown name", (name) => {
  expect(errorOf({ [name]: "1" })).toBe(
    `${name} is not a setting of this service; npx content-service start --help lists all settings`,
  );
});

test("variables of other programs are ignored", () => {
  expect(() =>
    readConfig({
      PATH: "/bin",
      HOME: "/root",
      NODE_ENV: "production",
      npm_config_x: "1",
      DATABASE_PORT: "1",
      GRAPHILE_ENV: "production",
    }),
  ).not.toThrow();
});

test("no message contains a password, a secret or a key", () => {
  const messages = [
    errorOf({ DATABASE_URL }),
    errorOf({ ...OWN, DATABASE_URL: `postgres://owner:${PASSWORD}@db:port/d` }),
    errorOf({ ...OWN, DATABASE_URL: `mysql://owner:${PASSWORD}@db/d` }),
    errorOf({ ...OWN, DATABASE_URL: `postgres://db/d?user=owner&password=${PASSWORD}` }),
    errorOf({ ...OWN, DATABASE_DIRECT_URL: `owner:${PASSWORD}@db` }),
    errorOf({ BASE_URL: `owner:${PASSWORD}@db` }),
    errorOf({ JWT_SECRET: PASSWORD }),
    errorOf({ JWT_PRIVATE_KEY: PASSWORD }),
    errorOf({ ...OWN, PORT: "many" }),
    errorOf({ ...OWN, DB_UNKNOWN: PASSWORD }),
  ];
  expect(
    messages.filter((message) => message.includes(PASSWORD) || message.includes(SECRET) || message.includes("\n")),
  ).toEqual([]);
});

test("--help names every setting with its default", () => {
  const lines = helpText(KNOWN).split("\n");
  for (const { name, fallback, about } of describeSettings()) {
    const line = lines.find((text) => text.trimStart().startsWith(`${name} `));
    expect(line).toContain(about);
    if (fallback !== "") expect(line).toContain(`Default: ${fallback}.`);
  }
});

describe("SETTINGS_FILE", () => {
  const withFile = (text: string | Buffer, environment: Record<string, string> = {}) => {
    const file = join(mkdtempSync(join(tmpdir(), "content-settings-")), "settings.env");
    onTestFinished(() => rmSync(dirname(file), { recursive: true }));
    writeFileSync(file, text);
    return { SETTINGS_FILE: file, ...environment };
  };

  test("holds settings and comments, perhaps after a byte order mark, and the environment takes precedence", () => {
    const text = '\ufeffDB_POOL=3\n# ours\nPORT=8080\nLOG_LEVEL="debug"\nPGRST_DB_MAX_ROWS=7\n';
    const environment = withFile(text, { PORT: "9090", LOG_LEVEL: "" });
    expect(readConfig(environment)).toMatchObject({ port: 9090, logLevel: "debug", dbMaxRows: 7, dbPool: 3 });
  });

  test.each([
    ["in UTF-16", Buffer.from("\ufeffPORT=8080\n", "utf16le")],
    ["in Latin-1", Buffer.from("BASE_URL=https://müller.example\n", "latin1")],
  ])("%s is rejected", (_, text) =>
    expect(errorOf(withFile(text))).toMatch(
      /^SETTINGS_FILE cannot be read: \S+ is not text in UTF-8: save it in UTF-8/,
    ),
  );

  test.each([
    ["PROT=8080", /^PROT in \S+ is not a setting of this service$/],
    ["PORT=http", /^PORT must be a whole number \(is "http"\)$/],
  ])("with %s is rejected", (text, message) => expect(errorOf(withFile(text))).toMatch(message));

  test("that does not exist is rejected", () =>
    expect(errorOf({ SETTINGS_FILE: "/nowhere/settings.env" })).toMatch(/^SETTINGS_FILE cannot be read: ENOENT/));
});
