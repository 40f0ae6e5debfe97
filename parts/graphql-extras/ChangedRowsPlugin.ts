import { access, constant, lambda, SafeError, type Step } from "postgraphile/grafast";
import { type GraphQLFieldConfigMap, GraphQLList, GraphQLNonNull, getNullableType } from "postgraphile/graphql";
import { withAbsent } from "../../plugins/shape/absent-fields.ts";
import { hasExtra, missingExtra } from "../../plugins/shape/TableExtrasPlugin.ts";
import {
  type ChangeOperation,
  currentRow,
  listenTo,
  oldRow,
  type Table,
} from "../../plugins/subscriptions/change-steps.ts";
import { isSubscribable } from "../../plugins/subscriptions/TableSubscriptionsPlugin.ts";
import { argumentOf, filterColumns, filterOf, IS_OWN, isOwn } from "./ChangeFiltersPlugin.ts";

const OPERATIONS: Readonly<Record<ChangeOperation, string>> = {
  INSERT: "A row was created.",
  UPDATE: "A row was updated.",
  DELETE: "A row was deleted, or has left what the subscriber sees.",
};
const ALL = Object.keys(OPERATIONS) as readonly ChangeOperation[];

/**
 * `onTodoChanged(filter: ChangedTodoFilter, operations: [ChangeOperation!]): ChangedTodo!`: an event for each committed change of a
 * table with the smart tag `@behavior +changes`, with the row after and before it.
 */
export const ChangedRowsPlugin: GraphileConfig.Plugin = {
  name: "ChangedRowsPlugin",
  version: "1.0.0",
  after: ["TableSubscriptionsPlugin", "ChangeFiltersPlugin"],
  schema: {
    hooks: {
      init: {
        after: ["PgCodecs", "PgTablesPlugin", "ChangeFiltersPlugin"],
        callback(_, build) {
          if (!build.getTypeMetaByName("ChangeOperation")) registerOperation(build);
          for (const table of Object.values(build.pgResources) as Table[])
            if (isSubscribable(build, table) && hasExtra(build, table, "changes")) registerTypes(build, table);
          return _;
        },
      },
      GraphQLObjectType(config, build, { scope }) {
        if (!scope.isRootSubscription) return config;
        return withAbsent(config, () =>
          (Object.values(build.pgResources) as Table[])
            .filter((table) => isSubscribable(build, table) && !hasExtra(build, table, "changes"))
            .map((table) => [fieldNameOf(build, table), missingExtra("changes", table)] as const),
        );
      },
      GraphQLObjectType_fields(fields, build, { scope, fieldWithHooks }) {
        if (!scope.isRootSubscription || !isOwn(build, "ChangeOperation")) return fields;
        let extended = fields;
        for (const table of Object.values(build.pgResources) as Table[]) {
          const type = build.inflection.tableType(table.codec);
          const fieldName = fieldNameOf(build, table);
          const isPossible =
            isSubscribable(build, table) && isOwn(build, `Changed${type}`) && isOwn(build, `Old${type}`);
          if (!isPossible || fieldName in extended) continue;
          const field = fieldWithHooks({ fieldName, pgFieldResource: table } as never, () =>
            changedField(build, table, type),
          );
          extended = build.extend(extended, { [fieldName]: field }, `Adding ${fieldName}`);
        }
        return extended;
      },
    },
  },
};

const fieldNameOf = ({ inflection }: GraphileBuild.Build, { codec }: Table): string =>
  inflection.camelCase(`on-${inflection.tableType(codec)}-changed`);

const changedField = (build: GraphileBuild.Build, table: Table, type: string): any => ({
  description: `Sends each change of a ${type}: the row after it and the row before it.`,
  type: new GraphQLNonNull(build.getOutputTypeByName(`Changed${type}`)),
  args: {
    ...argumentOf(build, table.codec),
    operations: {
      description: "Only these changes; by default all.",
      type: new GraphQLList(new GraphQLNonNull(build.getInputTypeByName("ChangeOperation"))),
    },
  },
  subscribePlan: (_$root: unknown, args: any) => {
    const $operations = lambda(args.getRaw("operations") as Step<readonly ChangeOperation[] | null>, operationsOf);
    return listenTo(table, {
      $operations,
      $where: constant({}),
      $filter: filterOf(build, table.codec, args),
      isWhole: true,
    });
  },
  plan: ($change: Step) => $change,
});

function operationsOf(operations: readonly ChangeOperation[] | null | undefined): readonly ChangeOperation[] {
  if (operations?.length !== 0) return operations ?? ALL;
  throw new SafeError("operations must not be empty", { code: "VALIDATION_ERROR" });
}

function registerOperation(build: GraphileBuild.Build): void {
  const values = Object.fromEntries(ALL.map((name) => [name, { description: OPERATIONS[name] }]));
  const config = () => ({ description: "What has happened to a row.", values });
  build.registerEnumType("ChangeOperation", IS_OWN, config, "ChangedRowsPlugin");
}

function registerTypes(build: GraphileBuild.Build, table: Table): void {
  const type = build.inflection.tableType(table.codec);
  const register = (name: string, description: string, fields: () => GraphQLFieldConfigMap<any, any>) => {
    if (!build.getTypeMetaByName(name))
      build.registerObjectType(name, IS_OWN, () => ({ description, fields }), "ChangedRowsPlugin");
  };
  register(`Old${type}`, `A row of ${type} as it was before a change. Columns that were not logged are null.`, () =>
    oldFields(build, table, type),
  );
  register(`Changed${type}`, `A change of a row of ${type}.`, () => {
    const fields = {
      operation: {
        description: "What has happened. An update after which the subscriber no longer sees the row is a DELETE.",
        type: new GraphQLNonNull(build.getOutputTypeByName("ChangeOperation")),
        plan: ($change: Step) => access($change, ["operation"]),
      },
      new: {
        description:
          "The row as it is when the event arrives; null after a DELETE, and if it is gone or hidden by then.",
        type: build.getOutputTypeByName(type),
        plan: currentRow(table),
      },
      old: {
        description: "The row before an UPDATE or a DELETE, as far as it is logged and the subscriber could see it.",
        type: build.getOutputTypeByName(`Old${type}`),
        plan: oldRow(table),
      },
    };
    return fields as any;
  });
}

/** The columns of the row, which can all be null. */
function oldFields(build: GraphileBuild.Build, { codec }: Table, type: string): GraphQLFieldConfigMap<any, any> {
  const shown = (build.getOutputTypeByName(type) as any).toConfig().fields;
  const comparable = filterColumns(build, codec);
  const fields = Object.entries<any>(codec.attributes).flatMap(([attributeName, attribute]) => {
    const name = build.inflection.attribute({ attributeName, codec });
    const field = shown[name];
    const isSelected =
      build.behavior.pgCodecAttributeMatches([codec, attributeName] as never, "attribute:select" as never) === true;
    if (isSelected && field && Object.keys(field.args).length === 0)
      return [[name, { ...field, type: getNullableType(field.type) }]];
    // The key of another row, which is shown as this row, or a field with arguments.
    if (!comparable.has(name)) return [];
    const type = build.getGraphQLTypeByPgCodec(attribute.codec, "output");
    const plan = ($row: any) => $row.get(attributeName);
    return [[name, { description: attribute.description?.trim(), type, plan }]];
  });
  return Object.fromEntries(fields);
}
