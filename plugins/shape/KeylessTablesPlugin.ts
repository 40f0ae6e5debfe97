import type { PgResource } from "postgraphile/@dataplan/pg";
import { manyRowsOf } from "../writes/BulkMutationsPlugin.ts";
import { withAbsent } from "./absent-fields.ts";

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
        const tables = (Object.values(build.pgResources) as Table[]).filter(isKeyless);
        return withAbsent(
          config,
          tables.flatMap((table) =>
            fieldsOf(build, table).map(([name, instead]) => [name, { reason: reasonFor(table), instead }] as const),
          ),
        );
      },
    },
  },
};

const isKeyless = ({ parameters, codec, uniques }: Table): boolean =>
  !parameters && codec.attributes && !codec.isAnonymous && !uniques.some((unique: any) => unique.isPrimary);

function reasonFor({ extensions }: Table): string {
  const { pg, hidesKey, isView, isMaterializedView, isForeignTable } = extensions as any;
  if (hidesKey) return `callers may not read the primary key of \`${pg.name}\`. Grant it to them`;
  if (isView || isMaterializedView || isForeignTable)
    return `\`${pg.name}\` has no key. Name its columns with the smart tag @primaryKey`;
  return `\`${pg.name}\` has no primary key. Create one`;
}

/** Names of fields, each with the field that takes a filter instead. */
type Fields = readonly (readonly [name: string, instead: string | null])[];

const matches = (build: GraphileBuild.Build, table: Table, behavior: "select" | "insert" | "update" | "delete") =>
  build.behavior.pgResourceMatches(table, `resource:${behavior}`) === true;

function queries(build: GraphileBuild.Build, table: Table): Fields {
  const { inflection } = build;
  const unique = { attributes: [], isPrimary: true };
  const name = inflection.rowByUnique({ resource: table, unique } as never);
  return matches(build, table, "select") ? [[name, inflection.allRowsConnection(table)]] : [];
}

function mutations(build: GraphileBuild.Build, table: Table): Fields {
  const one = build.inflection.tableType(table.codec);
  const many = manyRowsOf(build, table);
  const name = (verb: string, noun: string) => build.inflection.camelCase(`${verb}-${noun}`);
  return [
    ...(["update", "delete"] as const).flatMap((verb) =>
      matches(build, table, verb) ? [[name(verb, one), name(verb, many)] as const] : [],
    ),
    ...(matches(build, table, "insert") ? [[name("upsert", one), null] as const] : []),
  ];
}

function subscriptions(build: GraphileBuild.Build, table: Table): Fields {
  const { isView, isMaterializedView, isForeignTable } = table.extensions as any;
  if (isView || isMaterializedView || isForeignTable || !matches(build, table, "select")) return [];
  const type = build.inflection.tableType(table.codec);
  return ["created", "updated", "deleted", "changed"].map((verb) => [
    build.inflection.camelCase(`on-${type}-${verb}`),
    null,
  ]);
}
