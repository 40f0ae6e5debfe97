import {
  type PgCodec,
  type PgSelectQueryBuilder,
  type PgSelectSingleStep,
  type PgSelectStep,
  TYPES,
} from "postgraphile/@dataplan/pg";
import { type ConnectionStep, lambda, SafeError } from "postgraphile/grafast";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { withAbsent } from "../../plugins/shape/absent-fields.ts";
import { hasExtra, missingExtra } from "../../plugins/shape/TableExtrasPlugin.ts";
import {
  AGGREGATES,
  type Aggregate,
  columnsOf,
  type Grouping,
  groupingsOf,
  type Table,
  tablesOf,
} from "./aggregates.ts";

type Connection = ConnectionStep<any, any, any, any, any, PgSelectStep>;
type Fields = Record<string, any>;

/**
 * `PostConnection.aggregates` and `PostConnection.groupedAggregates(groupBy: [STATUS])`: count, sum, average, min, max and
 * distinct over all rows of the connection, under its filter and the policies, whatever page is read. HavingPlugin adds
 * conditions on groups. A table has them with the smart tag `@behavior +aggregates`.
 */
export const AggregatesPlugin: GraphileConfig.Plugin = {
  name: "AggregatesPlugin",
  version: "1.0.0",
  inflection: {
    add: {
      aggregatesType(_options, codec, kind) {
        return this.upperCamelCase(`${this.tableType(codec as any)}-${kind}`);
      },
    },
  },
  schema: {
    hooks: {
      init(_, build) {
        for (const table of tablesOf(build)) registerTypes(build, table);
        return _;
      },
      GraphQLObjectType(config, build, { scope: { isConnectionType, isPgConnectionRelated, pgCodec } }) {
        const table = isConnectionType && isPgConnectionRelated && pgCodec && build.pgTableResource(pgCodec as any);
        if (!table || hasExtra(build, table, "aggregates")) return config;
        const absent = missingExtra("aggregates", table);
        return withAbsent(config, () => [
          ["aggregates", absent],
          ["groupedAggregates", absent],
        ]);
      },
      GraphQLObjectType_fields(fields, build, { scope, fieldWithHooks, Self }) {
        const codec = scope.pgCodec as PgCodec | undefined;
        if (!scope.isConnectionType || !scope.isPgConnectionRelated || !codec?.attributes) return fields;
        const name = build.inflection.aggregatesType(codec, "aggregates");
        const type = build.getTypeByName(name);
        if (!type) return fields;
        const added = {
          aggregates: fieldWithHooks({ fieldName: "aggregates" }, () => aggregatesField(build, type)),
          ...(build.getTypeByName(build.inflection.aggregatesType(codec, "group-by")) && {
            groupedAggregates: fieldWithHooks({ fieldName: "groupedAggregates", pgFieldCodec: codec as any }, () =>
              groupedField(build, codec, type),
            ),
          }),
        };
        return build.extend(fields, added, `Adding aggregates to ${Self.name}`);
      },
    },
  },
};

function registerTypes(build: GraphileBuild.Build, table: Table): void {
  const columns = columnsOf(build, table);
  const groupings = columns.flatMap(groupingsOf);
  const register = (kind: string, description: string, fields: () => Fields) => {
    const name = build.inflection.aggregatesType(table.codec, kind);
    build.recoverable(null, () =>
      build.registerObjectType(name, {}, () => ({ description, fields }), `Adding ${name} of ${table.name}`),
    );
  };
  register("aggregates", "Aggregates of rows.", () => fieldsOfAggregates(build, table, groupings));
  register("group-keys", "What the rows of a group have in common. Null for what they are not grouped by.", () =>
    Object.fromEntries(groupings.flatMap((grouping) => keyField(build, grouping))),
  );
  for (const aggregate of AGGREGATES) {
    // `min` and `max` differ in their SQL, so each has a type.
    register(aggregate.name, aggregate.description, () => fieldsOfColumns(build, table, aggregate));
  }
  if (groupings.length === 0) return;
  build.recoverable(null, () =>
    build.registerEnumType(
      build.inflection.aggregatesType(table.codec, "group-by"),
      {},
      () => ({
        description: "What rows are grouped by. Times are truncated in UTC.",
        values: Object.fromEntries(groupings.map((grouping) => [grouping.enumName, { extensions: { grouping } }])),
      }),
      `Adding groupings of ${table.name}`,
    ),
  );
}

function aggregatesField(build: GraphileBuild.Build, type: any) {
  return {
    description: "Aggregates of all rows of the connection, on every page.",
    type: new build.graphql.GraphQLNonNull(type),
    plan: ($connection: Connection) =>
      ($connection.cloneSubplanWithoutPagination("aggregate" as never) as any).single(),
  };
}

function groupedField(build: GraphileBuild.Build, codec: PgCodec, type: any) {
  const { GraphQLList, GraphQLNonNull } = build.graphql;
  const groupBy = build.getInputTypeByName(build.inflection.aggregatesType(codec, "group-by")) as any;
  const groupingOf = (name: string) => groupBy.getValue(name).extensions.grouping as Grouping;
  return {
    description: "Aggregates of each group of rows of the connection, on every page. The groups have no order.",
    type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(type))),
    args: {
      groupBy: {
        description: "What the rows of a group have in common.",
        type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(groupBy))),
        applyPlan(_: unknown, $groups: PgSelectStep, arg: any) {
          $groups.apply(lambda(arg.getRaw(), (names: any) => group(names.map(groupingOf)), true) as never);
        },
      },
    },
    plan: ($connection: Connection) => $connection.cloneSubplanWithoutPagination("aggregate" as never),
  };
}

function group(groupings: readonly Grouping[]): (query: PgSelectQueryBuilder) => void {
  if (groupings.length === 0) throw new SafeError("groupBy must have at least one value", { code: "VALIDATION_ERROR" });
  return (query) => {
    for (const { codec, fieldName, write } of new Set(groupings)) {
      // Grafast reports the types of the groups in their order: the name tells which is which.
      query.groupBy({ fragment: write(query.alias), codec: { ...codec, groupName: fieldName } as PgCodec });
    }
  };
}

function fieldsOfAggregates(build: GraphileBuild.Build, table: Table, groupings: readonly Grouping[]): Fields {
  const { GraphQLInt, GraphQLNonNull } = build.graphql;
  // There is none if it has no fields, or its name is taken.
  const typeOf = (kind: string) => build.getTypeByName(build.inflection.aggregatesType(table.codec, kind)) as any;
  const nested = (field: string, kind: string, description: string): Fields => {
    const type = typeOf(kind);
    return type ? { [field]: { description, type: new GraphQLNonNull(type), plan: ($row: unknown) => $row } } : {};
  };
  return {
    ...(groupings.length > 0 && nested("keys", "group-keys", "What the rows of the group have in common.")),
    count: {
      description: "The number of rows.",
      type: new GraphQLNonNull(GraphQLInt),
      plan: ($row: PgSelectSingleStep) => $row.select(sql`count(*)`, TYPES.bigint, false),
    },
    ...Object.assign({}, ...AGGREGATES.map(({ name, description }) => nested(name, name, description))),
  };
}

function fieldsOfColumns(build: GraphileBuild.Build, table: Table, aggregate: Aggregate): Fields {
  const { GraphQLInt, GraphQLNonNull } = build.graphql;
  const isCount = aggregate.name === "distinct";
  const fields = columnsOf(build, table).flatMap(({ fieldName, attribute, codec }) => {
    const result = aggregate.resultOf(codec);
    const type = isCount ? new GraphQLNonNull(GraphQLInt) : result && build.getGraphQLTypeByPgCodec(result, "output");
    if (!result || !type) return [];
    const plan = ($row: PgSelectSingleStep) => {
      const column: SQL = sql`${$row.getClassStep().alias}.${sql.identifier(attribute)}`;
      return $row.select(aggregate.write(column), result, isCount);
    };
    return [[fieldName, { type, plan }] as const];
  });
  return Object.fromEntries(fields);
}

function keyField(build: GraphileBuild.Build, { fieldName, codec }: Grouping): [string, any][] {
  const type = build.getGraphQLTypeByPgCodec(codec, "output");
  if (!type) return [];
  const plan = ($row: PgSelectSingleStep) =>
    lambda([($row.getClassStep() as any).getGroupDetails(), $row] as const, ([groups, row]: any) => {
      const found = groups?.indicies.find((part: any) => part.codec.groupName === fieldName);
      const text = found && row?.[found.index];
      return text == null ? null : codec.fromPg(text);
    });
  return [[fieldName, { type, plan }]];
}

declare global {
  namespace GraphileBuild {
    interface Inflection {
      /** `PostAggregates`, `PostSum`, `PostGroupBy` */
      aggregatesType(this: Inflection, codec: PgCodec, kind: string): string;
    }
  }
}
