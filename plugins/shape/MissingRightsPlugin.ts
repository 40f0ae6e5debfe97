import type { PgResource } from "postgraphile/@dataplan/pg";
import { type AbsentField, type AbsentFields, withAbsent } from "./absent-fields.ts";

type Table = PgResource<any, any, any, any, any>;

/**
 * The types know the fields that they lack because no role of callers has a right, as far as the schema has the table or the column
 * elsewhere: `Mutation.createTenant` and `UpdateTenantInput.plan` of rows that callers may read, `Query.messages` of rows that they may only write.
 */
export const MissingRightsPlugin: GraphileConfig.Plugin = {
  name: "MissingRightsPlugin",
  version: "1.0.0",
  // Their reasons are more specific.
  before: ["KeylessTablesPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType(config, build, { scope: { isRootQuery, isRootMutation } }) {
        if (!isRootQuery && !isRootMutation) return config;
        const [isKnown, fieldsOf] = isRootQuery ? [isOnlyWritable, queriesOf] : [isReadableTable, mutationsOf];
        const tables = () => (Object.values(build.pgResources) as Table[]).filter(isKnown);
        return withAbsent(config, () => tables().flatMap((table) => fieldsOf(build, table)));
      },
      GraphQLInputObjectType(config, build, { scope: { isPgRowType, isInputType, isPgPatch, pgCodec } }) {
        const right = isInputType ? "insert" : isPgPatch ? "update" : null;
        const table = isPgRowType && right && build.pgTableResource(pgCodec as never);
        return table && isReadableTable(table) ? withAbsent(config, () => columnsOf(build, table, right)) : config;
      },
    },
  },
};

/** Rights do not suffice to write a view. */
export function isReadableTable({ parameters, codec, extensions }: Table): boolean {
  const { canSelect, isView, isMaterializedView } = extensions as any;
  return !parameters && codec.attributes && !codec.isAnonymous && canSelect && !isView && !isMaterializedView;
}

const isOnlyWritable = ({ parameters, codec, extensions }: Table): boolean => {
  const { canSelect, canInsert, canUpdate, canDelete } = extensions as any;
  return !parameters && codec.attributes && !codec.isAnonymous && !canSelect && (canInsert || canUpdate || canDelete);
};

type Right = "select" | "insert" | "update" | "delete";

const missing = (right: Right, what: string): AbsentField => ({
  reason: `no role of callers has the right to ${right} ${what}. Grant it to one`,
  instead: null,
});

export const missingRight = (right: Right, { extensions }: Table): AbsentField =>
  missing(right, `rows of \`${extensions!.pg!.name}\``);

function queriesOf({ inflection }: GraphileBuild.Build, table: Table): AbsentFields {
  const unique = { attributes: [], isPrimary: true };
  const names = [inflection.allRowsConnection(table), inflection.rowByUnique({ resource: table, unique } as never)];
  return names.map((name) => [name, missingRight("select", table)]);
}

function mutationsOf(build: GraphileBuild.Build, table: Table): AbsentFields {
  const { canInsert, canUpdate, canDelete } = table.extensions as any;
  const name = (verb: string) => build.inflection.camelCase(`${verb}-${build.inflection.tableType(table.codec)}`);
  return [
    ...(canInsert ? [] : [[name("create"), missingRight("insert", table)] as const]),
    ...(canUpdate ? [] : [[name("update"), missingRight("update", table)] as const]),
    ...(canDelete ? [] : [[name("delete"), missingRight("delete", table)] as const]),
  ];
}

/** The columns that callers may read and not write. */
function columnsOf({ inflection }: GraphileBuild.Build, { codec }: Table, right: "insert" | "update"): AbsentFields {
  return Object.entries<any>(codec.attributes).flatMap(([attributeName, { extensions = {} }]) => {
    const { canSelect, canInsert, canUpdate, isAssigned } = extensions;
    if (!canSelect || (!isAssigned && (right === "insert" ? canInsert : canUpdate))) return [];
    const column = `the column \`${attributeName}\``;
    const absent = isAssigned ? { reason: `the database generates ${column}`, instead: null } : missing(right, column);
    return [[inflection.attribute({ codec, attributeName }), absent] as const];
  });
}
