import type {} from "postgraphile";
import type { PgCodec, PgResource } from "postgraphile/@dataplan/pg";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { type Catalog, type Table, tableOf } from "../../db/catalog/catalog.ts";

type Resource = PgResource<any, any, any, any, any>;

/**
 * A table has the rows of the tables that inherit from it, for which its keys and foreign keys do not hold. So a foreign key leads to its
 * own rows alone: another one may have the same key. One that only a smart tag names may lead to every row.
 */
export const InheritedTablesPlugin: GraphileConfig.Plugin = {
  name: "InheritedTablesPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      build(build) {
        const catalog = build.options.relations?.();
        if (!catalog) return build;
        const registry = build.input.pgRegistry;
        const inherited = (Object.values(registry.pgResources) as Resource[]).filter(
          (resource) => !resource.parameters && tableFor(catalog, resource.codec)?.isInherited,
        );
        const own = new Map(inherited.map((resource) => [resource, ownRowsOf(resource)]));
        for (const resource of inherited) resource.extensions = { ...resource.extensions, isInherited: true };
        for (const relation of Object.values(registry.pgRelations).flatMap((each) => Object.values<any>(each)))
          if (isForeignKey(catalog, relation))
            relation.remoteResource = own.get(relation.remoteResource) ?? relation.remoteResource;
        return build;
      },
    },
  },
};

const ownRowsOf = (resource: Resource): Resource =>
  Object.create(resource, { from: { value: sql`only ${resource.from as SQL}` } });

const tableFor = (catalog: Catalog, { extensions }: PgCodec): Table | undefined =>
  extensions?.pg && tableOf(catalog, { schema: extensions.pg.schemaName, name: extensions.pg.name });

/** Whether the database has a foreign key by which at most one row belongs to each. */
function isForeignKey(
  catalog: Catalog,
  { localCodec, localAttributes, remoteResource, remoteAttributes, isUnique }: any,
): boolean {
  const [from, to] = [localCodec, remoteResource.codec].map((codec) => tableFor(catalog, codec));
  if (!isUnique || !from || !to) return false;
  const pairs = JSON.stringify(localAttributes.map((name: string, i: number) => [name, remoteAttributes[i]]));
  return from.relationships.some(
    (each) =>
      each.isToOne &&
      each.kind !== "computed" &&
      tableOf(catalog, each.target) === to &&
      JSON.stringify(each.columns) === pairs,
  );
}

declare global {
  namespace DataplanPg {
    interface PgResourceExtensions {
      /** Whether it also has the rows of tables that inherit from it. */
      isInherited?: boolean;
    }
  }
}
