import type { PgResource } from "postgraphile/@dataplan/pg";
import { manyRowsOf } from "../writes/BulkMutationsPlugin.ts";
import { type AbsentFields, withAbsent } from "./absent-fields.ts";

type Table = PgResource<any, any, any, any, any>;

/**
 * The type Mutation knows the fields that it lacks because no role of callers has the right to write a table that callers may read:
 * `createTenant`, `updateTenants`.
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
        const tables = (Object.values(build.pgResources) as Table[]).filter(isReadableTable);
        return withAbsent(
          config,
          tables.flatMap((table) => mutationsOf(build, table)),
        );
      },
    },
  },
};

/** Rights do not suffice to write a view. */
function isReadableTable({ parameters, codec, extensions }: Table): boolean {
  const { canSelect, isView, isMaterializedView } = extensions as any;
  return !parameters && codec.attributes && !codec.isAnonymous && canSelect && !isView && !isMaterializedView;
}

function mutationsOf(build: GraphileBuild.Build, table: Table): AbsentFields {
  const { pg, canInsert, canUpdate, canDelete } = table.extensions as any;
  const one = build.inflection.tableType(table.codec);
  const many = manyRowsOf(build, table);
  const named = (right: string, ...fields: (readonly [verb: string, noun: string])[]): AbsentFields => {
    const reason = `no role of callers has the right to ${right} rows of \`${pg.name}\`. Grant it to one`;
    return fields.map(([verb, noun]) => [build.inflection.camelCase(`${verb}-${noun}`), { reason, instead: null }]);
  };
  return [
    ...(canInsert ? [] : named("insert", ["create", one], ["create", many], ["upsert", one])),
    ...(canUpdate ? [] : named("update", ["update", one], ["update", many])),
    ...(canUpdate || !canInsert ? [] : named("update", ["upsert", one])),
    ...(canDelete ? [] : named("delete", ["delete", one], ["delete", many])),
  ];
}
