import { type PgCodec, type PgCondition, TYPES } from "postgraphile/@dataplan/pg";
import { Modifier } from "postgraphile/grafast";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { AGGREGATES, type Aggregate, columnsOf, type Table, tablesOf } from "./aggregates.ts";

type Fields = Record<string, any>;
type Conditions = { readonly alias: SQL; having(condition: SQL): void };

/** The parent of operators such as `greaterThan`, which call `where`: the condition is about an aggregate. */
class AggregateCondition extends Modifier<any> {
  readonly alias: SQL;
  readonly extensions: { readonly pgFilterAttribute: { readonly codec: PgCodec; readonly expression: SQL } };
  readonly #parent: Conditions;

  constructor(parent: Conditions, codec: PgCodec, expression: SQL) {
    super(parent as never);
    this.#parent = parent;
    this.alias = parent.alias;
    this.extensions = { pgFilterAttribute: { codec, expression } };
  }

  where(condition: SQL): void {
    this.#parent.having(condition);
  }

  apply(): void {}
}

/** `groupedAggregates(having: { count: { greaterThan: 1 }, max: { createdAt: { lessThan: "2026-01-01T00:00Z" } } })` */
export const HavingPlugin: GraphileConfig.Plugin = {
  name: "HavingPlugin",
  version: "1.0.0",
  after: ["AggregatesPlugin", "PgConnectionArgFilterPlugin"],
  schema: {
    hooks: {
      build: {
        after: ["PgCodecsPlugin", "PgBasicsPlugin"],
        callback(build) {
          // The types of sums, averages and counts need operators even if no column has one of these types.
          for (const codec of [TYPES.int, TYPES.bigint, TYPES.numeric, TYPES.float]) build.allPgCodecs!.add(codec);
          return build;
        },
      },
      init(_, build) {
        for (const table of tablesOf(build)) registerTypes(build, table);
        return _;
      },
      GraphQLObjectType_fields_field_args(args, build, { scope, Self }) {
        if (scope.fieldName !== "groupedAggregates" || !scope.pgFieldCodec) return args;
        const type = build.getTypeByName(havingType(build, scope.pgFieldCodec as any));
        if (!type) return args;
        const having = {
          description: "Conditions on the aggregates of a group.",
          type,
          applyPlan(_: unknown, $groups: unknown, arg: any) {
            arg.apply($groups, (query: any) => query.havingBuilder());
          },
        };
        return build.extend(args, { having: having as any }, `Adding having to ${Self.name}`);
      },
    },
  },
};

const havingType = (build: GraphileBuild.Build, codec: PgCodec, kind = "") =>
  build.inflection.aggregatesType(codec, kind ? `${kind}-having` : "having");

function registerTypes(build: GraphileBuild.Build, table: Table): void {
  const register = (kind: string, description: string, fields: () => Fields) => {
    const name = havingType(build, table.codec, kind);
    build.recoverable(null, () =>
      build.registerInputObjectType(name, {}, () => ({ description, fields }), `Adding ${name} of ${table.name}`),
    );
  };
  register("", "Conditions on the aggregates of a group.", () => fieldsOfHaving(build, table));
  for (const aggregate of AGGREGATES) {
    register(aggregate.name, "Conditions on one aggregate of each column.", () =>
      fieldsOfAggregate(build, table, aggregate),
    );
  }
}

function fieldsOfHaving(build: GraphileBuild.Build, table: Table): Fields {
  const { GraphQLList, GraphQLNonNull } = build.graphql;
  const self = build.getInputTypeByName(havingType(build, table.codec)) as any;
  const count = operatorsOf(build, TYPES.int);
  return {
    ...(count && { count: { type: count, apply: conditionOn(TYPES.int, () => sql`count(*)`) } }),
    ...Object.fromEntries(
      AGGREGATES.flatMap(({ name }) => {
        const type = build.getTypeByName(havingType(build, table.codec, name));
        const apply = (parent: PgCondition, value: unknown) => (value == null ? undefined : parent.andPlan());
        return type ? [[name, { type, apply }]] : [];
      }),
    ),
    and: {
      type: new GraphQLList(new GraphQLNonNull(self)),
      apply: (parent: PgCondition, value: unknown) => (value == null ? undefined : parent.andPlan()),
    },
    or: {
      type: new GraphQLList(new GraphQLNonNull(self)),
      apply(parent: PgCondition, value: unknown) {
        if (value == null) return undefined;
        const or = parent.orPlan();
        return () => or.andPlan();
      },
    },
    not: {
      type: self,
      apply: (parent: PgCondition, value: unknown) => (value == null ? undefined : parent.notPlan().andPlan()),
    },
  };
}

function fieldsOfAggregate(build: GraphileBuild.Build, table: Table, aggregate: Aggregate): Fields {
  const fields = columnsOf(build, table).flatMap(({ fieldName, attribute, codec }) => {
    const result = aggregate.name === "distinct" && aggregate.resultOf(codec) ? TYPES.int : aggregate.resultOf(codec);
    const type = result && operatorsOf(build, result);
    if (!result || !type) return [];
    const write = (row: SQL) => aggregate.write(sql`${row}.${sql.identifier(attribute)}`);
    return [[fieldName, { type, apply: conditionOn(result, write) }] as const];
  });
  return Object.fromEntries(fields);
}

/** The operators of a type: `{ equalTo, greaterThan, … }`. */
function operatorsOf(build: GraphileBuild.Build, codec: PgCodec) {
  const name = build.connectionFilterOperatorsDigest(codec as any)?.operatorsTypeName;
  return name ? build.getTypeByName(name) : undefined;
}

const conditionOn = (codec: PgCodec, write: (row: SQL) => SQL) => (parent: Conditions, value: unknown) =>
  value == null ? undefined : new AggregateCondition(parent, codec, write(parent.alias));

declare global {
  namespace GraphileBuild {
    interface ScopeObjectFieldsFieldArgs {
      pgFieldCodec?: PgCodec;
    }
  }
}
