import { type Config, ConfigError, overrideConfig } from "./config.ts";
import { readPostgrest } from "./postgrest-names.ts";

/**
 * The settings that PostgREST reads from the database, without the prefix `pgrst.`: `alter role … set pgrst.db_max_rows = '100'`.
 * Source: PostgREST docs, "Configuration", In-Database Configuration.
 */
export const DATABASE_SETTINGS: readonly string[] = [
  ...[
    "client_error_verbosity",
    "db_aggregates_enabled",
    "db_anon_role",
    "db_extra_search_path",
    "db_hoisted_tx_settings",
  ],
  ...["db_max_rows", "db_plan_enabled", "db_pre_config", "db_pre_request", "db_prepared_statements", "db_root_spec"],
  ...["db_schemas", "db_timezone_enabled", "db_tx_end", "jwt_aud", "jwt_cache_max_entries", "jwt_cache_max_lifetime"],
  ...["jwt_role_claim_key", "jwt_secret", "jwt_secret_is_base64", "openapi_mode", "openapi_security_active"],
  ...["openapi_server_proxy_uri", "server_cors_allowed_origins", "server_timing_enabled", "server_trace_header"],
  ...["url_use_legacy_target_names"],
];

/** `["db_max_rows", "100"]` */
export type DatabaseSetting = readonly [name: string, value: string];

export type ConfigInDatabase = {
  readonly config: Config;
  /** Settings in the database that have no effect here. */
  readonly ignored: readonly string[];
};

/** Overrides `config` with the settings in the database. Throws ConfigError if one of these is invalid. */
export function withDatabaseSettings(config: Config, settings: readonly DatabaseSetting[]): ConfigInDatabase {
  const known = settings.filter(([name]) => DATABASE_SETTINGS.includes(name));
  const others = settings.filter(([name]) => !DATABASE_SETTINGS.includes(name));
  rejectFile(known);
  try {
    const { translated, ignored, dbConfig } = readPostgrest(
      Object.fromEntries(known.map(([name, value]) => [theirs(name), value])),
    );
    return {
      config: { ...overrideConfig(config, translated), ...(dbConfig !== true && { dbConfig }) },
      ignored: [...ignored.map(ours), ...others.map(([name]) => `pgrst.${name}`)],
    };
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(error.message.replace(/^PGRST_\w+/, ours)) : error;
  }
}

const theirs = (name: string) => `PGRST_${name.toUpperCase()}`;
const ours = (name: string) => `pgrst.${name.slice("PGRST_".length).toLowerCase()}`;

/** The environment may name a file with the secret. The database may not: its users must not make the service read a file. */
function rejectFile(settings: readonly DatabaseSetting[]): void {
  if (settings.some(([name, value]) => name === "jwt_secret" && value.startsWith("@")))
    throw new ConfigError("pgrst.jwt_secret must be the secret itself, not the name of a file");
}
