import type { Pool } from "pg";
import { makeSchema } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { execute } from "postgraphile/grafast";
import { type GraphQLSchema, isInterfaceType, isObjectType, parse, validateSchema } from "postgraphile/graphql";
import type { Config } from "../../config/config.ts";
import { type Finding, sentenceOf } from "../../db/advisor/finding.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import { type SchemaRoles, schemaRoles } from "../../db/catalog/exposure.ts";
import { contractPreset } from "../../plugins/index.ts";
import { type UnindexedFilters, unindexedFiltersPlugin } from "../../plugins/lists/UnindexedFiltersPlugin.ts";
import { manyToManyPlugin } from "../../plugins/shape/ManyToManyPlugin.ts";
import { nodeIdsPreset, withoutNodeIds } from "../../plugins/shape/NodeIdsPlugin.ts";
import { privilegesPlugin } from "../../plugins/shape/PrivilegesPlugin.ts";
import { viewKeysPlugin } from "../../plugins/shape/ViewKeysPlugin.ts";
import { changedRowsPlugin } from "../../plugins/subscriptions/ChangedRowsPlugin.ts";
import { tableSubscriptionsPlugin } from "../../plugins/subscriptions/TableSubscriptionsPlugin.ts";
import { DeleteAnonymousPlugin } from "../../plugins/writes/DeleteAnonymousPlugin.ts";
import { type Attempt, buildWithoutCulprits, type Culprits } from "./culprit-search.ts";
import { Introspection, type ObjectId } from "./introspection.ts";
import { LeftOut } from "./left-out.ts";
import { Labels, type PgObject } from "./pg-objects.ts";
import { withoutConsole } from "./without-console.ts";

export type SchemaOptions = {
  /** Connections of the login role. The roles that it may become decide what the schema contains. */
  readonly catalog: Pool;
  readonly roles: SchemaRoles;
  readonly schemas: readonly string[];
  readonly timeScalar: "Time" | "DateTime";
  readonly maxPageSize: number;
  readonly deleteAnonymous: "error" | "false-result";
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
  | "dbAnonRole"
  | "dbSchemas"
  | "graphqlDeleteAnonymous"
  | "graphqlMaxPageSize"
  | "graphqlNode"
  | "graphqlRoles"
  | "graphqlTimeScalar"
  | "graphqlUnindexedFilters"
  | "migrate"
>;

export const schemaSettings = (
  settings: SchemaSettings,
): Omit<SchemaOptions, "catalog" | "relations" | "readRelations"> => ({
  schemas: settings.dbSchemas,
  roles: { anonymous: settings.dbAnonRole, named: settings.graphqlRoles },
  timeScalar: settings.graphqlTimeScalar,
  maxPageSize: settings.graphqlMaxPageSize,
  deleteAnonymous: settings.graphqlDeleteAnonymous,
  nodeIds: settings.graphqlNode,
  unindexedFilters: unindexedFilters(settings),
});

function unindexedFilters({ graphqlUnindexedFilters: chosen, migrate }: SchemaSettings): UnindexedFilters {
  if (chosen === "") return migrate ? "none" : "small";
  return chosen ? "all" : "none";
}

export type BuiltSchema = {
  readonly schema: GraphQLSchema;
  readonly resolvedPreset: GraphileConfig.ResolvedPreset;
  /** The parts of the database that are not in the schema, and why. */
  readonly omissions: readonly Finding[];
  /** The objects with which the schema could not be built. */
  readonly culprits: Culprits;
  /** The objects that lead to each field: `Query.articles` */
  readonly sources: ReadonlyMap<string, readonly PgObject[]>;
  /** The smart tags that the schema was built with. */
  readonly tags: ReadonlySet<ObjectId>;
  /** Why the schema was built without this object, which exists. Undefined if it was built with it. */
  whyLost(object: PgObject): Finding | undefined;
};

/** What the next build needs to know about the schema that is served now. */
export type Before = Pick<BuiltSchema, "culprits" | "tags">;

/**
 * Builds the GraphQL schema of the database, without the objects with which it cannot be built. `before` is the schema that is served.
 * Rejects if the database does not respond, or if no object is the cause of a failure.
 */
export async function buildSchema(options: SchemaOptions, before: Before | null = null): Promise<BuiltSchema> {
  const introspection = new Introspection();
  const { built, culprits, newer } = await buildWithoutCulprits({
    attempt: (objects) => attempt(options, introspection, objects, before),
    objects: () => introspection.objects,
    partsOf: (object) => introspection.tags.filter(({ owner }) => owner === object).map(({ id }) => id),
    known: before?.culprits ?? new Map(),
  });
  if (built === null) throw new Error("there is no table or function that a caller may use");
  const { schema, resolvedPreset, leftOut, labels } = built;
  bindPlansToDocuments(schema, resolvedPreset);
  const tags = culprits.size === 0 ? [] : introspection.tags.filter(({ id }) => culprits.has(id));
  const isTag = new Set(tags.map(({ id }) => id));
  const { ofCulprits, ofNewer, others } = await leftOut.findings(options.catalog, labels, {
    culprits: new Map([...culprits].filter(([id]) => !isTag.has(id))),
    tags: tags.map((tag) => ({ ...tag, error: culprits.get(tag.id)! })),
    newer,
    columns: introspection.columns,
  });
  const losses = [
    ...[...ofCulprits].map(([id, finding]) => ({ finding, isLost: introspection.lossOf([id]) })),
    ...(ofNewer ? [{ finding: ofNewer, isLost: introspection.lossOf(newer) }] : []),
  ];
  return {
    schema,
    resolvedPreset,
    omissions: [...losses.map(({ finding }) => finding), ...others],
    culprits,
    tags: new Set(introspection.tags.flatMap(({ id }) => (culprits.has(id) ? [] : [id]))),
    sources: leftOut.sources,
    whyLost: (object) => losses.find(({ isLost }) => isLost(object))?.finding,
  };
}

type Built = Pick<BuiltSchema, "schema" | "resolvedPreset"> & { readonly leftOut: LeftOut; readonly labels: Labels };

/** PostGraphile's error for a schema without fields, such as one that is built without all objects. */
const NO_FIELDS = /not suitable for use as root query operation type/;

/** Null for a schema without fields. */
async function attempt(
  options: SchemaOptions,
  introspection: Introspection,
  objects: ReadonlySet<ObjectId>,
  before: Before | null,
): Promise<Attempt<Built | null>> {
  const { catalog: pool, schemas } = options;
  const pgService = makePgService({ pool, schemas: [...schemas], pubsub: false });
  const leftOut = new LeftOut();
  const preset: GraphileConfig.Preset = {
    extends: [contractPreset, options.nodeIds ? nodeIdsPreset : withoutNodeIds],
    plugins: [
      leftOut.plugin,
      privilegesPlugin({
        catalog: options.relations,
        readCatalog: options.readRelations,
        rolesOf: (login) => schemaRoles(options.relations(), login, options.roles),
      }),
      viewKeysPlugin(options.relations),
      manyToManyPlugin(options.relations),
      tableSubscriptionsPlugin(options.relations),
      changedRowsPlugin(options.relations),
      ...(options.deleteAnonymous === "false-result" ? [DeleteAnonymousPlugin] : []),
      unindexedFiltersPlugin(options.unindexedFilters),
    ],
    pgServices: [{ ...pgService, adaptor: introspection.adaptor(objects) }],
    schema: {
      timeScalar: options.timeScalar,
      maxPageSize: options.maxPageSize,
      connectionFilterComputedColumns: options.unindexedFilters === "all",
    },
  };
  const made: Pick<BuiltSchema, "schema" | "resolvedPreset"> | { error: Error } = await withoutConsole(
    () => makeSchema(preset),
    (line) => leftOut.print(line),
  ).then(
    ({ schema, resolvedPreset }) => {
      const [error] = validateSchema(schema);
      return error ? { error } : { schema, resolvedPreset };
    },
    (error: Error) => ({ error }),
  );
  const labels = await Labels.read(pool, schemas);
  const conflicts = leftOut.conflicts(labels, "error" in made ? made.error : undefined);
  const culprits = new Map(
    conflicts.flatMap((conflict) => {
      const tags = introspection.tags.filter(({ id }) => !objects.has(id));
      const tag = conflict.tagAmong(tags, ({ id }) => before !== null && !before.tags.has(id));
      const id = tag?.id ?? introspection.idOf(conflict.newer);
      return id ? [[id, conflict]] : [];
    }),
  );
  if ("error" in made && NO_FIELDS.test(made.error.message)) return { built: null, culprits };
  if ("error" in made) return { error: conflicts.at(-1) ?? made.error, culprits };
  return { built: { ...made, leftOut, labels }, culprits };
}

/** What the schema leaves out. If the schema cannot be built, the error is the only finding. */
export const findLeftOut = (options: SchemaOptions): Promise<readonly Finding[]> =>
  buildSchema(options).then(
    ({ omissions }) => omissions,
    (error: Error) => [notBuilt(error.message)],
  );

/** The finding for a schema that cannot be built. */
export const notBuilt = (reason: string): Finding => ({
  rule: "graphql-schema",
  level: "error",
  object: "GraphQL",
  reason,
  fix: null,
});

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

/** The fields of `before` that `after` lacks because it was built without their objects, by the reason: `["Query.articles"]` */
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

/** Maps each field to its type: `Query.articles` → `ArticleConnection!` */
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
