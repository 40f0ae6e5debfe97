import { type PgResource, pgSelect, TYPES } from "postgraphile/@dataplan/pg";
import { access, constant, context, lambda, listen, type Step } from "postgraphile/grafast";
import { sql } from "postgraphile/pg-sql2";
import type { Catalog } from "../../db/catalog/catalog.ts";
import type { Change } from "../../db/changes/change.ts";
import type { FilterRequest } from "../../db/rights/filter.ts";
import { filterArgument, filterColumns, filterRequestOf } from "./ChangeFiltersPlugin.ts";

type Table = PgResource<any, any, any, any, any>;

/** As graphql/execute/change-events.ts expects it. */
type ChangeFilter = {
  readonly schema: string;
  readonly table: string;
  readonly operation: Change["operation"];
  readonly where: Readonly<Record<string, string>>;
  readonly filter: FilterRequest | null;
};

/** What happens to a row: the end of the field's name and its description. */
const EVENTS = [
  ["Created", "INSERT", (type: string) => `Sends each ${type} that is created.`],
  [
    "Updated",
    "UPDATE",
    (type: string) => `Sends this ${type} whenever it changes; without arguments, every ${type} that changes.`,
  ],
  [
    "Deleted",
    "DELETE",
    (type: string) =>
      `Sends this ${type} as it was before it was deleted; without arguments, every ${type} that is deleted.`,
  ],
] as const;

/**
 * `onTodoCreated: Todo`, `onTodoUpdated(id: ID): Todo`, `onTodoDeleted(id: ID): Todo`: an event for each committed change of a table.
 * The row is read when the event arrives, as the subscriber and under the policies; a deleted row is the one that was logged. All have
 * the argument `filter`.
 */
export const tableSubscriptionsPlugin = (catalog: () => Catalog): GraphileConfig.Plugin => ({
  name: "TableSubscriptionsPlugin",
  version: "1.0.0",
  after: ["ArticleSubscriptionsPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields(fields, build, { scope, fieldWithHooks }) {
        if (!scope.isRootSubscription) return fields;
        let extended = fields;
        for (const table of Object.values(build.pgResources) as Table[]) {
          const type = isSubscribable(build, table, catalog()) && build.getGraphQLTypeByPgCodec(table.codec, "output");
          if (!type) continue;
          for (const [verb, operation, describe] of EVENTS) {
            const typeName = build.inflection.tableType(table.codec);
            const fieldName = build.inflection.camelCase(`on-${typeName}-${verb}`);
            if (fieldName in extended) continue;
            const keys = operation === "INSERT" ? [] : keysOf(build, table);
            const field = fieldWithHooks({ fieldName, pgFieldResource: table } as never, (): any => ({
              description: describe(typeName),
              type: type as never,
              args: {
                ...Object.fromEntries(keys.map(({ argument, type }) => [argument, { type }])),
                ...(keys.some(({ argument }) => argument === "filter") ? {} : filterArgument(build, table.codec)),
              },
              subscribePlan: (_$root: unknown, args: any) =>
                changes(table, operation, whereOf(keys, args), filterOf(build, table, args)),
              plan: operation === "DELETE" ? deletedRow(table) : currentRow(table),
            }));
            extended = build.extend(extended, { [fieldName]: field }, `Adding ${fieldName}`);
          }
        }
        return extended;
      },
    },
  },
});

/** Whether the changes of its rows can be sent: it is a table with a primary key. */
function isSubscribable(build: GraphileBuild.Build, table: Table, { schemas }: Catalog): boolean {
  const { codec, parameters, extensions } = table;
  if (parameters || !codec.attributes || codec.isAnonymous || keyOf(table).length === 0) return false;
  const { schemaName, name } = extensions?.pg ?? {};
  const kind = schemas.get(schemaName ?? "")?.tables.get(name ?? "")?.kind;
  return (
    (kind === "table" || kind === "partitioned table") &&
    build.behavior.pgResourceMatches(table, "resource:select") === true
  );
}

const keyOf = ({ uniques }: Table): readonly string[] =>
  (uniques as { isPrimary?: boolean; attributes: string[] }[]).find(({ isPrimary }) => isPrimary)?.attributes ?? [];

type Key = { readonly attribute: string; readonly argument: string; readonly type: any };

const keysOf = (build: GraphileBuild.Build, table: Table): readonly Key[] =>
  keyOf(table).map((attribute) => ({
    attribute,
    argument: build.inflection.attribute({ attributeName: attribute, codec: table.codec }),
    type: build.getGraphQLTypeByPgCodec(table.codec.attributes[attribute].codec, "input"),
  }));

/** Arguments that are absent or null set no condition. */
function whereOf(keys: readonly Key[], args: any): Step<ChangeFilter["where"]> {
  if (keys.length === 0) return constant({});
  const [key, ...others] = keys as [Key, ...Key[]];
  const condition = ({ attribute, argument }: Key) =>
    lambda(args.getRaw(argument) as Step<unknown>, (value) => (value == null ? {} : { [attribute]: String(value) }));
  return others.reduce(
    ($where, other) => lambda([$where, condition(other)] as const, ([one, two]: any) => ({ ...one, ...two })),
    condition(key) as Step<ChangeFilter["where"]>,
  );
}

function filterOf(build: GraphileBuild.Build, { codec }: Table, args: any): Step<FilterRequest | null> {
  if (!("$filter" in args)) return constant(null);
  const columns = filterColumns(build, codec);
  return lambda(args.getRaw("filter") as Step<unknown>, (filter) => filterRequestOf(filter, columns));
}

/** The committed changes of a table whose columns have the values of `$where`, and which fulfil `$filter`. */
export function changes(
  { extensions }: Table,
  operation: ChangeFilter["operation"],
  $where: Step<ChangeFilter["where"]>,
  $filter: Step<ChangeFilter["filter"]> = constant(null),
) {
  const { schemaName: schema, name: table } = extensions!.pg!;
  const $wanted = lambda(
    [$where, $filter] as const,
    ([where, filter]): ChangeFilter => ({ schema: schema!, table, operation, where, filter }),
  );
  return listen(context().get("changes" as never) as any, $wanted as any);
}

/** The row as the subscriber sees it now; null if it is gone, or hidden by a policy. */
export const currentRow = (table: Table) => ($change: any) =>
  table.get(
    Object.fromEntries(keyOf(table).map((attribute) => [attribute, access($change, ["row", attribute])])) as never,
  );

/** The row that was logged, with the columns that the subscriber may read. */
const deletedRow = (table: Table) => ($change: any) => {
  const $rows = pgSelect({
    resource: table as any,
    identifiers: [],
    from: (row: any) => sql`json_populate_record(null::${table.codec.sqlType}, ${row.placeholder})`,
    args: [{ step: access($change, ["old"]), pgCodec: { ...TYPES.json, toPg: (text: unknown) => text } as never }],
  } as never);
  $rows.setTrusted();
  return $rows.single();
};
