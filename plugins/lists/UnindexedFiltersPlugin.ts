import { withPgClientFromPgService } from "postgraphile/graphile-build-pg";
import type { PgClass } from "postgraphile/graphile-build-pg/pg-introspection";

/** The tables whose columns can all be filtered and ordered by: all, small ones, or none. In other tables, only columns in an index. */
export type UnindexedFilters = "all" | "small" | "none";

/** Maximum rows of a small table, by the estimate of the planner. */
const SMALL_TABLE = 10_000;

// A table that was never analyzed has no estimate. Its rows take at least 28 bytes, and a page has 8192.
const SMALL_TABLES = `
  select c.oid::text as oid from pg_catalog.pg_class as c
  where c.relkind in ('r', 'm')
    and case when c.reltuples < 0 then pg_catalog.pg_relation_size(c.oid) / 28 else c.reltuples end <= ${SMALL_TABLE}`;

const smallTables = new WeakSet<PgClass>();

/**
 * All columns of some tables can be filtered and ordered by. The types of filters and orders know the columns that they lack because
 * no index has them, so that an error can say so.
 */
export const unindexedFiltersPlugin = (tables: UnindexedFilters): GraphileConfig.Plugin => ({
  name: "UnindexedFiltersPlugin",
  version: "1.0.0",
  before: ["PgIndexBehaviorsPlugin"],
  gather: {
    hooks: {
      async pgIntrospection_introspection(info, { introspection, serviceName }) {
        if (tables !== "small") return;
        const service = info.resolvedPreset.pgServices!.find(({ name }) => name === serviceName)!;
        const { rows } = await withPgClientFromPgService(service, null, (client) =>
          client.query<{ readonly oid: string }>({ text: SMALL_TABLES }),
        );
        const small = new Set(rows.map(({ oid }) => oid));
        for (const table of introspection.classes) if (small.has(table._id)) smallTables.add(table);
      },
      pgCodecs_attribute(_info, { pgClass, attribute }) {
        const isFree = tables === "all" || (tables === "small" && smallTables.has(pgClass));
        if (isFree) attribute.extensions = { ...attribute.extensions, isIndexed: true } as never;
      },
    },
  },
  schema: {
    hooks: {
      GraphQLInputObjectType(config, build, { scope }) {
        if (!scope.isPgConnectionFilter || !scope.pgCodec?.attributes) return config;
        const codec = scope.pgCodec as any;
        const unindexed = new Map(
          unindexedOf(codec).map((attributeName) => [
            build.inflection.attribute({ codec, attributeName }),
            attributeName,
          ]),
        );
        return { ...config, extensions: { ...config.extensions, unindexed } };
      },
      GraphQLEnumType(config, build, { scope }) {
        if (!scope.isPgRowSortEnum || !scope.pgCodec?.attributes) return config;
        const codec = scope.pgCodec as any;
        const unindexed = new Map(
          unindexedOf(codec).flatMap((attributeName) => {
            const name = build.inflection.constantCase(build.inflection._attributeName({ codec, attributeName }));
            return ORDERS.map((order) => [`${name}_${order}`, attributeName]);
          }),
        );
        return { ...config, extensions: { ...config.extensions, unindexed } };
      },
    },
  },
});

const ORDERS = ["ASC", "DESC", "ASC_NULLS_FIRST", "DESC_NULLS_LAST"] as const;

/** The columns without an index that callers can read. */
const unindexedOf = (codec: { attributes: Record<string, { extensions?: any }> }): string[] =>
  Object.entries(codec.attributes).flatMap(([name, { extensions = {} }]) =>
    extensions.isIndexed === false && extensions.canSelect !== false ? [name] : [],
  );

type Unindexed = {
  /** The columns that this type lacks because no index has them, by what they would be here: `{ name: "name", NAME_ASC: "name" }` */
  unindexed?: ReadonlyMap<string, string>;
};

declare module "postgraphile/graphql" {
  interface GraphQLInputObjectTypeExtensions extends Unindexed {}
  interface GraphQLEnumTypeExtensions extends Unindexed {}
}
