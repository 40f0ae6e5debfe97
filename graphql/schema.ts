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

export type BuiltSchema = { readonly schema: GraphQLSchema; readonly resolvedPreset: GraphileConfig.ResolvedPreset };

/** Reads the catalog and builds the schema that it stands for. */
export async function buildSchema(options: SchemaOptions): Promise<BuiltSchema> {
  const pgService = makePgService({ pool: options.catalog, schemas: [...options.schemas], pubsub: false });
  const { schema, resolvedPreset } = await makeSchema({
    extends: [contractPreset],
    plugins: options.deleteAnonymous === "false-result" ? [DeleteAnonymousPlugin] : [],
    pgServices: [pgService],
    schema: { timeScalar: options.timeScalar, maxPageSize: options.maxPageSize },
  });
  keepPlansWithDocuments({ schema, resolvedPreset });
  return { schema, resolvedPreset };
}
