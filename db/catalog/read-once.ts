import type { Pool } from "pg";
import type { Config } from "../../config/config.ts";
import { retryLocked } from "../follow/lock-retries.ts";
import { buildCatalog } from "./build.ts";
import type { Catalog } from "./catalog.ts";
import { parseCatalog, readCatalog } from "./read.ts";

/** The catalog of the served schemas as it is now, for a command. Waits for locks of DDL, but not for long. */
export async function readOnce(
  client: Pick<Pool, "query">,
  { dbSchemas: schemas, dbExtraSearchPath: extraSearchPath }: Pick<Config, "dbSchemas" | "dbExtraSearchPath">,
): Promise<Catalog> {
  const text = await retryLocked(() => readCatalog(client, { schemas, extraSearchPath }));
  return buildCatalog(await parseCatalog(text), 1);
}
