import type { Config } from "../../config/config.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { quoteIdentifier } from "../sql.ts";
import type { Statement } from "../wire/batch.ts";

/** The call of DB_PRE_REQUEST. A name without a schema is looked up in those of the settings, whatever the search path of a transaction is. */
export function preRequestOf(
  { dbPreRequest, dbSchemas, dbExtraSearchPath }: Pick<Config, "dbPreRequest" | "dbSchemas" | "dbExtraSearchPath">,
  { schemas }: Catalog,
): Statement | null {
  if (dbPreRequest === null) return null;
  const { name } = dbPreRequest;
  const schema =
    dbPreRequest.schema ?? [...dbSchemas, ...dbExtraSearchPath].find((each) => schemas.get(each)?.functions.has(name));
  const call = [...(schema === undefined ? [] : [schema]), name].map(quoteIdentifier).join(".");
  return { text: `select ${call}()`, values: [] };
}
