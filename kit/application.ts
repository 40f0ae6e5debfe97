import { type Application, applicationOf, settingsOf } from "../app/application.ts";
import type { Definition } from "../app/load.ts";
import { settingsOfService } from "../cli/command.ts";
import { type Config, readConfig, variablesOf } from "../config/config.ts";
import { MODULE_NAMES } from "../config/modules.ts";

/** What the tests of an application share with the server that `content-service/test/setup` has started. */
export type TestServer = {
  /** The owner's connection string of another database than the template. */
  readonly clusterUrl: string;
  /** The name of the migrated database that each test file copies. */
  readonly template: string;
  /** The folder of the application. */
  readonly folder: string;
};

declare module "vitest" {
  export interface ProvidedContext {
    contentService: TestServer;
  }
}

/** The settings of tests. The variables of the application come from the environment, and no other setting does. */
const SETTINGS = {
  JWT_SECRET: "a secret of the tests, which signs no other tokens",
  PORT: "0",
  LOG_LEVEL: "error",
  RATE_LIMIT: "0",
  ADVISOR: "off",
  SEED: "none",
};

/** A database of the tests has no other tool that migrates it, and is always new. */
function migrateOf({ MIGRATE, MODULES }: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  if (MIGRATE === "modules" && !MODULES)
    return { MIGRATE: "on", MODULES: MODULE_NAMES.filter((name) => name !== "feed").join() };
  return MIGRATE === "off" ? {} : { MIGRATE: "on" };
}

/** The application on a database of the tests. Throws ConfigError. */
export async function onTestDatabase(
  definition: Definition,
  databaseUrl: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<{ readonly config: Config; readonly application: Application }> {
  const own = settingsOf(definition, await settingsOfService());
  const environment = {
    ...variablesOf(own.declared),
    ...SETTINGS,
    ...migrateOf(own.settings),
    DATABASE_URL: databaseUrl,
    ...settings,
  };
  const config = readConfig(environment, own);
  return { config, application: applicationOf(definition, config) };
}
