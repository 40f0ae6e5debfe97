import { createRequire } from "node:module";
import { Html, html } from "../gate/pages/html.ts";

/** What is used of highlight.js. Its own types would declare the objects of browsers in the whole project. */
type Highlighter = {
  registerLanguage(name: string, language: unknown): void;
  highlight(code: string, options: { readonly language: string; readonly ignoreIllegals: boolean }): { value: string };
};

const load = createRequire(import.meta.url);

/** The languages of the documents, by the names that follow the fences, and their names in highlight.js. */
const LANGUAGES: Readonly<Record<string, string>> = {
  sh: "bash",
  graphql: "graphql",
  ini: "ini",
  json: "json",
  sql: "pgsql",
  ts: "typescript",
  tsx: "typescript",
  js: "typescript",
  html: "xml",
  yaml: "yaml",
};

let loaded: Highlighter | undefined;

/** Loaded with the first block of code that is shown. */
function highlighter(): Highlighter {
  if (loaded) return loaded;
  const core: Highlighter = load("highlight.js/lib/core");
  for (const [name, file] of Object.entries(LANGUAGES))
    core.registerLanguage(name, load(`highlight.js/lib/languages/${file}`));
  loaded = core;
  return core;
}

/**
 * A block of code with colours, which scrolls with the keyboard too. A script adds the button that copies it. The language may be
 * followed by the name of the file: `ts session.ts`.
 */
export function codeBlock(code: string, info = ""): Html {
  const [language = "", name = ""] = info.split(" ");
  const file = name.includes(".") ? html`<p class="file">${name}</p>` : null;
  return html`<div class="listing">${file}<pre tabindex="0"><code>${coloured(code, language)}</code></pre></div>\n`;
}

const coloured = (code: string, language: string): Html | string =>
  language in LANGUAGES ? new Html(highlighter().highlight(code, { language, ignoreIllegals: true }).value) : code;
