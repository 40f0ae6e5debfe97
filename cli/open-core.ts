import type { Configured } from "../app/configured.ts";
import type { Config } from "../config/config.ts";
import { loginsAt } from "../db/cluster/provision.ts";
import { findPrimary } from "../db/wire/primary.ts";
import { type SchemaOptions, schemaSettings } from "../graphql/schema/schema.ts";
import { type Levels, openCore } from "../service/core.ts";
import { withLimits } from "../service/limits.ts";
import { loadPlugins } from "../service/parts.ts";
import { cannotUseDatabase, ownerUrl } from "./command.ts";
import { openParts } from "./open-parts.ts";

/** A command needs no more, and its URL may be that of a pooler. */
const OF_COMMANDS = { dbPool: 2, dbPoolShort: 2, dbPreparedStatements: 0, databaseReplicaUrls: [] };

/** Opens the core for a command, without the service; by default as the owner. Throws CommandError if that fails. */
export async function withCore<Level extends keyof Levels, Result>(
  config: Config,
  level: Level,
  use: (core: Levels[Level]) => Promise<Result>,
  url = directUrl(config),
): Promise<Result> {
  const opening = findPrimary(url).then(() =>
    openCore({ ...withLimits(config), ...OF_COMMANDS }, level, { logins: loginsAt(url) }),
  );
  const core = await opening.catch((error) => {
    throw cannotUseDatabase(error);
  });
  try {
    return await use(core);
  } finally {
    await core.close();
  }
}

const directUrl = (config: Config) => config.databaseDirectUrl || ownerUrl(config);

/** What the GraphQL schema is built from, as the service builds it: with the plugins of its parts and of the application. */
export const schemaOptions = async (
  configured: Configured,
  { database, catalog }: Levels["catalog"],
): Promise<SchemaOptions> => ({
  ...schemaSettings(withLimits(configured.config)),
  plugins: await loadPlugins(await openParts(configured), configured.application, configured.config),
  catalog: database.catalog,
  relations: () => catalog.current,
  readRelations: async () => {},
});

/** Passes to `use` what the GraphQL schema is built from. The grants of `login` decide what the schema contains. */
export function withSchemaOptions<Result>(
  configured: Configured,
  login: string,
  use: (options: SchemaOptions) => Promise<Result>,
): Promise<Result> {
  const { config } = configured;
  const url = new URL(directUrl(config));
  // A pooler may refuse options.
  url.searchParams.set("options", `-c role=${login.replace(/[\\ ]/g, "\\$&")}`);
  return withCore(config, "catalog", async (core) => use(await schemaOptions(configured, core)), url.href);
}
