import { join, normalize } from "node:path";
import { current, documentOf, type Html, html } from "../gate/pages/html.ts";
import {
  type Doc,
  type DocsOptions,
  docsOf,
  type Group,
  listImages,
  ROOT,
  SCHEMA,
  SEARCH,
  textOf,
} from "./documents.ts";
import { renderMarkdown, type Section, sectionsOf } from "./markdown.ts";

/** The page of a document: all documents by reader, its contents, and the documents before and after it. */
export function pageOf(doc: Doc, options: DocsOptions): string {
  const text = textOf(doc.file);
  const sections = sectionsOf(text).filter(({ depth }) => depth === 2 || depth === 3);
  const main = html`${BAR}
<div>
${renderMarkdown(text, (href) => resolveLink(href, doc.file, options))}</div>
${pagerOf(doc, docsOf(options))}`;
  return documentOf(
    {
      title: doc.name,
      path: doc.path,
      section: "/docs/readme",
      aside: html`${asideOf(doc, options.groups)}\n${tocOf(sections)}`,
      main,
      script: "/assets/docs.js",
    },
    options.links,
  );
}

/** What the search reads: `[path, title of the document, heading, text]` of each section. */
export function searchOf(options: DocsOptions): string {
  const sections = docsOf(options).flatMap(({ file, path, name }) =>
    sectionsOf(textOf(file)).map(({ slug, depth, title, text }) =>
      depth === 1 ? [path, name, "", text] : [`${path}#${slug}`, name, title, text],
    ),
  );
  return JSON.stringify(sections);
}

/** The search; and on narrow screens, buttons that open the lists beside the page. */
const BAR = html`<div class="bar">
<form role="search" data-index="${SEARCH}"><input type="search" name="q" aria-label="Search the documentation" placeholder="Search (press /)" autocomplete="off"></form>
<button type="button" class="quiet" popovertarget="pages">All pages</button>
<button type="button" class="quiet" popovertarget="contents">On this page</button>
<div id="found" aria-live="polite" hidden></div>
</div>`;

const asideOf = (doc: Doc, groups: readonly Group[]): Html =>
  html`<nav id="pages" class="pages" aria-label="Documentation" popover>${groups.map(
    ({ name, docs }) => html`<h2>${name}</h2>
<ul>${docs.map((each) => html`<li><a href="${each.path}"${current(each.path, doc.path)}>${each.name}</a></li>`)}</ul>\n`,
  )}</nav>`;

const tocOf = (sections: readonly Section[]): Html =>
  html`<nav id="contents" class="toc" aria-label="On this page" popover><h2>On this page</h2>
<ul>${sections.map(({ slug, depth, title }) => html`<li class="depth-${depth}"><a href="#${slug}">${title}</a></li>`)}</ul></nav>`;

function pagerOf(doc: Doc, docs: readonly Doc[]): Html {
  const at = docs.findIndex(({ path }) => path === doc.path);
  const link = (to: Doc | undefined, rel: string, text: string) =>
    to ? html`<a rel="${rel}" href="${to.path}"><small>${text}</small> ${to.name}</a>` : null;
  return html`<nav class="pager" aria-label="Previous and next page">${link(docs[at - 1], "prev", "Previous")}${link(docs[at + 1], "next", "Next")}</nav>`;
}

/** Other files beside the documents are not served: links to them become text. */
function resolveLink(href: string, from: string, options: DocsOptions): string | null {
  if (/^(https?:|#|\/)/.test(href)) return href;
  const [target = "", anchor] = href.split("#");
  const file = normalize(join(from, "..", target));
  const served = [...docsOf(options), ...listImages()];
  const path = ROOT + file === options.schema ? SCHEMA : served.find((each) => each.file === file)?.path;
  return path === undefined ? null : path + (anchor === undefined ? "" : `#${anchor}`);
}
