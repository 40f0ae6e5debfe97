import { describe, expect, test } from "vitest";
import { readConfig } from "../support/config.ts";
import { errorOf, writeFile } from "../support/settings.ts";

const SECRET = "reallyreallyreallyreallyverysafe";
const PGRST_DB_URI = "postgres://authenticator:mysecretpassword@localhost:5432/shop";

test("PGRST_DB_URI alone serves that database as PostgREST does: not migrated, without API keys, anonymous callers rejected", () => {
  expect(readConfig({ PGRST_DB_URI })).toMatchObject({
    databaseUrl: PGRST_DB_URI,
    embedded: false,
    migrate: "off",
    host: "0.0.0.0",
    port: 3000,
    jwtSecret: "",
    apiKeyRequired: false,
    dbSchemas: ["public"],
    dbExtraSearchPath: ["public"],
    dbAnonRole: "",
    dbAggregates: false,
    dbMaxRows: 0,
    rateLimit: 0,
    safeUpdate: false,
  });
});

test("settings of this service override the defaults of PostgREST", () => {
  const settings = { PGRST_DB_URI, JWT_SECRET: SECRET, API_KEY_REQUIRED: "on", SAFE_UPDATE: "on", HOST: "127.0.0.1" };
  const expected = { apiKeyRequired: true, safeUpdate: true, host: "127.0.0.1", jwtSecret: SECRET };
  expect(readConfig(settings)).toMatchObject(expected);
});

test.each([
  ["PGRST_DB_SCHEMAS", "api, shop", { dbSchemas: ["api", "shop"] }],
  ["PGRST_DB_SCHEMA", "api", { dbSchemas: ["api"] }],
  ["PGRST_DB_ANON_ROLE", "web_anon", { dbAnonRole: "web_anon" }],
  ["PGRST_DB_EXTRA_SEARCH_PATH", "public, util", { dbExtraSearchPath: ["public", "util"] }],
  ["PGRST_DB_MAX_ROWS", "500", { dbMaxRows: 500 }],
  ["PGRST_DB_TX_END", "rollback", { dbTxEnd: "rollback" }],
  ["PGRST_DB_AGGREGATES_ENABLED", "true", { dbAggregates: true }],
  ["PGRST_DB_POOL", "30", { dbPool: 30 }],
  ["PGRST_DB_POOL_ACQUISITION_TIMEOUT", "5", { ignored: ["PGRST_DB_POOL_ACQUISITION_TIMEOUT"] }],
  ["PGRST_DB_PREPARED_STATEMENTS", "false", { dbPreparedStatements: 0 }],
  ["PGRST_DB_PREPARED_STATEMENTS", "true", { dbPreparedStatements: 250 }],
  ["PGRST_DB_PRE_REQUEST", "api.check", { dbPreRequest: { schema: "api", name: "check" } }],
  ["PGRST_DB_PLAN_ENABLED", "True", { dbPlan: true }],
  ["PGRST_JWT_SECRET", SECRET, { jwtSecret: SECRET }],
  ["PGRST_JWT_AUD", "shop", { jwtAud: "shop" }],
  ["PGRST_JWT_ROLE_CLAIM_KEY", '."https://shop.example/role"', { jwtRoleClaim: ["https://shop.example/role"] }],
  ["PGRST_SERVER_HOST", "127.0.0.1", { host: "127.0.0.1" }],
  ["PGRST_SERVER_HOST", "*", { host: "::" }],
  ["PGRST_SERVER_HOST", "!4", { host: "0.0.0.0" }],
  ["PGRST_SERVER_PORT", "8080", { port: 8080 }],
  ["PGRST_SERVER_CORS_ALLOWED_ORIGINS", "https://a.example", { corsOrigins: ["https://a.example"] }],
  ["PGRST_SERVER_TIMING_ENABLED", "0", { ignored: ["PGRST_SERVER_TIMING_ENABLED"] }],
  ["PGRST_LOG_LEVEL", "crit", { logLevel: "fatal" }],
  ["PGRST_OPENAPI_MODE", "disabled", { openapi: "off" }],
  ["PGRST_DB_CONFIG", "false", { dbConfig: false }],
  ["PGRST_DB_CONFIG", "true", { dbConfig: true }],
  ["PGRST_DB_PRE_CONFIG", "pre_config", { dbConfig: { schema: null, name: "pre_config" } }],
  ["PGRST_DB_ROOT_SPEC", "api.root", { ignored: ["PGRST_DB_ROOT_SPEC"] }],
  ["PGRST_CLIENT_ERROR_VERBOSITY", "minimal", { ignored: ["PGRST_CLIENT_ERROR_VERBOSITY"] }],
  ["PGRST_APP_SETTINGS_tenant", "7", { appSettings: [["app.settings.tenant", "7"]] }],
  ["PGRST_ADMIN_SERVER_PORT", "3001", { adminPort: 3001 }],
  ["PGRST_SERVER_OTEL_ENABLED", "true", { ignored: ["PGRST_SERVER_OTEL_ENABLED"] }],
  ["PGRST_ADMIN_SERVER_HOST", "!4", { adminHost: "0.0.0.0" }],
  ["PGRST_LOG_QUERY", "true", { ignored: ["PGRST_LOG_QUERY"] }],
])("%s=%s", (name, value, expected) => expect(readConfig({ PGRST_DB_URI, [name]: value })).toMatchObject(expected));

test.each([
  ["true", { schema: "settings", name: "apply" }],
  ["false", false],
])("PGRST_DB_CONFIG=%s decides about the function of PGRST_DB_PRE_CONFIG", (PGRST_DB_CONFIG, dbConfig) => {
  const both = { PGRST_DB_CONFIG, PGRST_DB_PRE_CONFIG: "settings.apply" };
  expect(readConfig({ PGRST_DB_URI, ...both })).toMatchObject({ dbConfig });
});

test.each([
  ["PGRST_DB_POOL", "many", 'PGRST_DB_POOL must be a whole number (is "many")'],
  ["PGRST_DB_PLAN_ENABLED", "maybe", 'PGRST_DB_PLAN_ENABLED must be true or false (is "maybe")'],
  ["PGRST_LOG_LEVEL", "loud", 'PGRST_LOG_LEVEL must be crit or error or warn or info or debug (is "loud")'],
  ["PGRST_JWT_SECRET", "too short", "PGRST_JWT_SECRET must have at least 32 bytes"],
  [
    "PGRST_JWT_SECRET",
    "@/nowhere/secret",
    "PGRST_JWT_SECRET names a file that cannot be read: ENOENT: no such file or directory, open '/nowhere/secret'",
  ],
  ["PGRST_DB_SCHEMAZ", "api", "PGRST_DB_SCHEMAZ is not a known setting of PostgREST"],
  ["PGRST_APP_SETTINGS_", "7", "PGRST_APP_SETTINGS_ is not a known setting of PostgREST"],
  ["PGRST_APP_SETTINGS_a-b", "7", "PGRST_APP_SETTINGS_a-b is not a known setting of PostgREST"],
  [
    "PGRST_SERVER_UNIX_SOCKET",
    "/tmp/pgrst.sock",
    "PGRST_SERVER_UNIX_SOCKET is not supported: this service listens on a host and a port",
  ],
])("%s=%s is rejected with a one-line message", (name, value, message) =>
  expect(errorOf({ PGRST_DB_URI, [name]: value })).toBe(message),
);

test("an invalid PGRST_DB_URI is rejected without repeating its password", () => {
  expect(errorOf({ PGRST_DB_URI: "mysql://owner:hunter2@db/shop" })).toBe(
    "PGRST_DB_URI must look like postgres://user:password@host:5432/database, with %40 for @ in a password, %20 for a space, and so on",
  );
});

describe("two names of one setting", () => {
  test("may have the same value, each in its own format", () => {
    const settings = { PGRST_DB_SCHEMAS: "api,shop", DB_SCHEMAS: "api, shop", PGRST_DB_AGGREGATES_ENABLED: "true" };
    expect(readConfig({ ...settings, DB_AGGREGATES: "on" })).toMatchObject({ dbSchemas: ["api", "shop"] });
  });

  test.each([
    [{ PGRST_SERVER_PORT: "8080", PORT: "8081" }, "PORT and PGRST_SERVER_PORT"],
    [{ PGRST_DB_SCHEMAS: "api", PGRST_DB_SCHEMA: "shop" }, "PGRST_DB_SCHEMAS and PGRST_DB_SCHEMA"],
    [{ PGRST_JWT_SECRET: SECRET, JWT_SECRET: `${SECRET}!` }, "JWT_SECRET and PGRST_JWT_SECRET"],
  ])("may not have different values: %o", (settings, names) =>
    expect(errorOf(settings as Record<string, string>)).toBe(`${names} have different values; set only one of them`),
  );
});

describe("PGRST_JWT_SECRET", () => {
  const secretOf = (settings: Record<string, string>) => readConfig({ PGRST_DB_URI, ...settings }).jwtSecret;

  test("may be read from a file, and so may PGRST_DB_URI", () => {
    const settings = {
      PGRST_JWT_SECRET: `@${writeFile(`${SECRET}\n`)}`,
      PGRST_DB_URI: `@${writeFile(`${PGRST_DB_URI}\n`)}`,
    };
    expect(readConfig(settings)).toMatchObject({ jwtSecret: SECRET, databaseUrl: PGRST_DB_URI });
  });

  test("may be the base64 of binary bytes or of a JSON Web Key", () => {
    const bytes = Buffer.from(Array.from({ length: 32 }, (_, i) => 255 - i));
    const base64 = { PGRST_JWT_SECRET_IS_BASE64: "true" };
    const jwk = { kty: "oct", k: bytes.toString("base64url") };
    for (const text of [
      bytes.toString("base64"),
      bytes.toString("base64url"),
      `@${writeFile(bytes.toString("base64"))}`,
    ]) {
      expect(JSON.parse(secretOf({ ...base64, PGRST_JWT_SECRET: text }))).toEqual(jwk);
    }
    const coded = Buffer.from(JSON.stringify(jwk)).toString("base64");
    expect(JSON.parse(secretOf({ ...base64, PGRST_JWT_SECRET: coded }))).toEqual(jwk);
    expect(errorOf({ PGRST_DB_URI, ...base64, PGRST_JWT_SECRET: "not base64!" })).toBe(
      "PGRST_JWT_SECRET must be base64",
    );
  });
});
