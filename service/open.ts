import type pg from "pg";
import type { Logger } from "pino";
import type { Application } from "../app/application.ts";
import type { Configured } from "../app/configured.ts";
import { withClient } from "../db/cluster/client.ts";
import { shortageOf } from "../db/cluster/connections.ts";
import { type OpenedDatabase, openDatabase } from "../db/cluster/open.ts";
import type { Editor } from "../db/cluster/provision.ts";
import { settingsInDatabase } from "../db/follow/live-settings.ts";
import { migrationLog } from "../gate/pipeline/log.ts";
import { secretOf } from "../identity/keys.ts";
import { updateAccounts } from "../rest-gateway/auth/auth.ts";
import { type Limits, withLimits } from "./limits.ts";
import type { Part } from "./part.ts";
import { explainRefusal } from "./rights.ts";

type OpenOptions = {
  /** The parts that explain a failure. */
  readonly parts?: readonly Part[];
  readonly runsCurrent?: boolean;
  readonly limits?: Limits | undefined;
};

/** Starts the embedded database, or opens DATABASE_URL. */
export async function openConfigured(
  { config, application }: Pick<Configured, "config" | "application">,
  log: Logger,
  { parts = [], runsCurrent = false, limits }: OpenOptions = {},
): Promise<OpenedDatabase> {
  const secret = await secretOf(config);
  const afterMigrations = (owner: pg.Client) => updateAccounts(owner, config, secret, log);
  const effective = await settingsInDatabase(config, config.databaseUrl);
  const { dbAnonRole: anonymousRole, dbSchemas: schemas } = effective.config;
  const { inDatabase } = effective;
  const editors = editorsOf(application);
  const { migrationsFolder, seedFile } = application;
  const own = { editors, migrationsFolder, seedFile, secret, afterMigrations, runsCurrent };
  const opened = await openDatabase({
    ...withLimits(config, limits),
    ...own,
    anonymousRole,
    schemas,
    inDatabase,
    explain: (error, url, runsMigrations) => explainRefusal(parts, error, url, runsMigrations),
    log: migrationLog(log),
  });
  const shortage = await withClient(opened.listenUrl, (client) => shortageOf(client, config));
  if (shortage !== null) log.warn(shortage.message);
  return opened;
}

/** The roles for changes without credentials. */
export const editorsOf = ({ resources }: Application): readonly Editor[] =>
  resources.flatMap(({ editor }) => (editor === null ? [] : [editor]));
