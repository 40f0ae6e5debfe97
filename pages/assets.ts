import { fileURLToPath } from "node:url";

/** A file at `/assets/…`. One that ends in `.gz` is sent compressed. */
export type Asset = { readonly name: string; readonly type: string; readonly file: string };

const TYPES: Readonly<Record<string, string>> = { css: "text/css", js: "text/javascript" };

/** The files with these names in a folder, which is named relative to a module. */
export const assetsIn = (base: string, folder: string, names: readonly string[]): readonly Asset[] =>
  names.map((name) => ({
    name: name.replace(/\.gz$/, ""),
    type: `${TYPES[/\.(css|js)(\.gz)?$/.exec(name)![1]!]}; charset=utf-8`,
    file: fileURLToPath(new URL(`${folder}/${name}`, base)),
  }));

/** What pages of several parts use, and the documents. */
export const ASSETS: readonly Asset[] = [
  ...assetsIn(import.meta.url, "./assets", ["header.css", "style.css", "docs.js", "passkeys.js"]),
  ...assetsIn(import.meta.url, "./browser", ["dom.js", "signed-in.js"]),
  {
    name: "minisearch.js",
    type: "text/javascript; charset=utf-8",
    file: fileURLToPath(import.meta.resolve("minisearch")),
  },
];
