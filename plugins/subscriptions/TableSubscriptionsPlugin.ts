import { constant, lambda, type Step } from "postgraphile/grafast";
import { changes, currentRow, keyOf, oldRow, type Table } from "./change-steps.ts";

/** What happens to a row: the end of the field's name and its description. */
const EVENTS = [
  ["Created", "INSERT", (type: string) => `Sends each ${type} that is created.`],
  ["Updated", "UPDATE", (type: string) => `Sends this ${type} when it changes; without arguments, each one.`],
  [
    "Deleted",
    "DELETE",
    (type: string) => `Sends this ${type} as it was when it is deleted; without arguments, each one.`,
  ],
] as const;

/**
 * `onTodoCreated: Todo`, `onTodoUpdated(id: ID): Todo`, `onTodoDeleted(id: ID): Todo`: an event for each committed change of a table.
 * The row is read when the event arrives, as the subscriber and under the policies; a deleted row is the one that was logged. With the smart
 * tag `@behavior +changes`, all have the argument `filter`.
 */
export const TableSubscriptionsPlugin: GraphileConfig.Plugin = {
  name: "TableSubscriptionsPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      pgCodecs_attribute(_info, { pgAttribute, attribute }) {
        attribute.extensions = { ...attribute.extensions, number: pgAttribute.attnum } as never;
      },
    },
  },
  schema: {
    hooks: {
      GraphQLObjectType_fields(fields, build, { scope, fieldWithHooks }) {
        if (!scope.isRootSubscription) return fields;
        let extended = fields;
        for (const table of Object.values(build.pgResources) as Table[]) {
          const type = isSubscribable(build, table) && build.getGraphQLTypeByPgCodec(table.codec, "output");
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
                ...(keys.some(({ argument }) => argument === "filter")
                  ? {}
                  : build.changeFilters?.argumentOf(build, table.codec)),
              },
              subscribePlan: (_$root: unknown, args: any) =>
                changes(table, operation, whereOf(keys, args), build.changeFilters?.filterOf(build, table.codec, args)),
              plan: operation === "DELETE" ? oldRow(table) : currentRow(table),
            }));
            extended = build.extend(extended, { [fieldName]: field }, `Adding ${fieldName}`);
          }
        }
        return extended;
      },
    },
  },
};

/** Whether the changes of its rows can be sent: it is a table with a primary key. */
export function isSubscribable(build: GraphileBuild.Build, table: Table): boolean {
  const { codec, parameters, extensions } = table;
  if (parameters || !codec.attributes || codec.isAnonymous || keyOf(table).length === 0) return false;
  const { schemaName, name } = extensions?.pg ?? {};
  const kind = build.options.relations!()
    .schemas.get(schemaName ?? "")
    ?.tables.get(name ?? "")?.kind;
  return (
    (kind === "table" || kind === "partitioned table") &&
    build.behavior.pgResourceMatches(table, "resource:select") === true
  );
}

type Key = { readonly attribute: string; readonly argument: string; readonly type: any };

const keysOf = (build: GraphileBuild.Build, table: Table): readonly Key[] =>
  keyOf(table).map((attribute) => ({
    attribute,
    argument: build.inflection.attribute({ attributeName: attribute, codec: table.codec }),
    type: build.getGraphQLTypeByPgCodec(table.codec.attributes[attribute].codec, "input"),
  }));

/** Arguments that are absent or null set no condition. */
function whereOf(keys: readonly Key[], args: any): Step<Readonly<Record<string, string>>> {
  if (keys.length === 0) return constant({});
  const [key, ...others] = keys as [Key, ...Key[]];
  const condition = ({ attribute, argument }: Key) =>
    lambda(args.getRaw(argument) as Step<unknown>, (value) => (value == null ? {} : { [attribute]: String(value) }));
  return others.reduce(
    ($where, other) => lambda([$where, condition(other)] as const, ([one, two]: any) => ({ ...one, ...two })),
    condition(key) as Step<Readonly<Record<string, string>>>,
  );
}

declare global {
  namespace GraphileBuild {
    interface Build {
      /** The argument `filter` of a subscription, and its value. Absent without the part that has them. */
      readonly changeFilters?: Readonly<
        Record<"argumentOf" | "filterOf", (build: Build, codec: any, args?: any) => any>
      >;
    }
  }
}
