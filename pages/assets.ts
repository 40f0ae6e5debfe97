import { fileURLToPath } from "node:url";

const own = (name: string, type: string) => ({
  name,
  type: `${type}; charset=utf-8`,
  file: fileURLToPath(new URL(`./assets/${name}`, import.meta.url)),
});

/** The files at `/assets/…`. */
export const ASSETS = [
  own("header.css", "text/css"),
  own("style.css", "text/css"),
  own("console.css", "text/css"),
  own("console-live.js", "text/javascript"),
  own("console-schema.js", "text/javascript"),
  own("console-try.js", "text/javascript"),
  own("docs.js", "text/javascript"),
  own("passkeys.js", "text/javascript"),
  {
    name: "minisearch.js",
    type: "text/javascript; charset=utf-8",
    file: fileURLToPath(import.meta.resolve("minisearch")),
  },
] as const;
