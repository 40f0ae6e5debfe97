import type { PgSelectStep } from "postgraphile/@dataplan/pg";
import { type ConnectionStep, constant, lambda } from "postgraphile/grafast";
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
      GraphQLObjectType_fields_field(field, _build, { scope }) {
        if (scope.isPageInfoHasPreviousPageField) return { ...field, plan: hasPreviousPage };
        const { plan } = field;
        if (!scope.isPgFieldConnection || !scope.pgFieldResource || scope.pgFieldResource.parameters || !plan) return field;
        return {
          ...field,
          plan($parent, args, info) {
            const $connection = plan($parent, args, info) as Connection;
            orderCollection($connection.getSubplan());
            return $connection;
          },
        };
      },
      GraphQLObjectType_fields_field_args(args, build, { scope }) {
        if (!scope.isPgFieldConnection) return args;
        const { last: _last, before: _before, offset: _offset, ...kept } = args;
        if (!kept.first) return kept;
        const size = pageSize("first", build.options.maxPageSize ?? 1000);
        return {
          ...kept,
          first: {
            ...kept.first,
            applyPlan(_: unknown, $connection: Connection, arg: any) {
              $connection.setFirst(lambda(arg.getRaw(), size, true) as never);
            },
          },
        };
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
