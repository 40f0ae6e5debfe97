import type {} from "postgraphile";

/** Unlogged tables are served like others. PostGraphile leaves them out. */
export const UnloggedTablesPlugin: GraphileConfig.Plugin = {
  name: "UnloggedTablesPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      pgIntrospection_introspection(_info, { introspection }) {
        for (const table of introspection.classes) if (table.relpersistence === "u") table.relpersistence = "p";
      },
    },
  },
};
