import type { PgSelectStep } from "postgraphile/@dataplan/pg";
import { type ConnectionStep, constant, lambda } from "postgraphile/grafast";
import { BatchWithPageStep } from "./batching.ts";
import { orderCollection, pageSize } from "./page.ts";

type Connection = ConnectionStep<any, any, any, any, any, PgSelectStep>;

/**
 * `articles(first: Int, after: String): ArticleConnection!` with edges, pageInfo and totalCount: 10 rows per page when
 * `first` is omitted, in the order of the table, without `nodes` and without backward pagination.
 */
export const ConnectionShapePlugin: GraphileConfig.Plugin = {
  name: "ConnectionShapePlugin",
  version: "1.0.0",
  after: ["PgFirstLastBeforeAfterArgsPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields(fields, _build, { scope }) {
        if (scope.isConnectionType) delete fields.nodes;
        return fields;
      },
      GraphQLObjectType_fields_field(field, build, { scope }) {
        if (scope.isPageInfoHasPreviousPageField) return { ...field, plan: hasPreviousPage };
        const { plan } = field;
        const resource = scope.pgFieldResource;
        if (!scope.isPgFieldConnection || !resource || !plan) return field;
        const size = pageSize("first", build);
        // The rows of a function keep the order that the function gives them.
        const order = resource.parameters ? null : orderCollection(resource);
        return {
          ...field,
          plan($parent, args, info) {
            const $connection = plan($parent, args, info) as Connection;
            // Not in applyPlan of the argument: it is not called when the argument is omitted.
            const $size = lambda(args.getRaw("first"), size, true);
            $connection.setFirst($size as never);
            const $page = $connection.getSubplan();
            $page.apply(new BatchWithPageStep($page, [$size]) as never);
            order?.($page);
            return $connection;
          },
        };
      },
      GraphQLObjectType_fields_field_args(args, _build, { scope }) {
        if (!scope.isPgFieldConnection) return args;
        const { last: _last, before: _before, offset: _offset, first, ...kept } = args;
        const { applyPlan: _applyPlan, ...plainFirst } = first!;
        return { first: plainFirst, ...kept };
      },
    },
  },
};

/** True if there is a cursor in `after`. PostGraphile itself returns false for all forward pagination. */
function hasPreviousPage($pageInfo: any) {
  // The only dependency of a PageInfo step is its connection.
  const $after = ($pageInfo.getDepOptions(0).step as Connection).getAfter();
  return $after ? lambda($after, (after) => after != null, true) : constant(false);
}
