import type { PgSelectStep } from "postgraphile/@dataplan/pg";
import { lambda } from "postgraphile/grafast";
import { collectionOrder, describedPage } from "./order.ts";
import { DEFAULT_PAGE_SIZE, FILTER, isPaged, listOffset, listSize, ORDER, unpagedSize } from "./page.ts";

/**
 * `users(limit: Int = 10, offset: Int = 0): [User!]!` and `User.posts(limit: Int = 10): [Post!]!`, in the order of the
 * table unless there is `orderBy`. A function tagged `@unpaged` returns all rows unless there is a `limit`:
 * `search(keyword: String!, limit: Int, offset: Int = 0): [Post!]!`.
 */
export const ListShapePlugin: GraphileConfig.Plugin = {
  name: "ListShapePlugin",
  version: "1.0.0",
  after: ["PgFirstLastBeforeAfterArgsPlugin", "PgConnectionArgOrderByPlugin", "PgConnectionArgFilterPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, build, { scope }) {
        const { plan } = field;
        const resource = scope.pgFieldResource;
        if (!scope.isPgFieldSimpleCollection || !resource?.codec.attributes || !plan) return field;
        const order = collectionOrder(build, resource);
        const page = { resource, what: "A list", size: isPaged(scope) ? DEFAULT_PAGE_SIZE : null };
        return {
          ...field,
          description: describedPage(build, page, field.description),
          plan($parent, args, info) {
            const $select = plan($parent, args, info) as PgSelectStep;
            $select.apply(lambda(args.getRaw("orderBy"), (orderBy) => order(orderBy), true) as never);
            return $select;
          },
        };
      },
      GraphQLObjectType_fields_field_args(args, build, { scope }) {
        if (!scope.isPgFieldSimpleCollection) return args;
        const { first: _first, offset, filter, orderBy, ...parameters } = args;
        const { applyPlan: _applyPlan, ...order } = orderBy ?? ({} as any);
        const conditions = {
          ...(filter && { filter: { ...filter, description: FILTER } }),
          ...(orderBy && { orderBy: { ...order, description: ORDER } }),
        };
        // A function may have a limit of its own.
        if ("limit" in parameters || "offset" in parameters) return { ...parameters, ...conditions };

        const { GraphQLInt } = build.graphql;
        const hasPages = isPaged(scope);
        const size = hasPages ? listSize(build) : unpagedSize(build);
        return {
          ...parameters,
          limit: {
            type: GraphQLInt,
            description: hasPages ? "Maximum number of items." : "Maximum number of items: all without it.",
            ...(hasPages && { defaultValue: DEFAULT_PAGE_SIZE }),
            applyPlan(_: unknown, $list: PgSelectStep, arg: any) {
              $list.setFirst(lambda(arg.getRaw(), size, true) as never);
            },
          },
          offset: {
            ...offset!,
            type: GraphQLInt,
            description: "Number of items to skip.",
            defaultValue: 0,
            applyPlan(_: unknown, $list: PgSelectStep, arg: any) {
              $list.setOffset(lambda(arg.getRaw(), listOffset, true) as never);
            },
          },
          ...conditions,
        };
      },
    },
  },
};
