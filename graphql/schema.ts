import { stripVTControlCharacters } from "node:util";
import type { Pool } from "pg";
import { makeSchema } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { execute } from "postgraphile/grafast";
import { type GraphQLSchema, isInterfaceType, isObjectType, parse } from "postgraphile/graphql";
import { DeleteAnonymousPlugin } from "../plugins/DeleteAnonymousPlugin.ts";
import { contractPreset } from "../plugins/index.ts";

export type SchemaOptions = {
  /** Connections of the login role. Its grants decide what the schema contains. */
  readonly catalog: Pool;
  readonly schemas: readonly string[];
  readonly timeScalar: "Time" | "DateTime";
  readonly maxPageSize: number;
  readonly deleteAnonymous: "error" | "false-result";
};

export type BuiltSchema = {
  readonly schema: GraphQLSchema;
  readonly resolvedPreset: GraphileConfig.ResolvedPreset;
  /** Why parts of the database are not in the schema, one sentence each: "A type named ArticleEdge already exists". */
  readonly omissions: readonly string[];
};

/** Builds the GraphQL schema of the database. */
export async function buildSchema(options: SchemaOptions): Promise<BuiltSchema> {
  const pgService = makePgService({ pool: options.catalog, schemas: [...options.schemas], pubsub: false });
  const omissions = new Set<string>();
  const { schema, resolvedPreset } = await makeSchema({
    extends: [contractPreset],
    plugins: [
      collectOmissions(omissions),
      ...(options.deleteAnonymous === "false-result" ? [DeleteAnonymousPlugin] : []),
    ],
    pgServices: [pgService],
    schema: { timeScalar: options.timeScalar, maxPageSize: options.maxPageSize },
  });
  bindPlansToDocuments(schema, resolvedPreset);
  return { schema, resolvedPreset, omissions: [...omissions] };
}

/** Collects what PostGraphile leaves out because of a name conflict. Replaces SwallowErrorsPlugin, which prints it. */
const collectOmissions = (omissions: Set<string>): GraphileConfig.Plugin => ({
  name: "CollectOmissionsPlugin",
  schema: {
    hooks: {
      build: {
        after: ["SwallowErrors"],
        callback(build) {
          build.handleRecoverableError = (error) => void omissions.add(toSentence(error));
          return build;
        },
      },
    },
  },
});

/** Turns a message of PostGraphile, which has several paragraphs and terminal colours, into one line. */
function toSentence({ message }: Error): string {
  return stripVTControlCharacters(message)
    .replace("A naming conflict has occurred - ", "")
    .replace("We don't have any information about the first entity.", "")
    .replace(/Details: https:\S+\s*$/, "")
    .replace(/\s+/g, " ")
    .replace(/[.\s]+$/, "");
}

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

/** Returns the fields of `before` that are missing in `after` or have another type there: `["Query.articles"]`. */
export function lostFields(before: GraphQLSchema, after: GraphQLSchema): string[] {
  const remaining = fieldTypes(after);
  return [...fieldTypes(before)].filter(([field, type]) => remaining.get(field) !== type).map(([field]) => field);
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
