import type { PgSelectStep } from "postgraphile/@dataplan/pg";
import {
  type ConnectionStep,
  constant,
  type ExecutionDetails,
  lambda,
  SafeError,
  type Step,
} from "postgraphile/grafast";
import { naturalPosition } from "./cursor.ts";
import { collectionOrder, describedPage, isNatural } from "./order.ts";
import { DEFAULT_PAGE_SIZE, FILTER, isPaged, ORDER, pageOffset, pageSizes } from "./page.ts";

type Connection = ConnectionStep<any, any, any, any, any, PgSelectStep>;

/**
 * `posts(first: Int, after: String): PostConnection!` with edges, pageInfo and totalCount, and with `last`, `before`,
 * `offset`: 10 rows per page when the size is omitted, in the order of the table unless there is `orderBy`. There are no
 * `nodes`.
 */
export const ConnectionShapePlugin: GraphileConfig.Plugin = {
  name: "ConnectionShapePlugin",
  version: "1.0.0",
  after: ["PgFirstLastBeforeAfterArgsPlugin", "PgConnectionArgOrderByPlugin", "PgConnectionArgFilterPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields(fields, _build, { scope }) {
        if (scope.isConnectionType) delete fields.nodes;
        return fields;
      },
      GraphQLObjectType_fields_field(field, build, { scope }) {
        if (scope.isPageInfoHasNextPageField) return { ...field, plan: hasPage("hasNextPage", "$before") };
        if (scope.isPageInfoHasPreviousPageField) return { ...field, plan: hasPage("hasPreviousPage", "$after") };
        const { plan } = field;
        const resource = scope.pgFieldResource;
        if (!isPaged(scope) || !scope.isPgFieldConnection || !resource || !plan) return field;
        const sizes = pageSizes(build);
        const order = collectionOrder(build, resource);
        const ordered = ([orderBy, after, before]: any) => order(orderBy, { after, before });
        const skipped = ([offset, last, after, before, orderBy]: any) => {
          const rows = pageOffset([offset, last]);
          if (!isNatural(resource, orderBy)) return rows;
          if (last != null || before != null) throw new SafeError(NO_ORDER, { code: "VALIDATION_ERROR" });
          return (rows ?? 0) + naturalPosition(after);
        };
        return {
          ...field,
          description: describedPage(build, { resource, what: "A page", size: DEFAULT_PAGE_SIZE }, field.description),
          plan($parent, args, info) {
            const $connection = plan($parent, args, info) as Connection;
            // Not in applyPlan of the arguments: it is not called when an argument is omitted.
            const [$first, $last, $offset, $after, $before, $orderBy] = ARGUMENTS.map(
              (name) => args.getRaw(name) ?? constant(null),
            ) as Six;
            const $size = lambda([$first, $last] as const, sizes.first, true);
            const $lastSize = lambda([$first, $last] as const, sizes.last, true);
            const $skipped = lambda([$offset, $last, $after, $before, $orderBy] as const, skipped, true);
            const $order = lambda([$orderBy, $after, $before] as const, ordered, true);
            $connection.setFirst($size as never);
            $connection.setLast($lastSize as never);
            $connection.setOffset($skipped as never);
            Object.assign($connection, { cursors: { $after, $before } });
            dropProbe($connection, $first, $last);
            $connection.getSubplan().apply($order as never);
            return $connection;
          },
        };
      },
      GraphQLObjectType_fields_field_args(args, _build, { scope }) {
        if (!scope.isPgFieldConnection || !args.first) return args;
        const { first, last, offset, before, after, orderBy, ...others } = args;
        const plain = ({ applyPlan: _applyPlan, ...arg }: any, description: string) => ({ ...arg, description });
        return {
          first: plain(first, "How many: 10 by default."),
          after: plain(after, "Those after this cursor."),
          ...(last && { last: plain(last, "How many from the end, instead of `first`.") }),
          ...(before && { before: plain(before, "Those before this cursor.") }),
          offset: plain(offset, "How many to skip. Not with `last`."),
          ...others,
          ...(others.filter && { filter: { ...others.filter, description: FILTER } }),
          ...(orderBy && { orderBy: plain(orderBy, ORDER) }),
        };
      },
    },
  },
};

const ARGUMENTS = ["first", "last", "offset", "after", "before", "orderBy"] as const;
type Six = [Step, Step, Step, Step, Step, Step];
const NO_ORDER = "last and before need orderBy, because this list has no order";

/** Whether there is a further page in one direction. If a cursor limits that side, there is one: it has at least the cursor's row. */
const hasPage = (key: "hasNextPage" | "hasPreviousPage", cursor: "$after" | "$before") => ($pageInfo: any) => {
  // The only dependency of a PageInfo step is its connection.
  const $connection = $pageInfo.getDepOptions(0).step;
  const $cursor = $connection.cursors?.[cursor] ?? constant(null);
  return lambda([$pageInfo.get(key), $cursor], ([hasMore, value]: any) => hasMore || value != null, true);
};

/**
 * With `first: 0` or `last: 0` one row is read nevertheless, and dropped here, so that hasNextPage or hasPreviousPage is right: Grafast
 * itself would not query the database.
 */
function dropProbe($connection: Connection, $first: Step, $last: Step): void {
  const step = $connection as any;
  const ids = [$first, $last].map(($size) => step.addUnaryDependency($size) as number);
  const stock = step.execute;
  step.execute = function (details: ExecutionDetails<any>) {
    const pages = stock.call(this, details);
    const [first, last] = ids.map((id) => details.values[id]!.unaryValue());
    if ((last ?? first) !== 0) return pages;
    const further = last === 0 ? { hasPreviousPage: true } : { hasNextPage: true };
    return pages.map((page: any) => (page?.items.length > 0 ? { ...page, items: [], ...further } : page));
  };
}
