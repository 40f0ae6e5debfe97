import { escapeMarkup } from "../pipeline/response.ts";

/** Markup in which every value from elsewhere is escaped. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Value = Html | string | number | null | readonly Value[];

/**
 * Markup with values, which are escaped unless they are markup themselves. Lists are joined, and null is empty.
 *
 *   html`<p>${"a < b"}</p>`.text  // "<p>a &#60; b</p>"
 */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(parts.reduce((text, part, i) => text + textOf(values[i - 1] ?? null) + part));
}

function textOf(value: Value): string {
  if (value === null) return "";
  if (value instanceof Html) return value.text;
  return typeof value === "object" ? value.map(textOf).join("") : escapeMarkup(String(value));
}

/** Nothing inline, nothing from elsewhere. */
export const PAGE_POLICY = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:"],
  ...["base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"],
].join("; ");

export type Frame = {
  /** Of the window. */
  readonly title: string;
  readonly head?: Html | null;
  readonly body: Html;
  /** The path of the service behind a proxy, with which all its paths begin: `/v1`. */
  readonly base?: string;
};

/** A complete document with the style sheet of the service. Its pages differ only in the body. */
export const frameOf = ({ head = null, base = "", ...frame }: Frame): string => {
  const sheets = ["header", "style"].map((name) => html`<link rel="stylesheet" href="${base}/assets/${name}.css">\n`);
  return bareFrameOf({ ...frame, head: html`${sheets}${head}` });
};

/** The mark of the service: a base, and what stands on it. The header has it too. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='%231559c4'%3E%3Cpath d='M3 15h18v3a3 3 0 0 1-3 3H6a3 3 0 0 1-3-3zM3 6a3 3 0 0 1 3-3h4v9H3zM13 3h5a3 3 0 0 1 3 3v6h-8z'/%3E%3C/svg%3E";

/** The same without the style sheets, for a page that has a style of its own. */
export const bareFrameOf = ({ title, head = null, body }: Frame): string =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${ICON}">
${head}
</head>
${body}
</html>
`.text;

export type Page = {
  readonly title: string;
  /** The path of the page, which the navigation marks. */
  readonly path: string;
  /** The link of the header that is marked, if it is not the page itself. */
  readonly section?: string;
  /** Pages of the same kind, beside the content. */
  readonly aside?: Html;
  readonly main: Html;
  /** The path of the module that the page runs. */
  readonly script?: string;
  /** The path of a style sheet for pages of this kind. */
  readonly sheet?: string;
};

/** A link of the header. */
export type Link = { readonly path: string; readonly name: string };

/** A page of the service for developers and operators. `links` are the pages that are served. */
export const documentOf = (
  { title, path, section = path, aside, main, script, sheet }: Page,
  links: readonly Link[],
): string =>
  frameOf({
    title: `${title} – Content Service`,
    head: html`${sheet ? html`<link rel="stylesheet" href="${sheet}">` : null}${script ? html`<script type="module" src="${script}"></script>` : null}`,
    body: html`<body>
<a class="skip" href="#main">Skip to the content</a>
${headerOf(links, section)}
<div class="columns${aside ? " with-aside" : ""}">
${aside ?? null}
<main id="main" tabindex="-1">
${main}
</main>
</div>
</body>`,
  });

/** The header of every page. Its style is in header.css, which pages with a style of their own load too. */
export const headerOf = (links: readonly Link[], path: string): Html => html`<header class="site">
<a class="brand" href="/">Content Service</a>
<nav aria-label="Pages"><ul>${links.map((link) => html`<li><a href="${link.path}"${current(link.path, path)}>${link.name}</a></li>`)}</ul></nav>
</header>`;

export const current = (link: string, path: string): Html => new Html(link === path ? ' aria-current="page"' : "");

/** A word about the state of something. */
export const badge = (text: string, tone: "good" | "bad" | "warn" | "muted"): Html =>
  html`<span class="badge ${tone}">${text}</span>`;

const TIME = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });

/** `2026-11-24T08:00:00Z` → `24 Nov 2026, 08:00 UTC` */
export const timeOf = (time: string): Html => html`<time datetime="${time}">${TIME.format(new Date(time))} UTC</time>`;
