import { assetsIn } from "../../pages/assets.ts";
import { ExpressInterface } from "../../rest-gateway/express-interface.ts";
import type { Part } from "../../service/part.ts";
import { explorerRouter } from "./page.ts";

/** The modules of the page, and what they use of packages. */
const MODULES = [
  ...["caller", "documentation", "editors", "explorer", "fragments", "graphiql", "history"].map((name) => `${name}.js`),
  ...["operation.js", "run.js", "library.js.gz"],
];

export const explorer: Part = {
  name: "explorer",
  about: "GraphiQL at /graphiql, an editor for GraphQL",
  paths: ["/graphiql/*"],
  pages: ({ graphqlMaxTables }) =>
    graphqlMaxTables > 0
      ? [{ path: "/graphiql", name: "GraphiQL", icon: "console", about: "an editor for GraphQL", banner: "Explorer" }]
      : [],
  assets: [
    ...assetsIn(import.meta.url, "./assets", ["graphiql.css"]),
    ...assetsIn(import.meta.url, "./browser", MODULES),
  ],
  open({ graphql, settings, hasAccountPages, links, onInternalError }) {
    if (graphql === null) return {};
    const router = explorerRouter({
      examples: () => graphql.examples(),
      settings: settings.current,
      ...{ hasAccountPages, links },
    });
    return { http: new ExpressInterface({ routers: [router], onInternalError }) };
  },
};
