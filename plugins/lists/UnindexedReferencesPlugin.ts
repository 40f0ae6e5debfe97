import type { PgCodecWithAttributes, PgResource } from "postgraphile/@dataplan/pg";
import { quoteIfNeeded } from "../../db/catalog/catalog.ts";
import { type AbsentFields, withAbsent } from "../shape/absent-fields.ts";

/**
 * The types of rows and of their filters know the lists that they lack because the foreign key of the rows in them has no index:
 * `Tenant.visits`, `Tenant.visitsConnection`.
 */
export const UnindexedReferencesPlugin: GraphileConfig.Plugin = {
  name: "UnindexedReferencesPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType(config, build, { scope: { isPgClassType, pgCodec } }) {
        return isPgClassType && pgCodec
          ? withAbsent(config, () => absentOf(build, pgCodec as PgCodecWithAttributes, lists))
          : config;
      },
      GraphQLInputObjectType(config, build, { scope: { isPgConnectionFilter, pgCodec } }) {
        return isPgConnectionFilter && pgCodec
          ? withAbsent(config, () => absentOf(build, pgCodec as PgCodecWithAttributes, filters))
          : config;
      },
    },
  },
};

type Details = Parameters<GraphileBuild.Inflection["_manyRelation"]>[0];
type Names = (inflection: GraphileBuild.Inflection, details: Details) => readonly string[];

const lists: Names = (inflection, details) => [
  inflection.manyRelationList(details),
  inflection.manyRelationConnection(details),
];

const filters: Names = (inflection, details) => {
  const name = inflection._manyRelation(details);
  return [
    inflection.filterManyRelationByKeysFieldName(name),
    inflection.filterBackwardManyRelationExistsFieldName(name),
  ];
};

function absentOf(build: GraphileBuild.Build, codec: PgCodecWithAttributes, names: Names): AbsentFields {
  const registry = build.input.pgRegistry;
  const relations = Object.entries<any>(registry.pgRelations[codec.name] ?? {});
  return relations.flatMap(([relationName, { isReferencee, extensions, remoteResource, remoteAttributes }]) => {
    const isIndexed = extensions?.isIndexed !== false || extensions.tags?.isIndexed;
    if (!isReferencee || isIndexed || !build.behavior.pgResourceMatches(remoteResource, "resource:select")) return [];
    const reason = reasonFor(remoteResource, remoteAttributes);
    return names(build.inflection, { registry, codec, relationName } as Details).map(
      (name) => [name, { reason, instead: null }] as const,
    );
  });
}

function reasonFor({ extensions }: PgResource, columns: readonly string[]): string {
  const { schemaName, name } = extensions!.pg!;
  const table = `${quoteIfNeeded(schemaName)}.${quoteIfNeeded(name)}`;
  return `the foreign key of \`${name}\` has no index. Create one: create index on ${table} (${columns.map(quoteIfNeeded).join(", ")})`;
}
