import { CallerDependence } from "./caller-dependence.ts";
import {
  type Catalog,
  type DatabaseFunction,
  type MediaHandler,
  quoteName,
  type Schema,
  type Table,
} from "./catalog.ts";
import { CodeObjects, codeOf } from "./code.ts";
import { constraintsOf, Keys, messagesOf } from "./constraints.ts";
import { mapYielding } from "./event-loop.ts";
import { ComputedFields, Functions } from "./functions.ts";
import { buildRoles, Grants } from "./grants.ts";
import { Policies } from "./policies.ts";
import type { CatalogRows, SchemaRow } from "./read.ts";
import { Relations } from "./relations.ts";
import { findRelationships } from "./relationships.ts";
import { buildTable, Columns, type TableParts } from "./tables.ts";
import { compositesOf, enumsOf, nameTypes, type Oid, Types } from "./types.ts";
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

export type MediaHandlerRow = {
  readonly schema: string;
  readonly name: string;
  /** The row type of a table or view, or anyelement. */
  readonly takes: Oid;
  /** A domain with the name of a media type. */
  readonly mediaType: string;
  readonly returns: Oid;
};

/** `create aggregate lines_of(tags) (…, stype = "text/plain")`, in the served schemas. */
export const MEDIA_HANDLERS = `
  select s.name as schema, p.proname as name, p.proargtypes[0] as takes, domain.typname as "mediaType",
    domain.oid as returns
  from searched as s
  join pg_proc as p on p.pronamespace = s.oid
  join pg_type as domain on domain.oid = p.prorettype
  where s."isServed" and p.prokind = 'a' and p.pronargs = 1
    and domain.typtype = 'd' and domain.typname ~ '^[^/]+/[^/]+$'
  order by s.position, p.proname, p.oid`;

/** The aggregates that format rows of one served table, or of any table, as a media type. */
function mediaHandlersOf(
  rows: readonly MediaHandlerRow[],
  relations: Relations,
  types: Types,
): readonly MediaHandler[] {
  return rows.flatMap(({ schema, name, takes, mediaType, returns }) => {
    const relation = relations.ofRowType(takes);
    if (!relation?.isServed && types.systemNameOf(takes) !== "anyelement") return [];
    return Object.freeze({
      mediaType: mediaType.toLowerCase(),
      function: quoteName({ schema, name }),
      table: relation ? relations.nameOf(relation.oid) : null,
      isBinary: types.shapeOf(returns).name === "bytea",
    });
  });
}
