import { stripVTControlCharacters } from "node:util";
import type { Pool } from "pg";
import { makeSchema } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import type { GraphQLSchema } from "postgraphile/graphql";
import { DeleteAnonymousPlugin } from "../plugins/DeleteAnonymousPlugin.ts";
import { contractPreset } from "../plugins/index.ts";
import { keepPlansWithDocuments } from "./plan-cache.ts";

export type SchemaOptions = {
  /** Ordinary connections of the login role, whose grants decide what is in the schema. */
  readonly catalog: Pool;
  readonly schemas: readonly string[];
  readonly timeScalar: "Time" | "DateTime";
  readonly maxPageSize: number;
  readonly deleteAnonymous: "error" | "false-result";
};

export type BuiltSchema = {
  readonly schema: GraphQLSchema;
  readonly resolvedPreset: GraphileConfig.ResolvedPreset;
  /** What was left out, a sentence each: `A type named ArticleEdge already exists` without `Query.articles`. */
  readonly omissions: readonly string[];
};

/** Reads the catalog and builds the schema that it stands for. */
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
  const built = { schema, resolvedPreset, omissions: [...omissions] };
  keepPlansWithDocuments(built);
  return built;
}

/** Hears of what PostGraphile leaves out because of its name, in place of SwallowErrorsPlugin, which prints it. */
const collectOmissions = (omissions: Set<string>): GraphileConfig.Plugin => ({
  name: "CollectOmissionsPlugin",
  schema: {
    hooks: {
      build: {
        after: ["SwallowErrors"],
        callback(build) {
          build.handleRecoverableError = (error) => void omissions.add(sentenceOf(error));
          return build;
        },
      },
    },
  },
});

/** PostGraphile's paragraphs, which are coloured for a terminal, in one line. */
function sentenceOf({ message }: Error): string {
  return stripVTControlCharacters(message)
    .replace("A naming conflict has occurred - ", "")
    .replace("We don't have any information about the first entity.", "")
    .replace(/Details: https:\S+\s*$/, "")
    .replace(/\s+/g, " ")
    .replace(/[.\s]+$/, "");
}
