import type { Part } from "../../service/part.ts";

export const graphqlExtras: Part = {
  name: "graphql-extras",
  about: "in GraphQL: aggregates, mutations of many rows, many-to-many fields, and changes with the old row",
  plugins: async () => (await import("./plugins.ts")).plugins,
};
