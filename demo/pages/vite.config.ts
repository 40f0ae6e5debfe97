import { fileURLToPath } from "node:url";

const page = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const PAGES = ["index.html", "plain/index.html", "apollo/index.html", "urql/index.html"];

/** `npm run examples` serves the pages while they are edited; `vite build demo/pages` writes them for any web server. */
export default { build: { rollupOptions: { input: PAGES.map(page) } } };
