import type { PgResource } from "postgraphile/@dataplan/pg";
import { type AbsentField, type AbsentFields, withAbsent } from "./absent-fields.ts";

type Table = PgResource<any, any, any, any, any>;

/**
 * The root types know the fields that they lack because a table has no primary key, so that an error can say so: `importStaging`,
 * `updateImportStaging`, `onImportStagingChanged`.
 */
export const KeylessTablesPlugin: GraphileConfig.Plugin = {
  name: "KeylessTablesPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType(config, build, { scope: { isRootQuery, isRootMutation, isRootSubscription } }) {
        const fieldsOf = isRootQuery ? queries : isRootMutation ? mutations : isRootSubscription ? subscriptions : null;
        if (fieldsOf === null) return config;
        const tables = () => (Object.values(build.pgResources) as Table[]).filter(isKeyless);
        return withAbsent(config, () => tables().flatMap((table) => fieldsOf(build, table)));
      },
    },
  },
};

export const isKeyless = ({ parameters, codec, uniques }: Table): boolean =>
  !parameters && codec.attributes && !codec.isAnonymous && !uniques.some((unique: any) => unique.isPrimary);

/** Why a field is missing that needs a key, and the field that takes a filter instead. */
export const missingKey = ({ extensions }: Table, instead: string | null = null): AbsentField => ({
  reason: reasonFor(extensions),
  instead,
});

function reasonFor({ pg, hidesKey, isView, isMaterializedView, isForeignTable }: any): string {
  if (hidesKey) return `callers may not read the primary key of \`${pg.name}\`. Grant it to them`;
  if (isView || isMaterializedView || isForeignTable)
    return `\`${pg.name}\` has no key. Name its columns with the smart tag @primaryKey`;
  return `\`${pg.name}\` has no primary key. Create one`;
}

export const hasBehavior = (
  build: GraphileBuild.Build,
  table: Table,
  behavior: "select" | "insert" | "update" | "delete",
) => build.behavior.pgResourceMatches(table, `resource:${behavior}`) === true;

function queries(build: GraphileBuild.Build, table: Table): AbsentFields {
  const { inflection } = build;
  const unique = { attributes: [], isPrimary: true };
  const name = inflection.rowByUnique({ resource: table, unique } as never);
  return hasBehavior(build, table, "select") ? [[name, missingKey(table, inflection.allRowsConnection(table))]] : [];
}

function mutations(build: GraphileBuild.Build, table: Table): AbsentFields {
  const type = build.inflection.tableType(table.codec);
  const verbs = (["update", "delete"] as const).filter((verb) => hasBehavior(build, table, verb));
  return verbs.map((verb) => [build.inflection.camelCase(`${verb}-${type}`), missingKey(table)]);
}

function subscriptions(build: GraphileBuild.Build, table: Table): AbsentFields {
  const { isView, isMaterializedView, isForeignTable } = table.extensions as any;
  if (isView || isMaterializedView || isForeignTable || !hasBehavior(build, table, "select")) return [];
  const type = build.inflection.tableType(table.codec);
  return ["created", "updated", "deleted", "changed"].map((verb) => [
    build.inflection.camelCase(`on-${type}-${verb}`),
    missingKey(table),
  ]);
}
