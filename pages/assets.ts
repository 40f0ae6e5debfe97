import { fileURLToPath } from "node:url";

const own = (name: string, type: string, folder = "assets") => ({
  name,
  type: `${type}; charset=utf-8`,
  file: fileURLToPath(new URL(`./${folder}/${name}`, import.meta.url)),
});

/** A module of the pages in browser/, which import each other. */
const module = (name: string) => own(`${name}.js`, "text/javascript", "browser");

/** The files at `/assets/…`. */
export const ASSETS = [
  own("header.css", "text/css"),
  own("style.css", "text/css"),
  own("console.css", "text/css"),
  own("console-live.js", "text/javascript"),
  own("console-schema.js", "text/javascript"),
  own("console-try.js", "text/javascript"),
  own("docs.js", "text/javascript"),
  own("graphiql.css", "text/css"),
  own("passkeys.js", "text/javascript"),
  ...[
    "caller",
    "documentation",
    "dom",
    "editors",
    "explorer",
    "fragments",
    "graphiql",
    "history",
    "live",
    "operation",
    "run",
    "signed-in",
  ].map(module),
  {
    name: "minisearch.js",
    type: "text/javascript; charset=utf-8",
    file: fileURLToPath(import.meta.resolve("minisearch")),
  },
] as const;

/** What those modules use of packages, compressed. */
export const LIBRARY = new URL("./browser/library.js.gz", import.meta.url);
