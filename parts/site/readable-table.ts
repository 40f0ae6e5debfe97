import { exposureOf } from "../../db/catalog/exposure.ts";
import type { createApp } from "../../service/app.ts";
import type { FirstRequests } from "./first-requests.ts";

type App = Pick<Awaited<ReturnType<typeof createApp>>, "rest" | "graphql" | "settings">;

/** What a first request may use: the readable table with the most relationships. */
export async function firstRequestsOf({ rest, graphql, settings }: App): Promise<FirstRequests> {
  const { dbAnonRole } = settings.current;
  const { tables } = exposureOf(rest.catalog.current, dbAnonRole);
  const [found] = tables
    .filter(({ table, columns }) => table.kind === "table" && columns.select === "all")
    .toSorted((a, b) => b.table.relationships.length - a.table.relationships.length);
  const table = found === undefined ? null : { schema: found.table.schema, name: found.table.name };
  return { table, anonKey: rest.anonKey, query: (await graphql?.examples())?.[0]?.query ?? null };
}
