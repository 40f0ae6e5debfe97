import { fileURLToPath } from "node:url";

const page = (path) => fileURLToPath(new URL(path, import.meta.url));

/** `npm run examples` serves the pages while they are edited; `vite build demo/pages` writes them for any web server. */
export default {
  build: { rollupOptions: { input: [page("index.html"), page("plain/index.html"), page("react/index.html")] } },
};
