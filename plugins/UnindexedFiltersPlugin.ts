import type {} from "postgraphile";

/** `GRAPHQL_UNINDEXED_FILTERS=on`: all columns can be filtered and ordered by, not only those in an index. */
export const UnindexedFiltersPlugin: GraphileConfig.Plugin = {
  name: "UnindexedFiltersPlugin",
  version: "1.0.0",
  before: ["PgIndexBehaviorsPlugin"],
  gather: {
    hooks: {
      pgCodecs_attribute(_info, { attribute }) {
        attribute.extensions = { ...attribute.extensions, isIndexed: true } as never;
      },
    },
  },
};
