import type { PgSelectStep } from "postgraphile/@dataplan/pg";
import { type ConnectionStep, constant, lambda } from "postgraphile/grafast";
import { SameMomentStep } from "./batching.ts";
import { orderCollection } from "./order.ts";
import { pageSize } from "./page-size.ts";

type Connection = ConnectionStep<any, any, any, any, any, PgSelectStep>;

/**
 * `articles(first: Int, after: String): ArticleConnection!` with edges, pageInfo and totalCount: ten a page when
 * `first` is omitted, in the table's order, no `nodes`, no paging backwards.
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
        const size = pageSize("first", build.options.maxPageSize ?? 1000);
        // A function has an order of its own.
        const order = resource.parameters ? null : orderCollection(resource);
        return {
          ...field,
          plan($parent, args, info) {
            const $connection = plan($parent, args, info) as Connection;
            // Here and not in the argument's applyPlan, which is not called where the argument is left out.
            const $size = lambda(args.getRaw("first"), size, true);
            $connection.setFirst($size as never);
            const $page = $connection.getSubplan();
            $page.apply(new SameMomentStep($page, [$size]) as never);
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

/** True after a cursor; stock PostGraphile says false whenever one pages forwards. */
function hasPreviousPage($pageInfo: any) {
  // The only dependency of a PageInfo step is its connection.
  const $after = ($pageInfo.getDepOptions(0).step as Connection).getAfter();
  return $after ? lambda($after, (after) => after != null, true) : constant(false);
}
