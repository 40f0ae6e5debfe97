import { exposureOf } from "../../db/catalog/exposure.ts";
import type { Core } from "../../service/part.ts";
import type { FirstRequests } from "./first-requests.ts";

/** What a first request may use: the readable table with the most relationships. */
export async function readFirstRequests({ catalog, graphql, settings, anonKey }: Core): Promise<FirstRequests> {
  const { tables } = exposureOf(catalog.current, settings.current.dbAnonRole);
  const [found] = tables
    .filter(({ table, columns }) => table.kind === "table" && columns.select === "all")
    .toSorted((a, b) => b.table.relationships.length - a.table.relationships.length);
  const table = found === undefined ? null : { schema: found.table.schema, name: found.table.name };
  return { table, anonKey, query: (await graphql?.examples())?.[0]?.query ?? null };
}
