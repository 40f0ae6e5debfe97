import type { PgResource } from "postgraphile/@dataplan/pg";
import { type AbsentField, type AbsentFields, withAbsent } from "./absent-fields.ts";

type Table = PgResource<any, any, any, any, any>;

/**
 * The type Mutation knows the fields that it lacks because no role of callers has the right to write a table that callers may read:
 * `createTenant`, `updateTenant`.
 */
export const MissingRightsPlugin: GraphileConfig.Plugin = {
  name: "MissingRightsPlugin",
  version: "1.0.0",
  // Their reasons are more specific.
  before: ["KeylessTablesPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType(config, build, { scope: { isRootMutation } }) {
        if (!isRootMutation) return config;
        const tables = () => (Object.values(build.pgResources) as Table[]).filter(isReadableTable);
        return withAbsent(config, () => tables().flatMap((table) => mutationsOf(build, table)));
      },
    },
  },
};

/** Rights do not suffice to write a view. */
export function isReadableTable({ parameters, codec, extensions }: Table): boolean {
  const { canSelect, isView, isMaterializedView } = extensions as any;
  return !parameters && codec.attributes && !codec.isAnonymous && canSelect && !isView && !isMaterializedView;
}

export const missingRight = (right: "insert" | "update" | "delete", { extensions }: Table): AbsentField => ({
  reason: `no role of callers has the right to ${right} rows of \`${extensions!.pg!.name}\`. Grant it to one`,
  instead: null,
});

function mutationsOf(build: GraphileBuild.Build, table: Table): AbsentFields {
  const { canInsert, canUpdate, canDelete } = table.extensions as any;
  const name = (verb: string) => build.inflection.camelCase(`${verb}-${build.inflection.tableType(table.codec)}`);
  return [
    ...(canInsert ? [] : [[name("create"), missingRight("insert", table)] as const]),
    ...(canUpdate ? [] : [[name("update"), missingRight("update", table)] as const]),
    ...(canDelete ? [] : [[name("delete"), missingRight("delete", table)] as const]),
  ];
}
