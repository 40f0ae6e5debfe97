import { type Config, type SettingName, valueIn } from "./config.ts";
import { fieldOf } from "./settings.ts";

/** The settings that a reload (SIGUSR2) applies. The others need a restart. */
export const RELOADABLE: readonly SettingName[] = [
  "LOG_LEVEL",
  "CORS_ORIGINS",
  ...(["JWT_SECRET", "JWT_PRIVATE_KEY", "JWT_PREVIOUS_KEY"] as const),
  ...(["RATE_LIMIT", "MAX_CONNECTIONS"] as const),
  "CLIENT_MEMORY",
  "DB_STATEMENT_TIMEOUT",
  "LOGIN_ATTEMPTS",
  ...(["DB_MAX_ROWS", "DB_AGGREGATES", "DB_PLAN", "DB_TX_END", "SAFE_UPDATE"] as const),
  ...(["GRAPHQL_MAX_DEPTH", "GRAPHQL_MAX_COMPLEXITY"] as const),
  ...(["DRAIN_TIMEOUT", "DRAIN_DELAY"] as const),
];

/** `config`: the running settings with the reloadable ones of `read`. `restart`: names of changed settings that need a restart. */
export function reloaded(
  running: Config,
  read: Config,
): { readonly config: Config; readonly restart: readonly string[] } {
  const entries = RELOADABLE.map((name) => [fieldOf(name), valueIn(read, name)]);
  const isChanged = (name: string) => JSON.stringify(valueIn(running, name)) !== JSON.stringify(valueIn(read, name));
  const restart = Object.keys(running.known).filter(
    (name) => isChanged(name) && !RELOADABLE.includes(name as SettingName),
  );
  return {
    config: { ...running, ...Object.fromEntries(entries), isDbMaxRowsSet: read.isDbMaxRowsSet },
    restart,
  };
}
