import type { PgSelectStep } from "postgraphile/@dataplan/pg";
import { lambda } from "postgraphile/grafast";
import { orderCollection, pageOffset, pageSize } from "./page.ts";

/**
 * `users(limit: Int = 10, offset: Int = 0): [User!]!` and `User.articles(limit: Int = 10): [Article!]!`, in the
 * order of the table. A function tagged `@unpaged` has only its parameters as arguments.
 */
export const ListShapePlugin: GraphileConfig.Plugin = {
  name: "ListShapePlugin",
  version: "1.0.0",
  after: ["PgFirstLastBeforeAfterArgsPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, _build, { scope }) {
        const { plan } = field;
        const resource = scope.pgFieldResource;
        if (!scope.isPgFieldSimpleCollection || !resource || resource.parameters || !plan) return field;
        const order = orderCollection(resource);
        return {
          ...field,
          plan($parent, args, info) {
            const $select = plan($parent, args, info) as PgSelectStep;
            order($select);
            return $select;
          },
        };
      },
      GraphQLObjectType_fields_field_args(args, build, { scope }) {
        if (!scope.isPgFieldSimpleCollection) return args;
        const { first: _first, offset, ...others } = args;
        if (scope.pgFieldResource?.extensions?.tags?.unpaged) return others;

        const { GraphQLInt } = build.graphql;
        const size = pageSize("limit", build);
        const limit = {
          type: GraphQLInt,
          description: "Maximum number of items.",
          defaultValue: 10,
          applyPlan(_: unknown, $list: PgSelectStep, arg: any) {
            $list.setFirst(lambda(arg.getRaw(), size, true) as never);
          },
        };
        if (scope.isPgManyRelationListField) return { ...others, limit };
        return {
          ...others,
          limit,
          offset: {
            ...offset!,
            type: GraphQLInt,
            description: "Number of items to skip.",
            defaultValue: 0,
            applyPlan(_: unknown, $list: PgSelectStep, arg: any) {
              $list.setOffset(lambda(arg.getRaw(), pageOffset, true) as never);
            },
          },
        };
      },
    },
  },
};
