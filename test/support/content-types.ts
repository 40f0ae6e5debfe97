import { buildCatalog } from "../../db/catalog/build.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import { parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import { typesOf } from "../../parts/openapi/typescript/database.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";

export const catalogOf = async ({ owner }: TestDatabase, schemas: readonly string[]): Promise<Catalog> =>
  buildCatalog(await parseCatalog(await readCatalog(owner, { schemas, extraSearchPath: ["extensions"] })), 1);

/** What `npx content-service types` prints of the content schema. */
export async function contentTypes(): Promise<string> {
  const database = await createTestDatabase();
  try {
    return typesOf(await catalogOf(database, ["public"]));
  } finally {
    await database.drop();
  }
}
