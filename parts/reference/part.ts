import { assetsIn } from "../../pages/assets.ts";
import { ExpressInterface } from "../../rest-gateway/express-interface.ts";
import type { Part } from "../../service/part.ts";
import { BUNDLE_PATH, docsRouter } from "./page.ts";

export const reference: Part = {
  name: "reference",
  about: "the API reference at /docs, and live changes at /docs/live",
  needs: ["openapi"],
  paths: ["/docs", "/docs/live", BUNDLE_PATH],
  pages: () => [
    {
      ...{ path: "/docs", name: "API reference", icon: "api", banner: "Reference" },
      about: "all REST endpoints, to read and to try",
    },
    { path: "/docs/live", name: "Live changes", icon: "changes", about: "the changes of a table, as they happen" },
  ],
  assets: assetsIn(import.meta.url, "./browser", ["live.js"]),
  open({ anonKey, versions, auth, settings, links, onInternalError }) {
    const hasAccounts = auth !== null;
    const router = docsRouter({ anonKey, versions, hasAccounts, settings: settings.current, links });
    return { http: new ExpressInterface({ routers: [router], onInternalError }) };
  },
};
