import type { Catalog } from "./catalog.ts";
import { constraintsOf, messagesOf } from "./constraints.ts";
import { mapYielding } from "./event-loop.ts";
import { ComputedFields, Functions } from "./functions.ts";
import { buildRoles, Grants } from "./grants.ts";
import { Keys } from "./keys.ts";
import { mediaHandlersOf } from "./media-handlers.ts";
import type { CatalogRows } from "./read.ts";
import { Relations } from "./relations.ts";
import { findRelationships } from "./relationships.ts";
import { buildTable, Columns, type TableParts } from "./tables.ts";
import { compositesOf, enumsOf, nameTypes, Types } from "./types.ts";
import { parseViewDefinition, Views } from "./views.ts";

/** Builds the catalog from the rows of one read. It yields to requests meanwhile: a thousand tables take a while. */
export async function buildCatalog(rows: CatalogRows, version: number): Promise<Catalog> {
  const types = new Types(rows.types);
  const grants = new Grants(rows.acls, rows.roles);
  const relations = new Relations(rows.relations, rows.columns);
  const definitions = await mapYielding(rows.views, ({ view, tree }) => parseViewDefinition(view, tree));
  const views = new Views(relations, definitions);
  const keys = new Keys(views, rows.keys);
  const tableParts: TableParts = {
    relations,
    columns: new Columns(relations, views, types, grants, rows.casts),
    keys,
    relationships: await findRelationships(rows.foreignKeys, relations, views, keys),
    computed: new ComputedFields(rows.functions, relations, types),
    grants,
  };
  const functions = new Functions(relations, types, grants);
  const servedFunctions = rows.functions.filter(({ isServed }) => isServed);
  const tablesIn = groupBySchema(await mapYielding(relations.served, (row) => buildTable(row, tableParts)));
  const functionsIn = groupBySchema((await mapYielding(servedFunctions, (row) => functions.build(row) ?? [])).flat());
  const constraints = constraintsOf(rows.constraints);
  const schemas = rows.schemas.filter(({ isServed }) => isServed);
  return Object.freeze({
    version,
    schemas: new Map(
      schemas.map(({ name, comment }) => [
        name,
        Object.freeze({
          name,
          comment,
          tables: new Map((tablesIn.get(name) ?? []).map((table) => [table.name, table])),
          functions: Map.groupBy(functionsIn.get(name) ?? [], (overload) => overload.name),
          enums: enumsOf(name, rows.types),
          composites: compositesOf(name, relations, types),
        }),
      ]),
    ),
    types: nameTypes(rows.types, rows.schemas),
    roles: buildRoles(rows.roles),
    postgis: rows.extensions.find(({ name }) => name === "postgis")?.schema ?? null,
    notNullDomains: types.notNullDomains(),
    mediaHandlers: mediaHandlersOf(rows.mediaHandlers, relations, types),
    constraints,
    constraintMessages: messagesOf(constraints),
  });
}

const groupBySchema = <T extends { readonly schema: string }>(items: readonly T[]): ReadonlyMap<string, T[]> =>
  Map.groupBy(items, ({ schema }) => schema);
