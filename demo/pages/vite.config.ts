import { globSync } from "node:fs";

/** The service, which the page with the session cookie calls at its own origin. */
const SERVICE = process.env.SERVICE_URL ?? "http://127.0.0.1:3000";

/** `npm run examples` serves the pages while they are edited; `vite build demo/pages` writes them for any web server. */
export default {
  build: { rollupOptions: { input: globSync(`${import.meta.dirname}/{,*/}index.html`) } },
  server: {
    // Without `changeOrigin`: the service compares the origin of a WebSocket with its host.
    proxy: {
      "/graphql": { target: SERVICE, ws: true },
      "/api": SERVICE,
      "/csrf-token": SERVICE,
    },
  },
};
