import type { PgResource } from "postgraphile/@dataplan/pg";
import { type AbsentFields, withAbsent } from "../../plugins/shape/absent-fields.ts";
import { hasBehavior, isKeyless, missingKey } from "../../plugins/shape/KeylessTablesPlugin.ts";
import { isReadableTable, missingRight } from "../../plugins/shape/MissingRightsPlugin.ts";
import { hasExtra, missingExtra } from "../../plugins/shape/TableExtrasPlugin.ts";
import { manyRowsOf } from "./BulkMutationsPlugin.ts";

type Table = PgResource<any, any, any, any, any>;

/**
 * The type Mutation knows the mutations of many rows that it lacks, so that an error can say why: `createVisits` for want of a smart
 * tag, `createTenants` of a right, `upsertImport` of a key. Where `updateImport` lacks a key, the error names `updateImports`.
 */
export const AbsentBulkMutationsPlugin: GraphileConfig.Plugin = {
  name: "AbsentBulkMutationsPlugin",
  version: "1.0.0",
  // The first reason for a field counts.
  after: ["MissingRightsPlugin"],
  before: ["KeylessTablesPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType(config, build, { scope: { isRootMutation } }) {
        if (!isRootMutation) return config;
        const all = () => (Object.values(build.pgResources) as Table[]).filter(isWritable);
        const tables = () => all().filter((table) => hasExtra(build, table, "bulk"));
        const others = () => all().filter((table) => !hasExtra(build, table, "bulk"));
        const reasons = [
          () => others().flatMap((table) => withoutTag(build, table)),
          () =>
            tables()
              .filter(isReadableTable)
              .flatMap((table) => withoutRight(build, table)),
          () =>
            tables()
              .filter(isKeyless)
              .flatMap((table) => withoutKey(build, table)),
        ];
        return reasons.reduce(withAbsent, config);
      },
    },
  },
};

const isWritable = ({ parameters, codec }: Table): boolean =>
  !parameters && codec.attributes !== undefined && !codec.isAnonymous;

function namesOf(build: GraphileBuild.Build, table: Table) {
  const { inflection } = build;
  const [row, rows] = [inflection.tableType(table.codec), manyRowsOf(build, table)];
  return {
    one: (verb: string) => inflection.camelCase(`${verb}-${row}`),
    many: (verb: string) => inflection.camelCase(`${verb}-${rows}`),
  };
}

function withoutTag(build: GraphileBuild.Build, table: Table): AbsentFields {
  const { one, many } = namesOf(build, table);
  const named = (behavior: "insert" | "update" | "delete", ...names: readonly string[]): AbsentFields =>
    hasBehavior(build, table, behavior) ? names.map((name) => [name, missingExtra("bulk", table)]) : [];
  return [
    ...named("insert", many("create"), one("upsert")),
    ...named("update", many("update")),
    ...named("delete", many("delete")),
  ];
}

function withoutRight(build: GraphileBuild.Build, table: Table): AbsentFields {
  const { canInsert, canUpdate, canDelete } = table.extensions as any;
  const { one, many } = namesOf(build, table);
  const named = (right: "insert" | "update" | "delete", ...names: readonly string[]): AbsentFields =>
    names.map((name) => [name, missingRight(right, table)]);
  return [
    ...(canInsert ? [] : named("insert", many("create"), one("upsert"))),
    ...(canUpdate ? [] : named("update", many("update"))),
    ...(canUpdate || !canInsert ? [] : named("update", one("upsert"))),
    ...(canDelete ? [] : named("delete", many("delete"))),
  ];
}

function withoutKey(build: GraphileBuild.Build, table: Table): AbsentFields {
  const { one, many } = namesOf(build, table);
  const verbs = (["update", "delete"] as const).filter((verb) => hasBehavior(build, table, verb));
  return [
    ...verbs.map((verb) => [one(verb), missingKey(table, many(verb))] as const),
    ...(hasBehavior(build, table, "insert") ? [[one("upsert"), missingKey(table)] as const] : []),
  ];
}
