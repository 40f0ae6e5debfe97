import type { Part } from "../../service/part.ts";

export const graphqlExtras: Part = {
  name: "graphql-extras",
  about: "in GraphQL: aggregates, mutations of many rows, and many-to-many fields",
  plugins: async () => (await import("./plugins.ts")).plugins,
};
