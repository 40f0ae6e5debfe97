import type { PgCodecWithAttributes } from "postgraphile/@dataplan/pg";
import { type AbsentField, type AbsentFields, withAbsent } from "./absent-fields.ts";

/**
 * The types of rows and of their filters know the names that a relationship has in the database, such as `store` and `homeStore` for the
 * field `storeByHomeStore` of the column `home_store`.
 */
export const RelationshipNamesPlugin: GraphileConfig.Plugin = {
  name: "RelationshipNamesPlugin",
  version: "1.0.0",
  // Their reasons are more specific.
  after: ["UnindexedReferencesPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType: (config, build, { scope: { isPgClassType, pgCodec } }) =>
        isPgClassType && pgCodec ? withAbsent(config, () => namesOf(build, pgCodec as PgCodecWithAttributes)) : config,
      GraphQLInputObjectType: (config, build, { scope: { isPgConnectionFilter, pgCodec } }) =>
        isPgConnectionFilter && pgCodec
          ? withAbsent(config, () => namesOf(build, pgCodec as PgCodecWithAttributes))
          : config,
    },
  },
};

function namesOf(build: GraphileBuild.Build, codec: PgCodecWithAttributes): AbsentFields {
  const { inflection } = build;
  const registry = build.input.pgRegistry;
  const fields = new Map<string, AbsentField & { readonly others: string[] }>();
  for (const [relationName, relation] of Object.entries<any>(registry.pgRelations[codec.name] ?? {})) {
    const { isReferencee, isUnique, localAttributes, remoteResource } = relation;
    const details = { registry, codec, relationName } as never;
    const field = !isReferencee
      ? inflection.singleRelation(details)
      : isUnique
        ? inflection.singleRelationBackwards(details)
        : inflection.manyRelationList(details);
    const table: string = remoteResource.extensions?.pg?.name ?? remoteResource.name;
    const row = inflection.camelCase(inflection.tableType(remoteResource.codec));
    const columns: string[] = isReferencee || localAttributes.length > 1 ? [] : localAttributes;
    const names = [table, row, ...(isReferencee ? [inflection.pluralize(row)] : []), ...columns];
    for (const name of new Set([...names, ...names.map((each) => inflection.camelCase(each))])) {
      const known = fields.get(name);
      if (known) known.others.push(field);
      else fields.set(name, { reason: null, instead: null, others: [field] });
    }
  }
  return [...fields];
}
