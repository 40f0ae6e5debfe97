import { z } from "zod";
import { ConfigError, parsedBy } from "./config-error.ts";
import { isJwk } from "./json-web-keys.ts";
import { libpqUrl } from "./libpq-url.ts";
import { functionName, oneOf, parseValue } from "./setting-types.ts";
import { readFile } from "./text-file.ts";

// The settings of PostgREST, so that a deployment can move to this service with its environment unchanged.
// Source: PostgREST docs, "Configuration", and src/PostgREST/Config.hs.

/** Our name for a setting of PostgREST, and a type that converts its value to the text that our setting takes. */
type Translation = readonly [name: string, type: z.ZodType<string, any>];

const unchanged = z.string();

/** PostgREST accepts `true`, `"TRUE"` and `1`. */
const postgrestBoolean = parsedBy(z.string(), (text) => {
  const word = text.replace(/[^a-z]/gi, "").toLowerCase();
  if (word === "true" || word === "false") return word;
  if (/^\d+$/.test(text)) return String(Number(text) > 0);
  throw new Error("must be true or false");
});

const base64Bytes = z
  .string()
  .regex(/^[\w+/-]+[=.]*$/, "must be base64")
  .transform((text) => Buffer.from(text.replaceAll(".", "="), "base64"));

/** `@secret.txt` means the contents of that file. */
const orFile = parsedBy(z.string(), (text) =>
  text.startsWith("@") ? readFile(text.slice(1)).replace(/\n$/, "") : text,
);

/** PostgREST's names for all IP addresses of this machine. */
const HOSTS: Readonly<Record<string, string>> = {
  "*": "::",
  "*4": "0.0.0.0",
  "!4": "0.0.0.0",
  "*6": "::",
  "!6": "::",
};

const TRANSLATIONS: Readonly<Record<string, Translation>> = {
  PGRST_DB_URI: ["DATABASE_URL", orFile.transform((text) => libpqUrl(text.trim()))],
  PGRST_DB_SCHEMAS: ["DB_SCHEMAS", unchanged],
  PGRST_DB_SCHEMA: ["DB_SCHEMAS", unchanged],
  PGRST_DB_ANON_ROLE: ["DB_ANON_ROLE", unchanged],
  PGRST_DB_EXTRA_SEARCH_PATH: ["DB_EXTRA_SEARCH_PATH", unchanged],
  PGRST_DB_MAX_ROWS: ["DB_MAX_ROWS", unchanged],
  PGRST_MAX_ROWS: ["DB_MAX_ROWS", unchanged],
  PGRST_DB_TX_END: ["DB_TX_END", unchanged],
  PGRST_DB_AGGREGATES_ENABLED: ["DB_AGGREGATES", postgrestBoolean],
  PGRST_DB_POOL: ["DB_POOL", unchanged],
  // `true` does not set a number, so our default applies.
  PGRST_DB_PREPARED_STATEMENTS: [
    "DB_PREPARED_STATEMENTS",
    postgrestBoolean.transform((text) => (text === "true" ? "" : "0")),
  ],
  PGRST_DB_PRE_REQUEST: ["DB_PRE_REQUEST", unchanged],
  PGRST_PRE_REQUEST: ["DB_PRE_REQUEST", unchanged],
  PGRST_DB_PLAN_ENABLED: ["DB_PLAN", postgrestBoolean],
  PGRST_JWT_SECRET: ["JWT_SECRET", orFile],
  PGRST_JWT_AUD: ["JWT_AUD", unchanged],
  PGRST_JWT_ROLE_CLAIM_KEY: ["JWT_ROLE_CLAIM", unchanged],
  PGRST_ROLE_CLAIM_KEY: ["JWT_ROLE_CLAIM", unchanged],
  PGRST_ADMIN_SERVER_HOST: ["ADMIN_HOST", z.string().transform((text) => HOSTS[text] ?? text)],
  PGRST_ADMIN_SERVER_PORT: ["ADMIN_PORT", unchanged],
  PGRST_SERVER_HOST: ["HOST", z.string().transform((text) => HOSTS[text] ?? text)],
  PGRST_SERVER_PORT: ["PORT", unchanged],
  PGRST_SERVER_CORS_ALLOWED_ORIGINS: ["CORS_ORIGINS", unchanged],
  PGRST_LOG_LEVEL: [
    "LOG_LEVEL",
    oneOf("crit", "error", "warn", "info", "debug").transform((level) => (level === "crit" ? "fatal" : level)),
  ],
  PGRST_OPENAPI_MODE: ["OPENAPI", oneOf("follow-privileges", "ignore-privileges", "disabled")],
};

/** Whether PGRST_JWT_SECRET is encoded as base64. */
const IS_BASE64 = ["PGRST_JWT_SECRET_IS_BASE64", "PGRST_SECRET_IS_BASE64"];

/** Settings that have no name of ours. */
const OTHERS = [...IS_BASE64, "PGRST_DB_CONFIG", "PGRST_DB_PRE_CONFIG"];

/** Settings that have no effect here. */
const IGNORED = new Set([
  "PGRST_CLIENT_ERROR_VERBOSITY",
  "PGRST_DB_CHANNEL",
  "PGRST_DB_CHANNEL_ENABLED",
  "PGRST_DB_HOISTED_TX_SETTINGS",
  "PGRST_DB_POOL_ACQUISITION_TIMEOUT",
  "PGRST_DB_POOL_AUTOMATIC_RECOVERY",
  "PGRST_DB_POOL_MAX_IDLETIME",
  "PGRST_DB_POOL_MAX_LIFETIME",
  "PGRST_DB_POOL_TIMEOUT",
  "PGRST_DB_ROOT_SPEC",
  "PGRST_DB_TIMEZONE_ENABLED",
  "PGRST_JWT_CACHE_MAX_ENTRIES",
  "PGRST_JWT_CACHE_MAX_LIFETIME",
  "PGRST_LOG_QUERY",
  "PGRST_OPENAPI_SECURITY_ACTIVE",
  "PGRST_OPENAPI_SERVER_PROXY_URI",
  "PGRST_ROOT_SPEC",
  // Traces are sent when the variables of OpenTelemetry name a collector.
  "PGRST_SERVER_OTEL_ENABLED",
  "PGRST_SERVER_TIMING_ENABLED",
  "PGRST_SERVER_TRACE_HEADER",
  "PGRST_SERVER_UNIX_SOCKET_MODE",
  "PGRST_URL_USE_LEGACY_TARGET_NAMES",
]);

/** PostgREST's defaults, for settings whose default differs here in a way that clients notice. They apply when PGRST_DB_URI is set. */
const DEFAULTS: Readonly<Record<string, string>> = {
  HOST: "0.0.0.0",
  MIGRATE: "off",
  API_KEY_REQUIRED: "off",
  DB_ANON_ROLE: "none",
  DB_EXTRA_SEARCH_PATH: "public",
  DB_AGGREGATES: "off",
  DB_MAX_ROWS: "0",
  RATE_LIMIT: "0",
  SAFE_UPDATE: "off",
};

type Environment = Readonly<Record<string, string | undefined>>;

/** A value for one of our settings, and the name under which it was set. */
/** What the log and `doctor` say of settings of PostgREST, of the environment and of the database. */
export const WITHOUT_EFFECT = "these settings of PostgREST have no effect";
export const WITHOUT_EFFECT_IN_DATABASE = "these settings in the database have no effect";

export type Translated = { readonly from: string; readonly name: string; readonly text: string };

/** The settings of PostgREST, translated to ours. */
export type PostgrestSettings = {
  readonly translated: readonly Translated[];
  /** Defaults that differ from ours. */
  readonly defaults: Readonly<Record<string, string>>;
  /** `PGRST_APP_SETTINGS_tenant=7` → `["app.settings.tenant", "7"]` */
  readonly appSettings: readonly (readonly [name: string, value: string])[];
  readonly ignored: readonly string[];
  /** Whether settings in the database apply, or a function that makes more of them. */
  readonly dbConfig: boolean | NonNullable<z.infer<typeof functionName>>;
};

/** Throws ConfigError for an unknown name, and for a value that PostgREST would reject. */
export function readPostgrest(environment: Environment): PostgrestSettings {
  const names = Object.keys(environment).filter((name) => name.startsWith("PGRST_") && environment[name]);
  names.forEach(rejectUnknown);
  const isSetTo = (value: string, name: string) =>
    environment[name] && parseValue(name, postgrestBoolean, environment[name]) === value;
  const isBase64 = IS_BASE64.some((name) => isSetTo("true", name));
  const preConfig = parseValue("PGRST_DB_PRE_CONFIG", functionName, environment.PGRST_DB_PRE_CONFIG ?? "");
  return {
    translated: names.filter((name) => name in TRANSLATIONS).map((name) => translate(name, environment, isBase64)),
    dbConfig: !isSetTo("false", "PGRST_DB_CONFIG") && (preConfig ?? true),
    defaults: environment.PGRST_DB_URI ? DEFAULTS : {},
    appSettings: names.filter(isAppSetting).map((name) => [appSettingOf(name), environment[name]!]),
    ignored: names.filter((name) => IGNORED.has(name)),
  };
}

function rejectUnknown(name: string): void {
  if (name === "PGRST_SERVER_UNIX_SOCKET") {
    throw new ConfigError(`${name} is not supported: this service listens on a host and a port`);
  }
  if (name in TRANSLATIONS || OTHERS.includes(name) || IGNORED.has(name) || isAppSetting(name)) return;
  throw new ConfigError(`${name} is not a known setting of PostgREST`);
}

function translate(from: string, environment: Environment, isBase64: boolean): Translated {
  const [name, type] = TRANSLATIONS[from]!;
  const text = parseValue(from, type, environment[from]!);
  return { from, name, text: isBase64 && name === "JWT_SECRET" ? decodeSecret(from, text) : text };
}

/** The decoded bytes may not be text, so they become a JSON Web Key, unless they already are one. */
function decodeSecret(from: string, base64: string): string {
  const bytes = parseValue(from, base64Bytes, base64.trim());
  const text = bytes.toString("utf8");
  return isJwk(text) ? text : JSON.stringify({ kty: "oct", k: bytes.toString("base64url") });
}

/** Postgres accepts only identifiers as names of custom settings. */
const isAppSetting = (name: string) => /^PGRST_APP_SETTINGS_[a-z_][\w$]*$/i.test(name);
const appSettingOf = (name: string) => `app.settings.${name.slice("PGRST_APP_SETTINGS_".length)}`;

/** `["PGRST_DB_SCHEMAS", "DB_SCHEMAS"]` for each setting of PostgREST that has an equivalent. */
export const describePostgrest = (): [string, string][] =>
  Object.entries(TRANSLATIONS).map(([theirs, [ours]]) => [theirs, ours]);
