import { type PgResource, type PgResourceParameter, pgFromExpressionRuntime, TYPES } from "postgraphile/@dataplan/pg";
import { lambda } from "postgraphile/grafast";
import { sql } from "postgraphile/pg-sql2";
import { type CallSource, isPlain, withSource } from "../shape/FieldSourcesPlugin.ts";

export type FunctionResource = PgResource<any, any, any, readonly PgResourceParameter[], any>;

/**
 * `Mutation.publishPost(id: ID!): Post!`: a volatile SQL function becomes a mutation whose arguments are the
 * parameters and whose type is the result type, without input, payload and clientMutationId. One that returns a set becomes
 * a list of all its rows. To add a mutation, write a function and grant it.
 */
export const MutationShapePlugin: GraphileConfig.Plugin = {
  name: "MutationShapePlugin",
  version: "1.0.0",
  after: ["PgCustomTypeFieldPlugin"],
  schema: {
    behaviorRegistry: {
      add: {
        flatMutationField: {
          description: "a mutation field that returns the result itself instead of a payload",
          entities: ["pgResource"],
        },
      },
    },
    entityBehavior: {
      pgResource: {
        inferred: {
          after: ["inferred"],
          callback: (behavior, resource) =>
            resource.parameters && resource.isMutation ? [behavior, "-mutationField", "flatMutationField"] : behavior,
        },
      },
    },
    hooks: {
      GraphQLObjectType_fields(fields, build, { scope, fieldWithHooks }) {
        if (!scope.isRootMutation) return fields;
        const functions = (Object.values(build.pgResources) as FunctionResource[]).filter(
          (resource) =>
            resource.parameters &&
            resource.isMutation &&
            build.behavior.pgResourceMatches(resource, "flatMutationField"),
        );
        return functions.reduce((extended, resource) => {
          const type = resultType(build, resource);
          if (!type) return extended;
          const fieldName = build.inflection.customMutationField({ resource: resource as any });
          const scopeOfField = {
            fieldName,
            fieldBehaviorScope: "flatMutationField",
            pgFieldResource: resource,
          } as const;
          return build.extend(
            extended,
            { [fieldName]: fieldWithHooks(scopeOfField, () => mutationField(build, resource, type)) },
            `Adding a mutation for the function '${resource.name}'`,
          );
        }, fields);
      },
    },
  },
};

function resultType(build: GraphileBuild.Build, resource: FunctionResource) {
  const { GraphQLBoolean, GraphQLList, GraphQLNonNull, isOutputType } = build.graphql;
  // A function that returns void becomes a field that returns true.
  if (resource.codec === TYPES.void) return new GraphQLNonNull(GraphQLBoolean);
  const type = build.getGraphQLTypeByPgCodec(resource.codec, "output");
  if (!type || !isOutputType(type)) return null;
  const withNullness = (each: any) => (resource.extensions?.tags?.notNull ? new GraphQLNonNull(each) : each);
  return withNullness(resource.isUnique ? type : new GraphQLList(withNullness(type)));
}

function mutationField(build: GraphileBuild.Build, resource: FunctionResource, type: any): any {
  const { makeArgs, makeFieldArgs } = build.pgGetArgDetailsFromParameters(resource);
  const field = {
    description: resource.description,
    type,
    args: makeFieldArgs(),
    plan(_$root: unknown, args: any) {
      const $result = resource.execute(makeArgs(args), "mutation") as any;
      return resource.codec === TYPES.void ? lambda($result, () => true) : $result;
    },
  };
  return resource.isUnique && isPlain(resource.codec) ? withSource(field, callOf(build, resource)) : field;
}

function callOf(build: GraphileBuild.Build, resource: FunctionResource): CallSource {
  const { makeArgsRuntime, makeFieldArgs, parameterAnalysis } = build.pgGetArgDetailsFromParameters(resource);
  const fields = makeFieldArgs();
  const { codec, from, parameters } = resource as any;
  return {
    kind: "call",
    codec,
    isRow: (row) => sql`(${(resource as any).getNullCheckExpression(row)})::boolean`,
    statementOf(schema, args, keep) {
      const given = makeArgsRuntime(schema, fields, args) as never;
      return sql`select ${keep(pgFromExpressionRuntime(from, parameters, given, parameterAnalysis))}`;
    },
  };
}

declare global {
  namespace GraphileBuild {
    interface BehaviorStrings {
      flatMutationField: true;
    }
  }
}
