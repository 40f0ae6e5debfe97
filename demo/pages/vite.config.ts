import { existsSync, readdirSync } from "node:fs";

/** The service, which the pages call at their own origin. */
const SERVICE = process.env.SERVICE_URL ?? "http://127.0.0.1:3000";

/** Each page, and the list of them. Node 20 has no `globSync`, and this file is also that of a copied page. */
const input = ["", ...readdirSync(import.meta.dirname)]
  .map((folder) => `${import.meta.dirname}/${folder}/index.html`)
  .filter((page) => existsSync(page));

/** `npm run examples` serves the pages while they are edited; `vite build demo/pages` writes them for any web server. */
export default {
  build: { rollupOptions: { input } },
  server: {
    // Without `changeOrigin`: the service compares the origin of a WebSocket with its host.
    proxy: {
      "/graphql": { target: SERVICE, ws: true },
      "/api": SERVICE,
      "/csrf-token": SERVICE,
      // The pages on which users create accounts and reset passwords.
      "/auth": SERVICE,
      "/rest/v1": SERVICE,
      "/realtime/v1": { target: SERVICE, ws: true },
      "^/assets/(header\\.css|style\\.css|passkeys\\.js)$": SERVICE,
    },
  },
};
