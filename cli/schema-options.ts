import pg from "pg";
import type { Configured } from "../app/configured.ts";
import { buildCatalog } from "../db/catalog/build.ts";
import { parseCatalog, readCatalog } from "../db/catalog/read.ts";
import { retryLocked } from "../db/follow/lock-retries.ts";
import { PrimaryClient } from "../db/wire/primary.ts";
import { type SchemaOptions, schemaSettings } from "../graphql/schema/schema.ts";
import { ownerUrl } from "./command.ts";

/** Passes to `use` what the GraphQL schema is built from. The grants of `login` decide what the schema contains. */
export async function withSchemaOptions<Result>(
  { config, application }: Configured,
  login: string,
  use: (options: SchemaOptions) => Promise<Result>,
): Promise<Result> {
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
    const scope = { schemas: config.dbSchemas, extraSearchPath: config.dbExtraSearchPath };
    const catalog = await buildCatalog(await parseCatalog(await retryLocked(() => readCatalog(pool, scope))), 1);
    return await use({
      ...schemaSettings(config),
      plugins: await application.plugins(),
      catalog: pool,
      relations: () => catalog,
      readRelations: async () => {},
    });
  } finally {
    await pool.end();
  }
}
