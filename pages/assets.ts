import { fileURLToPath } from "node:url";

const own = (name: string, type: string, folder = "assets") => ({
  name,
  type: `${type}; charset=utf-8`,
  file: fileURLToPath(new URL(`./${folder}/${name}`, import.meta.url)),
});

const CONSOLE = "../parts/console/assets";

/** A module of the pages, in a folder browser/. They import each other. */
const module = (name: string, folder = "browser") => own(`${name}.js`, "text/javascript", folder);

const ofExplorer = (name: string) => module(name, "../parts/explorer/browser");

/** The files at `/assets/…`. */
export const ASSETS = [
  own("header.css", "text/css"),
  own("style.css", "text/css"),
  own("console.css", "text/css", CONSOLE),
  own("console-live.js", "text/javascript", CONSOLE),
  own("console-schema.js", "text/javascript", CONSOLE),
  own("console-try.js", "text/javascript", CONSOLE),
  own("docs.js", "text/javascript"),
  own("graphiql.css", "text/css", "../parts/explorer/assets"),
  own("passkeys.js", "text/javascript"),
  ...["dom", "signed-in"].map((name) => module(name)),
  module("live", "../parts/reference/browser"),
  ...["caller", "documentation", "editors", "explorer", "fragments", "graphiql", "history", "operation", "run"].map(
    ofExplorer,
  ),
  {
    name: "minisearch.js",
    type: "text/javascript; charset=utf-8",
    file: fileURLToPath(import.meta.resolve("minisearch")),
  },
] as const;

/** What those modules use of packages, compressed. */
export const LIBRARY = new URL("../parts/explorer/browser/library.js.gz", import.meta.url);
