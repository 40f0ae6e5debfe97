import type { PgResource } from "postgraphile/@dataplan/pg";
import type { AbsentField } from "./absent-fields.ts";

type Table = PgResource<any, any, any, any, any>;

const EXTRAS = {
  aggregates: "aggregates of the rows of a table or view, and orders by them",
  bulk: "mutations of many rows, and upserts",
  changes: "subscriptions to all changes of a table with the old rows, and filters of its subscriptions",
} as const;

export type TableExtra = keyof typeof EXTRAS;

/** A table has these with the smart tag `@behavior +aggregates +bulk +changes`. */
export const TableExtrasPlugin: GraphileConfig.Plugin = {
  name: "TableExtrasPlugin",
  version: "1.0.0",
  schema: {
    behaviorRegistry: {
      add: Object.fromEntries(
        Object.entries(EXTRAS).map(([name, description]) => [name, { description, entities: ["pgResource"] }]),
      ) as never,
    },
  },
};

/** All tables have these, unless `@behavior -bulk` leaves them out. Node ids are not a behavior: `NodeIdsPlugin` has them. */
export const extrasOfAllTables = (extras: readonly (TableExtra | "node")[]): GraphileConfig.Plugin => ({
  name: "ExtrasOfAllTablesPlugin",
  version: "1.0.0",
  schema: {
    entityBehavior: {
      pgResource: {
        inferred: {
          provides: ["default"],
          before: ["inferred", "override"],
          callback: (behavior, { parameters, codec }) =>
            parameters || !codec.attributes ? behavior : [...extras.filter((extra) => extra !== "node"), behavior],
        },
      },
    },
  },
});

export const hasExtra = (build: GraphileBuild.Build, table: Table, extra: TableExtra): boolean =>
  build.behavior.pgResourceMatches(table, extra) === true;

/** Why a field is missing that a table has only if it asks for it. */
export const missingExtra = (extra: TableExtra, { extensions }: Table): AbsentField => ({
  reason: `\`${extensions!.pg!.name}\` does not ask for it. Give it the smart tag @behavior +${extra}, or set GRAPHQL_EXTRAS=${extra}`,
  instead: null,
});

declare global {
  namespace GraphileBuild {
    interface BehaviorStrings extends Record<TableExtra, true> {}
  }
}
