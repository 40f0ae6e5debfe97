import { assetsIn } from "../../pages/assets.ts";
import { ExpressInterface } from "../../rest-gateway/express-interface.ts";
import type { Part } from "../../service/part.ts";
import { explorerRouter } from "./page.ts";

/** The modules of the page, and what they use of packages. */
const MODULES = [
  ...["caller", "documentation", "editors", "explorer", "fragments", "graphiql", "history"].map((name) => `${name}.js`),
  ...["operation.js", "run.js", "library.js.gz"],
];

/** Loaded only for a schema, with what it uses of PostGraphile. */
const examples: NonNullable<Part["examples"]> = async (schema) =>
  (await import("./examples.ts")).exampleOperations(schema);

export const explorer: Part = {
  name: "explorer",
  about: "GraphiQL at /graphiql, an editor for GraphQL",
  paths: ["/graphiql/*"],
  pages: ({ hasGraphQL }) =>
    hasGraphQL
      ? [{ path: "/graphiql", name: "GraphiQL", icon: "console", about: "an editor for GraphQL", banner: "Explorer" }]
      : [],
  assets: [
    ...assetsIn(import.meta.url, "./assets", ["graphiql.css"]),
    ...assetsIn(import.meta.url, "./browser", MODULES),
  ],
  examples,
  open({ graphql, settings, hasAccountPages, links, onInternalError }) {
    if (graphql === null) return {};
    const router = explorerRouter({
      examples: async () => {
        const schema = await graphql.schema();
        return schema === null ? [] : examples(schema);
      },
      settings: settings.current,
      ...{ hasAccountPages, links },
    });
    return { http: new ExpressInterface({ routers: [router], onInternalError }) };
  },
};
