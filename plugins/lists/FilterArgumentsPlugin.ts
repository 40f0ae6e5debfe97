import {
  type PgCodec,
  type PgSelectQueryBuilder,
  type PgSelectStep,
  sqlValueWithCodec,
} from "postgraphile/@dataplan/pg";
import { type ConnectionStep, lambda, type Step } from "postgraphile/grafast";
import { sql } from "postgraphile/pg-sql2";

/** `posts(status: PostStatus)`: a column tagged `@filterable` becomes an argument of the root collection of its table. */
export const FilterArgumentsPlugin: GraphileConfig.Plugin = {
  name: "FilterArgumentsPlugin",
  version: "1.0.0",
  after: ["PgFirstLastBeforeAfterArgsPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields_field_args(args, build, { scope, Self }) {
        const codec = scope.pgFieldResource?.codec;
        const isRootCollection =
          scope.fieldBehaviorScope === "query:resource:connection" ||
          scope.fieldBehaviorScope === "query:resource:list";
        if (!isRootCollection || !codec?.attributes) return args;

        const filterable = Object.entries<any>(codec.attributes).filter(
          ([, { extensions }]) => extensions?.tags?.filterable,
        );
        const filters = filterable.map(([attributeName, attribute]) => [
          build.inflection.attribute({ codec: codec as any, attributeName }),
          {
            type: build.getGraphQLTypeByPgCodec(attribute.codec, "input"),
            description: `Only items with this ${attributeName.replaceAll("_", " ")}.`,
            extensions: { condition: equals(attributeName, attribute.codec) },
            applyPlan(_: unknown, $collection: any, arg: any) {
              selectOf($collection).apply(whenGiven(arg.getRaw(), equals(attributeName, attribute.codec)) as any);
            },
          },
        ]);
        return build.extend(args, Object.fromEntries(filters), `Adding filters to ${Self.name}.${scope.fieldName}`);
      },
    },
  },
};

const selectOf = ($collection: PgSelectStep | ConnectionStep<any, any, any, any, any, PgSelectStep>): PgSelectStep =>
  "getSubplan" in $collection ? $collection.getSubplan() : $collection;

/** Adds a condition with the value of an argument to a query. */
export type ArgumentCondition = (query: Pick<PgSelectQueryBuilder, "alias" | "where">, value: unknown) => void;

const equals =
  (attribute: string, codec: PgCodec): ArgumentCondition =>
  (query, value) =>
    query.where(sql`${query.alias}.${sql.identifier(attribute)} = ${sqlValueWithCodec(value, codec)}`);

/** Adds the condition during execution, and only if the request has a value for it. */
const whenGiven = ($value: Step, condition: ArgumentCondition) =>
  lambda($value, (value) => (value == null ? null : (query: PgSelectQueryBuilder) => condition(query, value)), true);

declare module "postgraphile/graphql" {
  interface GraphQLArgumentExtensions {
    /** For an argument that is compared with a column: adds this comparison to a query. */
    condition?: ArgumentCondition;
  }
}
