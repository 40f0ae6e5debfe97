import type { Pool } from "pg";
import { makePgService } from "postgraphile/adaptors/pg";
import { execute } from "postgraphile/grafast";
import { type GraphQLSchema, isInterfaceType, isObjectType, parse } from "postgraphile/graphql";
import type { Config } from "../../config/config.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import { schemaRoles } from "../../db/catalog/exposure.ts";
import { type Finding, GRAPHQL_SCHEMA, sentenceOf } from "../../db/findings/finding.ts";
import { contractPreset } from "../../plugins/index.ts";
import { type UnindexedFilters, unindexedFiltersPlugin } from "../../plugins/lists/UnindexedFiltersPlugin.ts";
import { afterSources } from "../../plugins/shape/FieldSourcesPlugin.ts";
import { nodeIdsPreset, withoutNodeIds } from "../../plugins/shape/NodeIdsPlugin.ts";
import { overloadedFunctionsPlugin } from "../../plugins/shape/OverloadedFunctionsPlugin.ts";
import { type PrivilegeSource, privilegesPlugin } from "../../plugins/shape/PrivilegesPlugin.ts";
import { viewKeysPlugin } from "../../plugins/shape/ViewKeysPlugin.ts";
import type { GraphQLLimits } from "../limits.ts";
import { Introspection, whyLostOf } from "./introspection.ts";
import { LeftOut } from "./left-out.ts";
import { makeSchema } from "./make-schema.ts";
import { NameConflict } from "./name-conflict.ts";
import { Labels, type ObjectId, type PgObject } from "./pg-objects.ts";
import { freeingMaps } from "./retained-maps.ts";
import { invalidTags, suspectsOf } from "./smart-tag.ts";
import { withoutConsole } from "./without-console.ts";

export type SchemaOptions = {
  /** Connections of the login role. The roles that it may become decide what the schema contains. */
  readonly catalog: Pool;
  /** That of callers who are not signed in. */
  readonly anonymousRole: string;
  readonly schemas: readonly string[];
  readonly maxPageSize: number;
  /** Plugins of parts and of the application, which follow those of the core. */
  readonly plugins: readonly GraphileConfig.Plugin[];
  /** Whether rows have a `nodeId`, by which `node(id:)` finds them. */
  readonly nodeIds: boolean;
  /** What the table interface knows about views and junctions. */
  relations(): Catalog;
  /** Resolves when `relations` knows everything that was committed before the call. */
  readRelations(): Promise<unknown>;
  /** The tables whose columns can be filtered and ordered by without an index. */
  readonly unindexedFilters: UnindexedFilters;
};

export type SchemaSettings = Pick<
  Config,
  "dbAnonRole" | "dbSchemas" | "graphqlNode" | "graphqlUnindexedFilters" | "migrate"
> &
  Pick<GraphQLLimits, "graphqlMaxPageSize">;

export const schemaSettings = (
  settings: SchemaSettings,
): Omit<SchemaOptions, "catalog" | "relations" | "readRelations" | "plugins"> => ({
  schemas: settings.dbSchemas,
  anonymousRole: settings.dbAnonRole,
  maxPageSize: settings.graphqlMaxPageSize,
  nodeIds: settings.graphqlNode,
  unindexedFilters: unindexedFilters(settings),
});

function unindexedFilters({ graphqlUnindexedFilters: chosen, migrate }: SchemaSettings): UnindexedFilters {
  if (chosen === "") return migrate === "on" ? "none" : "small";
  return chosen ? "all" : "none";
}

export type BuiltSchema = {
  readonly schema: GraphQLSchema;
  readonly resolvedPreset: GraphileConfig.ResolvedPreset;
  /** The parts of the database that are not in the schema, and why. */
  readonly omissions: readonly Finding[];
  /** The objects that lead to each field: `Query.posts` */
  readonly sources: ReadonlyMap<string, readonly PgObject[]>;
  /** The smart tags that the schema was built with. */
  readonly tags: ReadonlySet<ObjectId>;
  /** Why the schema was built without this object, which exists. Undefined if it was built with it. */
  whyLost(object: PgObject): Finding | undefined;
};

/**
 * The smart tags of the schema that is served now, whose names stay with their objects. Not that schema itself: a new schema keeps what
 * it was built with, and so would keep all schemas before it.
 */
type TagsBefore = BuiltSchema["tags"] | null;

/**
 * Builds the GraphQL schema of the database. What a name conflict names is left out, and so are the smart tags that another error is
 * about. Then the schema is built again: each further build leaves out at least one further object or tag. Rejects if the database
 * does not respond, and with any other error.
 */
export const buildSchema = (options: SchemaOptions, before: TagsBefore = null): Promise<BuiltSchema> =>
  freeingMaps(() => buildWithout(options, before));

/** Builds it again without what does not fit, until the rest does. */
async function buildWithout(options: SchemaOptions, before: TagsBefore): Promise<BuiltSchema> {
  const labels = await Labels.read(options.catalog, options.schemas);
  const introspection = await Introspection.read(options.catalog);
  const conflicts = new Map<ObjectId, NameConflict>();
  const ignored = invalidTags(labels.tags);
  for (;;) {
    const leftOut = new Set([...conflicts.keys(), ...ignored.keys()]);
    const { made, conflicts: found } = await build(options, introspection.plugin(leftOut), labels, leftOut, before);
    const further = [...found].filter(([id]) => !leftOut.has(id));
    for (const [id, conflict] of further) conflicts.set(id, conflict);
    if (further.length > 0) continue;
    if (!(made instanceof Error)) return withOmissions(made, labels, introspection, conflicts, ignored);
    const tags = labels.tags.filter(({ id }) => !leftOut.has(id));
    const reason = made instanceof SchemaFault ? made.finding.reason : made.message;
    const suspects = made instanceof NameConflict ? [] : suspectsOf(reason, tags);
    if (suspects.length === 0) throw made;
    for (const { id } of suspects) ignored.set(id, reason);
  }
}

async function withOmissions(
  { schema, resolvedPreset, watched }: Made,
  labels: Labels,
  introspection: Introspection,
  conflicts: ReadonlyMap<ObjectId, NameConflict>,
  ignored: ReadonlyMap<ObjectId, string>,
): Promise<BuiltSchema> {
  bindPlansToDocuments(schema, resolvedPreset);
  const tags = labels.tags.flatMap((tag) => {
    const { id, object } = tag;
    const reason = conflicts.get(id)?.reasonToIgnore(object) ?? ignored.get(id) ?? null;
    return reason === null ? [] : [{ ...tag, reason }];
  });
  const isTag = new Set(tags.map(({ id }) => id));
  const objects = [...conflicts].filter(([id]) => !isTag.has(id));
  const isLost = await introspection.lossesOf(objects.map(([id]) => id));
  const losses = objects.map(([, { finding }], i) => ({ finding, isLost: isLost[i]! }));
  const missing = { objects: objects.map(([, conflict]) => conflict), tags };
  return {
    schema,
    resolvedPreset,
    omissions: [...losses.map(({ finding }) => finding), ...watched.findings(labels, missing)],
    tags: new Set(labels.tags.flatMap(({ id }) => (isTag.has(id) ? [] : [id]))),
    sources: watched.sources,
    whyLost: whyLostOf(losses.length === 0 ? null : labels, losses),
  };
}

/** What it refers to stays in memory with the schema. */
const privilegesOf = ({ relations, readRelations, anonymousRole }: SchemaOptions): PrivilegeSource => ({
  catalog: relations,
  readCatalog: readRelations,
  rolesOf: (login) => schemaRoles(relations(), login, anonymousRole),
});

type Made = Pick<BuiltSchema, "schema" | "resolvedPreset"> & { readonly watched: LeftOut };

/** PostGraphile's error for a schema without fields. */
const NO_FIELDS = /not suitable for use as root query operation type/;

/** Builds once. `conflicts` are what the build itself names, whether it succeeds or not. */
async function build(
  options: SchemaOptions,
  introspection: GraphileConfig.Plugin,
  labels: Labels,
  leftOut: ReadonlySet<ObjectId>,
  before: TagsBefore,
): Promise<{ readonly made: Made | Error; readonly conflicts: ReadonlyMap<ObjectId, NameConflict> }> {
  const { catalog: pool, schemas } = options;
  const pgService = makePgService({ pool, schemas: [...schemas], pubsub: false });
  const watched = new LeftOut();
  const privileges = privilegesOf(options);
  const preset: GraphileConfig.Preset = {
    // In the place of the plugin that it replaces.
    extends: [{ plugins: [introspection] }, contractPreset, options.nodeIds ? nodeIdsPreset : withoutNodeIds],
    disablePlugins: ["PgIntrospectionPlugin"],
    plugins: [
      watched.plugin,
      privilegesPlugin(privileges),
      overloadedFunctionsPlugin(privileges),
      viewKeysPlugin(options.relations),
      unindexedFiltersPlugin(options.unindexedFilters),
      ...options.plugins.map(afterSources),
    ],
    // What PostGraphile passes to `withPgClient` as settings are the queries of the operation.
    pgServices: [{ ...pgService, pgSettingsKey: "queries" as never }],
    schema: {
      maxPageSize: options.maxPageSize,
      relations: options.relations,
      connectionFilterComputedColumns: options.unindexedFilters === "all",
    },
  };
  const made = await withoutConsole(
    () => makeSchema(preset),
    (line) => watched.print(line),
  ).catch((error: Error) => error);
  const conflicts = watched.conflicts(labels, made instanceof Error ? made : undefined);
  const named = new Map(
    conflicts.flatMap((conflict) => {
      const tags = labels.tags.filter(({ id }) => !leftOut.has(id));
      const tag = conflict.tagAmong(tags, ({ id }) => before !== null && !before.has(id));
      const id = tag?.id ?? labels.idOf(conflict.newer);
      return id ? [[id, conflict]] : [];
    }),
  );
  if (!(made instanceof Error)) return { made: { ...made, watched }, conflicts: named };
  return { made: conflicts.at(-1) ?? failure(made, watched, labels), conflicts: named };
}

/** Why no schema can be built. The message is the finding as a sentence. */
export class SchemaFault extends Error {
  readonly finding: Finding;

  constructor(finding: Finding, options?: ErrorOptions) {
    super(finding.fix === null ? finding.reason : sentenceOf(finding), options);
    this.finding = finding;
  }
}

/** The error as one sentence, with the object that it is about, and the statement that takes this object out of GraphQL. */
function failure(error: Error, watched: LeftOut, labels: Labels): SchemaFault {
  const finding = { rule: GRAPHQL_SCHEMA, level: "error", object: "GraphQL", fix: null } as const;
  if (NO_FIELDS.test(error.message))
    return new SchemaFault({
      ...finding,
      level: "note",
      reason: "there is no table or function that a caller may use",
    });
  const { object, reason } = watched.causeOf(error);
  const named = object && { object: labels.labelOf(object), fix: labels.excluding(object) };
  return new SchemaFault({ ...finding, reason, ...named }, { cause: error });
}

/** The finding for a schema that cannot be built. */
export const notBuilt = (error: Error): Finding =>
  error instanceof SchemaFault || error instanceof NameConflict
    ? { ...error.finding, rule: GRAPHQL_SCHEMA }
    : { rule: GRAPHQL_SCHEMA, level: "error", object: "GraphQL", reason: error.message, fix: null };

/** Maximum plans of one operation, for different values of the variables that its directives and nulls depend on. */
const MAX_PLANS_PER_OPERATION = 4;

/**
 * Replaces Grafast's plan cache with one keyed weakly by document, so that a plan is freed when DocumentCache evicts its
 * document. Grafast limits the number of plans and not their size: 500 plans of a thousand fields each take 10 GB.
 */
function bindPlansToDocuments(schema: GraphQLSchema, resolvedPreset: GraphileConfig.ResolvedPreset): void {
  // Grafast creates its cache with the first plan.
  execute({ schema, document: parse("{ __typename }"), resolvedPreset, middleware: null, contextValue: {} } as never);
  const grafast = schema.extensions.grafast as Record<PropertyKey, unknown>;
  const cache = Object.getOwnPropertySymbols(grafast).find(({ description }) => description === "cacheByOperation");
  if (!cache) throw new Error("the plan cache of this version of Grafast was not found");
  grafast[cache] = new WeakMap();
  grafast.operationOperationPlansCacheMaxLength = MAX_PLANS_PER_OPERATION;
}

/** The fields of `before` that `after` lacks because it was built without their objects, by the reason: `["Query.posts"]` */
export function lostFields(before: BuiltSchema, after: BuiltSchema): ReadonlyMap<Finding, readonly string[]> {
  const remaining = fieldTypes(after.schema);
  const lost = new Map<Finding, string[]>();
  for (const [field, type] of fieldTypes(before.schema)) {
    if (remaining.get(field) === type) continue;
    const [reason] = before.sources.get(field)?.flatMap((object) => after.whyLost(object) ?? []) ?? [];
    if (reason) lost.set(reason, [...(lost.get(reason) ?? []), field]);
  }
  return lost;
}

/** Maps each field to its type: `Query.posts` → `PostConnection!` */
function fieldTypes(schema: GraphQLSchema): Map<string, string> {
  const types = Object.values(schema.getTypeMap()).filter((type) => isObjectType(type) || isInterfaceType(type));
  return new Map(
    types.flatMap((type) =>
      Object.values(type.getFields()).map((field) => [`${type.name}.${field.name}`, String(field.type)]),
    ),
  );
}

/** Reported to the DBA in the log and in /health. */
export function objectsWouldBeLost(lost: ReadonlyMap<Finding, readonly string[]>): Error {
  const reasons = [...lost].map(([finding, fields]) => {
    const more = fields.length > MAX_SHOWN ? ` and ${fields.length - MAX_SHOWN} more` : "";
    const served = `${fields.slice(0, MAX_SHOWN).join(", ")}${more}`;
    return sentenceOf({ ...finding, reason: `GraphQL would lose ${served}: ${finding.reason}` });
  });
  return new Error(reasons.join(" "));
}

const MAX_SHOWN = 5;

declare global {
  namespace GraphileBuild {
    interface SchemaOptions {
      relations?: () => Catalog;
    }
  }
}
