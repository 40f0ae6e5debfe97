import pg from "pg";
import type { Configured } from "../app/configured.ts";
import type { Catalog } from "../db/catalog/catalog.ts";
import { readOnce } from "../db/catalog/read-once.ts";
import { PrimaryClient } from "../db/wire/primary.ts";
import { type SchemaOptions, schemaSettings } from "../graphql/schema/schema.ts";
import { withLimits } from "../service/limits.ts";
import { loadPlugins } from "../service/parts.ts";
import { ownerUrl } from "./command.ts";
import { openParts } from "./open-parts.ts";

/** What the GraphQL schema is built from, as the service builds it: with the plugins of its parts and of the application. */
export const schemaOptions = async (
  configured: Configured,
  pool: pg.Pool,
  catalog: Catalog,
): Promise<SchemaOptions> => ({
  ...schemaSettings(withLimits(configured.config)),
  plugins: await loadPlugins(await openParts(configured), configured.application, configured.config),
  catalog: pool,
  relations: () => catalog,
  readRelations: async () => {},
});

/** Passes to `use` what the GraphQL schema is built from. The grants of `login` decide what the schema contains. */
export async function withSchemaOptions<Result>(
  configured: Configured,
  login: string,
  use: (options: SchemaOptions) => Promise<Result>,
): Promise<Result> {
  const { config } = configured;
  // A pooler may refuse options.
  const options = `-c role=${login.replace(/[\\ ]/g, "\\$&")}`;
  const pool = new pg.Pool({
    Client: PrimaryClient,
    connectionString: config.databaseDirectUrl || ownerUrl(config),
    max: 2,
    options,
  });
  pool.on("error", () => {});
  try {
    return await use(await schemaOptions(configured, pool, await readOnce(pool, config)));
  } finally {
    await pool.end();
  }
}
