import { TEXT_SETTINGS } from "../text-settings.ts";
import { CallerDependence } from "./caller-dependence.ts";
import type { Catalog, DatabaseFunction, Schema, Table } from "./catalog.ts";
import { CodeObjects, codeOf } from "./code.ts";
import { constraintsOf, Keys, messagesOf } from "./constraints.ts";
import { mapYielding } from "./event-loop.ts";
import { ComputedFields, Functions } from "./functions.ts";
import { buildRoles, Grants } from "./grants.ts";
import { mediaHandlersOf } from "./media-handlers.ts";
import { Policies } from "./policies.ts";
import type { CatalogRows } from "./read.ts";
import { Relations } from "./relations.ts";
import { findRelationships } from "./relationships.ts";
import { buildTable, Columns, type TableParts } from "./tables.ts";
import { compositesOf, enumsOf, nameTypes, type SchemaRow, Types } from "./types.ts";
import { parseViewDefinition, Views } from "./views.ts";

/** Builds the catalog from the rows of one read. It yields to requests meanwhile: a thousand tables take a while. */
export async function buildCatalog(rows: CatalogRows, version: number): Promise<Catalog> {
  const types = new Types(rows.types);
  const grants = new Grants(rows.acls, rows.roles);
  const relations = new Relations(rows.relations, rows.columns);
  const constraints = constraintsOf(rows.constraints);
  const tables = await buildTables(rows, relations, types, grants);
  const functions = await buildFunctions(rows, new Functions(relations, types, grants));
  const code = await CodeObjects.of(rows.code);
  return Object.freeze({
    version,
    schemas: buildSchemas(rows, tables, functions, grants, (schema) => compositesOf(schema, relations, types)),
    types: nameTypes(rows.types, rows.schemas),
    roles: buildRoles(rows.roles),
    textSettings: TEXT_SETTINGS.filter(([name]) => rows.unfitSettings.some((unfit) => unfit.name === name)),
    postgis: rows.extensions.find(({ name }) => name === "postgis")?.schema ?? null,
    notNullDomains: types.notNullDomains(),
    mediaHandlers: mediaHandlersOf(rows.mediaHandlers, relations, types),
    constraints,
    constraintMessages: messagesOf(constraints),
    code: codeOf(code, rows.executors),
    dependence: new CallerDependence(code),
  });
}

async function buildTables(rows: CatalogRows, relations: Relations, types: Types, grants: Grants): Promise<Table[]> {
  const definitions = await mapYielding(rows.views, ({ view, tree }) => parseViewDefinition(view, tree));
  const views = new Views(relations, definitions);
  const keys = new Keys(views, rows.keys);
  const parts: TableParts = {
    relations,
    columns: new Columns(relations, views, types, grants, rows.casts),
    keys,
    relationships: await findRelationships(rows.foreignKeys, relations, views, keys),
    computed: new ComputedFields(rows.functions, relations, types),
    grants,
    policies: new Policies(rows.policies, grants),
  };
  return mapYielding(relations.served, (row) => buildTable(row, parts));
}

async function buildFunctions(rows: CatalogRows, functions: Functions): Promise<DatabaseFunction[]> {
  const served = rows.functions.filter(({ isServed }) => isServed);
  return (await mapYielding(served, (row) => functions.build(row) ?? [])).flat();
}

function buildSchemas(
  rows: CatalogRows,
  tables: readonly Table[],
  functions: readonly DatabaseFunction[],
  grants: Grants,
  compositesIn: (schema: string) => Schema["composites"],
): Catalog["schemas"] {
  const tablesIn = Map.groupBy(tables, ({ schema }) => schema);
  const functionsIn = Map.groupBy(functions, ({ schema }) => schema);
  const build = ({ name, owner, acl, comment }: SchemaRow): Schema =>
    Object.freeze({
      name,
      owner: grants.roleOf(owner),
      usage: grants.onSchema(acl),
      comment,
      tables: new Map((tablesIn.get(name) ?? []).map((table) => [table.name, table])),
      functions: Map.groupBy(functionsIn.get(name) ?? [], (overload) => overload.name),
      enums: enumsOf(name, rows.types),
      composites: compositesIn(name),
    });
  const served = rows.schemas.filter(({ isServed }) => isServed);
  return new Map(served.map((row) => [row.name, build(row)]));
}
